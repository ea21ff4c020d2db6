// Why a connection to the upstream ended, as metrics count it.

public enum ConnectionEnd: String, Sendable, CaseIterable {
    /// The upstream said more than its response, or spoke while nothing was asked.
    case surplus
    /// A response, or what looked like one, before the request's head was wholly written, or any of it had arrived.
    case earlyBytes = "early_bytes"
    /// By the upstream: it was closed, or the response said that it will be.
    case closedByPeer = "closed_by_peer"
    /// Cut, or what came could not be used.
    case error
    /// Nobody waited for the rest of a response, or a time-out had passed.
    case givenUp = "given_up"
    /// Unused for too long, or in the way of one that was needed.
    case unused
    /// The upstream's name leads there no more.
    case addressGone = "address_gone"
    /// It had a user, and its client's connection has ended, or was idle for too long.
    case ownerGone = "owner_gone"
    /// In HTTP/2: it said nothing to a PING for as long as connecting may take.
    case unresponsive
    /// In HTTP/2: frames that bring nothing, more of them than are taken.
    case flood
}

/// How an exchange on a connection of HTTP/2 ended, as metrics count it.
public enum HTTP2ExchangeEnd: String, Sendable, CaseIterable {
    case whole
    /// The upstream has done nothing with it, and said so (RFC 9113 §8.7).
    case refused
    /// Reset by the upstream, with or without a head.
    case reset
    /// The response could not be used.
    case invalid
    /// Nobody waited for the rest of it, or a time-out had passed.
    case givenUp = "given_up"
    /// Its connection ended.
    case connectionEnded = "connection_ended"
}
