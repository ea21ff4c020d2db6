// Tests that a node does not serve responses of a node with other rules about storing and users.

import CachePolicy
import ReverseProxy
import TestSupport
import Testing

@Suite(
    "Nodes with different rules", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedRulesTests {
    private static let script: ScriptedOrigin.Script = { request in
        let control = request.target == "/x/private" ? "private, " : request.target == "/x/no-store" ? "no-store, " : ""
        return [.json("\"\(request.target)\"", ["Cache-Control: \(control)max-age=600", "Set-Cookie: sid=ann"])]
    }

    private static func isHit(_ response: TestResponse) -> Bool { response["Cache-Status"]?.contains("; hit") == true }

    @Test("a node with default rules does not take what another node stores against them, and takes responses for other paths")
    func paths() throws {
        try FleetPlay.run(ScriptedOrigin(Self.script)) { fleet in
            let one = try fleet.join(proxy: { settings in
                var (loose, merging) = (Route(), Route())
                (loose.name, loose.pattern, loose.freshness.ignored) = ("loose", RoutePattern("/x/**"), [.privateResponse, .noStore])
                (merging.name, merging.pattern, merging.arguments.ignore) = ("merging", RoutePattern("/a"), [ArgumentPattern("account")])
                settings.routes = [loose, merging]
            })
            let other = try fleet.join()
            #expect(try one.sees() && other.sees())
            for (index, target) in ["/x/private", "/x/no-store", "/a?account=ann", "/plain"].enumerated() {
                _ = try one.get(target)
                #expect(try Self.isHit(one.get(target)) && one.gave(Double(index + 1)))
            }
            for target in ["/x/private", "/x/no-store", "/a"] {
                let response = try other.get(target)
                #expect(response.text == "\"\(target)\"" && !Self.isHit(response), "\(response)")
            }
            #expect(try Self.isHit(other.get("/plain")))
            #expect(try other.found() == 1)
        }
    }

    @Test("a node that strips Set-Cookie does not take responses of a node that keeps it")
    func cookies() throws {
        try FleetPlay.run(ScriptedOrigin(Self.script)) { fleet in
            let (one, other) = (try fleet.join(proxy: { $0.policy.setCookie = .keep }), try fleet.join())
            #expect(try one.sees() && other.sees())
            _ = try one.get("/plain")
            #expect(try one.gave(1))
            #expect(try !Self.isHit(other.get("/plain")))
            let hit = try other.get("/plain")
            #expect(Self.isHit(hit) && hit["Set-Cookie"] == nil)
        }
    }
}
