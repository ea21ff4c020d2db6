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

    /// Sends to a peer. A closed connection raises no signal.
    public static func send(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
        perform(bytes) { left, _ in Glibc.send(descriptor, left.baseAddress, left.count, Int32(MSG_NOSIGNAL)) }
    }
}
