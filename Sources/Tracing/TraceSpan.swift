// One span: what is remembered of a request of a client, or of a fetch, until it is written for others. Made on a loop, written beside it.

import Decisions
import Explanation
import HTTPCore
import Telemetry
import Upstream

/// What spans of one API tell of their surroundings. Made once for each.
public final class SpanSubject: Sendable {
    public struct Route: Sendable {
        let name: String
        /// As the settings have it.
        let pattern: String

        public init(name: String, pattern: String) { (self.name, self.pattern) = (name, pattern) }
    }

    /// One of the upstream's addresses.
    public struct Upstream: Sendable {
        /// Scheme, authority and the path before all others.
        let url: String
        let host: String
        let port: UInt16

        public init(url: String, host: String, port: UInt16) { (self.url, self.host, self.port) = (url, host, port) }
    }

    /// Empty for the only one.
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
        /// By address; empty where there is none.
        let client: [UInt8]
        let record: ExchangeRecord
        let trace: ExchangeTrace

        public init(
            _ head: Head, isSecure: Bool, client: [UInt8], _ record: borrowing ExchangeRecord, _ trace: borrowing ExchangeTrace
        ) {
            (self.head, self.isSecure, self.client) = (head, isSecure, client)
            (self.record, self.trace) = (copy record, copy trace)
        }
    }

    /// A request to the upstream.
    public struct Client: Sendable {
        let head: Head
        /// The place of the upstream's address.
        public var address = 0
        /// Of the response; 0 where there was none.
        public var status: UInt16 = 0
        public var spoken: SpokenProtocol?
        public var times = TransferTimes()
        /// When the transfer began that the times are of, in microseconds since 1970.
        public var asked: Int64 = 0
        public var failure: FetchFailure?
        /// Nobody wanted it any more.
        public var isAbandoned = false
        public var isFaulted = false
        /// nil where a client waited for it.
        public var background: BackgroundCause?

        public init(_ head: Head) { self.head = head }
    }

    /// What was asked for.
    public struct Head: Sendable {
        let method: HTTPCore.Method
        /// Without its query; cut where it is long.
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

    let place: SpanPlace
    /// 0 where it has none.
    let parent: UInt64
    /// Another that it has to do with.
    let link: SpanPlace?
    /// Microseconds since 1970, and how many it took.
    let start: Int64
    let duration: Int64
    let subject: SpanSubject
    let work: Work

    public init(
        _ place: SpanPlace, parent: UInt64, link: SpanPlace?, start: Int64, duration: Int64, _ subject: SpanSubject, _ work: consuming Work
    ) {
        (self.place, self.parent, self.link) = (place, parent, link)
        (self.start, self.duration, self.subject, self.work) = (start, max(0, duration), subject, work)
    }
}

/// Tells a shard's times of day in microseconds, all by one look at the clock, so that a span never begins before the one that it is part of. Looked at
/// again where the clock was set.
public struct SpanClock: Sendable {
    private var offset: Int64?
    /// Times of day are known to the millisecond, and batches begin a little before.
    private static let toleranceMicroseconds: Int64 = 50_000

    public init() {}

    /// - Parameters:
    ///   - wall: milliseconds since 1970 …
    ///   - monotonic: … when the monotonic clock said these microseconds.
    /// - Returns: what is to be added to the monotonic clock's microseconds.
    public mutating func offset(wall: Int64, monotonic: Int64) -> Int64 {
        let new = wall * 1_000 - monotonic
        if let offset, abs(new - offset) <= Self.toleranceMicroseconds { return offset }
        offset = new
        return new
    }
}
