// What the cache has to know of the proxy's settings.

import CachePolicy
import Forwarding
import HTTPCore
import ResponseCache
import Upstream

extension ResponseCacheSettings {
    init(_ settings: ProxySettings, _ routes: Routes, _ keys: TokenKeys) {
        let origin = settings.upstream.origin.utf8.map(\.asciiLowercased)
        self.init(upstream: UpstreamOrigin(origin, basePath: Array(settings.upstream.basePath.utf8)))
        policy = settings.policy
        isKeyedByHost = settings.forwarding.sendsClientHost
        arguments = routes.arguments
        freshness = routes.freshness
        credentials = routes.credentials
        tokens = keys.rules
        lookUps = routes.lookUps
        checksCollections = routes.all.contains(where: \.invalidatesCollection)
        remembersGone = settings.remembersGone
        goneWindow = settings.upstream.failure.window
        remembersCookieOrigins = routes.all.contains { $0.rescueWithShared == .own } && !settings.policy.isPrivate
        via = settings.forwarding.via ? Array("1.1 \(settings.forwarding.name)".utf8) : nil
        rewritesLocation = settings.forwarding.rewriteLocation
        compression = routes.compression
        compressFromBytes = settings.content.compressFromBytes
        contentLimitBytes = settings.content.bufferLimitBytes
    }
}
