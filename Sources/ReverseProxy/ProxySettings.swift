// Everything the flow and the server need to know, as plain values: the sides' own settings, and what belongs to the flow alone.

import Addresses
import Administration
import CachePolicy
import Downstream
import Forwarding
import HTTPCore
import ResponseCache
import Upstream

package struct ProxySettings: Sendable {
    /// Several APIs, each with settings of its own, those of the process among them; empty where these are the only one's.
    package var apis: [ProxySettings] = []
    /// Of one of several APIs; empty for the only one.
    package var apiName = ""
    /// Which requests it is for.
    package var scope = ServedAPIs.Scope()
    /// What is taken off clients' paths before the upstream is asked; without a slash at its end.
    package var strippedPath: [UInt8] { scope.isStripped ? scope.path : [] }
    package var upstream: UpstreamSettings
    package var downstream = DownstreamSettings()
    package var policy = CachePolicySettings()
    package var forwarding = ForwardingSettings()
    /// nil: nothing is kept.
    package var store: StorePlace?
    package var listening = ListeningSettings()
    package var access = AccessSettings()
    package var admin = AdminSettings()
    package var ownFields = OwnFieldSettings()
    /// Exchanges of each shard that are remembered, so that they can be explained.
    package var records = 1_000
    /// The mode at the start.
    package var mode = ServingMode.live
    package var content = ContentSettings()
    /// What is different for some paths; the first that fits counts.
    package var routes: [Route] = []
    /// For all other paths.
    package var otherRoute = Route()
    /// Whether a 410, or a 404 in JSON, stands for its copy while the upstream fails.
    package var remembersGone = true
    package var collapsing = CollapsingSettings()
    package var background = BackgroundSettings()
    package var shards = 1
    package var version = "dev"

    package init(upstream: UpstreamSettings) { self.upstream = upstream }
}

package struct ListeningSettings: Sendable {
    package var listeners: [ListenerSettings] = []
    /// Where /metrics, /healthz and /readyz are served instead of on the proxy's own addresses, and the administrator's interface is.
    package var adminListeners: [ListenerSettings] = []
    /// Whether those pages are served on the proxy's own addresses, where there are no others for them.
    package var servesOwnPages = true
    /// For those that speak it.
    package var tls = ServerTLSSettings()
    /// Where challenges of ACME authorities lie; nil for nowhere.
    package var challengeDirectory: String?

    package init() {}
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
package struct OwnFieldSettings: Sendable {
    /// Whether a request with Cistern-Why gets that field back.
    package var allowsWhy = false
    /// Whether a request with Cistern-Key gets its key in Cache-Status.
    package var allowsKey = false
    /// Whether a request with Cistern-Mode chooses its mode.
    package var allowsMode = false

    package init() {}
}

package struct ContentSettings: Sendable {
    /// Longest response that is taken whole before its first byte goes out, so that a broken one can still be replaced; also the largest that
    /// is stored. Larger ones are streamed.
    package var bufferLimitBytes = 8 << 20
    /// Content up to this length is decoded, searched and brought into one spelling on the loop, which takes less than a millisecond; what is
    /// longer, by the shard's worker. No setting: tests make it small.
    package var examinedAtOnceBytes = 64 << 10
    /// Shorter content is neither stored nor sent with a coding that it does not have.
    package var compressFromBytes = 1 << 10
    /// Stored contents that went out in another form than they lie in the store are remembered so, of all shards together.
    package var recodedBytes = 32 << 20

    package init() {}
}

package struct CollapsingSettings: Sendable {
    /// Whether requests for one key share one fetch.
    package var isOn = true
    /// The milliseconds that one waits for another's.
    package var wait: Int64 = 5_000

    package init() {}
}

/// Of what no client waits for.
package struct BackgroundSettings: Sendable {
    /// Fetches of one shard.
    package var limit = 32
    package var probe = ActiveProbeSettings()

    package init() {}
}
