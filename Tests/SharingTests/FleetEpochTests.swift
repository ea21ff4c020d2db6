// Tests of the log's epoch: a node's first log, another log, a log that returns, and invalid epochs.

import Glibc
import ResponseCache
import Sharing
import TestSupport
import Testing

@Suite(
    "The epoch of the fleet log", .slow, .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetEpochTests {
    private static let epoch = "cistern:play:{log}:epoch"

    private func gaps(_ node: FleetMember, _ cause: String) throws -> Double {
        try node.metric("cistern_share_gaps_total{cause=\"\(cause)\"}")
    }

    @Test(
        "responses stored before the first contact with a log become stale once, and no setting drops them",
        arguments: [FleetLogLink.AfterGap.stale, .drop])
    func first(afterGap: FleetLogLink.AfterGap) throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair { $0.afterGap = afterGap }
            #expect(try one.get("/a").text == "{\"n\":1}")
            // A purge that is trimmed from the log is lost to a node that has lost its position.
            one.play.flushStore()
            one.play.stop()
            #expect(unlink(one.play.directory + "/fleet-position") == 0)
            _ = try other.purge("target=/x")
            fleet.redis.direct.ask("XTRIM cistern:play:{log} MAXLEN 0")
            try one.play.start()
            #expect(try one.sees())
            for cause in ["epoch", "trimmed", "lost_entries"] { #expect(try gaps(one, cause) == 0) }
            #expect(try gaps(one, "never_followed") == 1 && gaps(other, "never_followed") == 0)
            fleet.origin.down()
            #expect(try one.get("/a").text == "{\"n\":1}")
            #expect(try one.metric("cistern_requests_total{result=\"rescued\",method=\"GET\",status_class=\"2xx\"}") == 1)
            fleet.origin.up()
            #expect(try one.comes(to: "{\"n\":2}", "/a"))
            // From then on the position is known.
            try one.play.restart()
            #expect(try one.sees())
            #expect(try one.get("/a").text == "{\"n\":2}" && gaps(one, "never_followed") == 0)
        }
    }

    @Test("a log that returns after a replacement gets a new epoch, its records are rejected, and the fleet recovers")
    func back() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            let first = String(decoding: fleet.redis.direct.value(of: Self.epoch), as: UTF8.self)
            _ = try one.get("/a")
            #expect(try one.gave(1))
            fleet.redis.direct.ask("SET \(Self.epoch) abc")
            for node in [one, other] { #expect(try eventually { try gaps(node, "epoch") == 1 && node.sees() }) }
            fleet.redis.direct.ask("SET \(Self.epoch) \(first)")
            for node in [one, other] { #expect(try eventually { try gaps(node, "epoch") >= 2 && node.sees() }) }
            let last = String(decoding: fleet.redis.direct.value(of: Self.epoch), as: UTF8.self)
            #expect(last != first && last != "abc" && !last.isEmpty)
            #expect(try other.get("/a").text == "{\"n\":2}")
            #expect(try other.refused("other_epoch") == 1)
            _ = try one.get("/b")
            #expect(try eventually { try other.get("/b").text == "{\"n\":3}" && other.found() >= 1 })
        }
    }

    @Test("an unreadable epoch is replaced", arguments: ["SET \(epoch) what-is-this", "SET \(epoch) \"\"", "LPUSH \(epoch) x"])
    func unreadable(command: String) throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other) = try fleet.pair()
            // A node may have created the epoch in between.
            #expect(
                try eventually {
                    fleet.redis.direct.ask("DEL \(Self.epoch)")
                    return !fleet.redis.direct.ask(command).hasPrefix("-")
                })
            for node in [one, other] { #expect(try eventually { try gaps(node, "epoch") >= 1 && node.sees() }) }
            _ = try one.get("/a")
            #expect(try eventually { try other.get("/a").status == 200 && other.found() >= 1 })
            let text = try other.get("/a").text
            _ = try one.purge("target=/a")
            #expect(try eventually { try other.get("/a").text != text })
        }
    }
}
