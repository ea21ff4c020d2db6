// Random schedules of stores, removals, marks, purges, full and failing disks, crashes and restarts, compared with a model. Nothing older
// than a written mark returns, written items are found again, and storing resumes once the disk accepts writes.

import Glibc
import Reactor
import TestSupport
import Testing

@testable import CacheStore

@Suite("Random schedules of the store and its disk")
struct DiskScheduleTests {
    private static let keyCount = 24

    /// Expected state of a key.
    private struct Known {
        /// Version of the last accepted item; 0 for none.
        var version = 0
        /// Versions up to `removed` were removed, and versions up to `marked` were marked stale.
        var removed = 0
        var marked = 0
    }

    /// Copies of the store's files between two changes, as a crash would leave them.
    private final class CrashCopies: Sendable {
        private let path: String
        private let state = Mutex<(changes: Int, copies: [Directory])>((0, []))

        init(_ path: String) { self.path = path }

        /// Copies the files at every eleventh change, up to a limit.
        func take() {
            state.withLock { state in
                state.changes += 1
                guard state.changes % 11 == 0, state.copies.count < 12, let copy = try? Directory.copy(of: path) else { return }
                state.copies.append(copy)
            }
        }

        func takeAll() -> [Directory] {
            state.withLock { state in
                defer { state.copies = [] }
                return state.copies
            }
        }
    }

    private struct Schedule {
        let directory: Directory
        let disk: ModelDisk
        let copies: CrashCopies
        let settings: StoreSettings
        var store: ResponseStore
        var now: [Known] = Array(repeating: Known(), count: keyCount)
        /// State when all removals and marks were last in the files.
        var written: [Known] = Array(repeating: Known(), count: keyCount)
        var version = 0

        init(isTold: Bool) throws {
            directory = try Directory()
            disk = ModelDisk(bytes: 6 << 20)
            let copies = CrashCopies(directory.path)
            self.copies = copies
            disk.beforeChanges { copies.take() }
            if !isTold { disk.hideRoom() }
            settings = disk.settings(directory.path, capacity: 16 << 20, segment: 1 << 20)
            store = try ResponseStore(settings)
        }

        /// The version in a stored item's head.
        static func version(of item: StoredItem) -> Int {
            withExtendedLifetime(item.owner) { item.head.reduce(0) { $0 * 10 + Int($1) - 0x30 } }
        }

        mutating func insert(_ number: Int, _ random: inout SeededGenerator) {
            version += 1
            let bytes = random.pick([200, 3_000, 60_000, 200_000])
            let isMark = random.isTrue(oneIn: 10)
            let item = NewItem(
                key: key(number), metadata: [], head: Array(String(version).utf8), body: body(version, isMark ? 100 : bytes),
                retention: isMark ? .outlives : .mayRescue)
            if store.insert(item) == .accepted { now[number].version = version }
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            let number = random.below(keyCount)
            switch random.below(100) {
            case ..<50: insert(number, &random)
            case ..<60:
                store.remove(key(number).span)
                now[number].removed = version
            case ..<68:
                _ = store.markStale(store.id(of: key(number)))
                now[number].marked = version
            case ..<70:
                store.markAllStale()
                for number in now.indices { now[number].marked = version }
            case ..<71:
                store.removeAll()
                for number in now.indices { now[number].removed = version }
            case ..<76: disk.setOthers(random.below(7) << 20)
            case ..<78: disk.failWrites(random.pick([0, 0, EIO, EROFS, ENOSPC]))
            case ..<80: disk.failFiles(random.pick([0, 0, EIO, ENOSPC]))
            case ..<86: store.writer.tryAgainNow(store)
            case ..<90: _ = store.lookUp(key(number).span)
            case ..<97: store.flush()
            default: try restart()
            }
            if random.isTrue(oneIn: 7) { try check() }
            if random.isTrue(oneIn: 50) { try checkCrash() }
            try demand(disk.usedBytes(directory.path) <= 6 << 20)
        }

        func check() throws {
            for number in now.indices {
                guard let found = store.lookUp(key(number).span) else { continue }
                let (known, version) = (now[number], Self.version(of: found))
                try demand(version > known.removed, "key \(number)")
                // An older version is stale once a newer one was accepted.
                try demand(version == known.version || found.isMarkedStale, "key \(number)")
                try demand(version > known.marked || found.isMarkedStale, "key \(number)")
            }
        }

        /// Checks the state after a crash at this point.
        mutating func checkCrash() throws {
            store.flush()
            for copy in copies.takeAll() { try check(copy) }
            if !store.hasUnwrittenMarks { written = now }
            let inFiles = now.indices.filter { number in
                let hash = key(number).withUnsafeBytes { KeyHash($0, seed: store.seed) }
                return store.state.withLock { $0.pending[hash] == nil && $0.index.find(hash) != nil }
            }
            let copy = try Directory.copy(of: directory.path)
            try check(copy, inFiles: inFiles)
        }

        /// - Parameters:
        ///   - copy: files after a crash.
        ///   - inFiles: keys that must be found in their last version.
        private func check(_ copy: Directory, inFiles: [Int] = []) throws {
            var settings = StoreSettings(directory: copy.path, capacityBytes: self.settings.capacityBytes, segmentBytes: 1 << 20)
            settings.retryMilliseconds = 0
            let after = try ResponseStore(settings)
            for number in now.indices {
                guard let found = after.lookUp(key(number).span) else {
                    try demand(!inFiles.contains(number), "key \(number): lost")
                    continue
                }
                let (known, version) = (written[number], Self.version(of: found))
                try demand(version > known.removed, "key \(number): version \(version) came back, \(known)")
                try demand(version > known.marked || found.isMarkedStale, "key \(number): version \(version) came back fresh, \(known)")
                if inFiles.contains(number), let here = store.lookUp(key(number).span) {
                    // A failed write may leave a version in a file that the store has dropped. It is not older than the one in memory.
                    let versions = Self.version(of: here)...max(now[number].version, Self.version(of: here))
                    try demand(versions.contains(version), "key \(number): \(version) in a file, \(versions)")
                }
            }
        }

        mutating func restart() throws {
            store.flush()
            store.writer.tryAgainNow(store)
            let isWhole = !store.hasUnwrittenMarks && store.statistics.pendingBytes == 0
            store.close()
            store = try ResponseStore(settings)
            if isWhole {
                // If a version was not accepted, or was evicted, an older one remains.
                for number in now.indices {
                    if let found = store.lookUp(key(number).span) { now[number].version = Self.version(of: found) }
                }
            } else {
                // The process has lost data that the disk did not accept; `checkCrash` examines such files. The schedule starts anew.
                disk.failWrites(0)
                disk.failFiles(0)
                disk.setOthers(0)
                store.removeAll()
                store.flush()
                store.writer.tryAgainNow(store)
                for number in now.indices { now[number].removed = version }
            }
        }

        /// Stores everything again after the disk accepts writes.
        mutating func end() throws {
            disk.failWrites(0)
            disk.failFiles(0)
            disk.setOthers(0)
            // A retry may find the space of a file in use that is being deleted; the next one does not.
            let isWritable = try eventually {
                store.flush()
                store.writer.tryAgainNow(store)
                return store.statistics.isWritable && store.statistics.pendingBytes == 0 && !store.hasUnwrittenMarks
            }
            try demand(isWritable, "\(store.statistics)")
            var random = SeededGenerator(seed: UInt64(version))
            // The first large item makes the writer check the space again.
            for number in 0..<keyCount { insert(number, &random) }
            store.flush()
            let before = version
            for number in 0..<keyCount { insert(number, &random) }
            store.flush()
            try check()
            try checkCrash()
            try demand(now.allSatisfy { $0.version > before })
        }
    }

    @Test("random schedules of inserts, removals, disk failures and crashes keep the store consistent", .slow)
    func random() {
        RandomSchedules.run(12, steps: 500) {
            try Schedule(isTold: $0.isTrue())
        } step: {
            try $0.step(&$1)
        } end: {
            try $0.end()
        }
    }
}
