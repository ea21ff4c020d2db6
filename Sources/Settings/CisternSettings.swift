// The value of every setting, with its default. `SettingsTable` defines names, permitted values and help texts.

import Forwarding

/// Durations are in milliseconds, sizes in bytes.
public struct CisternSettings: Sendable, Equatable {
    public struct Upstream: Sendable, Equatable {
        public var url = ""
        public var unixSocket = ""
        public var http2 = "auto"
        public var proxy = ""
        public var caFile = ""
        public var clientCertificate = ""
        public var clientKey = ""
        public var verify = true
        public var connectTimeout = 5_000
        public var firstByteTimeout = 30_000
        public var betweenBytesTimeout = 30_000
        public var totalTimeout = 120_000
        public var connections = 512
        public var queue = 256
        public var idleForWrites = 4_000
        public var resolveInterval = 30_000
        public var retryBudget = 10
    }

    public struct Failure: Sendable, Equatable {
        public var threshold = 5
        public var window = 10_000
        public var recheck = 1_000
        public var retryAfterLimit = 300_000
        public var probe = ""
    }

    public struct Admin: Sendable, Equatable {
        public var socket = ""
        public var tokenFile = ""
        public var names: [String] = []
        public var records = 1_000
        public var debugFields: [String] = []
        public var faults = false
    }

    public struct Store: Sendable, Equatable {
        public var directory = ""
        public var size = 1 << 30
        public var required = false
    }

    public struct Cache: Sendable, Equatable {
        public var mode = "live"
        public var policy = "rescue"
        public var setCookie = "strip"
        public var store = "json"
        public var storeErrors = "safe"
        public var role = "shared"
        public var heuristics = 0
        public var targetedFields = ["cistern-cache-control", "cdn-cache-control"]
        public var stripTargetedFields = false
        public var noVarySearch = true
        public var memberLimit = 128
        public var entityTags = true
        public var json = "standard"
        public var contentTypes = ["application/json", "+json", "text/json"]
        public var credentialFields = WellKnownNames.credentialFields
        public var groupCredentials = WellKnownNames.groupCredentials
        public var credentialCookies = ["*"]
        public var ignoredCookies = WellKnownNames.ignoredCookies
        public var keyFields: [String] = []
        public var harmlessFields: [String] = []
        public var bufferLimit = 8 << 20
        public var compress = "gzip"
        public var compressFrom = 1_400
        public var recodedMemory = 32 << 20
        public var rescueAfter = 1_500
        public var rescueWithShared = "own"
        public var gone = "remember"
        public var collapseWait = 5_000
        public var refreshAhead = 0
        public var refreshAheadHits = 3
        public var backgroundLimit = 32
        public var freshness = Freshness()
    }

    /// How credentials of requests separate users.
    public struct Credentials: Sendable, Equatable {
        public var partition = "fields"
        public var sharePublic = false
        public var identity = Identity()

        /// How requests of one user are recognized.
        public struct Identity: Sendable, Equatable {
            public var jwt = Tokens()
            public var lookup = LookUp()
        }

        public struct Tokens: Sendable, Equatable {
            public var keys = ""
            public var caFile = ""
            public var issuer: [String] = []
            public var audience: [String] = []
            public var subject = "sub"
            public var type: [String] = []
            public var leeway = 60_000
            public var rescueExpired = 0
            public var ignoreClaims: [String] = []
        }

        public struct LookUp: Sendable, Equatable {
            public var path = ""
            public var identity: [String] = []
            public var fields: [String] = []
            public var keep = 600_000
        }
    }

    /// Settings of a route. They default to the settings that apply to all paths.
    public struct Route: Sendable, Equatable {
        public var name = ""
        public var path = ""
        /// Empty for the mode that applies to all paths.
        public var mode = ""
        public var compress: String
        public var rescueAfter: Int
        public var rescueWithShared: String
        public var refreshAhead: Int
        public var refreshAheadHits: Int
        public var access = Access()
        public var clientCertificate = false
        public var methods: [String] = []
        public var contentLimit = 64 << 10
        public var invalidatesTarget = true
        public var invalidatesCollection = false
        public var stream = false
        public var upgrade: [String] = []
        public var arguments = Arguments()
        public var good = LastGood()
        public var keepIf = LastGood()
        public var freshness: Freshness
        public var credentials: Credentials
        public var crossOrigin: CrossOrigin

        public init(_ settings: CisternSettings) {
            crossOrigin = settings.crossOrigin
            compress = settings.cache.compress
            freshness = settings.cache.freshness
            rescueAfter = settings.cache.rescueAfter
            rescueWithShared = settings.cache.rescueWithShared
            refreshAhead = settings.cache.refreshAhead
            refreshAheadHits = settings.cache.refreshAheadHits
            credentials = settings.credentials
        }
    }

    /// How query arguments enter the cache key.
    public struct Arguments: Sendable, Equatable {
        public var sort = true
        public var ignore: [String] = []
        public var only: [String] = []
        public var drop: [String] = []
        public var ignoreCase = false
    }

    /// Requirements for a good response, in addition to the rules for all responses. The defaults add no requirement.
    public struct LastGood: Sendable, Equatable {
        public var contentTypes: [String] = []
        public var minimumBytes = 0
        public var maximumBytes = 0
        public var mustHave: [String] = []
        public var mustNotHave: [String] = []
        public var shrinkLimit = 0
    }

    public struct Limits: Sendable, Equatable {
        public var target = 8_192
        public var head = 32_768
        public var fields = 100
        public var content = 0
        public var requestBuffer = 256 << 10
        public var requestBuffers = 64 << 20
        public var connections = 10_000
        public var connectionsPerAddress = 0
        public var requestsPerAddress = 0
        public var unsent = 512 << 20
        public var requestsPerConnection = 0
        public var handshakes = 1_000
    }

    /// Limits of one HTTP/2 connection of a client.
    public struct HTTP2: Sendable, Equatable {
        public var streams = 100
        public var controlFrames = 1_000
        public var resets = 200
    }

    public struct Timeouts: Sendable, Equatable {
        public var head = 10_000
        public var handshake = 10_000
        public var keepAlive = 75_000
        public var content = 30_000
        public var contentTotal = 120_000
        public var write = 60_000
        public var stream = 300_000
        public var drainDelay = 0
        public var shutdown = 10_000
    }

    public struct Forwarding: Sendable, Equatable {
        public var name = "cistern"
        public var forwarded = "replace"
        public var clientField = "auto"
        public var names: [String] = []
        public var forwardProxy = false
        public var forwardHost = false
        public var via = true
        public var preserveHost = false
        public var rewriteLocation = true
        public var overrideFields = WellKnownNames.overrideFields
        public var addressFields = WellKnownNames.addressFields
        public var identityFields = WellKnownNames.identityFields
    }

    /// Client networks that are allowed or denied.
    public struct Access: Sendable, Equatable {
        public var allow: [String] = []
        public var deny: [String] = []
    }

    public struct Log: Sendable, Equatable {
        public var level = "info"
        public var format = "text"
        public var access = "off"
        public var accessFormat = "json"
        public var accessFields = [
            "time", "client", "client_subject", "request_id", "trace_id", "api", "route", "method", "path", "protocol", "tls", "status",
            "bytes", "duration_us", "content_us", "result", "reason", "age", "upstream_us", "upstream_status", "upstream_address",
            "upstream_protocol",
        ]
        public var requestID = "off"
    }

    public struct Tracing: Sendable, Equatable {
        public var endpoint = ""
        /// In millionths.
        public var sample = 10_000
        public var limit = 100
        public var serviceName = "cistern"
    }

    public struct Share: Sendable, Equatable {
        /// Empty: nothing is shared.
        public var servers: [String] = []
        /// Empty: main.
        public var fleet = ""
        public var secretFile = ""
        public var user = ""
        public var passwordFile = ""
        public var caFile = ""
        public var certificate = ""
        public var key = ""
        /// Milliseconds.
        public var keep = 7 * 86_400_000
        public var blindLimit = 30_000
        public var timeout = 10
        public var afterGap = "stale"
        public var collapse = true
        public var contentLimit = 1 << 20
    }

    public var upstream = Upstream()
    public var failure = Failure()
    public var routes: [Route] = []
    /// Empty if there is only one API, which the other settings then describe.
    public var apis: [API] = []
    public var listen: [Listener] = ["127.0.0.1:8080"]
    public var adminListen: [Listener] = []
    public var trustedProxies: [String] = []
    public var access = Access()
    public var tls = TLS()
    public var admin = Admin()
    public var ownPages = true
    public var shards = 0
    public var store = Store()
    public var cache = Cache()
    public var credentials = Credentials()
    public var limits = Limits()
    public var http2 = HTTP2()
    public var timeouts = Timeouts()
    public var forwarding = Forwarding()
    public var crossOrigin = CrossOrigin()
    public var log = Log()
    public var tracing = Tracing()
    public var share = Share()
    public var retired = Retired()

    public init() {}
}
