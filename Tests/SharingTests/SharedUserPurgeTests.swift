// Tests that purges of a user, a pattern or an excluded path at one node affect all nodes, and that the credential is not readable in Redis
// or in the file of pending purges.

import Administration
import CachePolicy
import ResponseCache
import ReverseProxy
import Server
import TestSupport
import Testing

@testable import Sharing

@Suite(
    "Purges of users and patterns on all nodes", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedUserPurgeTests {
    private static let users = ["user-one-token", "user-two-token"]

    private static func fields(_ user: String) -> [(String, String)] { [("Authorization", "Bearer \(user)")] }

    private static func origin() -> ScriptedOrigin {
        let count = Counter()
        return ScriptedOrigin { _ in [.json("{\"n\":\(count.next())}", ["Cache-Control: private, max-age=600"])] }
    }

    /// Both nodes store each target for each user. Returns the number of requests at the origin.
    private func fill(_ one: FleetMember, _ other: FleetMember, _ targets: [String]) throws {
        for target in targets { for user in Self.users { _ = try one.get(target, Self.fields(user)) } }
        #expect(try one.gave(Double(targets.count * Self.users.count)))
        for target in targets {
            for user in Self.users { #expect(try other.get(target, Self.fields(user))["Cache-Status"]?.contains("; hit") == true) }
        }
    }

    @Test("a user is purged on every node, and the user's shared records are refused; other users are not affected")
    func user() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair()
            try fill(one, other, ["/a", "/b"])
            let answer = try one.play.admin("POST", "/-/purge?user=1", content: Self.users[0])
            #expect(answer.status == 202 && answer.text.contains("\"no_replica\""), "\(answer.text)")
            let (gone, kept) = (Self.fields(Self.users[0]), Self.fields(Self.users[1]))
            #expect(try eventually { try other.get("/a", gone)["Cache-Status"]?.contains("; hit") != true || fleet.asked("/a") == 3 })
            #expect(try one.get("/b", gone).status == 200 && fleet.asked("/b") == 3)
            for node in [one, other] { #expect(try node.get("/a", kept)["Cache-Status"]?.contains("; hit") == true) }
            #expect(fleet.asked("/a") == 3)
            let late = try fleet.join()
            #expect(try late.sees())
            #expect(try late.get("/b", kept).status == 200 && fleet.asked("/b") == 3)
        }
    }

    @Test("a pattern with an age is purged on every node")
    func pattern() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair()
            try fill(one, other, ["/orders/1/items", "/orders/1"])
            one.time.shift(by: .seconds(2))
            #expect(try one.purge("matching=/orders/*/items&older_than=1").status == 202)
            let fields = Self.fields(Self.users[0])
            #expect(try eventually { try other.get("/orders/1/items", fields).status == 200 && fleet.asked("/orders/1/items") > 2 })
            #expect(try other.get("/orders/1", fields)["Cache-Status"]?.contains("; hit") == true)
        }
    }

    @Test("a path that one node excludes from the cache is purged on the other node too")
    func excluded() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair()
            try fill(one, other, ["/pay/1", "/a"])
            var route = Route()
            (route.name, route.pattern, route.usesCache) = ("pay", RoutePattern("/pay/**"), false)
            #expect(one.play.reload { $0.settings.routes = [route] }?.label == "applied")
            let fields = Self.fields(Self.users[0])
            #expect(try eventually { try other.get("/pay/1", fields).status == 200 && fleet.asked("/pay/1") > 2 })
            #expect(try other.get("/a", fields)["Cache-Status"]?.contains("; hit") == true)
            // The node that excludes the path neither takes nor gives records of it.
            let before = fleet.asked("/pay/1")
            for _ in 1...2 { _ = try one.get("/pay/1", fields) }
            #expect(fleet.asked("/pay/1") == before + 2)
        }
    }

    @Test("a node that starts with an excluded path and has stored nothing purges the path on the other nodes, but only once")
    func excludedAtStart() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair()
            try fill(one, other, ["/pay/1", "/a"])
            var route = Route()
            (route.name, route.pattern, route.usesCache) = ("pay", RoutePattern("/pay/**"), false)
            let late = try fleet.join { _ in
            } proxy: { [route] in
                $0.routes = [route]
            }
            #expect(try late.sees())
            // Each node has another user, because a node may use what the other one fetches after the purge.
            for (node, user) in zip([one, other], Self.users) {
                #expect(try eventually { try node.get("/pay/1", Self.fields(user))["Cache-Status"]?.contains("; hit") != true })
                #expect(try node.get("/a", Self.fields(user))["Cache-Status"]?.contains("; hit") == true)
            }
            #expect(try eventually { (try? TestTools.readBytes(late.play.directory + "/fleet-exclusions")) != nil })
            try late.play.restart()
            #expect(try late.sees() && late.purge("tag=other").status < 300 && one.hasObeyed(fleet))
            #expect(try one.get("/pay/1", Self.fields(Self.users[0]))["Cache-Status"]?.contains("; hit") == true)
        }
    }

    @Test("a sealed credential is opened by the fleet only, and is not contained in the log's entry")
    func sealed() throws {
        let secrets = try FleetSecrets(file: Array(FleetPlay.secret.utf8))
        let other = try FleetSecrets(file: Array(String(repeating: "other", count: 8).utf8))
        let text = Array("Bearer abc".utf8)
        let sealed = secrets.sealing.seal(text)
        #expect(secrets.sealing.open(sealed) == text && other.sealing.open(sealed) == nil && sealed != secrets.sealing.seal(text))
        #expect(TestTools.index(of: "abc", in: sealed) == nil)
    }
}
