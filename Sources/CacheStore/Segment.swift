// One segment file: preallocated, appended to with `pwrite`, read through a memory mapping. The mapping exists as long as any reference to
// the segment, even after the file was removed. So a response that is being sent stays readable.

import CSystem
import Glibc
import Reactor

/// `@unchecked Sendable` because only the file's bytes change after `init`; these are written once and then only read.
final class Segment: @unchecked Sendable {
    /// Increases with each new segment. Part of the file's name and of the checksum of each record.
    let number: UInt64
    let size: Int
    let base: UnsafeRawPointer
    private let descriptor: Descriptor
    private let path: String

    /// Flags for opening files. They refuse symbolic links, which could lead to files outside the directory, and never block on a pipe.
    static let plain = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK

    /// Whether an errno of opening or reading a path means that there is no regular file. After any other error, a later start may be able
    /// to read the file.
    static func meansNoFile(_ error: Int32) -> Bool { [ENOENT, ELOOP, EISDIR, ENXIO, ENODEV].contains(error) }

    /// Creates a new file and allocates all its blocks.
    /// - Throws: the failed system call's errno and path.
    init(creating number: UInt64, bytes size: Int, _ settings: StoreSettings) throws(WriteError) {
        path = Self.path(number, settings.directory)
        let descriptor = Descriptor(csystem_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard descriptor.isOpen else { throw WriteError(code: errno, path: path) }
        let error = settings.allocate(descriptor.number, size)
        guard error == 0 else {
            unlink(path)
            throw WriteError(code: error, path: path)
        }
        guard let base = Self.map(descriptor.number, size) else {
            let error = errno
            unlink(path)
            throw WriteError(code: error, path: path)
        }
        (self.number, self.size, self.base) = (number, size, base)
        self.descriptor = descriptor
    }

    struct WriteError: Error {
        /// errno of the failed system call.
        let code: Int32
        let path: String

        var isDiskFull: Bool { code == ENOSPC || code == EDQUOT }
    }

    enum OpeningError: Error {
        /// There is no regular file with a valid size at the path.
        case noSegment
        /// A system call failed. A later start may be able to open the file.
        case failed(WriteError)
    }

    /// Opens an existing file. Maps the file's actual size, which may differ from the configured one.
    init(opening number: UInt64, in directory: String, isWritable: Bool) throws(OpeningError) {
        path = Self.path(number, directory)
        let descriptor = Descriptor(csystem_open(path, (isWritable ? O_RDWR : O_RDONLY) | Self.plain, 0))
        guard descriptor.isOpen else {
            let code = errno
            throw Self.meansNoFile(code) ? OpeningError.noSegment : OpeningError.failed(WriteError(code: code, path: path))
        }
        var status = stat()
        guard fstat(descriptor.number, &status) == 0 else { throw OpeningError.failed(WriteError(code: errno, path: path)) }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size >= RecordHeader.bytes, status.st_size <= IndexEntry.reach else {
            throw OpeningError.noSegment
        }
        guard let base = Self.map(descriptor.number, Int(status.st_size)) else {
            throw OpeningError.failed(WriteError(code: errno, path: path))
        }
        (self.number, size, self.base) = (number, Int(status.st_size), base)
        self.descriptor = descriptor
    }

    deinit {
        csystem_forget_mapping(base)
        munmap(UnsafeMutableRawPointer(mutating: base), size)
    }

    private static func map(_ descriptor: Int32, _ size: Int) -> UnsafeRawPointer? {
        guard let address = mmap(nil, size, PROT_READ, MAP_SHARED, descriptor, 0), address != MAP_FAILED else { return nil }
        // If the file is truncated or the disk fails, reading returns zeros instead of terminating the process. The item then counts as
        // damaged.
        csystem_guard_mapping(address, size)
        return UnsafeRawPointer(address)
    }

    static func path(_ number: UInt64, _ directory: String) -> String {
        let digits = String(number, radix: 16)
        return "\(directory)/segment-\(String(repeating: "0", count: 16 - digits.count))\(digits)"
    }

    /// Limit of segment numbers that an index entry can hold; never reached in practice.
    static let numberLimit: UInt64 = 1 << 48
    /// Files with higher numbers are ignored. A forged file name could otherwise exhaust the numbers.
    private static let nameLimit = numberLimit / 2

    /// Returns the number in a file's name; nil if the name is not exactly in the form of `path`.
    static func number(ofFile name: String) -> UInt64? {
        guard name.hasPrefix("segment-"), let number = UInt64(name.dropFirst(8), radix: 16), number < nameLimit,
            path(number, "") == "/" + name
        else { return nil }
        return number
    }

    /// Reads from the file itself, because the mapping shows zeros where the disk fails.
    func read(_ range: Range<Int>) throws(WriteError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: range.count)
        var done = 0
        while done < range.count {
            let count = bytes.withUnsafeMutableBytes {
                pread(descriptor.number, $0.baseAddress! + done, range.count - done, off_t(range.lowerBound + done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw WriteError(code: count < 0 ? errno : EIO, path: path) }
            done += count
        }
        return bytes
    }

    /// Writes all of `bytes`.
    /// - Returns: nil on success.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int, _ settings: StoreSettings) -> WriteError? {
        let error = settings.write(descriptor.number, bytes, offset)
        return error == 0 ? nil : WriteError(code: error, path: path)
    }

    /// Why the file is no longer at its path: it was deleted, moved or replaced, and is lost when the process ends. nil if it is there.
    var displacement: WriteError? {
        let code = descriptor.displacement(from: path)
        return code == 0 ? nil : WriteError(code: code, path: path)
    }

    func synchronize() throws(WriteError) {
        if fdatasync(descriptor.number) != 0 { throw WriteError(code: errno, path: path) }
    }

    /// Deletes the file, unless another one has its place. The mapping stays valid for objects that retain the segment.
    func removeFile() { if ![ENOENT, ESTALE].contains(displacement?.code) { unlink(path) } }
}

extension Segment {
    /// Marks the first record of a segment that is smaller than configured. The record is a removal of an unused key and contains the
    /// segment's size.
    private static let sizeMark: UInt64 = 0x6279_7465_735f_6f66
    /// Marks a record that takes the place of an erased one, as a removal of an unused key.
    static let eraseMark: UInt64 = 0x6572_6173_6564_5f5f

    static func sizeRecord(_ bytes: Int) -> RecordHeader {
        RecordHeader(kind: .removal, hash: KeyHash(low: sizeMark, high: UInt64(bytes)))
    }

    /// Size of the segment according to its first record; nil if the segment has no such record.
    func recordedSize(seed: UInt64) -> Int? {
        guard let header = RecordHeader(at: base, segment: number, offset: 0, limit: size, seed: seed), header.kind == .removal,
            header.hash.low == Self.sizeMark
        else { return nil }
        return Int(exactly: header.hash.high)
    }
}
