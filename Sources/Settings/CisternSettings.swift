// The value of every setting. Most values are properties of the modules' own settings; only texts that are checked or converted later are
// declared here. `SettingsTable` defines names, permitted values and help texts.

import Downstream
import Figures
import Logging
import ResponseCache
import ReverseProxy
import Upstream

public struct CisternSettings: Sendable {
    /// Values that need no conversion. Host and port of the upstream follow from `upstreamURL`. The number of shards is 0 for one for each
    /// core.
    public var proxy: ProxySettings = {
        var proxy = ProxySettings(upstream: UpstreamSettings(host: "", port: 0))
        proxy.shards = 0
        return proxy
    }()
    /// Empty if there are several APIs.
    public var upstreamURL = ""
    /// See `HealthCheckText`; empty for none.
    public var probe = ""
    /// Settings of paths that match no route. Routes begin with them.
    public var otherRoute = Route()
    public var routes: [Route] = []
    /// Empty if there is only one API, which the other settings then describe.
    public var apis: [API] = []
    public var listen: [Listener] = ["127.0.0.1:8080"]
    public var adminListen: [Listener] = []
    public var trustedProxies: [String] = []
    public var access = Access()
    public var servedNames: [String] = []
    public var tls = TLS()
    public var admin = Admin()
    public var store = Store()
    public var cache = Cache()
    public var stopping = Stopping()
    public var log = Log()
    public var share = Share()
    public var notify: [Notify] = []
    public var retired = Retired()
    public var memory = Memory()

    public init() {}

    /// Client networks that are allowed or denied.
    public struct Access: Sendable, Equatable {
        public var allow: [String] = []
        public var deny: [String] = []
    }

    public struct TLS: Sendable, Equatable {
        public var certificates: [Certificate] = []
        /// Values for certificates without their own.
        public var clientCA = ""
        public var clientVerify = ClientVerification.off
    }

    public struct Admin: Sendable, Equatable {
        public var socket = ""
        public var tokenFile = ""
        public var names: [String] = []
        public var debugFields: [String] = []
    }

    public struct Store: Sendable, Equatable {
        public var directory = ""
        /// In bytes.
        public var size = 1 << 30
        public var required = false
        /// In milliseconds.
        public var confirmInterval = 60_000
    }

    public struct Cache: Sendable, Equatable {
        public enum Policy: String, Sendable, CaseIterable {
            case rescue, strict
            /// See `StandardPolicy`.
            case rfc9111
        }

        public var policy = Policy.rescue
        public var contentTypes = ["application/json", "+json", "text/json"]
        /// Changes to the list of harmless fields.
        public var harmlessFields: [String] = []
    }

    /// Times at the end of the process.
    public struct Stopping: Sendable, Equatable {
        /// Milliseconds.
        public var drainDelay = 0
        public var deadline = Duration.seconds(10)
    }

    public struct Log: Sendable, Equatable {
        public enum Format: String, Sendable, CaseIterable { case text, json }

        public var level = Logger.Level.info
        public var format = Format.text
        /// Whether requests are shown on the terminal.
        public var requests = true
        public var access = "off"
        public var accessFormat = AccessLog.Format.json
        public var accessFields = AccessField.usual.map(\.rawValue)
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
        public var afterGap = FleetLogLink.AfterGap.stale
        public var collapse = true
        public var contentLimit = 1 << 20
    }

    /// Settings of a route, or of all other paths.
    public struct Route: Sendable {
        /// Values that need no conversion.
        public var rules = ReverseProxy.Route()
        /// The pattern of its paths.
        public var path = ""
        public var access = Access()
        public var methods: [String] = []
        public var upgrade: [String] = []
        public var arguments = Arguments()
        public var good = Demands()
        public var keepIf = Demands()
        public var freshness = Freshness()
        public var upstreamFields = UpstreamFields()

        public init() {}

        public var name: String { rules.name }
    }

    /// Patterns of query arguments.
    public struct Arguments: Sendable, Equatable {
        public var ignore: [String] = []
        public var only: [String] = []
        public var drop: [String] = []
    }

    /// Requirements on responses.
    public struct Demands: Sendable, Equatable {
        public var contentTypes: [String] = []
        public var mustHave: [String] = []
        public var mustNotHave: [String] = []
    }

    /// Durations are in milliseconds, and become seconds; 0 means unset.
    public struct Freshness: Sendable, Equatable {
        public var standard = 0
        public var minimum = 0
        public var maximum = 0
        public var ignore: [String] = []
        public var staleFor = 0
        public var staleWhileRevalidate = 0
        public var negative = 0
        public var negativeStatuses = ["404", "410"]
    }
}

// MARK: Equality, by the values of all settings

extension CisternSettings: Equatable {
    public static func == (one: CisternSettings, other: CisternSettings) -> Bool {
        SettingsTable.all.areEqual(one, other) && one.routes == other.routes && one.apis == other.apis
            && one.otherRoute.upstreamFields == other.otherRoute.upstreamFields
    }
}

extension CisternSettings.Route: Equatable {
    public static func == (one: CisternSettings.Route, other: CisternSettings.Route) -> Bool {
        RouteTable.all.areEqual(one, other) && one.upstreamFields == other.upstreamFields
    }
}

extension Array {
    func areEqual<Root>(_ one: Root, _ other: Root) -> Bool where Element == Setting<Root> {
        allSatisfy { $0.text(in: one) == $0.text(in: other) }
    }
}
