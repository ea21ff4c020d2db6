// Limits and timeouts for clients.

import Addresses
import HTTP2
import HTTPCore

public struct DownstreamSettings: Sendable {
    public var requestLimits = RequestLimits()
    /// Maximum bytes of a request's content; longer content gets 413. 0 for no limit: long content is streamed and not buffered.
    public var contentLimitBytes = 0
    /// Maximum bytes of one request's content that are buffered before the fetch. Longer content is streamed. 0 streams all content.
    public var requestBufferBytes = 256 << 10
    /// Maximum bytes of buffered content of all requests together. See `limitMemory(to:)`.
    public var requestBuffersBytes = 64 << 20
    /// Maximum time from the first byte of a request to the end of its head, followed by 408. Slowly arriving bytes do not extend it.
    public var headTimeout = Duration.seconds(10)
    /// Maximum time for which an idle connection is kept. Longer than that of most clients, so that clients close first.
    public var keepAliveTimeout = Duration.seconds(75)
    /// Maximum pause within a request's content, followed by 408 or the end of the connection.
    public var contentTimeout = Duration.seconds(30)
    /// Maximum time from a request's head to the end of buffered content, followed by 408. Prevents a slow client from occupying that
    /// memory.
    public var contentTotal = Duration.seconds(120)
    /// Maximum time without progress while a client reads its response.
    public var writeTimeout = Duration.seconds(60)
    /// Maximum number of requests on one connection; 0 for no limit.
    public var requestsPerConnection = 0
    /// Maximum number of open connections. At the limit idle connections are closed (`ClosingRound`). If there are none, new ones wait in the
    /// kernel's queue.
    public var maximumConnections = 10_000
    /// Maximum number of open connections of one client address, or of one /64 network for IPv6. Further connections are closed at once. 0
    /// for no limit.
    public var connectionsPerAddress = 0
    /// Trusted proxies in front of Cistern, which state the client of each connection or request. Limits per address do not apply to them.
    public var trustedProxies = NetworkList()
    /// Maximum bytes that wait to be sent to one client before its upstream is paused.
    public var outputHighWaterBytes = 256 * 1024
    /// Maximum memory of unsent responses of all connections together, in bytes. A connection that exceeds it is aborted. 0 for no limit.
    /// See `limitMemory(to:)`.
    public var unsentLimitBytes = 512 << 20
    public var http2 = HTTP2Limits()
    public var discarding = DiscardLimits()
    /// Length of the kernel's queue of connections to be accepted.
    public var backlog: Int32 = 4096

    public init() {}

    /// Reduces memory limits to parts of `bytes`: an eighth for unsent responses, and 1/64 for buffered content, but at least one
    /// request's limit.
    public mutating func limitMemory(to bytes: Int) {
        unsentLimitBytes = min(unsentLimitBytes, bytes / 8)
        requestBuffersBytes = max(requestBufferBytes, min(requestBuffersBytes, bytes / 64))
    }

    public var hasTrustedProxies: Bool { !trustedProxies.isEmpty }
}

/// Limits for reading and discarding the rest of a request's content after its response was sent. Most clients read the response only
/// after they have sent all content, and lose it if the connection or stream ends earlier.
public struct DiscardLimits: Sendable {
    /// Maximum bytes of one request.
    public var bytes = 32 << 20
    /// Maximum time from the end of the response.
    public var timeout = Duration.seconds(10)
    /// Maximum number of requests of one client address at once. Other requests are ended at once.
    public var perAddress = 8

    public init() {}

    /// Maximum bytes that are read after the last output of a connection, and maximum time. Used in HTTP/1.1 if no content was missing, or
    /// if no more may be discarded.
    static let lingerBytes = 1 << 20
    static let lingerTimeout = Duration.seconds(2)
}

/// Limits of one HTTP/2 connection.
public struct HTTP2Limits: Sendable {
    /// Maximum number of concurrent requests. Further ones are refused with REFUSED_STREAM, which clients may retry.
    public var streams = 100
    /// Maximum number of frames without content per second. Beyond it, the connection ends with ENHANCE_YOUR_CALM.
    public var controlFrames = 1_000
    /// Maximum number of streams that are reset instead of ended. Beyond it, the connection ends with ENHANCE_YOUR_CALM (see
    /// `HTTP2ResetBudget`). That of a trusted proxy or a Unix socket ends after its active requests.
    public var resets = 200

    public init() {}

    /// Flow-control windows: maximum bytes of content that are in transit or buffered for a paused flow, of one request and of one
    /// connection.
    static let streamWindowBytes: Int32 = 64 << 10
    static let connectionWindowBytes: Int32 = 1 << 20

    func session(_ limits: RequestLimits) -> HTTP2SessionSettings {
        var settings = HTTP2SessionSettings()
        settings.maximumStreams = streams
        settings.streamWindowBytes = Self.streamWindowBytes
        settings.connectionWindowBytes = Self.connectionWindowBytes
        settings.fieldLimits = HTTP2RequestHead.fieldLimits(limits)
        return settings
    }
}

/// How the end of a response's content is marked (RFC 9112 §6).
public enum ResponseFraming: Sendable, Equatable {
    /// No content, and no field that describes it (1xx, 204, 304).
    case none
    case length(Int)
    /// Unknown length: chunked, or up to the end of the connection for an HTTP/1.0 client.
    case chunked
    /// A 101 response, followed by another protocol in both directions.
    case tunnel
}
