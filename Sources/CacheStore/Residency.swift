// Whether what is stored is in memory. Values are read through mappings of files, and a page that is not in memory is read from the disk by
// whoever touches it, who waits. On an event loop that keeps everybody waiting: so a look-up there asks first, and what is on the disk only is
// brought in by threads that may wait.

import CSystem
import Dispatch
import Glibc
import Locking
import Synchronization

/// Answers for pieces of mapped files. The tests' own decides what is in memory.
public protocol Residency: Sendable {
    /// Whether all of these bytes can be read without waiting for the disk.
    func isInMemory(_ bytes: UnsafeRawBufferPointer) -> Bool
    /// Reads them in; waits for the disk.
    func bringIn(_ bytes: UnsafeRawBufferPointer)
    /// Whether what was in memory a moment ago is believed to be there still.
    var isTrusted: Bool { get }
}

/// The kernel's. Where files belong to another user it says that all is in memory, and the one who reads waits.
struct PageResidency: Residency {
    func isInMemory(_ bytes: UnsafeRawBufferPointer) -> Bool { csystem_is_in_memory(bytes.baseAddress, bytes.count) != 0 }
    func bringIn(_ bytes: UnsafeRawBufferPointer) { csystem_bring_in(bytes.baseAddress, bytes.count) }
    var isTrusted: Bool { true }
}

/// Asking the kernel takes a microsecond and a half, a third of a hit; so an item that was found in memory is believed to be there for a while.
/// What is used is the last that the kernel gives away: seconds are enough where it has given nothing away lately, and where it has, the rest
/// of the second.
enum ResidencyTrust {
    private static let calmSeconds = 30
    private static let pressedSeconds = 1
    /// So long after something was found to be on the disk only, memory counts as scarce.
    static let pressSeconds = 60

    /// A clock's second as it fits into an index entry: it comes round after 18 hours, and an item that is believed by mistake then is one
    /// read from the disk. 0 is never.
    static func mark(_ second: Int) -> UInt32 { UInt32(truncatingIfNeeded: second % 65_535 + 1) }

    /// - Parameters:
    ///   - mark: of when it was last known to be in memory.
    ///   - lastAway: the second in which anything was last found to be on the disk only.
    static func holds(_ mark: UInt32, now: Int, lastAway: Int) -> Bool {
        guard mark != 0 else { return false }
        let age = (Int(Self.mark(now)) - Int(mark) + 65_535) % 65_535
        return age < (now - lastAway < pressSeconds ? pressedSeconds : calmSeconds)
    }

    /// Seconds of a clock that never goes back, read without a system call.
    static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return time.tv_sec
    }
}

/// A stored item that has to be read from the disk before it can be looked at.
public struct OnDisk: Error, Sendable {
    let entry: IndexEntry
    let segment: Segment
    /// Only what lies before its content.
    var isFrontOnly = false
}

/// The threads that wait for the disk in the place of the loops.
final class DiskReaders: Sendable {
    /// Several, so that one slow read does not hold up all others; few, since a disk does not do more at once.
    private let queues = (0..<DiskReaders.count).map { DispatchQueue(label: "cistern.disk.\($0)", qos: .userInitiated) }

    private static let count = 4

    /// Pieces of work that wait, or are being done. Counted by those who hand over and by the threads.
    private let handedOver = Atomic(0)

    var waiting: Int { handedOver.load(ordering: .relaxed) }

    /// - Parameter place: what is equal in it is done one after the other, so that the second finds what the first has read.
    func perform(at place: Int, _ work: @escaping @Sendable () -> Void) {
        handedOver.wrappingAdd(1, ordering: .relaxed)
        queues[Int(UInt(bitPattern: place) % UInt(queues.count))].async { [self] in
            work()
            handedOver.wrappingSubtract(1, ordering: .relaxed)
        }
    }
}

extension ResponseStore {
    /// Items larger than this have their checksum looked at by those who bring them in, since it would hold up a loop; smaller ones at each
    /// look-up.
    static let loopCheckLimitBytes = 2 << 20

    /// Brings an item in, on a thread that may wait; `then` is called there. Whether it is still stored is seen by looking again.
    public func bringIn(_ wanted: OnDisk, then: @escaping @Sendable () -> Void) {
        state.withLock { $0.statistics.broughtIn += 1 }
        readers.perform(at: Int(wanted.entry.offset)) { [self] in
            let (entry, segment) = (wanted.entry, wanted.segment)
            settings.residency.bringIn(Self.headerBytes(of: entry, in: segment))
            if let record = parts(entry, in: segment) { settings.residency.bringIn(wanted.isFrontOnly ? record.front : record.payload) }
            // A damaged one is dropped here.
            if !wanted.isFrontOnly, read(entry, in: segment) != nil { noteInMemory(entry) }
            then()
        }
    }

    /// Brings content in that is being sent; the same for it.
    public func bringIn(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void) {
        state.withLock { $0.statistics.broughtIn += 1 }
        let held = HeldBytes(bytes: bytes, owner: owner)
        readers.perform(at: Int(bitPattern: bytes.baseAddress)) { [self] in
            settings.residency.bringIn(held.bytes)
            then()
        }
    }

    /// Whether a part of an item that was found earlier can still be read without waiting.
    public func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool {
        guard owner is Segment || (owner as? HeldHead)?.base is Segment else { return true }
        guard !settings.residency.isInMemory(bytes) else { return true }
        noteAway()
        return false
    }

    /// Brings in what will be seen under these keys; nobody waits for it.
    public func readAhead(_ keys: [[UInt8]]) {
        for key in keys { if let wanted = onDisk(key) { bringIn(wanted) {} } }
    }

    /// What has to be brought in first, or `see` would have to wait for the disk.
    public func onDisk(_ key: [UInt8]) -> OnDisk? {
        let hash = key.withUnsafeBytes { KeyHash($0, seed: seed) }
        let found: (entry: IndexEntry, segment: Segment)? = state.withLock { state in
            guard state.pending[hash] == nil, let entry = state.index.find(hash), let segment = state.segments[entry.segment] else {
                return nil
            }
            return (entry, segment)
        }
        guard let (entry, segment) = found, !isKnown(entry) else { return nil }
        guard settings.residency.isInMemory(Self.headerBytes(of: entry, in: segment)),
            parts(entry, in: segment).map({ settings.residency.isInMemory($0.front) }) ?? true
        else {
            noteAway()
            return OnDisk(entry: entry, segment: segment, isFrontOnly: true)
        }
        return nil
    }

    /// Whether it is believed to be in memory without asking.
    private func isKnown(_ entry: IndexEntry) -> Bool {
        trustsResidency
            && ResidencyTrust.holds(entry.inMemoryMark, now: ResidencyTrust.now, lastAway: lastAway.load(ordering: .relaxed))
    }

    /// Whether a look-up may go on with this entry on an event loop.
    /// - Returns: whether it may; and whether its checksum need not be looked at.
    func mayRead(_ entry: IndexEntry, in segment: Segment) -> (now: Bool, isChecked: Bool) {
        guard !isKnown(entry) else { return (true, true) }
        guard settings.residency.isInMemory(Self.headerBytes(of: entry, in: segment)) else {
            noteAway()
            return (false, false)
        }
        // Without a valid header it is damaged, and the look-up will say so.
        guard let record = parts(entry, in: segment) else { return (true, false) }
        guard record.payload.count <= Self.loopCheckLimitBytes else { return (false, false) }
        guard settings.residency.isInMemory(record.payload) else {
            noteAway()
            return (false, false)
        }
        noteInMemory(entry)
        return (true, false)
    }

    private func noteAway() { lastAway.store(ResidencyTrust.now, ordering: .relaxed) }

    private func noteInMemory(_ entry: IndexEntry) {
        let mark = ResidencyTrust.mark(ResidencyTrust.now)
        state.withLock { $0.index.noteInMemory(entry, mark) }
    }

    /// As many as there are: a segment may have been cut short.
    private static func headerBytes(of entry: IndexEntry, in segment: Segment) -> UnsafeRawBufferPointer {
        let start = min(entry.byteOffset, segment.size)
        return UnsafeRawBufferPointer(start: segment.base + start, count: min(RecordHeader.bytes, segment.size - start))
    }
}

/// Carries bytes with what holds them to another thread. `@unchecked Sendable` because stored bytes never change.
private struct HeldBytes: @unchecked Sendable {
    let bytes: UnsafeRawBufferPointer
    let owner: AnyObject
}
