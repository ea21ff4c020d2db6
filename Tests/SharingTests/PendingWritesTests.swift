// Tests how often pending purges are written to the disk.

import Fleet
import Glibc
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

/// Counts how often files are renamed into place, with inotify.
private final class WriteCounter {
    private let descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
    private var counts: [String: Int] = [:]

    /// Consecutive equal events are merged (inotify(7)), so the watch includes the event of the former name.
    init(_ directory: String) { inotify_add_watch(descriptor, directory, UInt32(IN_MOVED_FROM) | UInt32(IN_MOVED_TO)) }

    deinit { close(descriptor) }

    func count(of name: String) -> Int {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &bytes, bytes.count), count > 0 {
            var start = 0
            while start + 16 <= count {
                // An event has a descriptor, a mask, a cookie, the length of the name, and the name.
                let length = bytes[(start + 12)..<(start + 16)].reversed().reduce(0) { $0 << 8 | Int($1) }
                let text = bytes[(start + 16)..<(start + 16 + length)].prefix { $0 != 0 }
                counts[String(decoding: text, as: UTF8.self), default: 0] += 1
                start += 16 + length
            }
        }
        return counts[name, default: 0]
    }
}

@Suite(
    "Pending purges on disk", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct PendingWritesTests {
    @Test("purges that become pending at the same time are written to disk together")
    func once() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            let writes = WriteCounter(play.directory)
            // The engine does not respond: all purges are pending after a second.
            play.redis.freeze()
            let told = (0..<128).map { play.purge([String($0)]) }
            #expect(try eventually { told.allSatisfy { $0.now == .pending(reason: "not_reached") } })
            // The first purge is sent alone, and the others wait behind it; then the connection is lost.
            #expect((1...6).contains(writes.count(of: "fleet-pending")))
            #expect(play.files.pendingPurges().count == 128 && play.figures.pendingPurges == [.notReached: 128])
            play.redis.thaw()
            // The engine has no replica, so purges in the log are not kept.
            #expect(try eventually { play.files.pendingPurges().isEmpty && play.figures.pendingPurges.isEmpty })
        }
    }
}
