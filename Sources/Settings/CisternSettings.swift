// Every setting as a plain value, at its default. What each one means, how it is spelt and what it may be is in `SettingsTable`.

import WellKnownNames

/// Durations are in milliseconds, sizes in bytes.
package struct CisternSettings: Sendable, Equatable {
    package struct Upstream: Sendable, Equatable {
        package var url = ""
        package var unixSocket = ""
        package var http2 = "auto"
        package var proxy = ""
        package var caFile = ""
        package var clientCertificate = ""
        package var clientKey = ""
        package var verify = true
        package var connectTimeout = 5_000
        package var firstByteTimeout = 30_000
        package var betweenBytesTimeout = 30_000
        package var totalTimeout = 120_000
        package var connections = 512
        package var queue = 256
        package var idleForWrites = 4_000
        package var resolveInterval = 30_000
        package var retry = true
        package var retryBudget = 10
    }

    package struct Failure: Sendable, Equatable {
        package var memory = true
        package var threshold = 5
        package var window = 10_000
        package var recheck = 1_000
        package var retryAfterLimit = 300_000
        package var probePath = ""
        package var probeInterval = 10_000
        package var probeStatus = 200
    }

    package struct Admin: Sendable, Equatable {
        package var socket = ""
        package var tokenFile = ""
        package var records = 1_000
        package var whyField = false
        package var keyField = false
        package var modeField = false
        package var faults = false
    }

    package struct Store: Sendable, Equatable {
        package var directory = ""
        package var size = 1 << 30
        package var required = false
    }

    package struct Cache: Sendable, Equatable {
        package var mode = "live"
        package var policy = "rescue"
        package var setCookie = "strip"
        package var store = "json"
        package var storeErrors = "safe"
        package var profile = "none"
        package var role = "shared"
        package var heuristics = 0
        package var targetedFields = ["cistern-cache-control", "cdn-cache-control"]
        package var stripTargetedFields = false
        package var noVarySearch = true
        package var memberLimit = 128
        package var entityTags = true
        package var contentTypes = ["application/json", "+json", "text/json"]
        package var credentialFields = WellKnownNames.credentialFields
        package var groupCredentials = WellKnownNames.groupCredentials
        package var credentialCookies = ["*"]
        package var ignoredCookies = WellKnownNames.ignoredCookies
        package var keyFields: [String] = []
        package var bufferLimit = 8 << 20
        package var compress = "gzip"
        package var compressFrom = 1 << 10
        package var recodedMemory = 32 << 20
        package var rescueAfter = 1_500
        package var rescueWithShared = "own"
        package var gone = "remember"
        package var collapse = true
        package var collapseWait = 5_000
        package var refreshAhead = 0
        package var refreshAheadHits = 3
        package var backgroundLimit = 32
        package var freshness = Freshness()
    }

    /// Whether requests' credentials tell users apart.
    package struct Credentials: Sendable, Equatable {
        package var partition = "fields"
        package var sharePublic = false
        package var identity = Identity()

        /// How the requests of one user are known as such.
        package struct Identity: Sendable, Equatable {
            package var jwt = Tokens()
            package var lookup = LookUp()
        }

        package struct Tokens: Sendable, Equatable {
            package var keys = ""
            package var caFile = ""
            package var issuer: [String] = []
            package var audience: [String] = []
            package var subject = "sub"
            package var type: [String] = []
            package var leeway = 60_000
            package var rescueExpired = 0
            package var ignoreClaims: [String] = []
        }

        package struct LookUp: Sendable, Equatable {
            package var path = ""
            package var identity: [String] = []
            package var fields: [String] = []
            package var keep = 600_000
        }
    }

    /// What is different for some paths. Begins as what the other settings say.
    package struct Route: Sendable, Equatable {
        package var name = ""
        package var path = ""
        /// Empty for that of all paths.
        package var mode = ""
        package var compress: String
        package var rescueAfter: Int
        package var rescueWithShared: String
        package var refreshAhead: Int
        package var refreshAheadHits: Int
        package var access = Access()
        package var clientCertificate = false
        package var methods: [String] = []
        package var contentLimit = 64 << 10
        package var invalidatesTarget = true
        package var invalidatesCollection = false
        package var stream = false
        package var upgrade: [String] = []
        package var arguments = Arguments()
        package var good = LastGood()
        package var freshness: Freshness
        package var credentials: Credentials
        package var crossOrigin: CrossOrigin

        package init(_ settings: CisternSettings) {
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

    /// How the arguments count for the key.
    package struct Arguments: Sendable, Equatable {
        package var sort = true
        package var ignore: [String] = []
        package var only: [String] = []
        package var ignoreCase = false
    }

    /// What a response must be like to count as good; nothing beyond the rules for all where left as it is.
    package struct LastGood: Sendable, Equatable {
        package var contentTypes: [String] = []
        package var minimumBytes = 0
        package var maximumBytes = 0
        package var mustHave: [String] = []
        package var mustNotHave: [String] = []
        package var shrinkLimit = 0
    }

    package struct Limits: Sendable, Equatable {
        package var target = 8_192
        package var head = 32_768
        package var fields = 100
        package var content = 0
        package var requestBuffer = 256 << 10
        package var requestBuffers = 64 << 20
        package var connections = 10_000
        package var connectionsPerAddress = 0
        package var requestsPerAddress = 0
        package var unsent = 512 << 20
        package var requestsPerConnection = 0
        package var handshakes = 1_000
    }

    /// What one HTTP/2 connection of a client may ask for.
    package struct HTTP2: Sendable, Equatable {
        package var streams = 100
        package var controlFrames = 1_000
        package var resets = 200
    }

    package struct Timeouts: Sendable, Equatable {
        package var head = 10_000
        package var handshake = 10_000
        package var keepAlive = 75_000
        package var content = 30_000
        package var contentTotal = 120_000
        package var write = 60_000
        package var stream = 300_000
        package var drainDelay = 0
        package var shutdown = 10_000
    }

    package struct Forwarding: Sendable, Equatable {
        package var name = "cistern"
        package var forwarded = "replace"
        package var clientField = "auto"
        package var names: [String] = []
        package var forwardProxy = false
        package var forwardHost = false
        package var via = true
        package var preserveHost = false
        package var rewriteLocation = true
        package var dropOverrides = true
        package var overrideFields = WellKnownNames.overrideFields
        package var addressFields = WellKnownNames.addressFields
    }

    /// Networks whose clients may ask, and may not.
    package struct Access: Sendable, Equatable {
        package var allow: [String] = []
        package var deny: [String] = []
    }

    package struct Log: Sendable, Equatable {
        package var level = "info"
        package var format = "text"
        package var access = "off"
        package var accessFormat = "json"
    }

    package var upstream = Upstream()
    package var failure = Failure()
    package var routes: [Route] = []
    /// Empty where there is one only: then the other settings say all of it.
    package var apis: [API] = []
    package var listen: [Listener] = ["127.0.0.1:8080"]
    package var adminListen: [Listener] = []
    package var trustedProxies: [String] = []
    package var access = Access()
    package var tls = TLS()
    package var admin = Admin()
    package var ownPages = true
    package var shards = 0
    package var store = Store()
    package var cache = Cache()
    package var credentials = Credentials()
    package var limits = Limits()
    package var http2 = HTTP2()
    package var timeouts = Timeouts()
    package var forwarding = Forwarding()
    package var crossOrigin = CrossOrigin()
    package var log = Log()

    package init() {}
}
