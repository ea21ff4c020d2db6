// Everything the flow needs to know, as plain values: the sides' own settings, and what belongs to the flow alone.

import Administration
import CachePolicy
import Downstream
import Forwarding
import ResponseCache
import Telemetry
import Upstream

package struct ProxySettings: Sendable {
    package var upstream: UpstreamSettings
    package var downstream = DownstreamSettings()
    package var policy = CachePolicySettings()
    package var forwarding = ForwardingSettings()
    /// nil: nothing is kept.
    package var store: StorePlace?
    package var listen: [ListenAddress] = []
    /// Where /metrics, /healthz and /readyz are answered instead of on the proxy's own addresses, and the administrator's interface is.
    package var adminListen: [ListenAddress] = []
    package var admin = AdminSettings()
    /// The mode at the start.
    package var mode = ServingMode.live
    /// Whether those pages are answered on the proxy's own addresses too, where there is no `adminListen`.
    package var servesOwnPages = true
    /// Longest response that is taken whole before its first byte goes out, so that a broken one can still be replaced; also the largest that
    /// is stored. Larger ones are streamed.
    package var bufferLimitBytes = 8 << 20
    /// Content up to this length is decoded, searched and brought into one spelling on the loop, which takes less than a millisecond; what is
    /// longer, by the shard's worker. No setting: tests make it small.
    package var examinedAtOnceBytes = 64 << 10
    /// Stored responses of at least this length go out with gzip to clients that ask for it; 0: never.
    package var compressFromBytes = 0
    /// What is different for some paths; the first that fits counts.
    package var routes: [Route] = []
    /// For all other paths.
    package var otherRoute = Route()
    /// Whether a 410, or a 404 in JSON, stands for its copy while the upstream fails.
    package var remembersGone = true
    /// Whether requests for one key share one fetch, and the milliseconds that one waits for another's.
    package var collapses = true
    package var collapseWait: Int64 = 5_000
    /// Fetches of one shard that no client waits for.
    package var backgroundLimit = 32
    package var probe = ActiveProbeSettings()
    package var shards = 1
    package var version = "dev"

    package init(upstream: UpstreamSettings) { self.upstream = upstream }
}
