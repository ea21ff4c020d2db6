// One segment file: preallocated, appended to with `pwrite`, read through a mapping. The mapping lives as long as anybody holds the
// segment, also after its file was removed: so a response that is being sent is never pulled away.

import CSystem
import Descriptors
import Glibc

/// `@unchecked Sendable` because nothing changes after `init` but the file's bytes, which are written once and then only read.
final class Segment: @unchecked Sendable {
    /// Grows by one with each segment ever made; the file's name and part of each record's checksum.
    let number: UInt64
    let size: Int
    let base: UnsafeRawPointer
    private let descriptor: Descriptor
    private let path: String

    /// A link in the directory leads to somebody else's file, and a pipe must not hold up the start.
    static let plain = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK

    /// Makes a new file with all its blocks.
    init(creating number: UInt64, _ settings: StoreSettings) throws(NoRoom) {
        path = Self.path(number, settings.directory)
        let descriptor = Descriptor(csystem_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        guard descriptor.isOpen else { throw NoRoom(errno) }
        let size = settings.segmentBytes
        let error = settings.allocate(descriptor.number, size)
        guard error == 0, let base = Self.map(descriptor.number, size) else {
            unlink(path)
            throw NoRoom(error)
        }
        (self.number, self.size, self.base) = (number, size, base)
        self.descriptor = descriptor
    }

    struct NoRoom: Error {
        /// Else the directory is read-only, or the disk out of order.
        let isDiskFull: Bool

        init(_ error: Int32) { isDiskFull = error == ENOSPC || error == EDQUOT }
    }

    /// Opens an existing file. One that is not of the expected size was tampered with: what is there is mapped, never more.
    init?(opening number: UInt64, in directory: String, isWritable: Bool) {
        path = Self.path(number, directory)
        let descriptor = Descriptor(csystem_open(path, (isWritable ? O_RDWR : O_RDONLY) | Self.plain, 0))
        guard descriptor.isOpen else { return nil }
        var status = stat()
        guard fstat(descriptor.number, &status) == 0, status.st_size >= RecordHeader.bytes, status.st_size <= IndexEntry.reach,
            let base = Self.map(descriptor.number, Int(status.st_size))
        else { return nil }
        (self.number, size, self.base) = (number, Int(status.st_size), base)
        self.descriptor = descriptor
    }

    deinit {
        csystem_forget_mapping(base)
        munmap(UnsafeMutableRawPointer(mutating: base), size)
    }

    private static func map(_ descriptor: Int32, _ size: Int) -> UnsafeRawPointer? {
        guard let address = mmap(nil, size, PROT_READ, MAP_SHARED, descriptor, 0), address != MAP_FAILED else { return nil }
        // A file that somebody cut short, or a disk that fails, costs what is stored there and not the process.
        csystem_guard_mapping(address, size)
        return UnsafeRawPointer(address)
    }

    static func path(_ number: UInt64, _ directory: String) -> String {
        let digits = String(number, radix: 16)
        return "\(directory)/segment-\(String(repeating: "0", count: 16 - digits.count))\(digits)"
    }

    /// What the index can name; far beyond any that is ever reached.
    static let numberLimit: UInt64 = 1 << 48
    /// From here on a name is somebody's joke: a store that went on behind it would soon be at the limit.
    private static let nameLimit = numberLimit / 2

    /// The number in a file's name; nil where it is not a segment's, or spelt in another way than ours.
    static func number(ofFile name: String) -> UInt64? {
        guard name.hasPrefix("segment-"), let number = UInt64(name.dropFirst(8), radix: 16), number < nameLimit,
            path(number, "") == "/" + name
        else { return nil }
        return number
    }

    /// Writes all of `bytes`; false where the disk did not take them.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Bool {
        WholeWrite.write(bytes, to: descriptor.number, at: offset) == bytes.count
    }

    func synchronize() { fdatasync(descriptor.number) }

    /// Takes the file away; the mapping stays for those who hold it.
    func removeFile() { unlink(path) }
}
