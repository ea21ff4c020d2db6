// Tests of what a process leaves to the next one: purges that are in the log, and writes that are not.

import CacheStore
import Fleet
import Glibc
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

@Suite(
    "Restarts of a node with unsent messages", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetLogRestartTests {
    @Test("without a replica each purge appends one entry, reports no_replica and is not repeated after a restart")
    func noReplica() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let one = try fleet.join()
            #expect(try one.sees())
            for number in 0..<20 { #expect(try one.purge("prefix=/\(number)").text.contains("\"no_replica\"")) }
            #expect(fleet.logLength == 20)
            #expect(try one.pendingPurges() == 0)
            try one.play.restart()
            #expect(try one.sees() && one.pendingPurges() == 0)
            #expect(fleet.logLength == 20)
        }
    }

    @Test("a write seen while Redis was unavailable is propagated after a restart")
    func write() throws {
        try FleetPlay.run(FleetPlay.numbered()) { fleet in
            let (one, other, text) = try fleet.writeWhileFrozen()
            one.play.stop()
            let files = FleetFiles(beside: StoreLocation(directory: one.play.directory, capacityBytes: 16 << 20))
            #expect(files.pendingPurges().map(\.isWrite).contains(true))
            fleet.redis.thaw()
            try one.play.start()
            #expect(try one.sees() && other.sees())
            #expect(try other.pendingPurges() == 0)
            #expect(try eventually { try other.get("/a").text != text })
            #expect(try eventually { access(one.play.directory + "/fleet-pending", F_OK) != 0 })
        }
    }
}
