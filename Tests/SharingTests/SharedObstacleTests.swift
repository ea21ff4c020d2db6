// Tests the explanations of requests for which no other node's record was looked up.

import ReverseProxy
import Sharing
import TestSupport
import Testing

@Suite(
    "Reasons for skipped shared lookups", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedObstacleTests {
    @Test("why reports a skipped lookup only for requests that would have looked, not for stale hits or own refusals")
    func skippedLookup() throws {
        try FleetPlay.run(FleetPlay.numbered(["Cache-Control: max-age=600, stale-while-revalidate=6000"])) { fleet in
            let (one, _) = try fleet.pair { $0.blindLimit = nil }
            func sentences(_ status: Int, _ target: String, _ fields: [(String, String)] = []) throws -> Bool {
                #expect(try one.get(target, fields).status == status)
                return try one.play.admin("GET", "/-/why?last=10&path=\(target)").text.contains("were not looked up")
            }
            _ = try one.get("/a")
            #expect(try one.gave(1))
            fleet.redis.die()
            #expect(try one.isDisconnected())
            #expect(try sentences(200, "/b"))
            #expect(try !sentences(504, "/c", [("Cache-Control", "only-if-cached")]))
            one.time.shift(by: .seconds(700))
            #expect(try !sentences(200, "/a"))
        }
    }

    @Test("a missing right to store responses is reported until the engine accepts them again", .slow)
    func forbidden() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, _) = try fleet.pair()
            func states(_ rejection: String) throws -> Bool {
                try eventually {
                    let text = try one.play.admin("GET", "/-/share").text
                    return text.filter { !$0.isWhitespace }.contains("\"offers_rejected\":\(rejection)")
                }
            }
            fleet.redis.direct.ask("ACL SETUSER default -set")
            _ = try one.get("/a")
            #expect(try states("\"command_forbidden\""))
            #expect(try one.sees(), "the log does not need this right")
            fleet.redis.direct.ask("ACL SETUSER default +set")
            _ = try one.get("/b")
            #expect(try states("null"))
        }
    }
}
