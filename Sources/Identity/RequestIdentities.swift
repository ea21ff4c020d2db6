// What is known of requests whose tokens were looked at before: checking a signature costs fifty times a hit. On one loop only.

import HTTPCore

/// Whose a request is.
package enum RequestIdentity: Sendable, Equatable {
    /// - Parameters:
    ///   - partition: of the cache: the same for all tokens of one user with the same rights.
    ///   - until: seconds since 1970: then the token ends.
    case verified(partition: [UInt8], until: Int64)
    /// The token ended: it is nobody's, but may have its own user's copy while the upstream is away.
    case expired(partition: [UInt8], at: Int64)
    case none(TokenRefusal)
}

package struct RequestIdentities {
    /// By the hash of all credentials of the request.
    private var recent: [[UInt8]: RequestIdentity] = [:]
    private var older: [[UInt8]: RequestIdentity] = [:]
    private var keysVersion: UInt64 = 0
    private var budget: VerificationBudget

    /// How many are remembered.
    var count: Int { recent.count + older.count }

    private let verifier: TokenVerifier
    package let source: KeySource
    private let leeway: Int64

    /// Twice as many are remembered at most.
    package static let limit = 4096

    package init(_ settings: TokenSettings, _ source: KeySource) {
        verifier = TokenVerifier(settings)
        self.source = source
        leeway = settings.leeway
        budget = VerificationBudget()
    }

    /// - Parameters:
    ///   - hash: of all credentials of the request: keyed, so that nobody can find two with one hash.
    ///   - now: the time of day in milliseconds.
    ///   - clock: milliseconds of the monotonic clock.
    ///   - partition: makes the partition of these claims and the request's other credentials.
    package mutating func identity(
        of fields: Fields, hash: [UInt8], now: Int64, clock: Int64, partition: (_ claims: [UInt8]) -> [UInt8]
    ) -> RequestIdentity {
        let version = source.version
        if version != keysVersion {
            (recent, older, keysVersion) = ([:], [:], version)
        }
        if let known = recent[hash] ?? older[hash], isStill(known, now: now / 1000) { return known }
        let identity = look(fields, now: now / 1000, clock: clock, partition)
        // Of what nobody could check nothing is known.
        if identity != .none(.unknownKey), identity != .none(.tooMany) { remember(identity, hash) }
        return identity
    }

    private func isStill(_ identity: RequestIdentity, now: Int64) -> Bool {
        switch identity {
        case .verified(_, let until): now - leeway < until
        case .none(.notYetValid): false
        case .expired, .none: true
        }
    }

    private mutating func look(
        _ fields: Fields, now: Int64, clock: Int64, _ partition: (_ claims: [UInt8]) -> [UInt8]
    ) -> RequestIdentity {
        let token: ArraySlice<UInt8>
        switch TokenVerifier.token(of: fields) {
        case .success(let found): token = found
        case .failure(let error): return .none(error.reason)
        }
        let keys = source.keys(now: clock)
        guard budget.take(now: clock) else { return .none(.tooMany) }
        switch verifier.verify(token, keys: keys, now: now) {
        case .verified(let identity): return .verified(partition: partition(identity.claims), until: identity.expires)
        case .expired(let identity): return .expired(partition: partition(identity.claims), at: identity.expires)
        case .refused(let reason): return .none(reason)
        case .unknownKey:
            source.miss(now: clock)
            return .none(.unknownKey)
        }
    }

    private mutating func remember(_ identity: RequestIdentity, _ hash: [UInt8]) {
        if recent.count >= Self.limit { (older, recent) = (recent, [:]) }
        recent[hash] = identity
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
