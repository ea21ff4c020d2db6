// Derives the settings of the cache from those of the proxy.

import CachePolicy
import Forwarding
import HTTPCore
import Identity
import ResponseCache
import Upstream

extension ProxySettings {
    /// Origin of the upstream, to which references in responses are compared.
    var upstreamOrigin: UpstreamOrigin {
        let origins = upstream.atEachAddress.map { ($0.origin.utf8.map(\.asciiLowercased), Array($0.basePath.utf8)) }
        return UpstreamOrigin(
            origins[0].0, basePath: origins[0].1, strippedPath: strippedPath,
            others: origins.dropFirst().map { UpstreamOrigin($0.0, basePath: $0.1, strippedPath: strippedPath) })
    }
}

extension ResponseCacheSettings {
    init(_ settings: ProxySettings, _ routes: Routes, _ keys: TokenKeys, lookUps: [LookedUpIdentities]) {
        let upstream = settings.upstreamOrigin
        self.init(upstream: upstream, name: settings.apiName.isEmpty ? nil : StoredKey.name(ofAPI: settings.apiName))
        policy = settings.policy
        policy.fieldsSetAnew = settings.forwarding.fieldsSetAnew
        policy.passesForwarded = settings.forwarding.passesForwarded
        isKeyedByHost = settings.forwarding.sendsClientHost
        arguments = routes.arguments
        freshness = routes.freshness
        credentials = routes.credentials
        tokens = keys.rules
        self.lookUps = lookUps
        checksCollections = routes.all.contains(where: \.invalidatesCollection)
        remembersGone = settings.remembersGone
        surpriseWindow = settings.upstream.failure.window
        remembersCookieOrigins = routes.all.contains { $0.sharedRescueMode == .own } && !settings.policy.isPrivate
        via = settings.forwarding.via ? Array(settings.forwarding.name.utf8) : nil
        rewritesLocation = settings.forwarding.rewriteLocation
        compression = routes.compression
        compressFromBytes = settings.content.compressFromBytes
        contentLimitBytes = settings.content.bufferLimitBytes
    }
}
