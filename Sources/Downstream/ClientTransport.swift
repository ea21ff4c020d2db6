// The bytes of one client's connection: which way they go, nobody above has to know. It owns the socket.
//
// Tricky: what was not taken of a `send` has to be offered again as it was, with as much behind it as before or more, and before anything else:
// a record of TLS that was begun cannot be made anew.

import CSystem
import Descriptors
import Glibc
import Reactor

struct ClientTransport: ~Copyable {
    enum Received {
        case bytes(Int)
        /// None now.
        case nothing
        /// The client sends no more.
        case ended
        case broken
    }

    private var socket: Descriptor
    /// nil in clear.
    private var tls: ClientTLS?

    init(_ socket: consuming Descriptor) {
        self.socket = socket
    }

    /// From now on all goes through TLS.
    mutating func secure(by tls: ClientTLS) { self.tls = tls }

    var isSecured: Bool { tls != nil }

    /// For calls of the kernel only; -1 where it is closed.
    var descriptor: Int32 { socket.number }

    // MARK: Waiting

    /// Whether there are bytes to be read that the kernel no longer has: it does not tell of them.
    var holdsInput: Bool { tls?.holdsInput ?? false }

    /// What to wait for, so that `wanted` can be done.
    func interest(_ wanted: ReadyEvents) -> ReadyEvents {
        guard let tls, tls.readWaitsForWrite, wanted.contains(.readable) else { return wanted }
        return wanted.subtracting(.readable).union(.writable)
    }

    /// What can be done now, where the kernel tells of `events`.
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

    /// Looks at what has arrived, and leaves it in the kernel.
    /// - Returns: nil where nothing is there now; 0 where nothing will be.
    func peek(into space: UnsafeMutableBufferPointer<UInt8>) -> Int? {
        let count = recv(descriptor, space.baseAddress, space.count, Int32(MSG_PEEK))
        if count >= 0 { return count }
        return errno == EAGAIN || errno == EINTR ? nil : 0
    }

    // MARK: Writing

    /// - Returns: how many bytes were taken, none where the client has to read first; nil where it takes no more.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        if let tls { return tls.send(bytes) }
        return Self.taken(csystem_send(descriptor, bytes.baseAddress!, bytes.count))
    }

    /// The same for a response in two pieces that go out together, with one call of the kernel's; not through TLS, which puts records together.
    func send(_ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer) -> Int? {
        var parts = [
            iovec(iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: head.count),
            iovec(iov_base: UnsafeMutableRawPointer(mutating: body.baseAddress), iov_len: body.count),
        ]
        return parts.withUnsafeMutableBufferPointer { parts in
            var message = msghdr()
            message.msg_iov = parts.baseAddress
            message.msg_iovlen = parts.count
            return Self.taken(sendmsg(descriptor, &message, Int32(MSG_NOSIGNAL)))
        }
    }

    private static func taken(_ count: Int) -> Int? {
        if count >= 0 { return count }
        return errno == EAGAIN || errno == EINTR ? 0 : nil
    }

    // MARK: Ends

    /// Says that we send no more.
    /// - Returns: false where TLS has yet to say so, when the kernel takes more: without its word what was sent looks cut.
    func endSending() -> Bool {
        guard tls?.endSending() ?? true else { return false }
        shutdown(descriptor, Int32(SHUT_WR))
        return true
    }

    /// From now on closing is a reset, since an orderly end could be taken for the end of what is under way.
    func resetAtClose() {
        tls?.spoil()
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// From now on closing says nothing that could be taken for the end of what is under way.
    /// - Parameter tells: its framing tells that something is missing, so what the kernel holds may still arrive.
    func cutAtClose(tells: Bool) { if tells { tls?.spoil() } else { resetAtClose() } }

    /// Called from time to time while nothing is under way.
    func rest() { tls?.rest() }

    /// TLS says good-bye before the socket goes, and not after: the descriptor's number may be another's then.
    mutating func close() {
        tls?.close()
        socket.close()
    }
}
