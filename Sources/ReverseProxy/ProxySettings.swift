// Settings of request handling and of the server, as plain values. Includes the settings of other modules.

import Addresses
import Administration
import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import Notifications
import ResponseCache
import Tracing
import Upstream

public struct ProxySettings: Sendable {
    /// Settings of each API if there are several; each includes those of the process. Empty if there is one API.
    public var apis: [ProxySettings] = []
    /// Name of the API; empty if there is one.
    public var apiName = ""
    /// Which requests the API serves.
    public var scope = ServedAPIs.Scope()
    /// Prefix that is removed from clients' paths before forwarding, without a final slash. Empty: nothing is removed.
    public var strippedPath: [UInt8] { scope.isStripped ? scope.path : [] }
    public var upstream: UpstreamSettings
    public var downstream = DownstreamSettings()
    public var policy = CachePolicySettings()
    public var forwarding = ForwardingSettings()
    /// Location of the store; nil if nothing is stored.
    public var store: StoreLocation?
    public var listening = ListeningSettings()
    public var access = AccessSettings()
    public var admin = AdminSettings()
    public var ownFields = OwnFieldSettings()
    /// Number of exchanges that each shard records for explanations.
    public var records = 1_000
    /// Maximum number of paths of each API that are observed for advice; 0 disables this.
    public var observedPaths = 256
    /// Serving mode at the start.
    public var mode = ServingMode.live
    public var content = ContentSettings()
    /// Maximum memory in bytes for all responses that are being collected (`ResponseMemory`).
    public var responseMemoryBytes = 512 << 20
    /// Routes for paths with their own settings. The first that matches applies.
    public var routes: [Route] = []
    /// Settings of all other paths.
    public var otherRoute = Route()
    /// Whether a 410, a 404 with JSON, or a 403 for a user is served instead of its stored response while the upstream fails.
    public var remembersGone = true
    public var collapsing = CollapsingSettings()
    public var background = BackgroundSettings()
    public var tracing = TracingSettings()
    /// Webhooks and commands that are notified of outages.
    public var notify: [NotificationTarget] = []
    public var shards = 1
    public var version = "dev"
    /// Hash of all settings, for metrics.
    public var hash: UInt64 = 0

    public init(upstream: UpstreamSettings) { self.upstream = upstream }
}

public struct ListeningSettings: Sendable {
    public var listeners: [ListenerSettings] = []
    /// Listeners for the admin interface and for /metrics, /healthz and /readyz. If there are any, the proxy's own addresses do not serve
    /// these pages.
    public var adminListeners: [ListenerSettings] = []
    /// Whether the proxy's own addresses serve these pages if there are no admin listeners.
    public var servesOwnPages = true
    /// Settings of listeners with TLS.
    public var tls = ServerTLSSettings()
    /// Directory of ACME challenges; nil for none.
    public var challengeDirectory: String?
}

extension ProxySettings {
    /// Adds what connections reveal about clients if it affects responses: client certificates as credentials, and the scheme as a part of
    /// cache keys. The scheme affects them if clients may use both schemes and it is forwarded to the upstream.
    func countingConnections() -> ProxySettings {
        var settings = self
        let listeners = listening.listeners
        let isAsked =
            listeners.contains { $0.isTLS && $0.verification != .off }
            && listening.tls.certificates.contains { $0.clientAuthorities != nil }
        if isAsked { settings.policy.credentials.fields.append(ConnectionField.certificate) }
        let isMixed = listeners.contains(where: \.isTLS) && listeners.contains { !$0.isTLS }
        if forwarding.forwarded != .off, isMixed || downstream.hasTrustedProxies {
            settings.policy.keyFields.append(ConnectionField.scheme)
        }
        return settings
    }
}

/// Which of Cistern's own request fields clients may use.
public struct OwnFieldSettings: Sendable {
    /// Whether a request with Cistern-Why receives that field in the response.
    public var allowsWhy = false
    /// Whether a request with Cistern-Key receives its cache key in Cache-Status.
    public var allowsKey = false
    /// Whether a request with Cistern-Mode chooses its mode.
    public var allowsMode = false
}

public struct ContentSettings: Sendable {
    /// Maximum length in bytes of a response that is read whole before it is sent, so that an incomplete one can be replaced. Longer
    /// responses are streamed and not stored.
    public var bufferLimitBytes = 8 << 20
    /// Maximum length in bytes of a response that is held until it is complete, although no stored response could replace it. A longer one
    /// is forwarded while it is collected for the store.
    public var holdLimitBytes = 1 << 20
    /// Maximum length in bytes of content that is decoded, searched and canonicalized on the loop, which takes less than a millisecond. The
    /// shard's worker examines longer content. Not configurable; tests reduce it.
    public var examinedAtOnceBytes = 64 << 10
    /// Minimum length in bytes of content that Cistern compresses, for the store or for clients.
    public var compressFromBytes = 1_400
    /// Maximum memory in bytes for stored contents that were recoded for clients, over all shards.
    public var recodedBytes = 32 << 20
}

public struct CollapsingSettings: Sendable {
    /// Maximum time that a request waits for the fetch of another request or node, in milliseconds. 0 disables collapsing.
    public var wait: Int64 = 5_000
    /// Whether requests of this node for one key share one fetch.
    public var isOn = true
}

public struct BackgroundSettings: Sendable {
    /// Maximum number of concurrent background fetches of one shard.
    public var limit = 32
    public var probe = ActiveProbeSettings()
}
