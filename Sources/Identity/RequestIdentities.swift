// What is known of requests whose tokens were looked at before: checking a signature costs fifty times a hit. On one thread only.

import CachePolicy
import HTTPCore

/// Whose a request is, since its token is good.
public final class VerifiedIdentity: Sendable {
    /// Of the cache: the same for all tokens of one user with the same rights.
    public let partition: [UInt8]
    /// When the token ends: seconds since 1970.
    let expires: Int64
    /// The key that it was verified with.
    let keyFingerprint: [UInt8]
    private let source: KeySource
    /// Of the keys, when it was last seen that its own is among them.
    let keysVersion: UInt64
    private let leeway: Int64
    private let rescue: Int64

    init(_ partition: [UInt8], _ token: TokenIdentity, _ source: KeySource, keysVersion: UInt64, _ settings: TokenSettings) {
        (self.partition, expires, keyFingerprint) = (partition, token.expires, token.keyFingerprint)
        (self.source, self.keysVersion, leeway, rescue) = (source, keysVersion, settings.leeway, settings.rescuesExpired)
    }

    /// The same after the keys were read anew.
    init(_ other: VerifiedIdentity, keysVersion: UInt64) {
        (partition, expires, keyFingerprint) = (other.partition, other.expires, other.keyFingerprint)
        (source, leeway, rescue, self.keysVersion) = (other.source, other.leeway, other.rescue, keysVersion)
    }

    /// Whether the keys are the same as when it was verified. Asked from any thread.
    public var isCurrent: Bool { source.version == keysVersion }

    /// The first moment at which it is no more: milliseconds since 1970.
    public var ends: Int64 { (expires + leeway) * 1000 }

    /// The same for its user's copies while the upstream is away.
    public var rescueEnds: Int64 { (expires + rescue) * 1000 }
}

public enum RequestIdentity: Sendable {
    case verified(VerifiedIdentity)
    /// The token has ended: it is nobody's, but while the upstream is away it may have its own user's copy.
    case expired(VerifiedIdentity)
    /// Its token tells nothing, for this reason.
    case refused(TokenRefusal)
    /// What the upstream has said of its credentials, or not.
    case told(ToldIdentity)

    public var outcome: IdentityOutcome {
        switch self {
        case .verified: .verified
        case .expired: .expired
        case .refused(let reason): .refused(reason)
        case .told(let told): told.partition == nil ? .untold : told.isCurrent ? .told : .toldBefore
        }
    }

    /// Whether the request would have the same partition now, as far as that does not depend on the time.
    public var isUnchanged: Bool {
        switch self {
        case .verified(let identity): identity.isCurrent
        case .told(let told): told.isUnchanged
        case .expired, .refused: true
        }
    }

    /// nil where the request is a user of its own.
    public var partition: [UInt8]? {
        switch self {
        case .verified(let identity): identity.partition
        case .told(let told): told.isCurrent ? told.partition : nil
        case .expired, .refused: nil
        }
    }

    /// Before it the same is found: milliseconds since 1970.
    public var ends: Int64 {
        switch self {
        case .verified(let identity): identity.ends
        case .told(let told): told.isCurrent ? told.ends : .max
        case .expired, .refused: .max
        }
    }
}

public final class RequestIdentities {
    /// By the keyed hash of all credentials of the request.
    private var known = RecentlyUsed<VerifiedIdentity>(limit: RequestIdentities.limit)
    /// Apart, so that who sends what cannot be verified pushes nobody out.
    private var refused = RecentlyUsed<TokenRefusal>(limit: RequestIdentities.limit)
    private var keysVersion: UInt64 = 0
    private var budget = VerificationBudget()
    /// When it was last seen whether the keys are due to be read anew.
    private var lookedAfterKeys = Int64.min
    /// Tokens that were looked at, by what that came to.
    public private(set) var counts: [String: UInt64] = [:]

    /// How many are remembered.
    public var count: Int { known.count + refused.count }

    private let verifier: TokenVerifier
    private let source: KeySource
    private let settings: TokenSettings
    /// Milliseconds.
    private static let keyPause: Int64 = 1_000

    /// Of each kind; twice as many at most.
    public static let limit = 4096

    public init(_ settings: TokenSettings, _ source: KeySource) {
        verifier = TokenVerifier(settings)
        self.source = source
        self.settings = settings
    }

    /// - Parameters:
    ///   - hash: of all credentials of the request: keyed, so that nobody can find two with one hash.
    ///   - now: the time of day in milliseconds.
    ///   - clock: milliseconds of the monotonic clock.
    ///   - partition: makes the partition of these claims and the request's other credentials.
    public func identity(
        of fields: Fields, hash: [UInt8], now: Int64, clock: Int64, partition: (_ claims: [UInt8]) -> [UInt8]
    ) -> RequestIdentity {
        lookAfterKeys(clock)
        if let known = known[hash] { return Self.rated(known, now: now) }
        if let reason = refused[hash] { return .refused(reason) }
        let finding = look(fields, now: now / 1000, clock: clock)
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
            // What may be otherwise in a moment is not remembered.
            if reason != .tooMany, reason != .notYetValid { refused[hash] = reason }
            identity = .refused(reason)
        }
        counts[identity.outcome.label, default: 0] += 1
        return identity
    }

    private static func rated(_ identity: VerifiedIdentity, now: Int64) -> RequestIdentity {
        now < identity.ends ? .verified(identity) : .expired(identity)
    }

    /// A key that has left the set takes with it what was verified with it; a new one may verify what was refused.
    private func lookAfterKeys(_ clock: Int64) {
        if clock - Self.keyPause >= lookedAfterKeys {
            lookedAfterKeys = clock
            _ = source.keys(now: clock)
        }
        let version = source.version
        guard version != keysVersion else { return }
        keysVersion = version
        let fingerprints = Set(source.keys(now: clock).keys.map(\.fingerprint))
        known.update { fingerprints.contains($0.keyFingerprint) ? VerifiedIdentity($0, keysVersion: version) : nil }
        refused.update { _ in nil }
    }

    private func look(_ fields: Fields, now: Int64, clock: Int64) -> TokenFinding {
        switch TokenVerifier.token(of: fields) {
        case .failure(let error): return .refused(error.reason)
        case .success(let token):
            guard budget.take(now: clock) else { return .refused(.tooMany) }
            return verifier.verify(token, keys: source.keys(now: clock), now: now)
        }
    }
}

/// What was used lately, bounded: when half of it is new, what was not used meanwhile goes.
struct RecentlyUsed<Value> {
    private var recent: [[UInt8]: Value] = [:]
    private var older: [[UInt8]: Value] = [:]
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    var count: Int { recent.count + older.count }

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

    /// - Parameter change: nil for what goes.
    mutating func update(_ change: (Value) -> Value?) {
        recent = recent.compactMapValues(change)
        older = older.compactMapValues(change)
    }
}

/// How many tokens are looked at: who sends ever new ones must not take the loop's time from others. Beyond it a token is nobody's, which
/// costs its user no more than the copies.
struct VerificationBudget {
    /// A second, of each loop. The slowest kind takes half a millisecond.
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
