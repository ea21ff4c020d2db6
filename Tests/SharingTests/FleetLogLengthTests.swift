// Tests of a log that is long, has long entries, or has filled the engine.

import ResponseCache
import TestSupport
import Testing

@testable import Sharing

@Suite(
    "Long fleet logs", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetLogLengthTests {
    @Test("the entries appended while a node was away are delivered in batches of a few thousand")
    func long() throws {
        let redis = try RedisProcess()
        #expect(!redis.direct.ask("PING").isEmpty)
        redis.append(20_000)
        let play = try FleetLogPlay(redis)
        #expect(try eventually { play.node.isUpToDate })
        let counts = play.handed.all
        #expect(counts.reduce(0, +) == 20_000 && counts.allSatisfy { $0 <= 4_096 }, "\(counts)")
        play.stop()
    }

    @Test("entries that exceed the reply limit are read in smaller batches")
    func longEntries() throws {
        let redis = try RedisProcess()
        #expect(!redis.direct.ask("PING").isEmpty)
        // About 60 MB; a reply with 167 of these entries exceeds the limit.
        redis.append(600, value: String(repeating: "v", count: 100_000))
        let play = try FleetLogPlay(redis)
        #expect(try eventually { play.node.isUpToDate })
        #expect(play.figures.unopened >= 600)
        play.stop()
    }

    @Test("a log without new entries is trimmed by age")
    func idle() throws {
        let redis = try RedisProcess()
        #expect(!redis.direct.ask("PING").isEmpty)
        redis.append(1_000, areOld: true)
        let play = try FleetLogPlay(redis)
        #expect(try eventually { redis.logLength < 200 })
        #expect(try eventually { play.node.isUpToDate })
        play.stop()
    }

    @Test("a log that fills the Redis server's memory is trimmed although nothing can be appended")
    func full() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            play.redis.append(1_000, areOld: true)
            play.redis.direct.ask("CONFIG SET maxmemory 1")
            let told = play.purge(["/a"])
            #expect(try eventually { told.now == .pending(reason: "refused") })
            #expect(try eventually { play.redis.logLength < 200 })
            play.redis.direct.ask("CONFIG SET maxmemory 0")
            #expect(try eventually { play.figures.appended >= 2 && play.node.isUpToDate })
        }
    }
}
