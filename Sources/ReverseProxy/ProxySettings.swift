// Everything the flow and the server need to know, as plain values: the sides' own settings, and what belongs to the flow alone.

import Addresses
import Administration
import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import ResponseCache
import Sharing
import Tracing
import Upstream

public struct ProxySettings: Sendable {
    /// Several APIs, each with settings of its own, those of the process among them; empty where these are the only one's.
    public var apis: [ProxySettings] = []
    /// Of one of several APIs; empty for the only one.
    public var apiName = ""
    /// Which requests it is for.
    public var scope = ServedAPIs.Scope()
    /// What is taken off clients' paths before the upstream is asked; without a slash at its end.
    public var strippedPath: [UInt8] { scope.isStripped ? scope.path : [] }
    public var upstream: UpstreamSettings
    public var downstream = DownstreamSettings()
    public var policy = CachePolicySettings()
    public var forwarding = ForwardingSettings()
    /// nil: nothing is kept.
    public var store: StorePlace?
    /// nil: nothing is shared with other nodes.
    public var fleet: FleetSettings?
    public var listening = ListeningSettings()
    public var access = AccessSettings()
    public var admin = AdminSettings()
    public var ownFields = OwnFieldSettings()
    /// Exchanges of each shard that are remembered, so that they can be explained.
    public var records = 1_000
    /// The mode at the start.
    public var mode = ServingMode.live
    public var content = ContentSettings()
    /// What is different for some paths; the first that fits counts.
    public var routes: [Route] = []
    /// For all other paths.
    public var otherRoute = Route()
    /// Whether a 410, a 404 in JSON, or a 403 to a user, stands for its copy while the upstream fails.
    public var remembersGone = true
    public var collapsing = CollapsingSettings()
    public var background = BackgroundSettings()
    public var tracing = TracingSettings()
    public var shards = 1
    public var version = "dev"
    /// Hash of all settings, for metrics.
    public var hash: UInt64 = 0

    public init(upstream: UpstreamSettings) { self.upstream = upstream }
}

public struct ListeningSettings: Sendable {
    public var listeners: [ListenerSettings] = []
    /// Where /metrics, /healthz and /readyz are served instead of on the proxy's own addresses, and the administrator's interface is.
    public var adminListeners: [ListenerSettings] = []
    /// Whether those pages are served on the proxy's own addresses, where there are no others for them.
    public var servesOwnPages = true
    /// For those that speak it.
    public var tls = ServerTLSSettings()
    /// Where challenges of ACME authorities lie; nil for nowhere.
    public var challengeDirectory: String?

    public init() {}
}

extension ProxySettings {
    /// What connections say of their clients counts where it makes a difference: certificates as credentials, and the scheme as part of keys
    /// where there are two and the upstream gets to know which.
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

/// Which of our own fields clients may use.
public struct OwnFieldSettings: Sendable {
    /// Whether a request with Cistern-Why gets that field back.
    public var allowsWhy = false
    /// Whether a request with Cistern-Key gets its key in Cache-Status.
    public var allowsKey = false
    /// Whether a request with Cistern-Mode chooses its mode.
    public var allowsMode = false

    public init() {}
}

public struct ContentSettings: Sendable {
    /// Longest response that is taken whole before its first byte goes out, so that a broken one can still be replaced; also the largest that
    /// is stored. Larger ones are streamed.
    public var bufferLimitBytes = 8 << 20
    /// Content up to this length is decoded, searched and brought into one spelling on the loop, which takes less than a millisecond; what is
    /// longer, by the shard's worker. No setting: tests make it small.
    public var examinedAtOnceBytes = 64 << 10
    /// Shorter content is neither stored nor sent with a coding that it does not have.
    public var compressFromBytes = 1_400
    /// Stored contents that went out in another form than they lie in the store are remembered so, of all shards together.
    public var recodedBytes = 32 << 20

    public init() {}
}

public struct CollapsingSettings: Sendable {
    /// Whether requests for one key share one fetch.
    public var isOn = true
    /// The milliseconds that one waits for another's.
    public var wait: Int64 = 5_000

    public init() {}
}

/// Of what no client waits for.
public struct BackgroundSettings: Sendable {
    /// Fetches of one shard.
    public var limit = 32
    public var probe = ActiveProbeSettings()

    public init() {}
}
