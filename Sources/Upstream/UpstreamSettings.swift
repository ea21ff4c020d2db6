// Which origin is asked, how it is reached, and how long it may take in each phase.

import HTTPCore

/// When the upstream is asked in HTTP/2.
package enum HTTP2Use: String, Sendable {
    case off
    /// Where it is agreed in TLS (RFC 7301).
    case auto
    /// Always, in clear too (RFC 9113 §3.3).
    case priorKnowledge = "prior-knowledge"
}

package struct UpstreamSettings: Sendable, Equatable {
    package var isTLS = false
    package var host: String
    package var port: UInt16
    /// Put before each request target; empty, or a path without a slash at its end.
    package var basePath = ""
    /// Asked in this order while those before cannot be reached.
    package var fallbacks: [UpstreamAddress] = []
    /// Ask through this Unix socket instead of TCP.
    package var unixSocket: String?
    package var http2 = HTTP2Use.auto
    /// A forward proxy, as libcurl takes it (`http://proxy:3128`, `socks5h://…`).
    package var proxy: String?
    package var caFile: String?
    package var clientCertificate: String?
    package var clientKey: String?
    /// Whether the upstream's certificate is checked.
    package var verify = true

    /// Resolving, connecting and TLS together; also the longest wait for one of our own connections to be free.
    package var connectTimeout = Duration.seconds(5)
    /// From the request sent to the first byte of the response.
    package var firstByteTimeout = Duration.seconds(30)
    /// Longest pause within a response, or within a request's content being sent.
    package var betweenBytesTimeout = Duration.seconds(30)
    /// A whole exchange with the upstream; zero: no limit.
    package var totalTimeout = Duration.seconds(120)

    /// Longest pause within a response that is a stream, which has neither of the two limits before; zero: no limit.
    package var streamTimeout = Duration.seconds(300)

    /// Connections open at once, of one shard; more requests wait for one.
    package var maximumConnections = 512
    /// Requests that may wait for a connection, of one shard; more are not taken.
    package var queueLimit = 256
    /// Whether a request that got no byte of a response is sent once more, and how many such repeats, in percent of all.
    package var retries = true
    package var retryBudget = 10
    package var failure = FailureSettings()
    /// How often the upstream's name is looked up while connections to it are made, and who does that.
    package var resolveInterval = Duration.seconds(30)
    package var names = ResolvedNames.shared
    /// How long an unused connection is kept. Shorter than most servers keep theirs.
    package var idleSeconds = 55
    /// How long a connection may have been unused that a request which must not be sent twice goes over.
    package var idleForWrites = Duration.seconds(4)
    package var responseLimits = ResponseLimits()

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Host and port as in a Host field: the port is left out where the scheme implies it.
    package var authority: String {
        port == (isTLS ? 443 : 80) ? hostInURL : "\(hostInURL):\(port)"
    }

    package var hostInURL: String { host.contains(":") ? "[\(host)]" : host }

    /// Whether a forward proxy passes the requests on: it is given the whole URI as target, or the authority for OPTIONS * (RFC 9112
    /// §3.2.2, §3.2.4). Those for TLS go through a tunnel, and SOCKS is always one.
    var isAskedThroughProxy: Bool { !isTLS && proxy.map { !$0.lowercased().hasPrefix("socks") } ?? false }

    /// HTTP/2 is spoken without being agreed. A forward proxy that is given whole URIs is asked in HTTP/1.1.
    var knowsHTTP2: Bool { http2 == .priorKnowledge && !isAskedThroughProxy }

    /// User and password for the forward proxy, as they stand in its URL.
    var proxyCredentials: [UInt8]? {
        guard let proxy else { return nil }
        let start = proxy.firstRange(of: "://")?.upperBound ?? proxy.startIndex
        guard let end = proxy[start...].prefix(while: { $0 != "/" }).lastIndex(of: "@") else { return nil }
        let text = proxy[start..<end]
        return Array((PercentCoding.decode(text.utf8, plusIsSpace: false) ?? String(text)).utf8)
    }

    /// Whether both are the same upstream, however it is asked.
    package func isSameOrigin(as other: UpstreamSettings) -> Bool {
        (isTLS, host, port, basePath) == (other.isTLS, other.host, other.port, other.basePath)
            && (unixSocket, proxy) == (other.unixSocket, other.proxy) && fallbacks == other.fallbacks
    }

    package var scheme: String { isTLS ? "https" : "http" }

    /// `https://api.example.com`
    package var origin: String { "\(scheme)://\(authority)" }
}
