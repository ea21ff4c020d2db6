// Selects how a request gets a connection if HTTP/2 is used. Streams of existing connections, and connections being established, precede
// new connections. Not used while the upstream speaks only HTTP/1.1. Pure.

import HTTPCore

/// The HTTP version of a connection.
public enum SpokenProtocol: String, Sendable, CaseIterable {
    case http1 = "http/1.1"
    case http2 = "h2"

    public var version: HTTPVersion {
        switch self {
        case .http1: .http11
        case .http2: .http2
        }
    }
}

struct ConnectionChoice {
    enum Choice: Equatable {
        /// A stream of a suitable connection.
        case stream
        /// An idle HTTP/1.1 connection.
        case kept
        /// Wait for a connection that is being established.
        case join
        /// Establish a new connection.
        case make
        /// Establish a new connection after closing an unused one.
        case replace
        /// A stream of any connection, even a possibly dead one, because no other option remains.
        case anyStream
    }

    /// Whether a suitable connection has a free stream. It must be newer than one that the request found dead, and recently active for an
    /// unsafe request.
    let hasStream: Bool
    /// Whether any connection has a free stream.
    let hasAnyStream: Bool
    /// Whether an idle HTTP/1.1 connection exists, and the request has not found one dead.
    let hasKept: Bool
    /// Whether new connections are expected to use HTTP/2, and one being established can carry another request.
    let mayJoin: Bool
    /// Whether the limit on connections allows another one.
    let mayMake: Bool
    /// Whether a connection without requests exists.
    let hasUnused: Bool

    /// The selected way; nil if the request has to wait.
    var choice: Choice? {
        if hasStream { return .stream }
        if hasKept { return .kept }
        if mayJoin { return .join }
        if mayMake { return .make }
        if hasUnused { return .replace }
        return hasAnyStream ? .anyStream : nil
    }
}
