// Decides whether a stored response may be served without contacting the upstream (RFC 9111 §4), or while the upstream fails (§4.2.4, RFC
// 5861).

import HTTPCore

/// Why a stored response must be validated before it is served.
public enum ValidationReason: String, Sendable, CaseIterable {
    case noFreshness = "no_freshness"
    case stale
    case noCache = "no_cache"
    case markedStale = "marked_stale"
    /// Purges by other nodes cannot be seen at the moment.
    case unseen
    /// The response was stored for another origin, or for none. Only the upstream decides whether the requesting script may read it.
    case otherOrigin = "other_origin"
    case ageUnknown = "age_unknown"
    case requestNoCache = "request_no_cache"
    case requestMaxAge = "request_max_age"
    case requestMinFresh = "request_min_fresh"
}

public enum ReuseDecision: Sendable, Equatable {
    /// - Parameter ttl: remaining freshness in seconds; negative if the request allowed a stale response.
    case serve(ttl: Int64, age: Int64)
    /// The response is stale, and its stale-while-revalidate permits serving it during a background refresh (RFC 5861 §3).
    case serveWhileValidating(ttl: Int64, age: Int64)
    case validate(ValidationReason)

    /// Whether the response is served because it is fresh, and not because stale responses are permitted.
    public var isFresh: Bool { if case .serve(let ttl, _) = self { ttl > 0 } else { false } }
}

/// Why a stored response may not be served while the upstream fails.
public enum NoRescueReason: String, Sendable, CaseIterable {
    case noCache = "no_cache"
    case mustRevalidate = "must_revalidate"
    case proxyRevalidate = "proxy_revalidate"
    case sharedMaxAge = "s_maxage"
    case requestNoCache = "request_no_cache"
    /// Staler than the response or the request allows in case of an error (RFC 5861 §4).
    case staleIfError = "stale_if_error"
    /// A response to another user's Authorization, which may be shared only while it is validated (RFC 9111 §3.5).
    case authorized
    case storedError = "stored_error"
    /// Stale for longer than `stale_for`.
    case staleFor = "stale_for"
    /// The serving mode is `record`.
    case record
}

public enum RescueDecision: Sendable, Equatable {
    case allowed(age: Int64, ttl: Int64?)
    case forbidden(NoRescueReason)

    public var isAllowed: Bool { if case .allowed = self { true } else { false } }
}

public enum Reuse {
    public static func decide(_ stored: StoredMetadata, _ directives: RequestCacheControl, now: Timestamp) -> ReuseDecision {
        guard !stored.flags.contains(.noCache) else { return .validate(.noCache) }
        guard stored.flags.isDisjoint(with: .countsAsStale) else {
            if stored.flags.contains(.markedStale) { return .validate(.markedStale) }
            return .validate(stored.flags.contains(.unseen) ? .unseen : .otherOrigin)
        }
        guard !directives.noCache else { return .validate(.requestNoCache) }
        // Without a lifetime, a response is stale from the beginning, which max-stale permits.
        guard let lifetime = stored.freshnessLifetime ?? (directives.maxStale == nil ? nil : 0) else { return .validate(.noFreshness) }
        guard !Freshness.isAgeUnknown(of: stored, now: now) else { return .validate(.ageUnknown) }
        let age = Freshness.currentAge(of: stored, now: now)
        let ttl = lifetime - age
        // §5.2.1.1: max-stale relaxes the freshness lifetime, not the age limit of max-age.
        if let limit = directives.maxAge, age > limit { return .validate(.requestMaxAge) }
        if let wanted = directives.minFresh, ttl < wanted { return .validate(.requestMinFresh) }
        // §4.2: a response is stale once its age equals its lifetime.
        if lifetime > age { return .serve(ttl: ttl, age: age) }
        guard forbiddance(stored) == nil else { return .validate(.stale) }
        if let allowed = directives.maxStale, -ttl <= allowed { return .serve(ttl: ttl, age: age) }
        // A request with max-age or min-fresh does not accept a stale response.
        if directives.maxAge == nil, directives.minFresh == nil, let allowed = stored.staleWhileRevalidate, -ttl <= allowed {
            return .serveWhileValidating(ttl: ttl, age: age)
        }
        return .validate(.stale)
    }

    /// Returns whether the stored response may be served while the upstream fails. Unless `strictness` is strict, this needs no permission
    /// in the response (§4.2.4: a disconnected cache).
    /// - Parameter staleFor: maximum `localStaleness` that the operator allows, in seconds; nil means no limit.
    public static func rescue(
        _ stored: StoredMetadata, _ directives: RequestCacheControl, strictness: Strictness, staleFor: Int64? = nil, now: Timestamp
    ) -> RescueDecision {
        let age = Freshness.currentAge(of: stored, now: now)
        let ttl = Freshness.isAgeUnknown(of: stored, now: now) ? nil : stored.freshnessLifetime.map { $0 - age }
        // A stored error is no better than the current failure.
        if stored.isNegative { return .forbidden(.storedError) }
        if ttl ?? 0 <= 0 {
            if stored.status.rawValue >= 500 { return .forbidden(.storedError) }
            if stored.flags.contains(.authorized), !stored.flags.contains(.isPublic) { return .forbidden(.authorized) }
        }
        if strictness == .strict {
            if let reason = forbiddance(stored) { return .forbidden(reason) }
            if directives.noCache { return .forbidden(.requestNoCache) }
        }
        // A response without freshness information is stale from the moment it was generated.
        let staleness = -(ttl ?? -age)
        if strictness == .strict, let limit = directives.staleIfError ?? stored.staleIfError, staleness > limit {
            return .forbidden(.staleIfError)
        }
        if let staleFor, Freshness.localStaleness(of: stored, now: now) > staleFor { return .forbidden(.staleFor) }
        return .allowed(age: age, ttl: ttl)
    }

    /// Applies `rescue` to a stored 403, 404 or 410 that was recorded next to an older good response. It represents the upstream's last
    /// known state, so it is not rejected as a stored error.
    public static func rescueGone(
        _ gone: StoredMetadata, _ directives: RequestCacheControl, strictness: Strictness, staleFor: Int64? = nil, now: Timestamp
    ) -> RescueDecision {
        var gone = gone
        gone.lifetimeSource = .response
        return rescue(gone, directives, strictness: strictness, staleFor: staleFor, now: now)
    }

    /// Returns whether the response could be served during a failure at some time, for a request without directives.
    public static func mayRescue(_ stored: StoredMetadata, strictness: Strictness) -> Bool {
        stored.status.rawValue < 500 && (strictness == .rescue || forbiddance(stored) == nil)
    }

    /// Returns whether the response could be served without validation to a request without directives.
    public static func isFresh(_ stored: StoredMetadata, now: Timestamp) -> Bool {
        guard stored.flags.isDisjoint(with: StoredFlags.countsAsStale.union(.noCache)), let lifetime = stored.freshnessLifetime,
            !Freshness.isAgeUnknown(of: stored, now: now)
        else { return false }
        return lifetime > Freshness.currentAge(of: stored, now: now)
    }

    /// The directive that forbids serving the response stale (§4.2.4); nil if none does.
    private static func forbiddance(_ stored: StoredMetadata) -> NoRescueReason? {
        if stored.flags.contains(.noCache) { return .noCache }
        if stored.flags.contains(.mustRevalidate) { return .mustRevalidate }
        if stored.flags.contains(.proxyRevalidate) { return .proxyRevalidate }
        return stored.flags.contains(.sharedMaxAge) ? .sharedMaxAge : nil
    }
}
