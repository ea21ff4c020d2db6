// Why the store cannot write: the cause, the system's error text, and the duration.

import Glibc
import Reactor

/// A failed write to the cache directory.
public struct WriteFault: Error, Sendable, Equatable {
    public enum Cause: String, Sendable, CaseIterable {
        case noSpace = "no_space"
        case noInodes = "no_inodes"
        case quota
        case readOnly = "read_only"
        case ioError = "io_error"
        /// The directory or a file in it was deleted, moved or replaced while the store was open.
        case removed
        /// Missing permission, or another failure of the file system.
        case other

        public var words: String {
            switch self {
            case .noSpace: "its disk is full"
            case .noInodes: "its file system has no inodes left"
            case .quota: "the disk quota of this user is used up"
            case .readOnly: "its file system is read-only"
            case .ioError: "its disk reports input/output errors"
            case .removed: "it or a file in it was removed or replaced"
            case .other: "its file system refuses writes"
            }
        }

        /// Advice for the operator.
        public var advice: String {
            switch self {
            case .noSpace: "free disk space, or move the cache directory to a larger disk"
            case .noInodes: "delete files that are not needed, or use a file system with more inodes"
            case .quota: "raise the quota of this user"
            case .readOnly: "check the kernel log for the reason, then remount the file system read-write"
            case .ioError: "check the kernel log, and replace the disk"
            case .removed: "responses in removed files are lost at the next restart, which also makes a removed admin socket again"
            case .other: "check the permissions of the cache directory"
            }
        }
    }

    public let cause: Cause
    /// errno.
    public let code: Int32
    /// Path of the file that could not be written.
    public let path: String

    /// - Parameter diskSpace: free space of the file system. It distinguishes missing inodes from missing blocks.
    init(_ code: Int32, path: String, diskSpace: DiskSpace?) {
        self.code = code
        self.path = path
        cause =
            switch code {
            case ENOSPC: diskSpace?.hasNoInodes == true ? .noInodes : .noSpace
            case EDQUOT: .quota
            case EROFS: .readOnly
            case EIO: .ioError
            case ENOENT, EBUSY: .removed
            default: .other
            }
    }

    /// The operating system's text for `code`.
    public var systemText: String { SystemError.words(code) }

    /// Text that follows "cannot be written to: ".
    public var text: String { "\(cause.words) (\(path): \(systemText))" }
}

/// A period in which the store refused new items.
public struct RefusalPeriod: Sendable {
    public let fault: WriteFault
    /// Milliseconds of the wall clock.
    public let start: Int64
    /// End of the period; nil while it lasts.
    public var end: Int64?
}

/// An event of the writer's queue.
public enum WritingEvent: Sendable, Equatable {
    /// The first failure; repeated once a minute while it lasts.
    case failing(WriteFault, seconds: Int64)
    case recovered(WriteFault, seconds: Int64)
    /// The disk is too small for the configured size, so the store is limited to this many bytes.
    case limited(usableBytes: Int)
}

/// Free space of a file system.
public struct DiskSpace: Sendable, Equatable {
    /// Bytes that this user can still write.
    public var freeBytes: Int
    public var totalBytes: Int
    public var hasNoInodes: Bool

    public init(freeBytes: Int, totalBytes: Int, hasNoInodes: Bool = false) {
        (self.freeBytes, self.totalBytes, self.hasNoInodes) = (freeBytes, totalBytes, hasNoInodes)
    }

    /// Returns nil if the system does not report it.
    public static func read(_ directory: String) -> DiskSpace? {
        var system = statvfs()
        guard statvfs(directory, &system) == 0, system.f_blocks > 0 else { return nil }
        let block = Int(clamping: system.f_frsize)
        func bytes(_ blocks: fsblkcnt_t) -> Int { Int(clamping: blocks).multipliedReportingOverflow(by: block).partialValue }
        return DiskSpace(
            freeBytes: bytes(system.f_bavail), totalBytes: bytes(system.f_blocks),
            hasNoInodes: system.f_files > 0 && system.f_favail == 0)
    }

    /// Bytes that a growing store leaves to other programs, such as logs on the disk.
    var headroomBytes: Int { min(totalBytes / 32, 64 << 20) }
}

/// Size of the next segment, on a disk that may have less space than the settings allow.
struct SegmentPlan: Equatable {
    /// Bytes that the store may use on this disk.
    let usableBytes: Int
    /// Whether the disk allows less than the settings do.
    let isLimited: Bool
    /// The largest record that can be stored.
    let recordLimit: Int
    private let settings: StoreSettings.Sizes

    /// Minimum number of segments of a store on a small disk, so that one eviction removes a small part.
    private static let parts = 8
    /// Divisor of the store's size for the largest segment.
    private static let largestParts = 4
    static let leastBytes = 128 << 10
    private static let granularity = 64 << 10

    /// - Parameters:
    ///   - held: bytes of the store's segments, including evicted ones with files on the disk.
    ///   - count: number of those segments.
    ///   - diskSpace: free space of the file system; nil if unknown.
    init(_ settings: StoreSettings.Sizes, held: Int, count: Int, diskSpace: DiskSpace?) {
        self.settings = settings
        let growth = Self.growth(diskSpace, count: count) ?? .max
        let bytes = min(settings.limitBytes, held.addingReportingOverflow(growth).overflow ? .max : held + growth)
        usableBytes = bytes
        isLimited = bytes < settings.limitBytes
        // On a full disk no record is too large: the writer reports the full disk instead.
        let isNone = bytes < Self.leastBytes
        recordLimit = isLimited && !isNone ? Self.largestSegment(settings, bytes) - RecordHeader.bytes : settings.segmentBytes
    }

    /// Bytes by which the store may grow; nil if unknown.
    /// - Parameter count: number of segments. The first two may use all free space.
    static func growth(_ diskSpace: DiskSpace?, count: Int) -> Int? {
        diskSpace.map { max(0, $0.freeBytes - (count < 2 ? 0 : $0.headroomBytes)) }
    }

    private static func largestSegment(_ settings: StoreSettings.Sizes, _ usableBytes: Int) -> Int {
        min(settings.segmentBytes, max(rounded(usableBytes / largestParts), leastBytes))
    }

    static func rounded(_ bytes: Int) -> Int { bytes / granularity * granularity }

    /// Size of the next segment for a record of this size; nil if the disk has no space for it.
    func segmentBytes(for record: Int) -> Int? {
        guard isLimited else { return record <= settings.segmentBytes ? settings.segmentBytes : nil }
        guard record + RecordHeader.bytes <= settings.segmentBytes else { return nil }
        let least = min(settings.segmentBytes, max(Self.leastBytes, Self.leastSegment(for: record)))
        let largest = Self.largestSegment(settings, usableBytes)
        guard least <= largest, least <= usableBytes else { return nil }
        return min(largest, max(least, Self.rounded(usableBytes / Self.parts)))
    }

    /// Minimum size of a segment that holds this record and the record of the segment's size.
    static func leastSegment(for record: Int) -> Int { (record + RecordHeader.bytes + granularity - 1) / granularity * granularity }
}
