// How long clients may take and how much they may send. Every limit has a name, a default and a reason.

import Addresses
import HTTP2
import HTTPCore

public struct DownstreamSettings: Sendable {
    public var requestLimits = RequestLimits()
    /// Longest request content; beyond it 413. 0: no limit, since what is long is streamed and never held whole.
    public var contentLimitBytes = 0
    /// What is held of one request's content before anything is asked for it; longer content is streamed. 0: all of it is.
    public var requestBufferBytes = 256 << 10
    /// What is held of all requests' content together.
    public var requestBuffersBytes = 64 << 20
    /// From the first byte of a request to the end of its head; beyond it 408. Dripping does not extend it.
    public var headTimeout = Duration.seconds(10)
    /// How long an idle connection is kept. Longer than most clients keep theirs, so that they close, not we.
    public var keepAliveTimeout = Duration.seconds(75)
    /// Longest pause within a request's content; beyond it 408 or the end of the connection.
    public var contentTimeout = Duration.seconds(30)
    /// From a request's head to the end of content that is held; beyond it 408. So nobody keeps that memory by dripping.
    public var contentTotal = Duration.seconds(120)
    /// Longest time without progress while a client takes its response.
    public var writeTimeout = Duration.seconds(60)
    /// Requests on one connection before it is closed; 0: no limit.
    public var requestsPerConnection = 0
    /// Maximum number of open connections. At the limit idle ones are closed (`RoomRound`); without any, new ones wait in the kernel's queue.
    public var maximumConnections = 10_000
    /// Open connections of one client address (of IPv6: one /64 network); more are closed at once. 0: no limit.
    public var connectionsPerAddress = 0
    /// Proxies in front of us, who say whose connections and requests theirs are. What comes from them is no limit's matter.
    public var trustedProxies = NetworkList()
    /// What may wait to be sent to one client before its upstream is held back.
    public var outputHighWaterBytes = 256 * 1024
    /// Memory of responses that clients have not taken yet, of all connections together: whose response goes beyond is cut off.
    /// 0: no limit.
    public var unsentLimitBytes = 512 << 20
    public var http2 = HTTP2Limits()
    public var discarding = DiscardLimits()
    /// Connections waiting to be accepted, in the kernel.
    public var backlog: Int32 = 4096

    public init() {}

    public var hasTrustedProxies: Bool { !trustedProxies.isEmpty }
}

/// How much of a request's content is read and discarded after its response has gone out. Most clients read no response before they have sent all
/// that they have, and lose it where the connection or stream ends before.
public struct DiscardLimits: Sendable {
    /// Content of one request.
    public var bytes = 32 << 20
    /// From the end of the response on.
    public var timeout = Duration.seconds(10)
    /// Requests of one client address at once; others end at once.
    public var perAddress = 8

    public init() {}

    /// HTTP/1.1: what is read after a response that ended the connection, and for how long, where no content was still to come, or there is no room
    /// to discard more.
    static let lingerBytes = 1 << 20
    static let lingerTimeout = Duration.seconds(2)
}

/// What one HTTP/2 connection may ask for.
public struct HTTP2Limits: Sendable {
    /// Requests at once; beyond it they are refused with REFUSED_STREAM, which clients repeat.
    public var streams = 100
    /// Frames each second that carry nothing; beyond it the connection ends with ENHANCE_YOUR_CALM.
    public var controlFrames = 1_000
    /// Streams that are reset rather than ended; beyond it the same (see `HTTP2ResetBudget`).
    public var resets = 200

    public init() {}

    /// So much content of one request is on its way, or held for a flow that takes none now; and of all of one connection.
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

/// How the content of a response is marked (RFC 9112 §6).
public enum ResponseFraming: Sendable, Equatable {
    /// No content and no field that speaks of it (1xx, 204, 304).
    case none
    case length(Int)
    /// Length unknown: chunked, or up to the end of the connection for an HTTP/1.0 client.
    case chunked
    /// A 101, and then another protocol, both ways.
    case tunnel
}
