// Settings and statistics of the store, and the types of items that callers insert and receive.

import CSystem
import Glibc
import Reactor

public struct StoreSettings: Sendable {
    /// Path of the directory; created if missing.
    public var directory: String
    /// Limit on the total size of all files in the directory, in bytes.
    public var capacityBytes: Int
    /// Size of a segment file in bytes. Items larger than a segment are refused. Defaults to a thirty-second of the capacity, between 1 and
    /// 64 MiB.
    public var segmentBytes: Int
    /// Whether the proxy requires the store. If the directory cannot be read and written at the start, opening it fails.
    public var isRequired = false
    /// Maximum bytes of items that wait to be written; new items above it are dropped. Limits memory when the disk is slower than the
    /// upstream.
    public var pendingLimitBytes = 64 << 20
    /// Time for which new responses are collected before they are written together, up to `WriterQueue.gatheredBytes` (256 KiB). A crash
    /// of the process loses only responses that are still being collected.
    var gatheringMilliseconds = 5
    /// Maximum time for which changed notes are kept in memory only (`ResponseStore.setNote`). Each note is written at most once in it.
    public var noteMilliseconds = 60_000
    /// Creates all blocks of a new file. Returns an errno; 0 on success.
    var allocate: @Sendable (_ descriptor: Int32, _ bytes: Int) -> Int32 = { csystem_allocate($0, $1) }
    /// Writes all of `bytes`. Returns an errno; 0 on success.
    var write: @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int32 = { descriptor, bytes, offset in
        guard WholeWrite.write(bytes, to: descriptor, at: offset) != bytes.count else { return 0 }
        return errno == 0 ? EIO : errno
    }
    /// Free space of the directory's file system; nil if unknown.
    var diskSpace: @Sendable (_ directory: String) -> DiskSpace? = { DiskSpace.read($0) }
    /// Milliseconds of the wall clock.
    var now: @Sendable () -> Int64 = { StoreWriter.milliseconds(CLOCK_REALTIME) }
    /// Interval between write attempts while the disk refuses writes. 0 leaves them to `tryAgain`.
    var retryMilliseconds = 1_000
    /// Determines whether stored items are in memory. Tests replace it.
    public var residency: any Residency = PageResidency()
    /// Encodes content with a coding (`NewItem.wantedCoding`), on the encoder's queue. Returns nil if the result is not smaller; nil
    /// disables encoding.
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
        /// Limit on all segments. The rest of the capacity is reserved for the index snapshot.
        let limitBytes: Int
    }

    var sizes: Sizes { Sizes(segmentBytes: segmentBytes, limitBytes: max(capacityBytes - snapshotBytes, 2 * segmentBytes)) }
    /// Limit on all segments while there is no index snapshot. Excludes the key and the reserve, which always exist.
    var segmentsBytes: Int { capacityBytes - StoreDirectory.keyBytes - MarkReserve.bytes }
    /// Maximum size of the index snapshot in bytes. The snapshot counts towards the capacity.
    var snapshotBytes: Int { capacityBytes / 16 }

    /// Whether the oldest segment must be evicted before a new one.
    /// - Parameter size: size of the new segment.
    func isFull(_ segments: SegmentList, adding size: Int) -> Bool {
        segments.count > 1 && segments.bytes + size > min(sizes.limitBytes, segmentsBytes)
    }
}

/// Why a store cannot be opened. A read-only, full or damaged store opens and reports its state in the statistics, unless it is required.
public enum StoreError: Error, CustomStringConvertible {
    case lockedByAnotherProcess(String)
    case tooSmall
    /// The store that another process handed over belongs to another directory.
    case otherDirectory(String)
    /// The store that another process handed over does not match the directory's files.
    case notHandedOver(String)
    /// A file of the store that another process handed over exists, and cannot be read.
    case unreadable(String, code: Int32)
    /// Other users can change stored responses.
    case unsafe(DirectoryFault)
    /// The store is required (`StoreSettings.isRequired`) and not fully usable.
    case unusable(String, reason: String)

    public var description: String {
        switch self {
        case .unsafe(let fault): fault.description
        case .unusable(let directory, let reason): "the cache directory \(directory) \(reason), and store.required is true"
        case .lockedByAnotherProcess(let directory):
            "another process, perhaps another Cistern, uses the cache directory \(directory): stop it, or set another store.directory"
        case .otherDirectory(let directory): "the running process uses another cache directory than \(directory)"
        case .notHandedOver(let directory): "the store of the running process does not match the cache directory \(directory)"
        case .unreadable(let path, let code): "cannot read \(path) of the running process's store: \(SystemError.words(code))"
        case .tooSmall: "the store must have a size of at least 4 MiB"
        }
    }
}

/// How an item is handled when its segment is evicted.
public enum Retention: UInt8, Sendable {
    /// The item is kept if it was used after it was written.
    case whenUsed = 0
    /// The item is kept if it was used, and has priority over `whenUsed` items, because it can rescue a request when the upstream fails.
    case mayRescue = 1
    /// A tombstone. Eviction keeps it once, used or not, because the older items that it removes may have been kept once too. On a full
    /// disk the writer makes space for it. If it cannot be written, it takes effect in memory.
    case outlives = 2
    /// The item is always kept, and written with the priority of a tombstone. For a few bytes without which other stored items could not
    /// be found.
    case always = 3

    var isNeeded: Bool { self == .outlives || self == .always }
}

/// An item to be stored. The store does not interpret its parts.
public struct NewItem: Sendable {
    public var key: [UInt8]
    public var metadata: [UInt8]
    public var head: [UInt8]
    public var body: ItemBody
    /// The coding to apply to the content if it has none; 0 for none. The caller defines the numbers.
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

/// The form of a stored content.
public struct ContentForm: Sendable, Equatable {
    /// Number of the content's coding, defined by the caller; 0 for none.
    public let coding: UInt8
    /// Length in bytes of the content without the coding.
    public let plainBytes: Int

    public init(coding: UInt8, plainBytes: Int) { (self.coding, self.plainBytes) = (coding, plainBytes) }

    public static func plain(_ count: Int) -> ContentForm { ContentForm(coding: 0, plainBytes: count) }
}

/// An item's content. `@unchecked Sendable` because stored bytes never change.
public enum ItemBody: @unchecked Sendable {
    case bytes([UInt8])
    /// Content that is already encoded.
    case coded([UInt8], ContentForm)
    /// The content of another stored item. It is read when the new item is written, which may block on the disk.
    case stored(UnsafeRawBufferPointer, ContentForm, owner: AnyObject)

    /// Length in bytes of the stored form.
    public var count: Int {
        switch self {
        case .bytes(let bytes), .coded(let bytes, _): bytes.count
        case .stored(let bytes, _, _): bytes.count
        }
    }

    /// Calls `body` with the stored form. Reading the content of another item may block on the disk.
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
    /// The item is larger than a segment.
    case tooLarge
    /// Too many items wait to be written.
    case busy
    /// The directory cannot be written to, or the disk refuses writes.
    case unwritable
    /// The item under the key changed since `see`.
    case changed
}

/// A stored item. The pointers are valid while `owner` is retained.
public struct StoredItem {
    public let metadata: UnsafeBufferPointer<UInt8>
    public let head: UnsafeBufferPointer<UInt8>
    /// The content in its stored form.
    public let body: UnsafeRawBufferPointer
    public let form: ContentForm
    /// Identifies the content; unique during the lifetime of the process.
    public let contentNumber: UInt64
    /// Whether the item was marked as stale, regardless of its metadata.
    public let isMarkedStale: Bool
    /// The number set by `ResponseStore.setNote`; 0 for none.
    public let note: UInt32
    public let owner: AnyObject

    /// Returns the item with another head.
    public func replacingHead(_ head: [UInt8]) -> StoredItem {
        head.withUnsafeBufferPointer { replacingHead(HeldHead($0, base: (owner as? HeldHead)?.base ?? owner)) }
    }

    /// Returns the item with a copy of its head on the heap. Used for a fetch, during which the file's pages may be reclaimed.
    public var holdingHead: StoredItem { owner is HeldHead ? self : replacingHead(HeldHead(head, base: owner)) }

    private func replacingHead(_ held: HeldHead) -> StoredItem {
        StoredItem(
            metadata: metadata, head: held.bytes, body: body, form: form, contentNumber: contentNumber, isMarkedStale: isMarkedStale,
            note: note, owner: held)
    }
}

/// A head outside the store, with the owner of the item's other parts.
final class HeldHead {
    let bytes: UnsafeBufferPointer<UInt8>
    let base: AnyObject

    init(_ head: UnsafeBufferPointer<UInt8>, base: AnyObject) {
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: head.count)
        _ = copy.initialize(fromContentsOf: head)
        bytes = UnsafeBufferPointer(copy)
        self.base = base
    }

    deinit { bytes.deallocate() }
}

/// The state of a key at one moment. Used to insert an item only if that state has not changed.
public struct SeenItem {
    /// The item under the key; nil if there was none that could be read.
    public let item: StoredItem?
    let position: Position

    /// Position of the item. `SeenItem.item` retains a pending item, so that its identifier is not reused.
    enum Position: Equatable {
        case nowhere
        case pending(ObjectIdentifier)
        case segment(UInt64, offset: UInt32)

        /// - Parameters:
        ///   - pending: the waiting item under the key; nil if none waits.
        ///   - entry: the key's entry in the index; nil if there is none.
        init(_ pending: PendingItem?, _ entry: IndexEntry?) {
            self = pending.map { .pending(ObjectIdentifier($0)) } ?? entry.map { .segment($0.segment, offset: $0.offset) } ?? .nowhere
        }
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
    /// Maximum bytes of all segments: the capacity, or less on a disk with little space.
    public var usableBytes = 0
    /// Maximum size of a record in bytes on this disk.
    var recordLimit = Int.max
    public var inserted = 0
    public var evicted = 0
    public var replaced = 0
    public var invalidated = 0
    public var damaged = 0
    public var reinserted = 0
    /// Number of reads from disk by the dedicated threads.
    public var loaded = 0
    /// Number of these reads that are in progress.
    public var diskReadsWaiting = 0
    /// Number of items that were dropped because too many were waiting.
    public var dropped = 0
    /// Failed writes, by cause in the order of `WriteFault.Cause.allCases`.
    public var writeErrorsByCause = [Int](repeating: 0, count: WriteFault.Cause.allCases.count)
    public var writeErrors: Int { writeErrorsByCause.reduce(0, +) }
    public var encoded = EncodedCounts()
    /// Number of changed notes that were written, and of those that wait for it.
    public var notesWritten = 0
    public var notesWaiting = 0
    public var opening = StoreOpening()

    public init() {}

    /// The last failed write that made the store refuse new items in this period.
    /// - Parameter time: milliseconds of the wall clock.
    public func refusal(in time: ClosedRange<Int64>) -> WriteFault? {
        refusals.last { $0.start <= time.upperBound && time.lowerBound <= $0.end ?? .max }?.fault
    }

    mutating func count(_ fault: WriteFault) {
        if let position = WriteFault.Cause.allCases.firstIndex(of: fault.cause) { writeErrorsByCause[position] += 1 }
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

/// Counts of contents that the writer stored encoded.
public struct EncodedCounts: Sendable {
    public var contents = 0
    /// Bytes without and with the coding.
    public var plainBytes = 0
    public var codedBytes = 0

    mutating func add(_ more: EncodedCounts) {
        contents += more.contents
        plainBytes += more.plainBytes
        codedBytes += more.codedBytes
    }
}

/// Results of opening the store.
public struct StoreOpening: Sendable {
    public var entries = 0
    public var milliseconds = 0
    public var isFromSnapshot = false
    /// Number of entries that were deleted because the store exceeded its limit.
    public var overLimit = 0
    /// Segments exist, but the key was missing or damaged and has been replaced. No stored item can be read.
    public var hasLostKey = false
    /// Segments have records, but none can be read with the current key. The key belongs to another directory or was changed.
    public var hasForeignRecords = false
    /// Other users have permissions on the key file.
    public var hasOpenKey = false
    /// Number of positions where a removal or a mark may be lost, including missing and truncated files. Items stored before the last such
    /// position count as stale.
    public var damagedSpans = 0
    /// errno of opening the directory for writing at the start, or of reading `unreadablePath`; 0 on success.
    public var error: Int32 = 0
    /// A file of the store, or the directory, that exists and could not be read. Nothing is then written or deleted, so that a later start
    /// can read it. nil if all could be read.
    public var unreadablePath: String?

    /// Why a required store is unusable, as text; nil if it is usable.
    var whyUnusable: String? {
        if error != 0, let unreadablePath { return "cannot be read (\(unreadablePath): \(SystemError.words(error)))" }
        if error != 0 { return "cannot be written to (\(SystemError.words(error)))" }
        if hasLostKey { return "has a missing or damaged file key, so the stored responses cannot be read" }
        return hasForeignRecords ? "has no readable responses: they were stored with another key than the one in the file key" : nil
    }
}
