// The bytes of one connection to the upstream, with or without TLS. Hides the difference from its callers.

import CSystem
import Glibc
import Reactor

/// Receive buffer of all connections of a loop. Its content must be used before the next read.
final class ReadBuffer {
    private var made: UnsafeMutableRawBufferPointer?

    /// Allocated at the first use.
    var space: UnsafeMutableRawBufferPointer {
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
        /// No bytes are available now.
        case nothing
        /// TLS must write before bytes can be read.
        case wantsWrite
        /// The end of the stream. `isClean`: the peer has closed its sending side properly; a truncated TLS connection is not clean.
        case ended(isClean: Bool)
    }

    enum Sent {
        case bytes(Int)
        /// The bytes must be offered again, unchanged, when the socket is writable or readable.
        case wantsWrite, wantsRead
        /// The peer accepts no more bytes.
        case broken
    }

    private var socket: Descriptor
    var descriptor: Int32 { socket.number }
    private let tls: TLSConnection?
    /// True for TCP. Other sockets do not report how many bytes have arrived.
    private let isTCP: Bool
    private var sent = 0
    /// errno of the failed read; 0 if none failed.
    private var systemError: Int32 = 0
    /// Whether the peer has not acknowledged bytes within the limit. The path to the peer is then probably gone, as after this machine got
    /// another address.
    private(set) var hasTimedOut = false
    /// Errors of a connection whose bytes were not acknowledged. If a router has reported the destination as unreachable, the kernel
    /// returns that error.
    private static let deadPath = [ETIMEDOUT, EHOSTUNREACH, ENETUNREACH]
    /// Maximum time in milliseconds for the peer's acknowledgement; 0 for the kernel's limit, which is about 15 minutes.
    var acknowledgementLimit: Int32 = 0 {
        didSet {
            guard isTCP, acknowledgementLimit != oldValue else { return }
            setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &acknowledgementLimit, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    init(_ socket: consuming Descriptor, _ tls: TLSConnection?) {
        isTCP = csystem_is_tcp(socket.number) != 0
        self.socket = socket
        self.tls = tls
    }

    /// Whether the kernel holds no unread bytes from the peer. TLS protocol messages count too.
    var isSilent: Bool { csystem_is_quiet(descriptor) != 0 }

    /// Whether readable bytes may exist that the kernel does not report, because TLS has buffered them.
    var mayHoldBytes: Bool { tls != nil }

    /// Number of bytes passed to the kernel so far.
    var written: Int { tls?.written ?? sent }

    /// Number of bytes that the peer's kernel has acknowledged; for other sockets than TCP, the number written.
    var arrived: Int { isTCP ? written - Int(csystem_unacknowledged(descriptor)) : written }

    /// Whether the connection is open and no unread bytes of the peer are waiting.
    var isQuiet: Bool { tls?.isQuiet ?? (csystem_is_quiet(descriptor) != 0) }

    /// Receives available bytes.
    func receive(into space: UnsafeMutableRawBufferPointer) -> Received {
        if let tls {
            let received = tls.receive(into: space)
            if case .ended(isClean: false) = received { hasTimedOut = Self.deadPath.contains(tls.systemError) }
            return received
        }
        let count = csystem_receive(descriptor, space.baseAddress!, space.count)
        if count > 0 { return .bytes(count) }
        if count < 0, errno == EAGAIN || errno == EINTR { return .nothing }
        if count < 0 {
            systemError = errno
            hasTimedOut = Self.deadPath.contains(systemError)
        }
        return .ended(isClean: count == 0)
    }

    /// Sends some of the bytes. There must be at least one.
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

    /// Closes the sending side. All output must have been passed to the kernel.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Closes TLS before the socket, because afterwards the descriptor's number may belong to another connection.
    func close() {
        tls?.close()
        socket.close()
    }
}
