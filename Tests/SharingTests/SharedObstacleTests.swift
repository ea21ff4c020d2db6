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
}
