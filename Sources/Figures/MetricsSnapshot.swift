// All values of the /metrics page: the sums of all shards and APIs, and values of other modules.

/// Values of other modules for the /metrics page.
public struct MetricsSnapshot: Sendable {
    /// The state of the failure memory.
    public struct Failures: Sendable {
        /// One kind of scope: number of open scopes, and number of times that one has opened.
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

        /// Adds only the number of times that scopes opened.
        public mutating func addOpened(_ other: Failures) {
            let known = scopes
            scopes = other.scopes.enumerated().map { index, line in
                ScopeLine(scope: line.scope, open: 0, opened: line.opened + (index < known.count ? known[index].opened : 0))
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
        /// Maximum within the last minute.
        public let longestWait: Int64
        public let waits: Histogram
        /// Waiting and running work of each worker: number of pieces, and bytes of their content.
        public let workers: [(name: String, queue: Int, bytes: Int)]

        public init(shard: Int, longestWait: Int64, waits: Histogram, workers: [(name: String, queue: Int, bytes: Int)]) {
            (self.shard, self.longestWait, self.waits, self.workers) = (shard, longestWait, waits, workers)
        }
    }

    /// Counts of each API, by its index.
    public var apiCounts: [APICounts] = []
    /// State of each API, if there are several.
    public var apis: [APILine] = []
    /// Index of the API if there is only one.
    public var soleAPI = 0
    /// Figures of each route, for APIs with routes, including requests that match no route.
    var routes: [(name: String, figures: LabelledFigures)] = []
    /// Age in seconds of the oldest stored response that was served within the last five minutes, by `CacheResult`; nil if none was served.
    public private(set) var oldestAges = [Int64?](repeating: nil, count: CacheResult.allCases.count)
    public var failures = Failures()
    /// Milliseconds to add to a time of the monotonic clock to get the time since 1970.
    public var unixOffset: Int64 = 0
    /// Whether load balancers should send requests here.
    public var isReady = true

    /// One mode: whether it applies to all paths, and the number of prefixes and routes for which it is set.
    public struct ModeLine: Sendable {
        /// Combines the values of two APIs.
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

    /// Tokens of requests, and look-ups of identities.
    public struct Tokens: Sendable {
        /// Number of evaluated tokens, by result.
        public var lookUpResults: [String: UInt64] = [:]
        /// Number of identity look-ups at the upstream, by result.
        public var lookUps: [String: UInt64] = [:]

        public init() {}
    }

    /// TLS with clients.
    public struct ClientTLS: Sendable {
        public var isSpoken = false
        public var running = 0
        /// Certificates by the first name in each.
        public var certificates: [(name: String, secondsLeft: Int64)] = []

        public init() {}
    }

    /// Number of settings reloads by result, and the last result with its time.
    public struct Reloads: Sendable {
        public var counts: [(result: String, count: UInt64)] = []
        public var last: (result: String, seconds: Int64)?

        public init() {}
    }

    /// Whether tracing is enabled, or was before a reload.
    public var hasTraced = false

    /// Values of the fleet.
    public struct Sharing: Sendable {
        public typealias Line = (label: String, count: UInt64)
        public var lookUps: [Line] = []
        public var refusals: [Line] = []
        public var leases: [Line] = []
        public var offers: [Line] = []
        public var engineFailures: [Line] = []
        /// nil if none were counted.
        public var roundTrips: Histogram?
        public var servers: [(isAsked: Bool, count: Int)] = []
        public var entriesApplied: UInt64 = 0
        public var entriesAppended: UInt64 = 0
        public var gaps: [Line] = []
        public var isUpToDate = false
        public var disconnections: UInt64 = 0
        public var unopened: UInt64 = 0
        public var foreign: UInt64 = 0
        /// Causes of blindness: 1 for the present one.
        public var troubles: [Line] = []
        /// Loops that do not look for others' responses, since the engine's round trip is too long.
        public var slowLoops = 0
        public var pendingPurges: [Line] = []
        /// Milliseconds.
        public var lag: Int64 = 0
        /// Engine's clock minus this machine's clock, in milliseconds; nil if unknown.
        public var clockSkew: Int64?

        public init() {}
    }

    /// Notifications of operators.
    public struct Notifications: Sendable {
        public typealias Line = (target: String, event: String, count: UInt64)
        /// Counts by outcome.
        public var counts: [String: [Line]] = [:]
        /// Number of notifications that wait, by target.
        public var waiting: [(target: String, count: Int)] = []

        public init() {}
    }

    public var notifications = Notifications()

    /// nil if the node belongs to no fleet.
    public var sharing: Sharing?
    public var reloads = Reloads()

    public var modes: [ModeLine] = []
    public var clientTLS = ClientTLS()
    public var figures = Figures()
    /// The values of a figure's label, by index.
    public let values: @Sendable (LabelledFigure) -> [String]
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
    /// One line for each shard, in order.
    public var loops: [LoopLine] = []
    public var gone: [(event: String, count: UInt64)] = []
    /// Number of requests, by request field of unknown effect and its finding.
    public var unknownFields: [(field: String, finding: String, count: UInt64)] = []
    /// Empty if nothing is recorded.
    public var recorded: [(result: String, count: UInt64)] = []
    public var tokens = Tokens()
    /// Counts of the process that this one has taken over from; nil if there is none.
    public var inherited: InheritedCounts?

    public init(values: @escaping @Sendable (LabelledFigure) -> [String]) { self.values = values }

    /// Adds the oldest ages of one shard.
    /// - Parameter now: milliseconds since 1970.
    public mutating func add(_ ages: OldestAges, now: Int64) {
        for (index, age) in ages.latest(at: now).enumerated() where age ?? -1 > oldestAges[index] ?? -1 {
            oldestAges[index] = age
        }
    }
}
