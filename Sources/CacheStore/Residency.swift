// Determines whether stored items are in memory. Stored bytes are read through memory-mapped files: access to a page that is not in memory
// blocks the thread until the disk has read it. Lookups on an event loop therefore check residency first, and separate threads load items
// from disk.

import CSystem
import Dispatch
import Glibc
import Reactor
import Synchronization

/// Residency of parts of mapped files. Tests replace it.
public protocol Residency: Sendable {
    /// Whether all of these bytes can be read without waiting for the disk.
    func isInMemory(_ bytes: UnsafeRawBufferPointer) -> Bool
    /// Loads the bytes into memory. Blocks until the disk has read them.
    func load(_ bytes: UnsafeRawBufferPointer)
    /// Whether a record that was in memory recently may be read without a new check.
    var isTrusted: Bool { get }
}

/// Residency according to the kernel. For files of another user the kernel reports all pages as in memory, so a read may block.
struct PageResidency: Residency {
    func isInMemory(_ bytes: UnsafeRawBufferPointer) -> Bool { csystem_is_in_memory(bytes.baseAddress, bytes.count) != 0 }
    func load(_ bytes: UnsafeRawBufferPointer) { csystem_bring_in(bytes.baseAddress, bytes.count) }
    var isTrusted: Bool { true }
}

/// Limits how long a residency check is reused. Asking the kernel takes 1.5 µs, a third of a hit. So a record that was in memory is
/// assumed to stay there for a while, because the kernel reclaims recently used pages last. A check is valid for 30 seconds without recent
/// reclaims, and otherwise for the rest of the current second.
public enum ResidencyTrust {
    private static let calmSeconds = 30
    private static let pressedSeconds = 1
    /// Seconds for which memory counts as scarce after an item was found only on disk.
    static let pressSeconds = 60

    /// Encodes a second of the clock in 16 bits for an index entry; 0 means never. The value wraps around after 18 hours; a record trusted
    /// by mistake then costs one read from the disk.
    static func mark(_ second: Int) -> UInt32 { UInt32(truncatingIfNeeded: second % 65_535 + 1) }

    /// Whether a residency check is still valid.
    /// - Parameters:
    ///   - mark: encoded second of the check; 0 for never.
    ///   - lastAway: the last second in which an item was found only on disk.
    static func holds(_ mark: UInt32, now: Int, lastAway: Int) -> Bool {
        guard mark != 0 else { return false }
        let age = (Int(Self.mark(now)) - Int(mark) + 65_535) % 65_535
        return age < (now - lastAway < pressSeconds ? pressedSeconds : calmSeconds)
    }

    /// Whether an item that a lookup found in this second is still assumed to be in memory.
    static func holds(_ second: Int, lastAway: Int) -> Bool {
        let now = now
        return now - second < pressedSeconds && now - lastAway >= pressSeconds
    }

    /// Seconds of a monotonic clock, read without a system call.
    public static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return time.tv_sec
    }
}

/// Thrown for a stored item that must be loaded from disk before it can be read.
public struct OnDisk: Error, Sendable {
    let entry: IndexEntry
    let segment: Segment
    /// Whether only the record's part before the content is needed.
    var isFrontOnly = false
}

/// Threads that wait for the disk instead of the event loops.
final class DiskReaders: Sendable {
    /// The queues of the threads. With several threads, one slow read does not block all others; more threads would not make a disk
    /// faster.
    private let queues = (0..<DiskReaders.count).map { DispatchQueue(label: "cistern.disk.\($0)", qos: .userInitiated) }

    private static let count = 4

    /// Number of reads that wait or run. Changed by callers and by the threads.
    private let handedOver = Atomic(0)

    var waiting: Int { handedOver.load(ordering: .relaxed) }

    /// Runs `work` on one of the threads.
    /// - Parameter address: selects the queue. Work with equal values runs sequentially, so that a second read finds the data of the first.
    func perform(at address: Int, _ work: @escaping @Sendable () -> Void) {
        handedOver.wrappingAdd(1, ordering: .relaxed)
        queues[Int(UInt(bitPattern: address) % UInt(queues.count))].async { [self] in
            work()
            handedOver.wrappingSubtract(1, ordering: .relaxed)
        }
    }
}

extension ResponseStore {
    /// Maximum payload in bytes for which each look-up verifies the checksum on the event loop. Larger payloads would block the loop, so
    /// the thread that loads them verifies the checksum.
    static let loopCheckLimitBytes = 2 << 20

    /// Loads an item on a thread that may block, then calls `then` on that thread. The caller must look the item up again, since it may
    /// have been removed.
    public func load(_ wanted: OnDisk, then: @escaping @Sendable () -> Void) {
        state.withLock { $0.statistics.loaded += 1 }
        readers.perform(at: Int(wanted.entry.offset)) { [self] in
            let (entry, segment) = (wanted.entry, wanted.segment)
            settings.residency.load(Self.headerBytes(of: entry, in: segment))
            if let record = parts(entry, in: segment) { settings.residency.load(wanted.isFrontOnly ? record.front : record.payload) }
            // Reading removes the item if it is damaged.
            if !wanted.isFrontOnly, read(entry, in: segment) != nil { noteInMemory(entry) }
            then()
        }
    }

    /// Loads content that is being sent, on a thread that may block, then calls `then` on that thread.
    public func load(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void) {
        state.withLock { $0.statistics.loaded += 1 }
        let held = HeldBytes(bytes: bytes, owner: owner)
        readers.perform(at: Int(bitPattern: bytes.baseAddress)) { [self] in
            settings.residency.load(held.bytes)
            then()
        }
    }

    /// Whether a part of an item that was found earlier can be read without waiting for the disk.
    /// - Parameter second: second of `ResidencyTrust.now` in which a lookup could read the item; nil if that is unknown.
    public func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, since second: Int? = nil) -> Bool {
        guard owner is Segment || (owner as? HeldHead)?.base is Segment else { return true }
        if let second, trustsResidency, ResidencyTrust.holds(second, lastAway: lastAway.load(ordering: .relaxed)) { return true }
        guard !settings.residency.isInMemory(bytes) else { return true }
        noteAway()
        return false
    }

    /// Loads what `see` reads of the items under these keys. Returns at once.
    public func readAhead(_ keys: [[UInt8]]) {
        for key in keys { if let wanted = onDisk([key]) { load(wanted) {} } }
    }

    /// Returns what must be loaded before `see` can read the items under these keys without waiting for the disk; nil if nothing must be
    /// loaded.
    public func onDisk(_ keys: [[UInt8]]) -> OnDisk? {
        let hashes = keys.map { $0.withUnsafeBytes { KeyHash($0, seed: seed) } }
        let found: [(entry: IndexEntry, segment: Segment)] = state.withLock { state in
            hashes.compactMap { hash in
                guard state.pending[hash] == nil, let entry = state.index.find(hash), let segment = state.segments[entry.segment] else {
                    return nil
                }
                return (entry, segment)
            }
        }
        for (entry, segment) in found where !isKnown(entry) {
            guard settings.residency.isInMemory(Self.headerBytes(of: entry, in: segment)),
                parts(entry, in: segment).map({ settings.residency.isInMemory($0.front) }) ?? true
            else {
                noteAway()
                return OnDisk(entry: entry, segment: segment, isFrontOnly: true)
            }
        }
        return nil
    }

    /// Whether the record is assumed to be in memory without a new check.
    private func isKnown(_ entry: IndexEntry) -> Bool {
        trustsResidency
            && ResidencyTrust.holds(entry.inMemoryMark, now: ResidencyTrust.now, lastAway: lastAway.load(ordering: .relaxed))
    }

    /// Whether a look-up on an event loop may read the record of this entry.
    /// - Returns: `now`, whether it may; `isChecked`, whether the checksum of a large record was verified recently.
    func mayRead(_ entry: IndexEntry, in segment: Segment) -> (now: Bool, isChecked: Bool) {
        guard !isKnown(entry) else { return (true, true) }
        guard settings.residency.isInMemory(Self.headerBytes(of: entry, in: segment)) else {
            noteAway()
            return (false, false)
        }
        // An invalid header means that the record is damaged. The look-up detects and drops it.
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

    /// The bytes of the record's header, fewer if the segment's file was truncated.
    private static func headerBytes(of entry: IndexEntry, in segment: Segment) -> UnsafeRawBufferPointer {
        let start = min(entry.byteOffset, segment.size)
        return UnsafeRawBufferPointer(start: segment.base + start, count: min(RecordHeader.bytes, segment.size - start))
    }
}

/// Passes bytes and the object that owns them to another thread. `@unchecked Sendable` because stored bytes never change.
private struct HeldBytes: @unchecked Sendable {
    let bytes: UnsafeRawBufferPointer
    let owner: AnyObject
}
