// Erases the bytes of removed and replaced items from the disk. A segment file that contains such bytes is replaced by a copy in which they
// are zero. All other records keep their places, so the index, and the order of removals and marks, do not change.

import CSystem
import Dispatch
import Glibc
import Reactor

/// The result of erasing.
public struct ErasedFiles: Sendable, Equatable {
    /// Replaced segment files, and bytes of the records that were erased from them.
    public var files = 0
    public var bytes = 0
    /// Replaced files that are still in use, because responses are being sent from them. Their bytes are freed when that ends.
    public var inUse = 0
}

public enum EraseError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process writes the directory, or is about to.
    case otherProcess
    case notWritable
    /// errno of a failed system call, and its file.
    case failed(code: Int32, path: String)

    public var description: String {
        switch self {
        case .otherProcess: "another process is taking over the cache directory: repeat this when the former process has ended"
        case .notWritable: "the cache directory is not writable"
        case .failed(let code, let path): "\(path): \(SystemError.words(code))"
        }
    }
}

extension ResponseStore {
    /// Name of a copy that is not complete yet. The next start removes it.
    static let copyName = "erasing"

    /// Erases removed and replaced items from the files. Waits for the disk, and must not be called on an event loop.
    /// - Parameters:
    ///   - patience: maximum milliseconds to wait for responses that are being sent from replaced files.
    ///   - isMeant: whether a removed or replaced item with this key must be erased. If a file has one, all of its removed and replaced
    ///     items are erased.
    public func erase(patience: Int = 10_000, where isMeant: (_ key: UnsafeRawBufferPointer) -> Bool) throws(EraseError) -> ErasedFiles {
        guard directory.isWritable else { throw .notWritable }
        writer.writeWaiting(self)
        try writer.finishEvicting(self)
        var (result, replaced): (ErasedFiles, [Segment]) = (ErasedFiles(), [])
        for number in state.withLock({ $0.segments.map(\.number) }) {
            guard let one = try writer.erase(number, of: self, where: isMeant) else { continue }
            result.files += 1
            result.bytes += one.bytes
            replaced.append(one.former)
        }
        guard result.files > 0 else { return result }
        // Remembered results of look-ups refer to the replaced files.
        noteChange()
        result.inUse = Self.overwrite(&replaced, patience: patience, settings)
        return result
    }

    /// Overwrites replaced files that nothing uses any more.
    /// - Returns: the number of files that are still in use.
    private static func overwrite(_ files: inout [Segment], patience: Int, _ settings: StoreSettings) -> Int {
        var waited = 0
        while true {
            for index in files.indices.reversed() where isKnownUniquelyReferenced(&files[index]) {
                files.remove(at: index).overwrite(settings)
            }
            guard !files.isEmpty, waited < patience else { return files.count }
            usleep(20_000)
            waited += 20
        }
    }
}

extension StoreWriter {
    /// Deletes the files of evicted segments. They exist until the kept items are written again.
    func finishEvicting(_ store: ResponseStore) throws(EraseError) {
        let isDone = serial.sync { evicted.isEmpty || makeNewSegment(store) && evicted.isEmpty }
        if !isDone { throw .failed(code: ENOSPC, path: settings.directory) }
    }

    /// Replaces a segment file by a copy without removed and replaced items.
    /// - Returns: nil if the segment has no item that must be erased.
    func erase(
        _ number: UInt64, of store: ResponseStore, where isMeant: (UnsafeRawBufferPointer) -> Bool
    ) throws(EraseError) -> (former: Segment, bytes: Int)? {
        let result: Result<(former: Segment, bytes: Int)?, EraseError> = serial.sync {
            guard !hasPeer, waiting.withLock({ $0.isOurs }) else { return .failure(.otherProcess) }
            writeBuffer(store)
            guard let former = store.state.withLock({ $0.segments[number] }) else { return .success(nil) }
            let erased = removedRecords(in: former, store, where: isMeant)
            guard !erased.isEmpty else { return .success(nil) }
            do throws(Segment.WriteError) {
                let copy = try former.copy(without: erased, settings, seed: seed)
                store.state.withLock { $0.segments.replace(copy) }
                if active === former { active = copy }
                return .success((former, erased.reduce(0) { $0 + $1.header.recordBytes }))
            } catch {
                return .failure(.failed(code: error.code, path: error.path))
            }
        }
        return try result.get()
    }

    /// Returns the items of a segment to which the index does not lead; empty if none of them is meant.
    private func removedRecords(
        in segment: Segment, _ store: ResponseStore, where isMeant: (UnsafeRawBufferPointer) -> Bool
    ) -> [(header: RecordHeader, offset: Int)] {
        var removed: [(header: RecordHeader, offset: Int)] = []
        var isNeeded = false
        SegmentScan.forEachRecord(in: segment, seed: seed) { header, offset in
            // Notes are no removed item, although the index does not lead to them.
            guard header.kind == .item, header.hash != .zero,
                store.state.withLock({ $0.index.find(header.hash)?.leads(to: segment.number, offset) }) != true
            else { return }
            removed.append((header, offset))
            let key = UnsafeRawBufferPointer(start: segment.base + offset + RecordHeader.bytes, count: header.keyBytes)
            isNeeded = isNeeded || isMeant(key)
        }
        return isNeeded ? removed : []
    }
}

extension Segment {
    private static let pieceBytes = 1 << 20

    /// Writes a copy of the file, and gives it the file's name. Returns when both are on the disk.
    /// - Parameter erased: records that the copy does not contain. A removal of an unused key takes the place of each.
    fileprivate func copy(
        without erased: [(header: RecordHeader, offset: Int)], _ settings: StoreSettings, seed: UInt64
    ) throws(WriteError) -> Segment {
        let path = settings.directory + "/" + ResponseStore.copyName
        unlink(path)
        let file = Descriptor(csystem_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard file.isOpen else { throw WriteError(code: errno, path: path) }
        var error = settings.allocate(file.number, size)
        var next = erased[...]
        for start in stride(from: 0, to: size, by: Self.pieceBytes) where error == 0 {
            var piece = try read(start..<min(start + Self.pieceBytes, size))
            while let record = next.first, record.offset < start + piece.count {
                record.header.erase(at: record.offset, from: &piece, at: start, segment: number, seed: seed)
                guard record.offset + record.header.recordBytes <= start + piece.count else { break }
                next.removeFirst()
            }
            error = piece.withUnsafeBytes { settings.write(file.number, $0, start) }
        }
        if error == 0, fdatasync(file.number) != 0 { error = errno }
        let target = Self.path(number, settings.directory)
        if error == 0, rename(path, target) != 0 { error = errno }
        guard error == 0 else {
            unlink(path)
            throw WriteError(code: error, path: path)
        }
        let directory = Descriptor(open(settings.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
        if directory.isOpen { fsync(directory.number) }
        guard let copy = Segment(opening: number, in: settings.directory, isWritable: true) else {
            throw WriteError(code: errno, path: target)
        }
        return copy
    }

    /// Overwrites the bytes of a file that has no name any more.
    fileprivate func overwrite(_ settings: StoreSettings) {
        let zeros = [UInt8](repeating: 0, count: min(Self.pieceBytes, size))
        for start in stride(from: 0, to: size, by: zeros.count) {
            let error = zeros.withUnsafeBytes { bytes in
                write(UnsafeRawBufferPointer(rebasing: bytes[..<min(zeros.count, size - start)]), at: start, settings)
            }
            if error != nil { return }
        }
        try? synchronize()
    }
}

extension RecordHeader {
    /// Replaces this record by one without content that has no effect.
    /// - Parameters:
    ///   - offset: offset of the record in its segment.
    ///   - piece: bytes of the segment from `start` on. They may contain a part of the record only.
    fileprivate func erase(at offset: Int, from piece: inout [UInt8], at start: Int, segment: UInt64, seed: UInt64) {
        var record = [UInt8](repeating: 0, count: Self.bytes)
        let empty = RecordHeader(
            kind: .removal, bodyBytes: recordBytes - Self.bytes, hash: KeyHash(low: Segment.eraseMark, high: UInt64(offset)))
        record.withUnsafeMutableBytes { empty.write(to: $0.baseAddress!, segment: segment, offset: offset, seed: seed) }
        let (first, last) = (max(offset, start), min(offset + recordBytes, start + piece.count))
        for index in first..<last { piece[index - start] = index - offset < Self.bytes ? record[index - offset] : 0 }
    }
}
