// One listening socket of one shard: accepts connections and passes them to the shard's table. It pauses at the connection limit, and when
// the process has no file descriptors left.

import CSystem
import Figures
import Glibc
import HTTPCore
import Reactor

/// Why an address cannot be listened on.
public struct ListenError: Error, CustomStringConvertible {
    public let address: ListenAddress
    public let code: Int32

    public init(address: ListenAddress, code: Int32) {
        self.address = address
        self.code = code
    }

    public var description: String { "cannot listen on \(address): \(SystemError.words(code))" }
}

/// A listening socket; closed on deinitialization. For TCP, each shard has a separate socket (SO_REUSEPORT); a Unix socket is shared by
/// all shards.
public final class BoundSocket: Sendable {
    private let socket: Descriptor
    /// The bound address, with the port that the kernel chose if port 0 was requested.
    public let address: ListenAddress

    /// Binds and listens.
    /// - Parameters:
    ///   - isShared: whether this process already listens on the address with other sockets. If not, the address must be free: sharing a
    ///     port with another process by accident would give each a part of the clients.
    ///   - mode: permissions of a Unix socket's file from its creation; nil for those of the process's umask.
    public init(_ wanted: ListenAddress, backlog: Int32, isShared: Bool = false, mode: mode_t? = nil) throws(ListenError) {
        if case .activated(_, let descriptor) = wanted {
            guard let actual = ListenAddress(boundTo: descriptor) else { throw ListenError(address: wanted, code: ENOTSOCK) }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
            socket = Descriptor(descriptor)
            address = actual
            return
        }
        if !isShared { try Self.checkFree(wanted) }
        let socket = Descriptor(
            Glibc.socket(wanted.family, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0))
        guard socket.isOpen else { throw ListenError(address: wanted, code: errno) }
        let descriptor = socket.number
        var one: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        switch wanted {
        case .activated: break
        case .unix(let path):
            Self.removeStaleSocket(at: path, wanted)
            // On Linux the socket's file gets the mode that the socket has when it is bound.
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
        // The kernel chooses a port if 0 is wanted.
        address = ListenAddress(boundTo: descriptor)?.port.map(wanted.withPort) ?? wanted
    }

    /// Adopts a listening socket of another process.
    /// - Returns: nil if the descriptor is no usable listening socket.
    public init?(adopting socket: consuming Descriptor) {
        guard Self.whyNotListening(socket.number) == nil, let address = ListenAddress(boundTo: socket.number) else { return nil }
        _ = fcntl(socket.number, F_SETFL, fcntl(socket.number, F_GETFL) | O_NONBLOCK)
        self.socket = socket
        self.address = address
    }

    public var descriptor: Int32 { socket.number }

    /// Returns why this process could not listen on the address now; nil if it could. Has no lasting effect.
    public static func whyNot(_ address: ListenAddress) -> ListenError? {
        if case .activated = address { return nil }
        do throws(ListenError) {
            try checkFree(address)
        } catch {
            return error
        }
        guard case .unix(let path) = address else { return nil }
        let socket = Descriptor(Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        if address.withSocketAddress({ connect(socket.number, $0, $1) }) == 0 { return ListenError(address: address, code: EADDRINUSE) }
        var status = stat()
        let isFile = lstat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFSOCK
        return isFile ? ListenError(address: address, code: EADDRINUSE) : nil
    }

    /// Returns why an open descriptor cannot be used to listen for clients; nil if it can.
    public static func whyNotListening(_ descriptor: Int32) -> String? {
        func option(_ name: Int32) -> Int32? {
            var value: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
        }
        guard let type = option(SO_TYPE) else { return "it is not a socket (\(SystemError.words()))" }
        guard type == Int32(SOCK_STREAM.rawValue) else { return "it is not a stream socket (use ListenStream=)" }
        guard option(SO_ACCEPTCONN) == 1 else { return "it does not listen (use Accept=no)" }
        return ListenAddress(boundTo: descriptor) == nil ? "its address family is not IPv4, IPv6 or Unix" : nil
    }

    /// Throws if any process listens on the address. Binding without SO_REUSEPORT fails in that case.
    private static func checkFree(_ address: ListenAddress) throws(ListenError) {
        if case .unix = address { return }
        let socket = Descriptor(Glibc.socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        var one: Int32 = 1
        setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        if case .ipv6 = address { setsockopt(socket.number, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &one, socklen_t(MemoryLayout<Int32>.size)) }
        guard address.withSocketAddress({ bind(socket.number, $0, $1) }) == 0 else { throw ListenError(address: address, code: errno) }
    }

    /// Removes the socket file of a process that was killed. Keeps files that are not sockets, and sockets with a listening process.
    private static func removeStaleSocket(at path: String, _ address: ListenAddress) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
        let socket = Descriptor(Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        if address.withSocketAddress({ connect(socket.number, $0, $1) }) != 0, errno == ECONNREFUSED { unlink(path) }
    }
}

public final class Listener: EventHandler {
    private let loop: EventLoop
    /// nil after it was closed.
    private var socket: BoundSocket?
    private let connections: ClientConnections
    public let settings: ListenerSettings
    /// Receives the requests of this listener. May be replaced between two requests.
    public var receiver: any RequestReceiver
    /// The TCP port; nil for a Unix socket.
    public let port: UInt16?
    /// Whether some connections above the limit are accepted (`ConnectionBudget.reserve`).
    private let isReserved: Bool
    private var isAccepting = false
    /// Whether the current requests are the last ones on their connections.
    private(set) var isRetired = false
    /// Settings of the listener that now owns the socket; nil if there is none.
    private var successor: ListenerSettings?
    private var pausing: LoopTimer?

    /// Maximum number of connections accepted at once, so that many new clients do not delay active ones.
    private static let acceptBatchLimit = 16
    /// Maximum number of batches that are accepted before the socket is closed.
    public static let lastBatches = 256
    /// Maximum number of attempts to accept waiting connections of a removed address at the connection limit.
    private static let spaceTries = 50
    /// Time for which accepting pauses.
    private static let retryDelay = Duration.milliseconds(100)

    /// - Parameters:
    ///   - settings: protocol and rules of the listener; nil for cleartext HTTP/1.1.
    ///   - receiver: receives the requests of this listener.
    ///   - isReserved: whether some connections are accepted above the limit.
    public init(
        loop: EventLoop, socket: BoundSocket, settings: ListenerSettings? = nil, connections: ClientConnections,
        receiver: any RequestReceiver, isReserved: Bool = false
    ) {
        self.isReserved = isReserved
        self.loop = loop
        self.socket = socket
        port = socket.address.port
        self.settings = settings ?? ListenerSettings(socket.address)
        self.connections = connections
        self.receiver = receiver
    }

    public func start() {
        loop.assertOnLoop()
        guard !isAccepting, let socket else { return }
        isAccepting = true
        loop.add(socket.descriptor, .readable, self)
    }

    /// Stops accepting. `close` closes the socket.
    public func stop() {
        loop.assertOnLoop()
        pausing?.cancel()
        guard isAccepting, let socket else { return }
        isAccepting = false
        loop.remove(socket.descriptor)
    }

    public func close() {
        stop()
        socket = nil
    }

    /// Accepts the connections that already wait, because the kernel would reset them, and closes the socket. Then calls `then`.
    /// - Parameters:
    ///   - isKept: whether another process also listens on the socket. If not, the socket is shut down, so that new clients are refused at
    ///     once.
    ///   - batches: maximum number of batches, because clients may continue to connect.
    public func finish(isKept: Bool, batches: Int = Listener.lastBatches, then: @escaping () -> Void) {
        stop()
        guard batches > 0, acceptBatch() == .mayBeMore else {
            if let socket, !isKept { shutdown(socket.descriptor, Int32(SHUT_RDWR)) }
            close()
            return then()
        }
        loop.inNextRound { self.finish(isKept: isKept, batches: batches - 1, then: then) }
    }

    /// Ends the listener, and ends its open connections gracefully.
    /// - Parameters:
    ///   - isKept: whether another listener or process uses the socket from now on and accepts waiting connections.
    ///   - successor: settings of another listener of this process on the socket; nil if there is none.
    public func retire(isKept: Bool, successor: ListenerSettings?) {
        self.successor = successor
        retire(isKept: isKept, tries: Self.spaceTries)
    }

    /// Whether a reload has changed the access rules so that an open connection might not be accepted again. Its requests then get 421.
    /// - Parameter authority: the requested host, perhaps with a port.
    func hasOutdated(_ security: ConnectionSecurity?, _ authority: @autoclosure () -> String) -> Bool {
        guard let successor else { return false }
        if successor.admitsOthers(than: settings) { return true }
        guard let security, let tls = connections.tls else { return false }
        return !security.hasPresented(authority(), what: tls.certificates, asks: successor.verification)
    }

    private func retire(isKept: Bool, tries: Int) {
        loop.assertOnLoop()
        isRetired = true
        guard !isKept else {
            close()
            return connections.drain(self)
        }
        connections.drain(self)
        // At the limit, waiting connections are accepted later, when others have ended.
        if tries > 0, case .noCapacity(let cause) = acceptBatch() {
            stop()
            connections.budget.makeSpace(cause)
            loop.schedule(after: Self.retryDelay) { self.retire(isKept: false, tries: tries - 1) }
            return
        }
        finish(isKept: false) { [self] in connections.drain(self) }
    }

    public func ready(_ events: ReadyEvents) {
        if case .noCapacity(let cause) = acceptBatch() { pause(cause) }
    }

    private enum Accepted: Equatable {
        case all, mayBeMore
        case noCapacity(CapacityReport.Cause)
    }

    private func acceptBatch() -> Accepted {
        guard let socket else { return .all }
        for _ in 0..<Self.acceptBatchLimit {
            guard connections.budget.take(isReserved: isReserved) else { return isAwaited(socket) ? .noCapacity(.connections) : .all }
            var storage = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let client = Descriptor(
                withUnsafeMutableBytes(of: &storage) {
                    csystem_accept(socket.descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, &length)
                })
            guard client.isOpen else {
                let code = errno
                connections.budget.giveBack()
                return [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(code) ? .noCapacity(.descriptors) : .all
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
        return .mayBeMore
    }

    /// Whether a connection waits to be accepted.
    private func isAwaited(_ socket: BoundSocket) -> Bool {
        var waiting = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, 0) > 0
    }

    /// Pauses accepting. The kernel queues new connections meanwhile.
    private func pause(_ cause: CapacityReport.Cause) {
        guard isAccepting else { return }
        connections.counters[.acceptPauses] += 1
        stop()
        pausing = loop.schedule(after: Self.retryDelay) { [weak self] in self?.start() }
        connections.awaitCapacity(self, cause)
    }

    /// Resumes a paused listener, because connections may have ended.
    func resume() {
        guard let timer = pausing, timer.isPending else { return }
        timer.cancel()
        start()
    }
}
