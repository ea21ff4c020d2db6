// Address and protocol of one upstream, and its limits and timeouts.

import HTTPCore

/// When HTTP/2 is used with the upstream.
public enum HTTP2Use: String, Sendable, CaseIterable {
    /// If TLS negotiates it (ALPN, RFC 7301).
    case auto
    case off
    /// Always, also without TLS (RFC 9113 §3.3).
    case priorKnowledge = "prior-knowledge"
}

public struct UpstreamSettings: Sendable, Equatable {
    public var isTLS = false
    public var host: String
    public var port: UInt16
    /// Prefix of each request target; empty, or a path without a trailing slash.
    public var basePath = ""
    /// Further addresses, used in this order while all earlier ones are unreachable.
    public var fallbacks: [UpstreamAddress] = []
    /// Path of a Unix socket to connect to instead of TCP; nil for TCP.
    public var unixSocket: String?
    public var http2 = HTTP2Use.auto
    /// URL of a forward proxy in libcurl's form (`http://proxy:3128`, `socks5h://…`); nil for none.
    public var proxy: String?
    public var caFile: String?
    public var clientCertificate: String?
    public var clientKey: String?
    /// Whether the upstream's certificate is verified.
    public var verify = true

    /// Maximum time for name resolution, connecting and the TLS handshake together. Also the maximum wait for a free connection.
    public var connectTimeout = Duration.seconds(5)
    /// Maximum time from the end of sending the request to the first byte of the response.
    public var firstByteTimeout = Duration.seconds(60)
    /// Maximum pause within a response, or while the request's content is sent.
    public var betweenBytesTimeout = Duration.seconds(60)
    /// Maximum time of a whole exchange; 0 for no limit.
    public var totalTimeout = Duration.seconds(120)

    /// Maximum pause within a streaming response, to which the two previous limits do not apply; 0 for no limit.
    public var streamTimeout = Duration.seconds(300)

    /// Maximum number of open connections per shard. Further requests wait.
    public var maximumConnections = 512
    /// Maximum number of waiting requests per shard. Further requests are rejected.
    public var queueLimit = 256
    /// Maximum number of retries of requests without a byte of a response, in percent of all requests. 0 disables them.
    public var retryBudget = 10
    public var failure = FailureSettings()
    /// Interval between lookups of the upstream's name while connections to it are established. The next property is the resolver.
    public var resolveInterval = Duration.seconds(30)
    public var names = ResolvedNames.shared
    /// Maximum idle time of a pooled connection in seconds. Shorter than the limit of most servers.
    public var idleSeconds = 55
    /// Maximum idle time of a pooled connection that carries an unsafe request. Such a request is not retried once the upstream may have
    /// processed it.
    public var idleForWrites = Duration.seconds(4)
    public var responseLimits = ResponseLimits()

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Host and port as in a Host field, without the default port of the scheme.
    public var authority: String {
        port == (isTLS ? 443 : 80) ? hostInURL : "\(hostInURL):\(port)"
    }

    public var hostInURL: String { host.contains(":") ? "[\(host)]" : host }

    /// Whether a forward proxy forwards the requests. The target is then the whole URI, or the authority for OPTIONS * (RFC 9112 §3.2.2,
    /// §3.2.4). TLS uses a tunnel instead, and SOCKS is always a tunnel.
    var isAskedThroughProxy: Bool { !isTLS && proxy.map { !$0.lowercased().hasPrefix("socks") } ?? false }

    /// Whether HTTP/2 is used without negotiation. Requests to a forward proxy always use HTTP/1.1.
    public var knowsHTTP2: Bool { http2 == .priorKnowledge && !isAskedThroughProxy }

    /// User and password for the forward proxy from its URL; nil if there are none.
    var proxyCredentials: [UInt8]? {
        guard let proxy else { return nil }
        let start = proxy.firstRange(of: "://")?.upperBound ?? proxy.startIndex
        guard let end = proxy[start...].prefix(while: { $0 != "/" }).lastIndex(of: "@") else { return nil }
        let text = proxy[start..<end]
        return Array((PercentCoding.decode(text.utf8, plusIsSpace: false) ?? String(text)).utf8)
    }

    /// Whether both settings name one upstream, regardless of timeouts and limits.
    public func isSameOrigin(as other: UpstreamSettings) -> Bool {
        (isTLS, host, port, basePath) == (other.isTLS, other.host, other.port, other.basePath)
            && (unixSocket, proxy) == (other.unixSocket, other.proxy) && fallbacks == other.fallbacks
    }

    public var scheme: String { isTLS ? "https" : "http" }

    /// Scheme and authority, such as `https://api.example.com`.
    public var origin: String { "\(scheme)://\(authority)" }
}
