// Erases the bytes of removed and replaced items, and of damaged records, from the disk. A segment file that contains such bytes is replaced
// by a copy without them. All other records keep their places, so the index, and the order of removals and marks, do not change.

import CSystem
import Dispatch
import Glibc
import Reactor

/// The result of erasing.
public struct ErasedFiles: Sendable, Equatable {
    /// Replaced segment files, and bytes of the records and damaged spans that were erased from them.
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
    ///     items are erased. Damaged bytes, which may belong to any item, are always erased.
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
        let error: EraseError? = serial.sync {
            if evicted.isEmpty { return nil }
            guard !hasPeer, waiting.withLock({ $0.isOurs }) else { return .otherProcess }
            return makeNewSegment(store) && evicted.isEmpty ? nil : .failed(code: ENOSPC, path: settings.directory)
        }
        if let error { throw error }
    }

    /// Replaces a segment file by a copy without removed and replaced items.
    /// - Returns: nil if the segment has no item that must be erased.
    func erase(
        _ number: UInt64, of store: ResponseStore, where isMeant: (UnsafeRawBufferPointer) -> Bool
    ) throws(EraseError) -> (former: Segment, bytes: Int)? {
        let result: Result<(former: Segment, bytes: Int)?, EraseError> = serial.sync {
            guard !hasPeer, waiting.withLock({ $0.isOurs }) else { return .failure(.otherProcess) }
            let error = directory.restore()
            guard error == 0 else { return .failure(.failed(code: error, path: directory.path)) }
            writeBuffer(store)
            guard let former = store.state.withLock({ $0.segments[number] }) else { return .success(nil) }
            let erased = erasedParts(of: former, store, where: isMeant)
            guard !erased.isEmpty else { return .success(nil) }
            do throws(Segment.WriteError) {
                let copy = try former.copy(without: erased, settings, seed: seed)
                store.state.withLock { $0.segments.replace(copy) }
                if active === former { active = copy }
                return .success((former, erased.reduce(0) { $0 + $1.range.count }))
            } catch {
                return .failure(.failed(code: error.code, path: error.path))
            }
        }
        return try result.get()
    }

    /// Returns the items of a segment to which the index does not lead, and the damaged spans, in order; empty if none of them is meant.
    private func erasedParts(
        of segment: Segment, _ store: ResponseStore, where isMeant: (UnsafeRawBufferPointer) -> Bool
    ) -> [ErasedPart] {
        var parts: [ErasedPart] = []
        var isNeeded = false
        let scan = SegmentScan.forEachRecord(in: segment, seed: seed) { header, offset in
            // Notes are no removed item, although the index does not lead to them.
            guard header.kind == .item, header.hash != .zero else { return }
            let key = UnsafeRawBufferPointer(start: segment.base + offset + RecordHeader.bytes, count: header.keyBytes)
            let isKeyDamaged = KeyHash(key, seed: seed) != header.hash
            if isKeyDamaged { store.dropDamaged(header.hash, segment.number, offset) }
            guard store.state.withLock({ $0.index.find(header.hash)?.leads(to: segment.number, offset) }) != true else { return }
            // A later start must still find a damaged mark, because the items that it removed are unknown.
            let isDamage =
                header.retention.isNeeded && SegmentScan.content(of: header, in: segment, at: offset, seed: seed) == .damaged
            parts.append(ErasedPart(range: offset..<offset + header.recordBytes, isDamage: isDamage))
            isNeeded = isNeeded || isKeyDamaged || isMeant(key)
        }
        let damage = scan.damage.compactMap(segment.unerasedDamage)
        guard isNeeded || !damage.isEmpty else { return [] }
        return (parts + damage.map { ErasedPart(range: $0, isDamage: true) }).sorted { $0.range.lowerBound < $1.range.lowerBound }
    }
}

/// A part of a segment file that its copy does not contain.
private struct ErasedPart {
    let range: Range<Int>
    let isDamage: Bool

    /// Value of the bytes of erased damage, except zeros, which remain. No record begins with it, so a scan finds the damage again.
    static let damageByte = UInt8.max

    /// Erases the part of a piece of the segment. A record is replaced by a removal of an unused key, which has no effect.
    /// - Parameters:
    ///   - piece: bytes of the segment from `start` on. They may contain a part of the range only.
    func erase(from piece: inout [UInt8], at start: Int, segment: UInt64, seed: UInt64) {
        let common = range.clamped(to: start..<start + piece.count)
        if isDamage {
            for index in common where piece[index - start] != 0 { piece[index - start] = Self.damageByte }
            return
        }
        let empty = RecordHeader(
            kind: .removal, bodyBytes: range.count - RecordHeader.bytes,
            hash: KeyHash(low: Segment.eraseMark, high: UInt64(range.lowerBound)))
        var record = [UInt8](repeating: 0, count: RecordHeader.bytes)
        record.withUnsafeMutableBytes { empty.write(to: $0.baseAddress!, segment: segment, offset: range.lowerBound, seed: seed) }
        for index in common { piece[index - start] = index - range.lowerBound < record.count ? record[index - range.lowerBound] : 0 }
    }
}

extension Segment {
    private static let pieceBytes = 1 << 20

    /// Returns a damaged span without the zeros at its end; nil if all of its bytes were erased.
    fileprivate func unerasedDamage(_ span: Range<Int>) -> Range<Int>? {
        let bytes = UnsafeRawBufferPointer(start: base + span.lowerBound, count: span.count)
        guard bytes.contains(where: { $0 != 0 && $0 != ErasedPart.damageByte }), let last = bytes.lastIndex(where: { $0 != 0 }) else {
            return nil
        }
        return span.lowerBound..<span.lowerBound + last + 1
    }

    /// Writes a copy of the file, and gives it the file's name. Returns when both are on the disk.
    /// - Parameter erased: parts that the copy does not contain, in order.
    fileprivate func copy(
        without erased: [ErasedPart], _ settings: StoreSettings, seed: UInt64
    ) throws(WriteError) -> Segment {
        let path = settings.directory + "/" + ResponseStore.copyName
        unlink(path)
        let file = Descriptor(csystem_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard file.isOpen else { throw WriteError(code: errno, path: path) }
        var error = settings.allocate(file.number, size)
        var next = erased[...]
        for start in stride(from: 0, to: size, by: Self.pieceBytes) where error == 0 {
            var piece = try read(start..<min(start + Self.pieceBytes, size))
            while let part = next.first, part.range.lowerBound < start + piece.count {
                part.erase(from: &piece, at: start, segment: number, seed: seed)
                guard part.range.upperBound <= start + piece.count else { break }
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
        guard let copy = try? Segment(opening: number, in: settings.directory, isWritable: true) else {
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
