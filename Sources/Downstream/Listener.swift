// One listening socket of one shard: accepts connections and hands them to the shard's table. Pauses at the limit and when the process has
// no descriptors left, and goes on by itself.

import CSystem
import Descriptors
import Glibc
import HTTPCore
import Reactor

/// Why an address cannot be listened on.
package struct ListenError: Error, CustomStringConvertible {
    package let address: ListenAddress
    package let code: Int32

    package init(address: ListenAddress, code: Int32) {
        self.address = address
        self.code = code
    }

    package var description: String { "cannot listen on \(address): \(String(cString: strerror(code)))" }
}

/// A socket that listens, for as long as somebody holds it. Each shard has one of its own for TCP (SO_REUSEPORT); one for Unix sockets is shared.
package final class BoundSocket: Sendable {
    private let socket: Descriptor
    /// With the port that the kernel chose, where 0 was asked for.
    package let address: ListenAddress

    /// Binds and listens.
    /// - Parameters:
    ///   - isShared: other sockets of this process listen on the address already. Where it is not, the address must be free: sharing
    ///   a port with another process by accident would hand each a part of the clients.
    ///   - mode: who may connect to a Unix socket, from its first moment on; nil for what the process's mask allows.
    package init(_ wanted: ListenAddress, backlog: Int32, isShared: Bool = false, mode: mode_t? = nil) throws(ListenError) {
        if !isShared { try Self.checkFree(wanted) }
        let socket = Descriptor(
            Glibc.socket(wanted.family, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0))
        guard socket.isOpen else { throw ListenError(address: wanted, code: errno) }
        let descriptor = socket.number
        var one: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        switch wanted {
        case .unix(let path):
            Self.removeStaleSocket(at: path, wanted)
            // Linux gives the file the mode that the socket has when it is bound.
            if let mode { fchmod(descriptor, mode) }
        case .ipv6:
            setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &one, size)
            fallthrough
        case .ipv4:
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, size)
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &one, size)
        }
        guard wanted.withSocketAddress({ bind(descriptor, $0, $1) }) == 0, listen(descriptor, backlog) == 0 else {
            throw ListenError(address: wanted, code: errno)
        }
        self.socket = socket
        address = Self.actual(descriptor, wanted)
    }

    var descriptor: Int32 { socket.number }

    /// Binding without SO_REUSEPORT fails where anybody listens.
    private static func checkFree(_ address: ListenAddress) throws(ListenError) {
        if case .unix = address { return }
        let socket = Descriptor(Glibc.socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        var one: Int32 = 1
        setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        if case .ipv6 = address { setsockopt(socket.number, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &one, socklen_t(MemoryLayout<Int32>.size)) }
        guard address.withSocketAddress({ bind(socket.number, $0, $1) }) == 0 else { throw ListenError(address: address, code: errno) }
    }

    /// A socket file that nobody listens on is left over from a process that was killed. A file that is no socket is somebody's.
    private static func removeStaleSocket(at path: String, _ address: ListenAddress) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
        let socket = Descriptor(Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        if address.withSocketAddress({ connect(socket.number, $0, $1) }) != 0, errno == ECONNREFUSED { unlink(path) }
    }

    private static func actual(_ descriptor: Int32, _ wanted: ListenAddress) -> ListenAddress {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutableBytes(of: &storage) {
            getsockname(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, &length)
        }
        return result == 0 ? wanted.withPort(PeerAddress(storage).port) : wanted
    }
}

package final class Listener: EventHandler {
    private let loop: EventLoop
    /// nil where it is closed.
    private var socket: BoundSocket?
    private let connections: ClientConnections
    package let settings: ListenerSettings
    /// Is given the requests that come in here.
    let receiver: any RequestReceiver
    /// Of TCP; nil for a Unix socket.
    package let port: UInt16?
    private var isAccepting = false
    private var pausing: LoopTimer?

    /// Accepted in one go, so that a flood of new clients does not starve those that are being served.
    private static let acceptBatch = 64
    /// How long accepting pauses.
    private static let retryDelay = Duration.milliseconds(100)

    /// - Parameters:
    ///   - settings: what is spoken here; nil for clear HTTP/1.1.
    ///   - receiver: is given the requests that come in here.
    package init(
        loop: EventLoop, socket: BoundSocket, settings: ListenerSettings? = nil, connections: ClientConnections,
        receiver: any RequestReceiver
    ) {
        self.loop = loop
        self.socket = socket
        port = socket.address.port
        self.settings = settings ?? ListenerSettings(socket.address)
        self.connections = connections
        self.receiver = receiver
    }

    package func start() {
        loop.assertOnLoop()
        guard !isAccepting, let socket else { return }
        isAccepting = true
        loop.add(socket.descriptor, .readable, self)
    }

    /// Stops accepting. The socket is closed with `close`.
    package func stop() {
        loop.assertOnLoop()
        pausing?.cancel()
        guard isAccepting, let socket else { return }
        isAccepting = false
        loop.remove(socket.descriptor)
    }

    package func close() {
        stop()
        socket = nil
    }

    package func ready(_ events: ReadyEvents) {
        guard let socket else { return }
        for _ in 0..<Self.acceptBatch {
            guard connections.budget.take() else { return pause() }
            var storage = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let client = Descriptor(
                withUnsafeMutableBytes(of: &storage) {
                    csystem_accept(socket.descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, &length)
                })
            guard client.isOpen else {
                let code = errno
                connections.budget.giveBack()
                return acceptFailed(code)
            }
            if storage.ss_family != sa_family_t(AF_UNIX) {
                var one: Int32 = 1
                setsockopt(client.number, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
            }
            let peer = PeerAddress(storage)
            guard connections.budget.admit(peer) else {
                connections.budget.giveBack()
                continue
            }
            connections.add(AcceptedSocket(transport: ClientTransport(client), peer: peer, listener: self))
        }
    }

    private func acceptFailed(_ code: Int32) {
        guard code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM else { return }
        pause()
    }

    /// No room, or no descriptors left: the kernel keeps new connections meanwhile.
    private func pause() {
        guard isAccepting else { return }
        connections.counters.acceptPauses += 1
        stop()
        pausing = loop.schedule(after: Self.retryDelay) { [weak self] in self?.start() }
    }
}
