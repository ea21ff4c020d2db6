// What the cache has to know of the operator's settings.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// Where stored responses lie, and how many of them there is room for.
package typealias StorePlace = StoreSettings

extension StorePlace {
    /// Of a file that lies beside them.
    package func path(of name: String) -> String { "\(directory)/\(name)" }
}

package struct ResponseCacheSettings: Sendable {
    package var policy = CachePolicySettings()
    /// What routes say of freshness.
    package var freshness = PathTable(rest: FreshnessRules())
    /// Where the upstream is.
    package var upstream: UpstreamOrigin
    /// The API's name as it is part of every key: of the only one, scheme, host and port of the upstream, with its base path.
    package var keyName: [UInt8] { name ?? upstream.bytes + upstream.basePath }
    /// Whether there are other APIs, whose responses lie in the same store.
    package var isOneOfSeveral: Bool { name != nil }
    private let name: [UInt8]?
    /// Whether the upstream gets to see the host that the client asked for: then that is part of every key.
    package var isKeyedByHost = false
    package var arguments = ArgumentTable()
    package var credentials = CredentialTable()
    /// How requests' tokens are looked at, in the places that `credentials` names.
    package var tokens: [TokenRules] = []
    /// What the upstream has said of credentials, in the places that `credentials` names.
    package var lookUps: [ToldIdentities] = []
    /// Whether a write to a member may make its collection invalid: then that is looked for at every look-up.
    package var checksCollections = false
    /// Whether a 410, or a 404 in JSON, stands for its copy while the upstream fails.
    package var remembersGone = true
    /// Milliseconds within which a crowd of 404 counts as lost routes (`failure.window`).
    package var goneWindow: Int64 = 10_000
    /// Whether it is learnt which cookies the upstream gave to clients without credentials.
    package var remembersCookieOrigins = false
    /// Our name in the Via of responses (RFC 9110 §7.6.3); nil where it is switched off.
    package var via: [UInt8]?
    /// Whether a Location of the upstream's own origin is made relative.
    package var rewritesLocation = true
    /// In which form content is kept, by path; and how long it is at least where it has a coding.
    package var compression = PathTable(rest: Compression.off)
    package var compressFromBytes = 1 << 10
    /// The longest content that is stored.
    package var contentLimitBytes = 8 << 20

    /// - Parameter name: of an API beside others.
    package init(upstream: UpstreamOrigin, name: [UInt8]? = nil) {
        self.upstream = upstream
        self.name = name
    }
}

/// What the operator says of arguments, by path.
package struct ArgumentTable: Sendable {
    private let table: PathTable<ArgumentRules>
    private let isSpecial: Bool

    package init(_ table: PathTable<ArgumentRules> = PathTable(rest: ArgumentRules())) {
        self.table = table
        isSpecial = table.contains(where: \.isSpecial)
    }

    package func rules(for target: ArraySlice<UInt8>) -> ArgumentRules { table.rules(for: target) }

    /// nil where no path has any that make a difference: almost always, and copying them costs a hit something.
    func specialRules(for target: ArraySlice<UInt8>) -> ArgumentRules? { isSpecial ? table.rules(for: target) : nil }
}
