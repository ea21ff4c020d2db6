// An accepted, open connection in one of its phases. Each phase is a separate object that owns the socket and has its own deadline. At its
// end it transfers the socket to the next phase (`ClientConnections.enter`).

import HTTPCore
import Reactor

/// An entry of a shard's connection table.
protocol AcceptedConnection: EventHandler {
    var peer: PeerAddress { get }
    /// The listener that accepted the connection.
    var listener: Listener { get }
    /// The socket's file descriptor; -1 if it is closed.
    var descriptor: Int32 { get }
    /// Ends the connection, or the request, if one of its deadlines has passed.
    /// - Parameter now: milliseconds of the loop's clock.
    func checkDeadline(_ now: Int64)
    /// Starts a graceful end: no more requests after the active ones. An idle connection may still carry one request until
    /// `ClientConnections.drainDeadline`.
    func drain()
    /// Lets active requests respond at once, then ends the connection.
    func endNow()
    /// Ends the connection at once without notifying its exchanges.
    func closeNow()
    /// What the connection waits for from its client; nil if it processes a request, or is closed.
    var clientWait: ClientWait? { get }
    /// Closes the connection so that others can be accepted. Called only while it waits for its client.
    func closeForOthers()
}

extension AcceptedConnection {
    func endNow() { closeNow() }
    func closeForOthers() { closeNow() }
}

/// A connection that sends its collected output at the end of a batch of events.
protocol PushingConnection: AnyObject {
    /// Whether `ClientConnections.pushAtEndOfBatch` has queued the connection.
    var isPushQueued: Bool { get set }
    /// Sends the collected output.
    func pushNow()
}

/// A socket in transition between two phases, with the information gathered so far.
struct AcceptedSocket: ~Copyable {
    var transport: ClientTransport
    var peer: PeerAddress
    let listener: Listener
    /// The last completed phase; nil for a new connection.
    var phase: ConnectionPhase?
    /// TLS properties of the connection; nil for cleartext.
    var security: ConnectionSecurity?
    /// The error with which all requests on the connection are answered; nil if requests are accepted.
    var refusal: RequestRejection?
    /// Bytes that were received and belong to the next phase.
    var received: [UInt8] = []
    /// The HTTP version that the handshake or the client's first bytes selected.
    var chosen = ConnectionPhase.http1
}

/// The phases of a connection, in order.
enum ConnectionPhase {
    /// The PROXY protocol header, which names the client (`ProxyHeaderPhase`).
    case proxyHeader
    /// Detection of the protocol from the client's first bytes (`ProtocolChoice`).
    case choice
    /// The TLS handshake (`TLSHandshake`).
    case handshake
    /// HTTP/1.1 requests, one after the other (`ClientConnection`).
    case http1
    /// HTTP/2 requests, several at once (`HTTP2Connection`).
    case http2
}

extension ListenerSettings {
    /// Returns the phase after `last`; nil stands for the beginning of the connection.
    /// - Parameter chosen: the HTTP version that the handshake or the client's first bytes selected.
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
