// One span: the record of a client's request or of a fetch. Created on an event loop, encoded off the loop.

import Decisions
import Explanation
import Figures
import HTTPCore
import Upstream

/// Properties of an API that its spans refer to. Created once per API and shard.
public final class SpanSubject: Sendable {
    public struct Route: Sendable {
        let name: String
        /// The pattern as in the settings.
        let pattern: String

        public init(name: String, pattern: String) { (self.name, self.pattern) = (name, pattern) }
    }

    /// One of the upstream's addresses.
    public struct Upstream: Sendable {
        /// Scheme, authority and base path.
        let url: String
        let host: String
        let port: UInt16

        public init(url: String, host: String, port: UInt16) { (self.url, self.host, self.port) = (url, host, port) }
    }

    /// Name of the API; empty if there is only one.
    let api: String
    let routes: [Route]
    let upstreams: [Upstream]
    let shard: Int

    public init(api: String, routes: [Route], upstreams: [Upstream], shard: Int) {
        (self.api, self.routes, self.upstreams, self.shard) = (api, routes, upstreams, shard)
    }
}

public final class TraceSpan: Sendable {
    /// A client's request.
    public struct Server: Sendable {
        let head: Head
        let isSecure: Bool
        /// The client's address; empty if there is none.
        let client: [UInt8]
        let record: ExchangeRecord

        public init(_ head: Head, isSecure: Bool, client: [UInt8], _ record: borrowing ExchangeRecord) {
            (self.head, self.isSecure, self.client) = (head, isSecure, client)
            self.record = copy record
        }
    }

    /// A request to the upstream.
    public struct Client: Sendable {
        let head: Head
        public var upstream = ExchangeRecord.Upstream()
        /// Start of the transfer to which the upstream's times refer, in microseconds since 1970.
        public var asked: Int64 = 0
        /// Whether the fetch was abandoned because its response was no longer needed.
        public var isAbandoned = false
        /// The cause of a background fetch; nil if a client waited for it.
        public var background: BackgroundCause?

        public init(_ head: Head) { self.head = head }
    }

    /// The head of the request.
    public struct Head: Sendable {
        let method: HTTPCore.Method
        /// Without its query; long paths are truncated.
        let path: [UInt8]
        let version: HTTPVersion

        private static let pathBytes = 1_024

        /// - Parameter target: path and query.
        public init(_ method: HTTPCore.Method, _ target: ArraySlice<UInt8>, _ version: HTTPVersion) {
            (self.method, self.version) = (method, version)
            path = Array(target.prefix(Self.pathBytes).withoutQuery)
        }
    }

    public enum Work: Sendable {
        case server(Server)
        case client(Client)
    }

    let context: SpanContext
    /// ID of the parent span; 0 if there is none.
    let parent: UInt64
    /// A related span; nil if there is none.
    let link: SpanContext?
    /// Start in microseconds since 1970, and duration in microseconds.
    let start: Int64
    let duration: Int64
    let subject: SpanSubject
    let work: Work

    public init(
        _ context: SpanContext, parent: UInt64, link: SpanContext?, start: Int64, duration: Int64, _ subject: SpanSubject,
        _ work: consuming Work
    ) {
        (self.context, self.parent, self.link) = (context, parent, link)
        (self.start, self.duration, self.subject, self.work) = (start, max(0, duration), subject, work)
    }
}

/// Converts a shard's monotonic times to wall-clock times in microseconds with a constant offset, so that a span never begins before its
/// parent. The offset is updated when the wall clock is set.
public struct SpanClock: Sendable {
    private var offset: Int64?
    /// Tolerance in microseconds. Wall-clock times have millisecond resolution, and batches begin slightly earlier.
    private static let toleranceMicroseconds: Int64 = 50_000

    public init() {}

    /// - Parameters:
    ///   - wall: milliseconds since 1970.
    ///   - monotonic: microseconds of the monotonic clock at that moment.
    /// - Returns: number of microseconds to add to the monotonic clock.
    public mutating func offset(wall: Int64, monotonic: Int64) -> Int64 {
        let new = wall * 1_000 - monotonic
        if let offset, abs(new - offset) <= Self.toleranceMicroseconds { return offset }
        offset = new
        return new
    }
}
