// Which connection a request gets where HTTP/2 is spoken: a stream of one that is there, or one that is being made and will carry several, before
// another is made. Where only HTTP/1.1 is spoken there is nothing to choose, and this is not asked. Pure.

import HTTPCore

/// What is spoken on a connection.
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
        /// A stream of a connection that the request may have.
        case stream
        /// An idle connection of HTTP/1.1.
        case kept
        /// To wait for one that is being made.
        case join
        /// One made for it.
        case make
        /// The same, in the place of one that is not used.
        case replace
        /// A stream of any connection, though it may be dead: there is nothing else.
        case anyStream
    }

    /// A connection has room for one more stream, was made since the request found one dead, and for a write was heard of lately.
    let hasStream: Bool
    /// There is room on some connection.
    let hasAnyStream: Bool
    /// There is an idle connection of HTTP/1.1, and the request has not found one dead.
    let hasKept: Bool
    /// New connections are expected to speak HTTP/2, and one that is being made has room.
    let mayJoin: Bool
    /// There are fewer connections than there may be.
    let mayMake: Bool
    /// A connection is there that carries nothing.
    let hasUnused: Bool

    /// nil: it has to wait.
    var choice: Choice? {
        if hasStream { return .stream }
        if hasKept { return .kept }
        if mayJoin { return .join }
        if mayMake { return .make }
        if hasUnused { return .replace }
        return hasAnyStream ? .anyStream : nil
    }
}
