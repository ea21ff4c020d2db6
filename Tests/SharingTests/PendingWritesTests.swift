// Purges that are pending, on the disk: what each of them costs.

import Fleet
import Glibc
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

/// Counts how often a file is put in its place, as the kernel tells it.
private final class WriteCounter {
    private let descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
    private var counts: [String: Int] = [:]

    /// Events of one kind and name that follow each other are one (inotify(7)): what a file was called before stands between them.
    init(_ directory: String) { inotify_add_watch(descriptor, directory, UInt32(IN_MOVED_FROM) | UInt32(IN_MOVED_TO)) }

    deinit { close(descriptor) }

    func count(of name: String) -> Int {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &bytes, bytes.count), count > 0 {
            var start = 0
            while start + 16 <= count {
                // A number, what happened, a cookie, and the length of the name behind it.
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
    "Purges that are pending, on the disk", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct PendingWritesTests {
    @Test("what becomes pending at once is written down once")
    func once() throws {
        try FleetLogPlay.run { (play: FleetLogPlay) throws in
            let writes = WriteCounter(play.directory)
            // Nothing is answered: all are pending after a second.
            play.redis.freeze()
            let told = (0..<128).map { play.purge([String($0)]) }
            #expect(try eventually { told.allSatisfy { $0.now == .pending(reason: "not_reached") } })
            // The first goes out alone, the others wait behind it; then the connection is lost.
            #expect((1...6).contains(writes.count(of: "fleet-pending")))
            #expect(play.files.pendingPurges().count == 128 && play.figures.pendingPurges == [.notReached: 128])
            play.redis.thaw()
            // The engine has no replica: once it has them nothing is kept for them.
            #expect(try eventually { play.files.pendingPurges().isEmpty && play.figures.pendingPurges.isEmpty })
        }
    }
}
