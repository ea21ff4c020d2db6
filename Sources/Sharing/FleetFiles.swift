// What a node keeps beside its store: how far the store has obeyed the log, and the purges that no replica of the engine is known to have.

import CSystem
import Descriptors
import Fleet
import Glibc
import HTTPCore
import Hashing
import ResponseCache

struct FleetFiles: Sendable {
    private let position: String
    private let pending: String
    /// Pending purges of a process that another one has taken over from while they waited: that one reads them when this one has ended.
    private let left: String
    private let taken: String

    init(beside store: StorePlace) {
        (position, pending) = (store.path(of: "fleet-position"), store.path(of: "fleet-pending"))
        (left, taken) = (store.path(of: "fleet-pending-left"), store.path(of: "fleet-pending-taken"))
    }

    /// How far the store had come, and when that was last written (milliseconds of the clock of day); nil where it is not known.
    func keptPosition() -> (kept: KeptPosition, time: Int64)? {
        guard let bytes = Self.read(position), let kept = KeptPosition(bytes: bytes) else { return nil }
        var status = stat()
        guard stat(position, &status) == 0 else { return nil }
        return (kept, Int64(status.st_mtim.tv_sec) * 1_000 + Int64(status.st_mtim.tv_nsec) / 1_000_000)
    }

    func keep(_ kept: KeptPosition) -> Bool { Self.write(kept.bytes, to: position) }

    /// What each purge says, in the order in which they were asked for.
    func pendingPurges() -> [[LogMessage]] {
        guard let bytes = Self.read(pending) else { return [] }
        return Self.purges(bytes)
    }

    /// - Parameter isLeft: another process has taken over, and writes down its own.
    func keep(pending purges: [[LogMessage]], isLeft: Bool = false) -> Bool {
        let path = isLeft ? left : pending
        guard !purges.isEmpty else { return unlink(path) == 0 || errno == ENOENT }
        let bytes = purges.flatMap { purge in purge.enumerated().flatMap { Self.bytes($1, goesOn: $0 > 0) } }
        return Self.write(bytes, to: path)
    }

    /// What processes before this one have left. It comes again until `dropLeftPurges`.
    func takeLeftPurges() -> [[LogMessage]] {
        let before = Self.read(taken).map(Self.purges) ?? []
        // Who leaves some may still be at it.
        guard rename(left, taken) == 0 else { return before }
        return before + (Self.read(taken).map(Self.purges) ?? [])
    }

    func dropLeftPurges() { unlink(taken) }

    /// In the second byte. The other is only in those of targets, of which none is soft, so who does not know it reads them as well.
    private static let (softBit, goesOnBit): (UInt8, UInt8) = (1, 2)

    /// - Parameter goesOn: it belongs to the same purge as the one before it.
    private static func bytes(_ message: LogMessage, goesOn: Bool) -> [UInt8] {
        let kind = LogMessage.Kind.allCases.firstIndex(of: message.kind) ?? 0
        return [UInt8(kind), (message.isSoft ? softBit : 0) | (goesOn ? goesOnBit : 0)] + number(message.argument.count) + message.argument
    }

    private static func purges(_ bytes: [UInt8]) -> [[LogMessage]] {
        var purges: [[LogMessage]] = []
        var rest = bytes[...]
        while rest.count >= 10 {
            let (kind, bits) = (Int(rest[rest.startIndex]), rest[rest.startIndex + 1])
            let count = rest.dropFirst(2).prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            rest = rest.dropFirst(10)
            guard count <= UInt64(rest.count), kind < LogMessage.Kind.allCases.count else { break }
            let isSoft = bits & softBit != 0
            let message = LogMessage(LogMessage.Kind.allCases[kind], argument: Array(rest.prefix(Int(count))), isSoft: isSoft)
            if bits & goesOnBit != 0, !purges.isEmpty { purges[purges.count - 1].append(message) } else { purges.append([message]) }
            rest = rest.dropFirst(Int(count))
        }
        return purges
    }

    private static func number(_ number: Int) -> [UInt8] { withUnsafeBytes(of: UInt64(number).littleEndian) { Array($0) } }

    // MARK: Files

    /// A checksum, then what was written; nil where that is not so.
    private static func read(_ path: String) -> [UInt8]? {
        guard let bytes = FileContent.read(path, limit: 64 << 20, .regular), bytes.count >= 8 else { return nil }
        let content = Array(bytes[8...])
        return Array(bytes[..<8]) == checksum(content) ? content : nil
    }

    private static func checksum(_ content: [UInt8]) -> [UInt8] {
        withUnsafeBytes(of: content.withUnsafeBytes(ContentHash.number).littleEndian) { Array($0) }
    }

    /// All of it, or what was there before.
    private static func write(_ content: [UInt8], to path: String) -> Bool {
        let draft = path + ".new"
        let file = Descriptor(open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
        let whole = checksum(content) + content
        guard file.isOpen, whole.withUnsafeBytes({ WholeWrite.write($0, to: file.number) }) == whole.count, fsync(file.number) == 0 else {
            return false
        }
        return rename(draft, path) == 0
    }
}
