// All that the page at /metrics tells of, as plain values: counts of shards and APIs, added up, and what other modules count.

import Figures

/// Numbers that other modules count, handed over as plain values.
public struct MetricsSnapshot: Sendable {
    /// What the failure memory knows.
    public struct Failures: Sendable {
        /// One kind of scope: how many are open, and how often one has opened.
        public struct ScopeLine: Sendable {
            public let scope: String
            public let open: Int
            public let opened: Int

            public init(scope: String, open: Int, opened: Int) { (self.scope, self.open, self.opened) = (scope, open, opened) }
        }

        public struct RouteLine: Sendable {
            public let route: String
            public let isOpen: Bool

            public init(route: String, isOpen: Bool) { (self.route, self.isOpen) = (route, isOpen) }
        }

        /// Reports of each API's upstream.
        public var upstreams: [UpstreamReport]
        public var scopes: [ScopeLine]
        public var routes: [RouteLine]

        public init(upstreams: [UpstreamReport] = [], scopes: [ScopeLine] = [], routes: [RouteLine] = []) {
            (self.upstreams, self.scopes, self.routes) = (upstreams, scopes, routes)
        }

        /// Combined report of all APIs.
        public var upstream: UpstreamReport { .combined(upstreams) }

        /// Only how often scopes were found failing.
        public mutating func addOpened(_ other: Failures) {
            let known = scopes
            scopes = other.scopes.enumerated().map { place, line in
                ScopeLine(scope: line.scope, open: 0, opened: line.opened + (place < known.count ? known[place].opened : 0))
            }
        }

        /// Adds the failures of another API.
        public mutating func add(_ other: Failures) {
            upstreams += other.upstreams
            routes += other.routes
            guard !scopes.isEmpty else {
                scopes = other.scopes
                return
            }
            scopes = zip(scopes, other.scopes).map {
                ScopeLine(scope: $0.scope, open: $0.open + $1.open, opened: $0.opened + $1.opened)
            }
        }
    }

    /// How long events waited on one shard's loop, in microseconds.
    public struct LoopLine: Sendable {
        public let shard: Int
        /// Within the last minute.
        public let longestWait: Int64
        public let waits: Histogram
        /// What waits for each of its workers, or is being done: pieces of work, and the bytes of memory that their content takes.
        public let workers: [(name: String, queue: Int, bytes: Int)]

        public init(shard: Int, longestWait: Int64, waits: Histogram, workers: [(name: String, queue: Int, bytes: Int)]) {
            (self.shard, self.longestWait, self.waits, self.workers) = (shard, longestWait, waits, workers)
        }
    }

    public var shards: ShardMetrics
    /// What is counted of each API, by their places.
    public var apiCounts: [APICounts] = []
    /// How each is, where there are several.
    public var apis: [APILine] = []
    /// The place of the only one, where there are not.
    public var soleAPI = 0
    /// Of APIs that have routes: those, and what is left.
    var routes: [(name: String, counts: RouteCounts)] = []
    /// Seconds, by `CacheResult`: of copies that went out within the last five minutes; nil where none did.
    public private(set) var oldestAges = [Int64?](repeating: nil, count: CacheResult.allCases.count)
    public var failures = Failures()
    /// Milliseconds to add to a time of the monotonic clock to get the time since 1970.
    public var unixOffset: Int64 = 0
    /// Whether balancers should send requests here.
    public var isReady = true

    /// One mode: whether it is that of all paths, and for how many prefixes it is set.
    public struct ModeLine: Sendable {
        /// The same of two APIs together.
        public func with(_ other: ModeLine) -> ModeLine {
            ModeLine(
                mode: mode, isForAll: isForAll && other.isForAll, prefixes: prefixes + other.prefixes, routes: routes + other.routes)
        }

        public let mode: String
        public let isForAll: Bool
        public let prefixes: Int
        public let routes: Int

        public init(mode: String, isForAll: Bool, prefixes: Int, routes: Int) {
            (self.mode, self.isForAll, self.prefixes, self.routes) = (mode, isForAll, prefixes, routes)
        }
    }

    /// Tokens of requests, and the keys that they are verified with.
    public struct Tokens: Sendable {
        /// Those that were looked at, by what that came to.
        public var looked: [String: UInt64] = [:]
        /// How often the upstream was asked whom credentials belong to, by what that came to.
        public var lookUps: [String: UInt64] = [:]

        public init() {}
    }

    /// TLS with clients.
    public struct ClientTLS: Sendable {
        public var isSpoken = false
        public var running = 0
        public var full = 0
        public var resumed = 0
        public var failed: [String: Int] = [:]
        /// By the first name in each.
        public var certificates: [(name: String, secondsLeft: Int64)] = []
        /// How often certificates were read again, and how often something was wrong with them.
        public var reloads = 0
        public var failedReloads = 0

        public init() {}
    }

    /// How often the settings were read again, by what came of it, and which that was the last time.
    public struct Reloads: Sendable {
        public var counts: [(result: String, count: UInt64)] = []
        public var last: (result: String, seconds: Int64)?

        public init() {}
    }

    /// Spans of requests and fetches, where they are recorded.
    public struct Tracing: Sendable {
        public var exported: UInt64 = 0
        public var failures: UInt64 = 0
        public var overLimit: UInt64 = 0
        public var dropped: [(reason: String, count: UInt64)] = []

        public init() {}
    }

    /// nil where none ever were.
    public var tracing: Tracing?

    /// What nodes share.
    public struct Sharing: Sendable {
        public typealias Line = (label: String, count: UInt64)
        public var lookUps: [Line] = []
        public var refusals: [Line] = []
        public var leases: [Line] = []
        public var offers: [Line] = []
        public var engineFailures: [Line] = []
        /// nil: none were counted.
        public var roundTrips: Histogram?
        public var servers: [(isAsked: Bool, count: Int)] = []
        public var entriesApplied: UInt64 = 0
        public var entriesAppended: UInt64 = 0
        public var gaps: [Line] = []
        public var isSeeing = false
        public var blindings: UInt64 = 0
        public var unopened: UInt64 = 0
        public var pendingPurges: [Line] = []
        /// Milliseconds.
        public var lag: Int64 = 0
        /// Engine's clock minus this machine's clock, in milliseconds; nil if unknown.
        public var clockSkew: Int64?

        public init() {}
    }

    /// nil where nothing is shared.
    public var sharing: Sharing?
    public var reloads = Reloads()

    public var modes: [ModeLine] = []
    public var clientTLS = ClientTLS()
    /// How often each kind of fault was injected.
    public var faults: [(kind: String, count: UInt64)] = []
    public var figures = Figures()
    /// Connections to the upstream that ended, by cause.
    public var upstreamEnded: [String: Int] = [:]
    /// Exchanges with the upstream over HTTP/2 that ended, by how.
    public var upstreamHTTP2Ended: [String: Int] = [:]
    public var process = ProcessFigures()
    public var version = ""
    /// Libraries with their versions.
    public var libraries: [(name: String, version: String)] = []
    /// Hash of the settings in use.
    public var settingsHash: UInt64 = 0
    public var limits = LimitUse()
    public var clockSteps = ClockSteps()
    /// Present time in milliseconds of the monotonic clock.
    public var monotonicNow: Int64 = 0
    /// One line for each shard, in their order.
    public var loops: [LoopLine] = []
    public var gone: [(event: String, count: UInt64)] = []
    /// Requests, by a field that is on no list and what was found of it.
    public var unknownFields: [(field: String, finding: String, count: UInt64)] = []
    /// Empty where nothing is recorded.
    public var recorded: [(result: String, count: UInt64)] = []
    public var tokens = Tokens()
    /// Of the process that this one has taken over from.
    public var inherited: InheritedCounts?

    public init(shards: ShardMetrics) { self.shards = shards }

    /// Those of one shard.
    /// - Parameter now: milliseconds since 1970.
    public mutating func addOldestAges(of metrics: ShardMetrics, now: Int64) {
        for (place, age) in metrics.oldestAges.latest(at: now).enumerated() where age ?? -1 > oldestAges[place] ?? -1 {
            oldestAges[place] = age
        }
    }
}
