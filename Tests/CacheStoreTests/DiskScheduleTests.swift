// Random schedules of stores, removals, marks, purges, disks that others fill and empty, failing disks, crashes and restarts, held against a model:
// nothing older than a written mark comes back, what is in a file is found again, and new responses are stored again once the disk takes them.

import Glibc
import Locking
import TestSupport
import Testing

@testable import CacheStore

@Suite("Schedules of a store and its disk")
struct DiskScheduleTests {
    private static let keyCount = 24

    /// What is known of one key.
    private struct Known {
        /// Of the last accepted item; 0 for none.
        var version = 0
        /// Versions up to this one were removed, and up to the other one marked as stale.
        var removed = 0
        var marked = 0
    }

    /// Copies of the store's files between two changes of them, as a crash would leave them.
    private final class CrashCopies: Sendable {
        private let path: String
        private let state = Mutex<(changes: Int, copies: [Directory])>((0, []))

        init(_ path: String) { self.path = path }

        /// One change in eleven has a copy, up to a limit.
        func take() {
            state.withLock { state in
                state.changes += 1
                guard state.changes % 11 == 0, state.copies.count < 12, let copy = try? Directory() else { return }
                for file in names(in: path) where file != "lock" { copyFile(path + "/" + file, to: copy.path + "/" + file) }
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
        var random: SeededGenerator
        let directory: Directory
        let disk: ModelDisk
        let copies: CrashCopies
        let settings: StoreSettings
        var store: ResponseStore
        var now: [Known] = Array(repeating: Known(), count: keyCount)
        /// As it was when all removals and marks were in the files.
        var written: [Known] = Array(repeating: Known(), count: keyCount)
        var version = 0

        init(seed: UInt64, isTold: Bool) throws {
            random = SeededGenerator(seed: seed)
            directory = try Directory()
            disk = ModelDisk(bytes: 6 << 20)
            let copies = CrashCopies(directory.path)
            self.copies = copies
            disk.beforeChanges { copies.take() }
            if !isTold { disk.hideRoom() }
            settings = disk.settings(directory.path, capacity: 16 << 20, segment: 1 << 20)
            store = try ResponseStore(settings)
        }

        /// The version that a stored item says it is.
        static func version(of item: StoredItem) -> Int {
            withExtendedLifetime(item.owner) { item.head.reduce(0) { $0 * 10 + Int($1) - 0x30 } }
        }

        mutating func insert(_ number: Int) {
            version += 1
            let bytes = [200, 3_000, 60_000, 200_000][Int.random(in: 0..<4, using: &random)]
            let isMark = Int.random(in: 0..<10, using: &random) == 0
            let item = NewItem(
                key: key(number), metadata: [], head: Array(String(version).utf8), body: body(version, isMark ? 100 : bytes),
                retention: isMark ? .outlives : .mayRescue)
            if store.insert(item) == .accepted { now[number].version = version }
        }

        mutating func step() throws {
            let number = Int.random(in: 0..<keyCount, using: &random)
            switch Int.random(in: 0..<100, using: &random) {
            case ..<50: insert(number)
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
            case ..<76: disk.setOthers(Int.random(in: 0...6, using: &random) << 20)
            case ..<78: disk.failWrites([0, 0, EIO, EROFS, ENOSPC][Int.random(in: 0..<5, using: &random)])
            case ..<80: disk.failFiles([0, 0, EIO, ENOSPC][Int.random(in: 0..<4, using: &random)])
            case ..<86: store.writer.tryAgainNow(store)
            case ..<90: _ = store.lookUp(key(number).span)
            case ..<97: store.flush()
            default: try restart()
            }
        }

        func check(_ step: Int) {
            for number in now.indices {
                guard let found = store.lookUp(key(number).span) else { continue }
                let (known, version) = (now[number], Self.version(of: found))
                #expect(version > known.removed, "step \(step), key \(number)")
                // Where something newer was seen, an older one is stale.
                #expect(version == known.version || found.isMarkedStale, "step \(step), key \(number)")
                #expect(version > known.marked || found.isMarkedStale, "step \(step), key \(number)")
            }
        }

        /// What a crash at this moment would leave.
        mutating func checkCrash(_ step: Int) throws {
            store.flush()
            for copy in copies.takeAll() { try check(copy, step) }
            if !store.hasUnwrittenMarks { written = now }
            let inFiles = now.indices.filter { number in
                let hash = key(number).withUnsafeBytes { KeyHash($0, seed: store.seed) }
                return store.state.withLock { $0.pending[hash] == nil && $0.index.find(hash) != nil }
            }
            let copy = try Directory()
            for file in directory.files where file != "lock" { copyFile(directory.path + "/" + file, to: copy.path + "/" + file) }
            try check(copy, step, inFiles: inFiles)
        }

        /// - Parameters:
        ///   - copy: the files of a crash.
        ///   - inFiles: the keys whose last version must be found.
        private func check(_ copy: Directory, _ step: Int, inFiles: [Int] = []) throws {
            var settings = StoreSettings(directory: copy.path, capacityBytes: self.settings.capacityBytes, segmentBytes: 1 << 20)
            settings.retryMilliseconds = 0
            let after = try ResponseStore(settings)
            for number in now.indices {
                guard let found = after.lookUp(key(number).span) else {
                    #expect(!inFiles.contains(number), "step \(step), key \(number): lost")
                    continue
                }
                let (known, version) = (written[number], Self.version(of: found))
                #expect(version > known.removed, "step \(step), key \(number): version \(version) came back, \(known)")
                #expect(
                    version > known.marked || found.isMarkedStale,
                    "step \(step), key \(number): version \(version) came back fresh, \(known)")
                if inFiles.contains(number), let here = store.lookUp(key(number).span) {
                    // A write that failed may have left the last accepted version in a file, although the store has given it up since.
                    #expect([Self.version(of: here), now[number].version].contains(version), "step \(step), key \(number)")
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
                // What had not been accepted, or was evicted, has left an older one.
                for number in now.indices {
                    if let found = store.lookUp(key(number).span) { now[number].version = Self.version(of: found) }
                }
            } else {
                // The process has lost what the disk did not take (`checkCrash` looks at what the files say then): all begins anew.
                disk.failWrites(0)
                disk.failFiles(0)
                disk.setOthers(0)
                store.removeAll()
                store.flush()
                store.writer.tryAgainNow(store)
                for number in now.indices { now[number].removed = version }
            }
        }
    }

    @Test("random schedules", .slow, arguments: 1...12 as ClosedRange<UInt64>)
    func random(seed: UInt64) throws {
        var schedule = try Schedule(seed: seed, isTold: seed % 2 == 0)
        for step in 1...500 {
            try schedule.step()
            if step % 7 == 0 { schedule.check(step) }
            if step % 50 == 0 { try schedule.checkCrash(step) }
            #expect(schedule.disk.usedBytes(schedule.directory.path) <= 6 << 20)
        }
        schedule.disk.failWrites(0)
        schedule.disk.failFiles(0)
        schedule.disk.setOthers(0)
        schedule.store.flush()
        schedule.store.writer.tryAgainNow(schedule.store)
        #expect(schedule.store.statistics.isWritable && schedule.store.statistics.pendingBytes == 0 && !schedule.store.hasUnwrittenMarks)
        // The first of the large ones has the writer look at the room again.
        for number in 0..<Self.keyCount { schedule.insert(number) }
        schedule.store.flush()
        let before = schedule.version
        for number in 0..<Self.keyCount { schedule.insert(number) }
        schedule.store.flush()
        schedule.check(0)
        try schedule.checkCrash(0)
        #expect(schedule.now.allSatisfy { $0.version > before })
    }
}
