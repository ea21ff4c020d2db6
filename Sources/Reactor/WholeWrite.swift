// Writes all bytes, even if the kernel accepts few at a time. Blocks if the descriptor does.

import Glibc

public enum WholeWrite {
    /// Calls `write` with the remaining bytes until none remain or it fails.
    /// - Parameter write: receives the remaining bytes, and the number of bytes already written.
    /// - Returns: the number of bytes written. If these are not all, `errno` has the reason.
    public static func perform(_ bytes: UnsafeRawBufferPointer, by write: (UnsafeRawBufferPointer, _ taken: Int) -> Int) -> Int {
        var taken = 0
        while taken < bytes.count {
            let count = write(UnsafeRawBufferPointer(rebasing: bytes[taken...]), taken)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            taken += count
        }
        return taken
    }

    public static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
        perform(bytes) { left, _ in Glibc.write(descriptor, left.baseAddress, left.count) }
    }

    public static func write(_ bytes: [UInt8], to descriptor: Int32) -> Int { bytes.withUnsafeBytes { write($0, to: descriptor) } }

    public static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, at offset: Int) -> Int {
        perform(bytes) { left, taken in pwrite(descriptor, left.baseAddress, left.count, off_t(offset + taken)) }
    }

    /// Replaces a file completely or not at all, with permissions for its owner only.
    /// - Parameter draft: path of the file that is written and then renamed; nil for the path with the ending `.new`. Processes that may
    ///   write at once need different ones.
    /// - Returns: false if it failed; `errno` has the reason.
    public static func replace(_ path: String, with bytes: [UInt8], draft: String? = nil) -> Bool {
        let draft = draft ?? path + ".new"
        let file = Descriptor(open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
        guard file.isOpen, write(bytes, to: file.number) == bytes.count, fsync(file.number) == 0 else { return false }
        return rename(draft, path) == 0
    }

    /// Sends to a peer. A closed connection raises no signal.
    public static func send(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
        perform(bytes) { left, _ in Glibc.send(descriptor, left.baseAddress, left.count, Int32(MSG_NOSIGNAL)) }
    }
}
