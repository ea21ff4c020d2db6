// The operator's settings for the cache.

import CachePolicy
import CacheStore
import HTTPCore
import Identity

/// The location of the store and its limits.
public typealias StoreLocation = StoreSettings

extension StoreLocation {
    /// Returns the path of a file in the cache directory.
    public func path(of name: String) -> String { "\(directory)/\(name)" }
}

public struct ResponseCacheSettings: Sendable {
    public var policy = CachePolicySettings()
    /// Freshness rules of routes.
    public var freshness = PathTable(rest: FreshnessRules())
    /// The upstream's origin.
    public var upstream: UpstreamOrigin
    /// The API's name in every key. For a single API: scheme, host and port of the upstream, with its base path.
    public var keyName: [UInt8] { name ?? upstream.bytes + upstream.basePath }
    /// Whether there are other APIs with responses in this store.
    public var isOneOfSeveral: Bool { name != nil }
    private let name: [UInt8]?
    /// Whether the requested host is forwarded to the upstream, and is thus part of every key.
    public var isKeyedByHost = false
    public var arguments = ArgumentTable()
    public var credentials = CredentialTable()
    /// Token rules, indexed as in `credentials`.
    public var tokens: [TokenRules] = []
    /// Users that the upstream identified, indexed as in `credentials`.
    public var lookUps: [LookedUpIdentities] = []
    /// Whether writes to a member may invalidate its collection. Each lookup then checks the collection's mark.
    public var checksCollections = false
    /// Whether a 410, or a 404 in JSON, is stored and served instead of the stored response while the upstream fails.
    public var remembersGone = true
    /// Milliseconds within which a crowd of 404 responses counts as lost routes (`failure.window`).
    public var surpriseWindow: Int64 = 10_000
    /// Whether to record which cookies the upstream gave to clients without credentials.
    public var remembersCookieOrigins = false
    /// Cistern's name in Via of responses (RFC 9110 §7.6.3); nil if disabled.
    public var via: [UInt8]?
    /// Whether Location fields of the upstream's origin are made relative.
    public var rewritesLocation = true
    /// Coding of stored content by path, and the minimum length in bytes of coded content.
    public var compression = PathTable(rest: Compression.off)
    public var compressFromBytes = 1_400
    /// The fleet with which responses are shared; nil if none.
    public var fleet: FleetMembership?
    /// Maximum length of stored content in bytes.
    public var contentLimitBytes = 8 << 20

    /// - Parameter name: name of the API if there are several; nil otherwise.
    public init(upstream: UpstreamOrigin, name: [UInt8]? = nil) {
        self.upstream = upstream
        self.name = name
    }
}

/// The operator's rules for arguments by path.
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

    /// Returns a target as it is forwarded: without arguments that are removed (`arguments.drop`).
    public func sent(_ target: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard dropsSome, let sent = table.rules(for: target).sent(target) else { return target }
        return sent[...]
    }

    /// nil if no path has rules that affect keys. This is the common case, and copying rules would slow down hits.
    func specialRules(for target: ArraySlice<UInt8>) -> ArgumentRules? { isSpecial ? table.rules(for: target) : nil }
}
