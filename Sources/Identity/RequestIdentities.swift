// Cache of verified tokens, because verifying a signature takes fifty times as long as a hit. Used on one thread only.

import CachePolicy
import HTTPCore

/// The user of a request with a valid token.
public final class VerifiedIdentity: Sendable {
    /// The user's cache partition, equal for all tokens of one user with equal rights.
    public let partition: [UInt8]
    /// Expiry of the token, in seconds since 1970.
    let expires: Int64
    /// Fingerprint of the key that verified the token.
    let keyFingerprint: [UInt8]
    private let source: KeySource
    /// Version of the keys when the token's key was last found among them.
    let keysVersion: UInt64
    private let leeway: Int64
    private let rescue: Int64

    init(_ partition: [UInt8], _ token: TokenIdentity, _ source: KeySource, keysVersion: UInt64, _ settings: TokenSettings) {
        (self.partition, expires, keyFingerprint) = (partition, token.expires, token.keyFingerprint)
        (self.source, self.keysVersion) = (source, keysVersion)
        (leeway, rescue) = (settings.leeway.components.seconds, settings.rescuesExpired.components.seconds)
    }

    /// Copies an identity for a newer version of the keys that still contains its key.
    init(_ other: VerifiedIdentity, keysVersion: UInt64) {
        (partition, expires, keyFingerprint) = (other.partition, other.expires, other.keyFingerprint)
        (source, leeway, rescue, self.keysVersion) = (other.source, other.leeway, other.rescue, keysVersion)
    }

    /// Whether the keys have not changed since the verification. May be called on any thread.
    public var isCurrent: Bool { source.version == keysVersion }

    /// The first moment at which the identity is no longer valid, in milliseconds since 1970.
    public var ends: Int64 { (expires + leeway) * 1000 }

    /// The first moment at which the token can no longer be used for a rescue with its user's stored responses, in milliseconds since 1970.
    public var rescueEnds: Int64 { (expires + rescue) * 1000 }
}

public enum RequestIdentity: Sendable {
    case verified(VerifiedIdentity)
    /// The token has expired. It identifies no user, except for a rescue with its user's stored responses.
    case expired(VerifiedIdentity)
    /// The token identifies no user, for this reason.
    case refused(TokenRefusal)
    /// The result of a look-up at the upstream.
    case lookedUp(LookedUpIdentity)

    public var outcome: IdentityOutcome {
        switch self {
        case .verified: .verified
        case .expired: .expired
        case .refused(let reason): .refused(reason)
        case .lookedUp(let lookedUp) where lookedUp.partition == nil: lookedUp.isAfterWrite ? .unclearAfterWrite : .notIdentified
        case .lookedUp(let lookedUp): lookedUp.isCurrent ? .lookedUp : .lookedUpBefore
        }
    }

    /// Whether the request would have an equal partition now, as far as that does not depend on the time.
    public var isUnchanged: Bool {
        switch self {
        case .verified(let identity): identity.isCurrent
        case .lookedUp(let lookedUp): lookedUp.isUnchanged
        case .expired, .refused: true
        }
    }

    /// The partition; nil if the credentials themselves determine the partition.
    public var partition: [UInt8]? {
        switch self {
        case .verified(let identity): identity.partition
        case .lookedUp(let lookedUp): lookedUp.isCurrent ? lookedUp.partition : nil
        case .expired, .refused: nil
        }
    }

    /// Time before which a repeated evaluation has an equal result, in milliseconds since 1970.
    public var ends: Int64 {
        switch self {
        case .verified(let identity): identity.ends
        case .lookedUp(let lookedUp): lookedUp.isCurrent ? lookedUp.ends : .max
        case .expired, .refused: .max
        }
    }
}

public final class RequestIdentities {
    /// Verified tokens, by the keyed hash of all credentials of the request.
    private var known = RecentlyUsed<VerifiedIdentity>(limit: RequestIdentities.limit)
    /// Refused tokens. A separate table, so that invalid tokens do not displace valid ones.
    private var refused = RecentlyUsed<TokenRefusal>(limit: RequestIdentities.limit)
    private var keysVersion: UInt64 = 0
    private var budget = VerificationBudget()
    /// When the age of the keys was last checked.
    private var lastKeyCheck = Int64.min
    /// Number of evaluated tokens, by result.
    public private(set) var counts: [String: UInt64] = [:]

    /// Number of cached results.
    public var count: Int { known.count + refused.count }

    private let verifier: TokenVerifier
    private let source: KeySource
    private let settings: TokenSettings
    /// Minimum interval between checks of the keys' age, in milliseconds.
    private static let keyPause: Int64 = 1_000

    /// Maximum number of recent results of each kind. Up to twice as many are stored.
    public static let limit = 4096

    public init(_ settings: TokenSettings, _ source: KeySource) {
        verifier = TokenVerifier(settings)
        self.source = source
        self.settings = settings
    }

    /// Determines the identity of a request.
    /// - Parameters:
    ///   - hash: keyed hash of all credentials of the request. The key prevents deliberate collisions.
    ///   - now: milliseconds since 1970.
    ///   - clock: milliseconds of the monotonic clock.
    ///   - partition: creates the partition of these claims and of the request's other credentials.
    public func identity(
        of fields: Fields, hash: [UInt8], now: Int64, clock: Int64, partition: (_ claims: [UInt8]) -> [UInt8]
    ) -> RequestIdentity {
        checkKeys(clock)
        if let known = known[hash] { return Self.rated(known, now: now) }
        if let reason = refused[hash] { return .refused(reason) }
        let finding = evaluate(fields, now: now / 1000, clock: clock)
        let identity: RequestIdentity
        switch finding {
        case .verified(let token), .expired(let token):
            let found = VerifiedIdentity(partition(token.claims), token, source, keysVersion: keysVersion, settings)
            known[hash] = found
            identity = Self.rated(found, now: now)
        case .unknownKey:
            source.miss(now: clock)
            identity = .refused(.unknownKey)
        case .refused(let reason):
            // Results that may change soon are not cached.
            if reason != .tooMany, reason != .notYetValid { refused[hash] = reason }
            identity = .refused(reason)
        }
        counts[identity.outcome.label, default: 0] += 1
        return identity
    }

    private static func rated(_ identity: VerifiedIdentity, now: Int64) -> RequestIdentity {
        now < identity.ends ? .verified(identity) : .expired(identity)
    }

    /// Updates the cache after a change of the keys. Removing a key invalidates tokens verified with it; a new key may verify refused
    /// tokens.
    private func checkKeys(_ clock: Int64) {
        if clock - Self.keyPause >= lastKeyCheck {
            lastKeyCheck = clock
            _ = source.keys(now: clock)
        }
        let version = source.version
        guard version != keysVersion else { return }
        keysVersion = version
        let fingerprints = Set(source.keys(now: clock).keys.map(\.fingerprint))
        known.update { fingerprints.contains($0.keyFingerprint) ? VerifiedIdentity($0, keysVersion: version) : nil }
        refused.update { _ in nil }
    }

    private func evaluate(_ fields: Fields, now: Int64, clock: Int64) -> TokenFinding {
        do throws(TokenRefusal) {
            let token = try TokenVerifier.token(of: fields)
            guard budget.take(now: clock) else { return .refused(.tooMany) }
            return verifier.verify(token, keys: source.keys(now: clock), now: now)
        } catch {
            return .refused(error)
        }
    }
}

/// A bounded table that drops entries that were not used recently. When the recent half is full, the older half is dropped.
struct RecentlyUsed<Value> {
    private var recent: [[UInt8]: Value] = [:]
    private var older: [[UInt8]: Value] = [:]
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    var count: Int { recent.count + older.count }
    /// All entries, the older half first.
    var all: [(key: [UInt8], value: Value)] { Array(older) + Array(recent) }

    subscript(key: [UInt8]) -> Value? {
        mutating get {
            if let value = recent[key] { return value }
            guard let value = older.removeValue(forKey: key) else { return nil }
            insert(value, key)
            return value
        }
        set { if let newValue { insert(newValue, key) } }
    }

    private mutating func insert(_ value: Value, _ key: [UInt8]) {
        if recent.count >= limit { (older, recent) = (recent, [:]) }
        recent[key] = value
    }

    /// - Parameter change: returns the new value; nil to remove the entry.
    mutating func update(_ change: (Value) -> Value?) {
        recent = recent.compactMapValues(change)
        older = older.compactMapValues(change)
    }
}

/// Limits the number of token verifications, so that a client that sends many new tokens does not block the loop. Above the limit a token
/// identifies no user; the only effect is that its user gets no stored responses.
struct VerificationBudget {
    /// Verifications per second and loop. The slowest kind takes half a millisecond.
    static let ratePerSecond: Int64 = 500

    private var left = Self.ratePerSecond
    private var filledAt: Int64?

    /// - Parameter now: milliseconds of the monotonic clock.
    mutating func take(now: Int64) -> Bool {
        let passed = now - (filledAt ?? now)
        let more = min(Self.ratePerSecond, passed) * Self.ratePerSecond / 1000
        if filledAt == nil || more > 0 {
            left = min(Self.ratePerSecond, left + more)
            filledAt = now
        }
        guard left > 0 else { return false }
        left -= 1
        return true
    }
}
