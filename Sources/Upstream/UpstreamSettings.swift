// Which origin is asked, how it is reached, and how long it may take in each phase.

import HTTPCore

/// When the upstream is asked in HTTP/2.
public enum HTTP2Use: String, Sendable {
    case off
    /// Where it is agreed in TLS (RFC 7301).
    case auto
    /// Always, in clear too (RFC 9113 §3.3).
    case priorKnowledge = "prior-knowledge"
}

public struct UpstreamSettings: Sendable, Equatable {
    public var isTLS = false
    public var host: String
    public var port: UInt16
    /// Put before each request target; empty, or a path without a slash at its end.
    public var basePath = ""
    /// Asked in this order while those before cannot be reached.
    public var fallbacks: [UpstreamAddress] = []
    /// Ask through this Unix socket instead of TCP.
    public var unixSocket: String?
    public var http2 = HTTP2Use.auto
    /// A forward proxy, as libcurl takes it (`http://proxy:3128`, `socks5h://…`).
    public var proxy: String?
    public var caFile: String?
    public var clientCertificate: String?
    public var clientKey: String?
    /// Whether the upstream's certificate is checked.
    public var verify = true

    /// Resolving, connecting and TLS together; also the longest wait for one of our own connections to be free.
    public var connectTimeout = Duration.seconds(5)
    /// From the request sent to the first byte of the response.
    public var firstByteTimeout = Duration.seconds(30)
    /// Longest pause within a response, or within a request's content being sent.
    public var betweenBytesTimeout = Duration.seconds(30)
    /// A whole exchange with the upstream; zero: no limit.
    public var totalTimeout = Duration.seconds(120)

    /// Longest pause within a response that is a stream, which has neither of the two limits before; zero: no limit.
    public var streamTimeout = Duration.seconds(300)

    /// Connections open at once, of one shard; more requests wait for one.
    public var maximumConnections = 512
    /// Requests that may wait for a connection, of one shard; more are not taken.
    public var queueLimit = 256
    /// Whether a request that got no byte of a response is sent once more, and how many such repeats, in percent of all.
    public var retries = true
    public var retryBudget = 10
    public var failure = FailureSettings()
    /// How often the upstream's name is looked up while connections to it are made, and who does that.
    public var resolveInterval = Duration.seconds(30)
    public var names = ResolvedNames.shared
    /// How long an unused connection is kept. Shorter than most servers keep theirs.
    public var idleSeconds = 55
    /// How long a connection may have been unused that a request which must not be sent twice goes over.
    public var idleForWrites = Duration.seconds(4)
    public var responseLimits = ResponseLimits()

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Host and port as in a Host field: the port is left out where the scheme implies it.
    public var authority: String {
        port == (isTLS ? 443 : 80) ? hostInURL : "\(hostInURL):\(port)"
    }

    public var hostInURL: String { host.contains(":") ? "[\(host)]" : host }

    /// Whether a forward proxy passes the requests on: it is given the whole URI as target, or the authority for OPTIONS * (RFC 9112
    /// §3.2.2, §3.2.4). Those for TLS go through a tunnel, and SOCKS is always one.
    var isAskedThroughProxy: Bool { !isTLS && proxy.map { !$0.lowercased().hasPrefix("socks") } ?? false }

    /// HTTP/2 is spoken without being agreed. A forward proxy that is given whole URIs is asked in HTTP/1.1.
    public var knowsHTTP2: Bool { http2 == .priorKnowledge && !isAskedThroughProxy }

    /// User and password for the forward proxy, as they stand in its URL.
    var proxyCredentials: [UInt8]? {
        guard let proxy else { return nil }
        let start = proxy.firstRange(of: "://")?.upperBound ?? proxy.startIndex
        guard let end = proxy[start...].prefix(while: { $0 != "/" }).lastIndex(of: "@") else { return nil }
        let text = proxy[start..<end]
        return Array((PercentCoding.decode(text.utf8, plusIsSpace: false) ?? String(text)).utf8)
    }

    /// Whether both are the same upstream, however it is asked.
    public func isSameOrigin(as other: UpstreamSettings) -> Bool {
        (isTLS, host, port, basePath) == (other.isTLS, other.host, other.port, other.basePath)
            && (unixSocket, proxy) == (other.unixSocket, other.proxy) && fallbacks == other.fallbacks
    }

    public var scheme: String { isTLS ? "https" : "http" }

    /// `https://api.example.com`
    public var origin: String { "\(scheme)://\(authority)" }
}
