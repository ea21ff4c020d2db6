// The byte transport of a client's connection, with or without TLS. It owns the socket.
// Tricky: bytes that `send` did not accept must be offered again, unchanged and before other bytes. More bytes may be appended, but none
// removed, because a begun TLS record cannot be changed.

import CSystem
import Glibc
import Reactor

struct ClientTransport: ~Copyable {
    enum Received {
        case bytes(Int)
        /// No bytes are available now.
        case nothing
        /// The client has closed its sending side.
        case ended
        case broken
    }

    private var socket: Descriptor
    /// nil for cleartext.
    private var tls: ClientTLS?

    init(_ socket: consuming Descriptor) {
        self.socket = socket
    }

    /// Uses TLS from now on.
    mutating func secure(by tls: ClientTLS) { self.tls = tls }

    var isSecured: Bool { tls != nil }

    /// For system calls only; -1 if the socket is closed.
    var descriptor: Int32 { socket.number }

    // MARK: Waiting

    /// Whether readable bytes exist that the kernel does not report, because TLS has buffered them.
    var holdsInput: Bool { tls?.holdsInput ?? false }

    /// Returns the socket events to wait for if the given operations are wanted.
    func interest(_ wanted: ReadyEvents) -> ReadyEvents {
        guard let tls, tls.readWaitsForWrite, wanted.contains(.readable) else { return wanted }
        return wanted.subtracting(.readable).union(.writable)
    }

    /// Returns the operations that are possible now, given the reported socket events.
    func meaning(of events: ReadyEvents) -> ReadyEvents {
        guard let tls, tls.readWaitsForWrite, events.isWritable else { return events }
        return events.union(.readable)
    }

    // MARK: Reading

    func receive(into space: UnsafeMutableBufferPointer<UInt8>) -> Received {
        if let tls { return tls.receive(into: space) }
        let count = csystem_receive(descriptor, space.baseAddress!, space.count)
        if count > 0 { return .bytes(count) }
        if count == 0 { return .ended }
        return errno == EAGAIN || errno == EINTR ? .nothing : .broken
    }

    /// Copies received bytes without removing them from the kernel's buffer.
    /// - Returns: nil if no bytes are available now; 0 if none will follow.
    func peek(into space: UnsafeMutableBufferPointer<UInt8>) -> Int? {
        let count = recv(descriptor, space.baseAddress, space.count, Int32(MSG_PEEK))
        if count >= 0 { return count }
        return errno == EAGAIN || errno == EINTR ? nil : 0
    }

    // MARK: Writing

    /// Sends bytes.
    /// - Returns: the number of accepted bytes, 0 if the client must read first; nil if the connection is broken.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        if let tls { return tls.send(bytes) }
        let count = csystem_send(descriptor, bytes.baseAddress!, bytes.count)
        return count >= 0 ? count : errno == EAGAIN || errno == EINTR ? 0 : nil
    }

    /// Sends a response in two pieces with one system call. Not for TLS, which assembles records.
    func send(_ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer) -> Int? {
        var parts = [
            iovec(iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: head.count),
            iovec(iov_base: UnsafeMutableRawPointer(mutating: body.baseAddress), iov_len: body.count),
        ]
        return parts.withUnsafeMutableBufferPointer { parts in
            var message = msghdr()
            message.msg_iov = parts.baseAddress
            message.msg_iovlen = parts.count
            let count = sendmsg(descriptor, &message, Int32(MSG_NOSIGNAL))
            return count >= 0 ? count : errno == EAGAIN || errno == EINTR ? 0 : nil
        }
    }

    // MARK: Ends

    /// Closes the sending side.
    /// - Returns: false if TLS must still send close_notify when the socket is writable. Without close_notify, the client regards the
    ///   content as truncated.
    func endSending() -> Bool {
        guard tls?.endSending() ?? true else { return false }
        shutdown(descriptor, Int32(SHUT_WR))
        return true
    }

    /// Makes closing send a reset, because a client could interpret a normal close as the end of the content.
    func resetAtClose() {
        tls?.spoil()
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Makes closing detectable as a truncation of the current response.
    /// - Parameter tells: whether the response's framing shows the truncation. Bytes in the kernel's buffer are then still delivered.
    func cutAtClose(tells: Bool) { if tells { tls?.spoil() } else { resetAtClose() } }

    /// Called periodically while no request is active.
    func rest() { tls?.rest() }

    /// Closes TLS before the socket, because afterwards the descriptor's number may belong to another connection.
    mutating func close() {
        tls?.close()
        socket.close()
    }
}
