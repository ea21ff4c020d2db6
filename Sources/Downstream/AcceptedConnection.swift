// What was accepted and is open: a connection on which requests come, or what comes before it. A socket goes through phases; each is an object of its
// own that owns the socket, has its own deadline, and hands the socket on (`ClientConnections.enter`) when it is done.

import HTTPCore
import Reactor

/// What the table of all that is open asks of each.
protocol AcceptedConnection: EventHandler {
    var peer: PeerAddress { get }
    /// By which it came in.
    var listener: Listener { get }
    /// -1 where it is closed.
    var descriptor: Int32 { get }
    /// What should have happened by `now` and has not ends it.
    func checkDeadline(_ now: Int64)
    /// No more requests after those that are under way. Whoever has none may still send one, for a while (`ClientConnections.drainDeadline`).
    func drain()
    /// The last chance to respond; whatever is done with it, this is the end.
    func endNow()
    /// Ends at once. Tells nobody.
    func closeNow()
    /// What it waits for from its client; nil if it works for the client, or is closed.
    var clientWait: ClientWait? { get }
    /// Ends at once: others need its room. Only while it waits for its client.
    func giveUpRoom()
    /// Sends what was gathered (`ClientConnections.pushAtEndOfBatch`).
    func pushNow()
}

extension AcceptedConnection {
    func endNow() { closeNow() }
    func giveUpRoom() { closeNow() }
    func pushNow() {}
}

/// A socket on its way through the phases, and what is known of it so far.
struct AcceptedSocket: ~Copyable {
    var transport: ClientTransport
    var peer: PeerAddress
    let listener: Listener
    /// The last phase that it has been through.
    var phase: ConnectionPhase?
    /// nil in clear.
    var security: ConnectionSecurity?
    /// What all that may come is refused with.
    var refusal: RequestRejection?
    /// Received, and the next phase's to read.
    var received: [UInt8] = []
    /// What the handshake, or the client's first bytes, have decided.
    var chosen = ConnectionPhase.http1
}

/// What comes on a connection, in this order.
enum ConnectionPhase {
    /// Whose connection it is, in the words of the PROXY protocol (`ProxyHeaderPhase`).
    case proxyHeader
    /// The client's first bytes tell what it speaks (`ProtocolChoice`).
    case choice
    /// TLS is agreed on (`TLSHandshake`).
    case handshake
    /// Requests, one after the other (`ClientConnection`).
    case http1
    /// Requests, many at once (`HTTP2Connection`).
    case http2
}

extension ListenerSettings {
    /// What follows a phase; nil stands for the connection's beginning.
    /// - Parameter chosen: what the handshake, or the client's first bytes, have decided, once they have.
    func phase(after last: ConnectionPhase?, chosen: ConnectionPhase) -> ConnectionPhase {
        switch last {
        case nil where takesProxyHeader: .proxyHeader
        case nil where isTLS, .proxyHeader where isTLS: .handshake
        case nil, .proxyHeader: takesClearHTTP2 ? .choice : .http1
        case .handshake, .choice: chosen
        case .http1, .http2: .http1
        }
    }
}
