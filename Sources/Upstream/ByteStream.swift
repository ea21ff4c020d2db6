// The bytes of one connection to the upstream, in clear or through TLS: which of them it is, nobody above has to know.

import CSystem
import Descriptors
import Glibc

/// What one connection has read last: used up before anything else is read.
final class ReadBuffer {
    private var made: UnsafeMutableRawBufferPointer?

    /// Made with the first bytes.
    fileprivate var space: UnsafeMutableRawBufferPointer {
        if let made { return made }
        let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 48 * 1024, alignment: 16)
        made = space
        return space
    }

    deinit { made?.deallocate() }
}

final class ByteStream {
    enum Received {
        case bytes(Int)
        /// None now.
        case nothing
        /// None before the socket takes more: TLS has something of its own to say.
        case wantsWrite
        /// `isClean`: the peer said that it sends no more. In TLS a connection that is merely cut says nothing.
        case ended(isClean: Bool)
    }

    enum Sent {
        case bytes(Int)
        /// The same bytes are to be sent again when the socket takes more, or has more to read.
        case wantsWrite, wantsRead
        /// The peer takes no more.
        case broken
    }

    private var socket: Descriptor
    var descriptor: Int32 { socket.number }
    private let tls: TLSConnection?
    /// Other sockets do not tell what has arrived.
    private let isTCP: Bool
    private var sent = 0
    /// errno of the failed read; 0 if none failed.
    private var systemError: Int32 = 0

    init(_ socket: consuming Descriptor, _ tls: TLSConnection?) {
        isTCP = csystem_is_tcp(socket.number) != 0
        self.socket = socket
        self.tls = tls
    }

    /// Whether the kernel has nothing of the peer's that was not read: also not what is TLS's own.
    var isSilent: Bool { csystem_is_quiet(descriptor) != 0 }

    /// Whether bytes may be held that the kernel no longer has: it does not tell of them.
    var mayHoldBytes: Bool { tls != nil }

    /// Bytes handed to the kernel so far.
    var written: Int { tls?.written ?? sent }

    /// Those of them that have reached the peer's kernel, as far as can be known.
    var arrived: Int { isTCP ? written - Int(csystem_unacknowledged(descriptor)) : written }

    /// Whether it stands, and the peer has said nothing that was not read.
    var isQuiet: Bool { tls?.isQuiet ?? (csystem_is_quiet(descriptor) != 0) }

    /// - Parameter take: is given the bytes, where there are any.
    func receive(into buffer: ReadBuffer, _ take: (Span<UInt8>) -> Void) -> Received {
        let received = receive(into: buffer.space)
        if case .bytes(let count) = received { take(Span(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer.space[..<count]))) }
        return received
    }

    func receive(into space: UnsafeMutableRawBufferPointer) -> Received {
        if let tls { return tls.receive(into: space) }
        let count = csystem_receive(descriptor, space.baseAddress!, space.count)
        if count > 0 { return .bytes(count) }
        if count < 0, errno == EAGAIN || errno == EINTR { return .nothing }
        if count < 0 { systemError = errno }
        return .ended(isClean: count == 0)
    }

    /// Sends what of `bytes` is behind `start`: one at least.
    func send(_ bytes: [UInt8], from start: Int) -> Sent {
        bytes.withUnsafeBytes { send(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    }

    /// Sends some of them: one at least.
    func send(_ bytes: UnsafeRawBufferPointer) -> Sent {
        if let tls { return tls.send(bytes) }
        while true {
            let count = csystem_send(descriptor, bytes.baseAddress!, bytes.count)
            if count >= 0 {
                sent += count
                return .bytes(count)
            }
            if errno == EAGAIN { return .wantsWrite }
            if errno != EINTR { return .broken }
        }
    }

    /// Cause of the end of the stream.
    var endError: UpstreamError {
        if let error = tls?.brokenBy { return error }
        return UpstreamError(.connectionTerminated, systemError == 0 ? nil : .system(systemError))
    }

    /// Says that nothing more is sent, once all of it is the kernel's.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// TLS says good-bye before the socket goes, and not after: the descriptor's number may be another's then.
    func close() {
        tls?.close()
        socket.close()
    }
}
