// How large the store is and where it lies, and what the caller puts in and gets out.

import CSystem
import Descriptors
import Glibc

public struct StoreSettings: Sendable {
    /// The directory; made where it is missing.
    public var directory: String
    /// Exact limit on all files in the directory together.
    public var capacityBytes: Int
    /// Size of one segment file. By default a thirty-second part of the capacity, between 1 and 64 MiB; items larger than one are refused.
    public var segmentBytes: Int
    /// Whether the proxy is not to run without: then what cannot be written to or read does not open.
    public var isRequired = false
    /// What may wait to be written; beyond it new items are dropped. Bounds memory when the disk is slower than the upstream.
    public var pendingLimitBytes = 64 << 20
    /// So long new responses wait for others to be written with, 256 KiB at most (`WriterQueue.gatheredBytes`): a crash of the process costs no more
    /// than these.
    var gatheringMilliseconds = 5
    /// Gives a new file all its blocks; returns an error's number or 0.
    var allocate: @Sendable (_ descriptor: Int32, _ bytes: Int) -> Int32 = { csystem_allocate($0, $1) }
    /// Writes all of `bytes`. Returns an errno, or 0.
    var write: @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int32 = { descriptor, bytes, offset in
        guard WholeWrite.write(bytes, to: descriptor, at: offset) != bytes.count else { return 0 }
        return errno == 0 ? EIO : errno
    }
    /// Free space of the directory's file system; nil if unknown.
    var room: @Sendable (_ directory: String) -> DiskRoom? = { DiskRoom.read($0) }
    /// Milliseconds of the wall clock.
    var now: @Sendable () -> Int64 = { StoreWriter.milliseconds(CLOCK_REALTIME) }
    /// Interval between write attempts while the disk refuses writes. 0 leaves them to `tryAgain`.
    var retryMilliseconds = 1_000
    /// Whether what is stored is in memory; the tests have one of their own.
    public var residency: any Residency = PageResidency()
    /// Puts a coding on content (`NewItem.wantedCoding`), on the writer's queue; nil where nothing is won.
    public var encode: (@Sendable (_ content: UnsafeRawBufferPointer, _ coding: UInt8) -> [UInt8]?)?
    /// Called from the writer's queue when the disk starts to refuse writes, once a minute while it does, and when it accepts them again.
    public var whenWriting: (@Sendable (WritingEvent) -> Void)?

    public init(directory: String, capacityBytes: Int, segmentBytes: Int? = nil) {
        self.directory = directory
        self.capacityBytes = capacityBytes
        self.segmentBytes = segmentBytes ?? min(64 << 20, max(1 << 20, capacityBytes / 32))
    }

    /// Limits that follow from the settings alone.
    struct Sizes: Equatable {
        let segmentBytes: Int
        /// Limit on all segments. The difference from the capacity is kept for the index snapshot.
        let limitBytes: Int
    }

    var sizes: Sizes { Sizes(segmentBytes: segmentBytes, limitBytes: max(capacityBytes - snapshotBytes, 2 * segmentBytes)) }
    /// Limit on all segments while there is no index snapshot. The key and the reserve always exist.
    var segmentsBytes: Int { capacityBytes - StoreDirectory.keyBytes - MarkReserve.bytes }
    /// The snapshot of the index counts too, so a part of the capacity is kept for it.
    var snapshotBytes: Int { capacityBytes / 16 }

    /// Whether the oldest segment must be evicted before a new one.
    /// - Parameter size: size of the new segment.
    func isFull(_ segments: SegmentList, adding size: Int) -> Bool {
        segments.count > 1 && segments.bytes + size > min(sizes.limitBytes, segmentsBytes)
    }
}

/// Why a store cannot be opened. Everything else (read-only, full, damaged) opens and says so in its statistics.
public enum StoreError: Error, CustomStringConvertible {
    case lockedByAnotherProcess(String)
    case tooSmall
    /// What another process has handed over belongs to another directory.
    case otherDirectory(String)
    /// It cannot be gone on with.
    case notHandedOver(String)
    /// Other users can change what is stored there.
    case unsafe(DirectoryFault)
    /// It is required (`StoreSettings.isRequired`).
    case unusable(String, reason: String)

    public var description: String {
        switch self {
        case .unsafe(let fault): fault.description
        case .unusable(let directory, let reason): "the cache directory \(directory) \(reason), and store.required is true"
        case .lockedByAnotherProcess(let directory): "another process, perhaps another Cistern, uses the cache directory \(directory)"
        case .otherDirectory(let directory): "the running process keeps its responses in another cache directory than \(directory)"
        case .notHandedOver(let directory): "what the running process has handed over does not fit the cache directory \(directory)"
        case .tooSmall: "the cache size must be at least 4 MiB"
        }
    }
}

/// What becomes of an item when its segment is evicted.
public enum Retention: UInt8, Sendable {
    /// It is kept where it was used since it was written.
    case whenUsed = 0
    /// So it is, and before those: it could still stand in for a failing upstream.
    case mayRescue = 1
    /// It is kept once in any case, a tombstone: it removes what was written before it, and that may have been kept once as well. The writer makes
    /// room for it where the disk has none, and where it cannot be written at all it counts from memory.
    case outlives = 2
    /// It is always kept, and written like the one before: the few bytes without which what else is stored would not be looked at.
    case always = 3

    var isNeeded: Bool { self == .outlives || self == .always }
}

/// What is to be stored. The store does not look into any of it.
public struct NewItem: Sendable {
    public var key: [UInt8]
    public var metadata: [UInt8]
    public var head: [UInt8]
    public var body: ItemBody
    /// The coding that the writer is to put on a content without one; 0 for none. What it means, the caller knows.
    public var wantedCoding: UInt8
    public var retention: Retention

    public init(key: [UInt8], metadata: [UInt8], head: [UInt8], body: [UInt8], retention: Retention) {
        self.init(key: key, metadata: metadata, head: head, body: .bytes(body), retention: retention)
    }

    public init(key: [UInt8], metadata: [UInt8], head: [UInt8], body: ItemBody, wantedCoding: UInt8 = 0, retention: Retention) {
        self.key = key
        self.metadata = metadata
        self.head = head
        self.body = body
        self.wantedCoding = wantedCoding
        self.retention = retention
    }

    var payloadBytes: Int { key.count + metadata.count + head.count + body.count }
}

/// In which form a content lies in the store.
public struct ContentForm: Sendable, Equatable {
    /// The caller's number of the coding that is on it; 0 for none.
    public let coding: UInt8
    /// The content's length without it.
    public let plainBytes: Int

    public init(coding: UInt8, plainBytes: Int) { (self.coding, self.plainBytes) = (coding, plainBytes) }

    public static func plain(_ count: Int) -> ContentForm { ContentForm(coding: 0, plainBytes: count) }
}

/// An item's content. `@unchecked Sendable` because what is stored never changes.
public enum ItemBody: @unchecked Sendable {
    case bytes([UInt8])
    /// As it came, with a coding on it.
    case coded([UInt8], ContentForm)
    /// The same that another item has: it is read when it is written, which may mean to wait for the disk.
    case stored(UnsafeRawBufferPointer, ContentForm, owner: AnyObject)

    /// As it lies there.
    public var count: Int {
        switch self {
        case .bytes(let bytes), .coded(let bytes, _): bytes.count
        case .stored(let bytes, _, _): bytes.count
        }
    }

    /// As it lies there; what another item has is read, which may mean to wait for the disk.
    public func withBytes(_ body: (UnsafeRawBufferPointer) -> Void) {
        switch self {
        case .bytes(let bytes), .coded(let bytes, _): bytes.withUnsafeBytes(body)
        case .stored(let bytes, _, let owner): withExtendedLifetime(owner) { body(bytes) }
        }
    }

    public var form: ContentForm {
        switch self {
        case .bytes(let bytes): .plain(bytes.count)
        case .coded(_, let form), .stored(_, let form, _): form
        }
    }
}

public enum InsertResult: Sendable, Equatable {
    case accepted
    /// Larger than a segment.
    case tooLarge
    /// Too much waits to be written already.
    case busy
    /// The directory cannot be written to, or the disk refuses writes.
    case unwritable
    /// What was seen under the key is not there any more.
    case changed
}

/// A stored item. The pointers are good for as long as `owner` is held.
public struct StoredItem {
    public let metadata: UnsafeRawBufferPointer
    public let head: UnsafeRawBufferPointer
    /// As it lies there.
    public let body: UnsafeRawBufferPointer
    public let form: ContentForm
    /// No other content ever has the same number, as long as the process lives.
    public let contentNumber: UInt64
    /// It was purged softly: stale, whatever its metadata say.
    public let isMarkedStale: Bool
    /// What `ResponseStore.setNote` said of it.
    public let note: UInt32
    public let owner: AnyObject

    /// The same with another head.
    public func replacingHead(_ head: [UInt8]) -> StoredItem {
        head.withUnsafeBytes { replacingHead(HeldHead($0, base: (owner as? HeldHead)?.base ?? owner)) }
    }

    /// The same with a head that is always in memory: for one who keeps it while the upstream is asked. Until then the file's pages may be gone.
    public var holdingHead: StoredItem { owner is HeldHead ? self : replacingHead(HeldHead(head, base: owner)) }

    private func replacingHead(_ held: HeldHead) -> StoredItem {
        StoredItem(
            metadata: metadata, head: held.bytes, body: body, form: form, contentNumber: contentNumber, isMarkedStale: isMarkedStale,
            note: note, owner: held)
    }
}

/// A head that does not lie in the store, and what the rest of its item lies in.
final class HeldHead {
    let bytes: UnsafeRawBufferPointer
    let base: AnyObject

    init(_ head: UnsafeRawBufferPointer, base: AnyObject) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: head.count, alignment: 1)
        copy.copyMemory(from: head)
        bytes = UnsafeRawBufferPointer(copy)
        self.base = base
    }

    deinit { bytes.deallocate() }
}

/// What lay under a key at one moment, for those who put something there only if that still does.
public struct SeenItem {
    /// nil where nothing did that can be read.
    public let item: StoredItem?
    let place: Place

    /// Where it lay. What waits to be written is held by `item`, so its name is not another's meanwhile.
    enum Place: Equatable {
        case nowhere
        case pending(ObjectIdentifier)
        case segment(UInt64, offset: UInt32)
    }
}

public struct StoreStatistics: Sendable {
    /// Bytes of all segment files.
    public var fileBytes = 0
    public var capacityBytes = 0
    public var entries = 0
    public var pendingBytes = 0
    /// Whether new items are accepted: false while the disk refuses writes.
    public var isWritable: Bool { canOpen && refusal == nil }
    /// Whether the directory could be opened for writing. Marks are written even while new items are refused.
    public var canOpen = true
    /// The failed write that makes the store refuse new items; nil while it accepts them.
    public var refusal: WriteFault?
    /// The last periods in which new items were refused, oldest first.
    public var refusals: [RefusalPeriod] = []
    /// Maximum bytes of all segments: less than the capacity on a small disk.
    public var roomBytes = 0
    /// The largest record that fits into a segment.
    var recordLimit = Int.max
    public var inserted = 0
    public var evicted = 0
    public var replaced = 0
    public var invalidated = 0
    public var damaged = 0
    public var reinserted = 0
    /// Items that a request needed and that were read from the disk first.
    public var broughtIn = 0
    /// Of these, reads that have not ended.
    public var diskReadsWaiting = 0
    /// Items dropped because too much waited.
    public var dropped = 0
    /// Failed writes, by cause in the order of `WriteFault.Cause.allCases`.
    public var writeErrorsByCause = [Int](repeating: 0, count: WriteFault.Cause.allCases.count)
    public var writeErrors: Int { writeErrorsByCause.reduce(0, +) }
    public var encoded = EncodedCounts()
    public var opening = StoreOpening()

    public init() {}

    /// The last failed write that made the store refuse new items in this period.
    /// - Parameter time: milliseconds of the wall clock.
    public func refusal(in time: ClosedRange<Int64>) -> WriteFault? {
        refusals.last { $0.start <= time.upperBound && time.lowerBound <= $0.end ?? .max }?.fault
    }

    mutating func count(_ fault: WriteFault) {
        if let place = WriteFault.Cause.allCases.firstIndex(of: fault.cause) { writeErrorsByCause[place] += 1 }
    }

    /// Maximum number of `refusals`.
    private static let refusalLimit = 16

    mutating func refuse(_ fault: WriteFault, at time: Int64) {
        guard refusal != fault else { return }
        accept(at: time)
        refusal = fault
        refusals.append(RefusalPeriod(fault: fault, start: time))
        if refusals.count > Self.refusalLimit { refusals.removeFirst() }
    }

    mutating func accept(at time: Int64) {
        guard refusal != nil else { return }
        refusal = nil
        refusals[refusals.count - 1].end = time
    }
}

/// Contents that the writer put a coding on.
public struct EncodedCounts: Sendable {
    public var contents = 0
    /// Before, and after.
    public var plainBytes = 0
    public var codedBytes = 0

    mutating func add(_ more: EncodedCounts) {
        contents += more.contents
        plainBytes += more.plainBytes
        codedBytes += more.codedBytes
    }
}

/// What was found when the store was opened.
public struct StoreOpening: Sendable {
    public var entries = 0
    public var milliseconds = 0
    public var isFromSnapshot = false
    /// Something was stored, but not under the key that there is now: the old one was missing or damaged, and so nothing can be read.
    public var hasLostKey = false
    /// There are records, and not one that can be read with the key that there is: it is another directory's, or was changed.
    public var hasForeignRecords = false
    /// Others than its owner may read the key.
    public var hasOpenKey = false
    /// Places in the files, and files that are missing or shorter than they were, where something may have been that took something back. What was
    /// stored before the last of them counts as stale.
    public var damagedPlaces = 0
    /// Why the directory cannot be written to (errno), as it was at the start; 0 where it could.
    public var error: Int32 = 0

    /// What keeps it from doing all that a store is for, in words; nil where nothing does.
    var whyUnusable: String? {
        if error != 0 { return "cannot be written to (\(SystemError.words(error)))" }
        if hasLostKey { return "has lost its file key, or it is damaged: nothing of what was kept can be read" }
        return hasForeignRecords ? "holds nothing that can be read: it was kept under another key than that in the file key" : nil
    }
}
