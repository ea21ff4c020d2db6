// The HTTP version of a connection to the upstream.

import HTTPCore

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
