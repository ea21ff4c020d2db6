// Reads the PROXY protocol header, in which a load balancer states the client of a connection. On such a listener, only trusted proxies
// may connect, and each must send a header.

import Addresses
import Figures
import HTTPCore
import Reactor

final class ProxyHeaderPhase: AcceptedConnection {
    /// nil after the socket was transferred or closed.
    private var socket: AcceptedSocket?
    private let table: ClientConnections
    private var deadline: Int64
    /// Bytes of the header received so far.
    private var received: [UInt8] = []

    let peer: PeerAddress
    let listener: Listener
    private(set) var descriptor: Int32

    init(_ socket: consuming AcceptedSocket, table: ClientConnections) {
        (peer, listener, descriptor) = (socket.peer, socket.listener, socket.transport.descriptor)
        self.socket = consume socket
        self.table = table
        deadline = table.deadline(after: table.settings.headTimeout)
    }

    /// Starts the phase. Refuses untrusted peers without waiting for a header.
    func start() {
        if !isTrusted { refuse() }
    }

    /// Peers on a Unix socket are trusted, because its file's permissions decide who may connect.
    private var isTrusted: Bool { peer.address.map { table.settings.trustedProxies.contains($0) } ?? true }

    func ready(_ events: ReadyEvents) {
        if events.isBroken { return refuse() }
        guard events.isReadable, let count = socket?.transport.peek(into: table.readBuffer) else { return }
        guard count > 0 else { return refuse() }
        // Bytes after the header stay in the kernel for the next phase: TLS reads from the socket itself.
        let (known, new) = (received.count, UnsafeBufferPointer(rebasing: table.readBuffer[..<min(count, ProxyHeader.limit)]))
        received += new
        switch ProxyHeader.read(received[...]) {
        case .invalid: refuse()
        case .needsMore: take(new.count)
        case .header(let header, let bytes):
            take(bytes - known)
            proceed(header)
        }
    }

    /// Removes bytes from the kernel's buffer; a peek has shown that it contains them.
    private func take(_ count: Int) {
        _ = socket?.transport.receive(into: UnsafeMutableBufferPointer(rebasing: table.readBuffer[..<count]))
    }

    private func proceed(_ header: ProxyHeader) {
        guard var next = socket.take() else { return }
        if let peer = header.source.map({ PeerAddress($0.address, port: $0.port) }) ?? (header.isUnknown ? .unknown : nil) {
            next.peer = peer
            guard table.budget.admit(next.peer) else {
                socket = consume next
                return closeNow()
            }
        }
        next.phase = .proxyHeader
        table.enter(next)
    }

    private func refuse() {
        table.counters[.proxyHeadersRefused] += 1
        closeNow()
    }

    func checkDeadline(_ now: Int64) {
        guard now >= deadline else { return }
        table.counters[.connectionsTimedOut] += 1
        closeNow()
    }

    var clientWait: ClientWait? { socket == nil ? nil : ClientWait(kind: .opening, deadline: deadline) }

    func drain() { deadline = min(deadline, table.drainDeadline) }

    func closeNow() {
        guard var socket = socket.take() else { return }
        table.remove(descriptor)
        socket.transport.close()
        descriptor = -1
    }
}
