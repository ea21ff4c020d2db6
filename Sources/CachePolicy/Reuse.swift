// Whether a stored response may answer a request without asking (RFC 9111 §4), or may stand in while the upstream fails (§4.2.4, RFC 5861).

import HTTPCore

/// Why the upstream is asked although something is stored.
public enum ValidationReason: String, Sendable, CaseIterable {
    case noFreshness = "no_freshness"
    case stale
    case noCache = "no_cache"
    case markedStale = "marked_stale"
    /// What other nodes purge is not seen just now.
    case unseen
    /// It came for another origin, or for none: whether the script that asks may read it, only the upstream knows.
    case otherOrigin = "other_origin"
    case ageUnknown = "age_unknown"
    case requestNoCache = "request_no_cache"
    case requestMaxAge = "request_max_age"
    case requestMinFresh = "request_min_fresh"
}

public enum ReuseDecision: Sendable, Equatable {
    /// - Parameter ttl: seconds of freshness left; negative where the request allowed a stale response.
    case serve(ttl: Int64, age: Int64)
    /// Stale, and the response itself allows it while it is validated behind the client's back (RFC 5861 §3).
    case serveWhileValidating(ttl: Int64, age: Int64)
    case validate(ValidationReason)
}

/// Why a stored response may not stand in for a failing upstream.
public enum NoRescueReason: String, Sendable, CaseIterable {
    case noCache = "no_cache"
    case mustRevalidate = "must_revalidate"
    case proxyRevalidate = "proxy_revalidate"
    case sharedMaxAge = "s_maxage"
    case requestNoCache = "request_no_cache"
    /// Staler than the response or the request allows in case of an error (RFC 5861 §4).
    case staleIfError = "stale_if_error"
    /// Another's response, which may be shared only as long as it is validated (RFC 9111 §3.5).
    case authorized
    case storedError = "stored_error"
    /// It has been stale for longer than `stale_for`.
    case staleFor = "stale_for"
    /// The mode is `record`.
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
        guard let lifetime = stored.freshnessLifetime else { return .validate(.noFreshness) }
        guard !Freshness.isAgeUnknown(of: stored, now: now) else { return .validate(.ageUnknown) }
        let age = Freshness.currentAge(of: stored, now: now)
        let ttl = lifetime - age
        // §5.2.1.1: max-stale lifts what max-age says about staleness, not about age.
        if let limit = directives.maxAge, age > limit { return .validate(.requestMaxAge) }
        if let wanted = directives.minFresh, ttl < wanted { return .validate(.requestMinFresh) }
        // §4.2: equal counts as stale.
        if lifetime > age { return .serve(ttl: ttl, age: age) }
        guard forbiddance(stored) == nil else { return .validate(.stale) }
        if let allowed = directives.maxStale, -ttl <= allowed { return .serve(ttl: ttl, age: age) }
        // A request that says how old a response may be has said that it wants no stale one.
        if directives.maxAge == nil, directives.minFresh == nil, let allowed = stored.staleWhileRevalidate, -ttl <= allowed {
            return .serveWhileValidating(ttl: ttl, age: age)
        }
        return .validate(.stale)
    }

    /// Whether the stored response may go out while the upstream fails. Without permission too (§4.2.4: a disconnected cache).
    /// - Parameter staleFor: seconds for which the operator lets stale responses stand in; nil: for ever.
    public static func rescue(
        _ stored: StoredMetadata, _ directives: RequestCacheControl, strictness: Strictness, staleFor: Int64? = nil, now: Timestamp
    ) -> RescueDecision {
        let age = Freshness.currentAge(of: stored, now: now)
        let ttl = Freshness.isAgeUnknown(of: stored, now: now) ? nil : stored.freshnessLifetime.map { $0 - age }
        // An error that was stored is no better than the one at hand.
        if stored.isNegative { return .forbidden(.storedError) }
        if ttl ?? 0 <= 0 {
            if stored.status.rawValue >= 500 { return .forbidden(.storedError) }
            if stored.flags.contains(.authorized), !stored.flags.contains(.isPublic) { return .forbidden(.authorized) }
        }
        if strictness == .strict {
            if let reason = forbiddance(stored) { return .forbidden(reason) }
            if directives.noCache { return .forbidden(.requestNoCache) }
        }
        // What says nothing of freshness is stale from the beginning.
        let staleness = -(ttl ?? -age)
        if strictness == .strict, let limit = directives.staleIfError ?? stored.staleIfError, staleness > limit {
            return .forbidden(.staleIfError)
        }
        if let staleFor, staleness > staleFor { return .forbidden(.staleFor) }
        return .allowed(age: age, ttl: ttl)
    }

    /// The same for what lies beside a copy and says that it is gone: it stands for what the upstream last said, however short it counts as fresh.
    public static func rescueGone(
        _ gone: StoredMetadata, _ directives: RequestCacheControl, strictness: Strictness, staleFor: Int64? = nil, now: Timestamp
    ) -> RescueDecision {
        var gone = gone
        gone.lifetimeSource = .response
        return rescue(gone, directives, strictness: strictness, staleFor: staleFor, now: now)
    }

    /// Whether it could stand in for a failing upstream at some time, if the request did not matter.
    public static func mayRescue(_ stored: StoredMetadata, strictness: Strictness) -> Bool {
        stored.status.rawValue < 500 && (strictness == .rescue || forbiddance(stored) == nil)
    }

    /// Whether it could be served if the request did not matter.
    public static func isFresh(_ stored: StoredMetadata, now: Timestamp) -> Bool {
        guard stored.flags.isDisjoint(with: StoredFlags.countsAsStale.union(.noCache)), let lifetime = stored.freshnessLifetime,
            !Freshness.isAgeUnknown(of: stored, now: now)
        else { return false }
        return lifetime > Freshness.currentAge(of: stored, now: now)
    }

    /// §4.2.4: what forbids a stale response.
    private static func forbiddance(_ stored: StoredMetadata) -> NoRescueReason? {
        if stored.flags.contains(.noCache) { return .noCache }
        if stored.flags.contains(.mustRevalidate) { return .mustRevalidate }
        if stored.flags.contains(.proxyRevalidate) { return .proxyRevalidate }
        return stored.flags.contains(.sharedMaxAge) ? .sharedMaxAge : nil
    }
}
