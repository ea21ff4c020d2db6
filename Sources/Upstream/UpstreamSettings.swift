// Which origin is asked, how it is reached, and how long it may take in each phase.

/// All of it is passed on to libcurl, except the time-outs, which run on the event loop's clock.
package struct UpstreamSettings: Sendable {
    package enum HTTP2: String, Sendable, CaseIterable {
        /// Where TLS negotiates it.
        case auto
        case off
        /// Without TLS too: the upstream is known to speak it.
        case priorKnowledge = "prior-knowledge"
    }

    package var isTLS = false
    package var host: String
    package var port: UInt16
    /// Put before each request target; empty, or a path without a slash at its end.
    package var basePath = ""
    /// Ask through this Unix socket instead of TCP.
    package var unixSocket: String?
    package var http2 = HTTP2.auto
    /// A forward proxy, as libcurl takes it (`http://proxy:3128`, `socks5h://…`).
    package var proxy: String?
    package var caFile: String?
    package var clientCertificate: String?
    package var clientKey: String?
    /// Whether the upstream's certificate is checked.
    package var verify = true
    /// libcurl carries plain requests too, from end to end. Not the operator's to choose: for holding the two ways side by side in tests.
    package var usesLibcurlThroughout = false

    /// Resolving, connecting and TLS together; also the longest wait for one of our own connections to be free.
    package var connectTimeout = Duration.seconds(5)
    /// From the request sent to the first byte of the answer.
    package var firstByteTimeout = Duration.seconds(30)
    /// Longest pause within an answer, or within a request's content being sent.
    package var betweenBytesTimeout = Duration.seconds(30)
    /// A whole exchange with the upstream; zero: no limit.
    package var totalTimeout = Duration.seconds(120)

    /// Connections open at once, of one shard; more requests wait for one.
    package var maximumConnections = 128
    /// Requests that may wait for a connection, of one shard; more are not taken.
    package var queueLimit = 256
    /// Whether a request that got no byte of an answer is sent once more, and how many such repeats, in percent of all.
    package var retries = true
    package var retryBudget = 10
    package var failure = FailureSettings()
    /// How long an unused connection is kept. Shorter than most servers keep theirs.
    package var idleSeconds = 55
    /// Largest head of an answer.
    package var responseHeadBytes = 65_536
    /// Most header fields of an answer.
    package var responseFieldCount = 1_000
    /// 1xx answers taken before the final one.
    package var informationalLimit = 20

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Host and port as in a Host field: the port is left out where the scheme implies it.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isTLS ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// Whether a forward proxy passes the requests on: it is given the whole URI as target, or the authority for OPTIONS * (RFC 9112
    /// §3.2.2, §3.2.4). Those for TLS go through a tunnel, and SOCKS is always one.
    var isAskedThroughProxy: Bool { !isTLS && proxy.map { !$0.lowercased().hasPrefix("socks") } ?? false }

    /// Whether an answer may be in HTTP/2.
    var maySpeakHTTP2: Bool { http2 == .priorKnowledge || (isTLS && http2 == .auto) }

    /// Whether we speak HTTP/1.1 ourselves: without TLS, and with nobody in between who wants to be asked in another way (a SOCKS proxy only
    /// makes the connection).
    var isPlainHTTP1: Bool { !isTLS && http2 != .priorKnowledge && !isAskedThroughProxy && !usesLibcurlThroughout }

    package var scheme: String { isTLS ? "https" : "http" }

    /// `https://api.example.com`
    package var origin: String { "\(scheme)://\(authority)" }
}
