// What the cache has to know of the operator's settings.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// Where stored responses lie, and how many of them there is room for.
public typealias StorePlace = StoreSettings

extension StorePlace {
    /// Of a file that lies beside them.
    public func path(of name: String) -> String { "\(directory)/\(name)" }
}

public struct ResponseCacheSettings: Sendable {
    public var policy = CachePolicySettings()
    /// What routes say of freshness.
    public var freshness = PathTable(rest: FreshnessRules())
    /// Where the upstream is.
    public var upstream: UpstreamOrigin
    /// The API's name as it is part of every key: of the only one, scheme, host and port of the upstream, with its base path.
    public var keyName: [UInt8] { name ?? upstream.bytes + upstream.basePath }
    /// Whether there are other APIs, whose responses lie in the same store.
    public var isOneOfSeveral: Bool { name != nil }
    private let name: [UInt8]?
    /// Whether the upstream gets to see the host that the client asked for: then that is part of every key.
    public var isKeyedByHost = false
    public var arguments = ArgumentTable()
    public var credentials = CredentialTable()
    /// How requests' tokens are looked at, in the places that `credentials` names.
    public var tokens: [TokenRules] = []
    /// What the upstream has said of credentials, in the places that `credentials` names.
    public var lookUps: [ToldIdentities] = []
    /// Whether a write to a member may make its collection invalid: then that is looked for at every look-up.
    public var checksCollections = false
    /// Whether a 410, or a 404 in JSON, stands for its copy while the upstream fails.
    public var remembersGone = true
    /// Milliseconds within which a crowd of 404 counts as lost routes (`failure.window`).
    public var surpriseWindow: Int64 = 10_000
    /// Whether it is learnt which cookies the upstream gave to clients without credentials.
    public var remembersCookieOrigins = false
    /// Our name in the Via of responses (RFC 9110 §7.6.3); nil where it is switched off.
    public var via: [UInt8]?
    /// Whether a Location of the upstream's own origin is made relative.
    public var rewritesLocation = true
    /// In which form content is kept, by path; and how long it is at least where it has a coding.
    public var compression = PathTable(rest: Compression.off)
    public var compressFromBytes = 1_400
    /// The nodes with which it is shared; nil where it is not.
    public var fleet: FleetMembership?
    /// The longest content that is stored.
    public var contentLimitBytes = 8 << 20

    /// - Parameter name: of an API beside others.
    public init(upstream: UpstreamOrigin, name: [UInt8]? = nil) {
        self.upstream = upstream
        self.name = name
    }
}

/// What the operator says of arguments, by path.
public struct ArgumentTable: Sendable {
    private let table: PathTable<ArgumentRules>
    private let isSpecial: Bool
    private let dropsSome: Bool

    public init(_ table: PathTable<ArgumentRules> = PathTable(rest: ArgumentRules())) {
        self.table = table
        isSpecial = table.contains(where: \.isSpecial)
        dropsSome = table.contains { !$0.drop.isEmpty }
    }

    public func rules(for target: ArraySlice<UInt8>) -> ArgumentRules { table.rules(for: target) }

    /// A target as the upstream gets it: without the arguments that its key leaves out for that (`arguments.drop`).
    public func sent(_ target: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard dropsSome, let sent = table.rules(for: target).sent(target) else { return target }
        return sent[...]
    }

    /// nil where no path has any that make a difference: almost always, and copying them costs a hit something.
    func specialRules(for target: ArraySlice<UInt8>) -> ArgumentRules? { isSpecial ? table.rules(for: target) : nil }
}
