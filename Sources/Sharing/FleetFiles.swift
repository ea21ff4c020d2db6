// A node's files beside its store: the position in the log, and pending purges.

import CSystem
import CacheStore
import Fleet
import Glibc
import HTTPCore
import Reactor
import ResponseCache

struct FleetFiles: Sendable {
    private let directory: String
    private let position: String
    private let pending: String
    /// File with the pending purges of a replaced process. Its successor reads them.
    private let left: String
    private let taken: String
    private let exclusions: String

    init(beside store: StoreLocation) {
        directory = store.directory
        (position, pending) = (store.path(of: "fleet-position"), store.path(of: "fleet-pending"))
        (left, taken) = (store.path(of: "fleet-pending-left"), store.path(of: "fleet-pending-taken"))
        exclusions = store.path(of: "fleet-exclusions")
    }

    /// Returns the stored position and when it was written (milliseconds of the wall clock); nil if unknown.
    func keptPosition() -> (kept: KeptPosition, time: Int64)? {
        guard let bytes = Self.read(position), let kept = KeptPosition(bytes: bytes) else { return nil }
        var status = stat()
        guard stat(position, &status) == 0 else { return nil }
        return (kept, Int64(status.st_mtim.tv_sec) * 1_000 + Int64(status.st_mtim.tv_nsec) / 1_000_000)
    }

    func keep(_ kept: KeptPosition) -> Bool { Self.write(kept.bytes, to: position) }

    func pendingPurges() -> [PendingMessage] { Self.read(pending).map(PendingContent.messages) ?? [] }

    /// - Parameter isLeft: true if another process has taken over and writes the other file.
    func keep(pending purges: [PendingMessage], isLeft: Bool = false) -> Bool {
        let path = isLeft ? left : pending
        guard !purges.isEmpty else { return unlink(path) == 0 || errno == ENOENT }
        return Self.write(PendingContent.bytes(purges), to: path) && isNamed()
    }

    /// Returns the pending purges that earlier processes left. Returns them again until `dropLeftPurges` is called.
    func takeLeftPurges() -> [PendingMessage] {
        let before = Self.read(taken).map(PendingContent.messages) ?? []
        // The former process may still be writing.
        guard rename(left, taken) == 0 else { return before }
        return before + (Self.read(taken).map(PendingContent.messages) ?? [])
    }

    func dropLeftPurges() { unlink(taken) }

    /// Hashes of announced purges of excluded paths; empty if they are unknown.
    func announcedExclusions() -> Set<UInt64> {
        var (rest, hashes): (ArraySlice<UInt8>, Set<UInt64>) = ((Self.read(exclusions) ?? [])[...], [])
        while let hash = rest.takeLittleEndianNumber() { hashes.insert(hash) }
        return hashes
    }

    /// Removes the file if it cannot be written: announcing a purge again is harmless.
    func keep(announcedExclusions hashes: Set<UInt64>) {
        let bytes = hashes.sorted().flatMap { hash in withUnsafeBytes(of: hash.littleEndian) { Array($0) } }
        if hashes.isEmpty || !Self.write(bytes, to: exclusions) { unlink(exclusions) }
        _ = isNamed()
    }

    /// Files that exist but are damaged.
    var unreadable: [(path: String, isPending: Bool)] {
        [(position, false), (pending, true), (left, true), (taken, true)].filter { access($0.0, F_OK) == 0 && Self.read($0.0) == nil }
    }

    /// Reads a checksum and the content after it. Returns nil if the file is damaged or missing.
    private static func read(_ path: String) -> [UInt8]? {
        guard let bytes = FileContent.read(path, limit: 8 + PendingContent.limitBytes, .regular), bytes.count >= 8 else { return nil }
        let content = Array(bytes[8...])
        return Array(bytes[..<8]) == checksum(content) ? content : nil
    }

    private static func checksum(_ content: [UInt8]) -> [UInt8] {
        withUnsafeBytes(of: ContentHash.number(of: content.span).littleEndian) { Array($0) }
    }

    private static func write(_ content: [UInt8], to path: String) -> Bool {
        // During a take-over both processes may write.
        WholeWrite.replace(path, with: checksum(content) + content, draft: "\(path).\(getpid())")
    }

    /// Flushes the directory, so that a power loss does not restore the previous file. Some file systems do not support this (EINVAL).
    private func isNamed() -> Bool {
        let descriptor = Descriptor(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
        return descriptor.isOpen && (fsync(descriptor.number) == 0 || errno == EINVAL)
    }
}
