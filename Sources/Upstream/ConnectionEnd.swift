// Reasons for the end of a connection to the upstream, as counted by metrics.

public enum ConnectionEnd: String, Sendable, CaseIterable {
    /// The upstream sent bytes after the end of a response, or without a request.
    case surplus
    /// The upstream sent a response, or similar bytes, before the request's head was written completely or any of it had arrived.
    case earlyBytes = "early_bytes"
    /// The upstream closed the connection, or announced that in a response.
    case closedByPeer = "closed_by_peer"
    /// The connection broke, or an invalid response arrived.
    case error
    /// The response was no longer needed, or a timeout passed.
    case givenUp = "given_up"
    /// The connection was idle for too long, or was closed in favor of another one.
    case unused
    /// The upstream's name no longer resolves to this address.
    case addressGone = "address_gone"
    /// The connection belonged to a client connection that has ended or was idle for too long.
    case ownerGone = "owner_gone"
    /// HTTP/2: the upstream did not respond to a PING within the connect timeout. HTTP/1.1: another connection of the upstream received no
    /// acknowledgement within twice that time.
    case unresponsive
    /// HTTP/2: the upstream sent too many frames without content.
    case flood
}

/// Reasons for the end of an HTTP/2 exchange, as counted by metrics.
public enum HTTP2ExchangeEnd: String, Sendable, CaseIterable {
    case whole
    /// The upstream did not process the request (RFC 9113 §8.7).
    case refused
    /// The upstream reset the stream, before or after the head of the response.
    case reset
    /// The response was invalid.
    case invalid
    /// The response was no longer needed, or a timeout passed.
    case givenUp = "given_up"
    /// The connection ended.
    case connectionEnded = "connection_ended"
}
