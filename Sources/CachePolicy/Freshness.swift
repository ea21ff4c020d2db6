// Computes the freshness lifetime and the age of responses (RFC 9111 §4.2).

import HTTPCore

public enum Freshness {
    /// Freshness lifetime in seconds (RFC 9111 §4.2.1): `s-maxage`, else `max-age`, else Expires − Date. nil if the response gives none.
    /// - Parameter now: seconds since 1970, for dates with a two-digit year.
    public static func lifetime(_ fields: Fields, _ control: ResponseCacheControl, date: Timestamp, now: Int64) -> Int64? {
        if let maxAge = control.sharedMaxAge { return maxAge }
        if let age = control.maxAge { return age }
        guard !control.hidesExpires else { return nil }
        let expires = fields.all(.expires)
        guard let first = expires.first else { return nil }
        // §5.3: an invalid date, especially "0", is in the past.
        guard let time = HTTPDate.parse(first, now: now) else { return 0 }
        return max(0, time - date.seconds)
    }

    /// Heuristic lifetime in seconds (§4.2.2): a percentage of the time since the last change, for responses without a lifetime. nil if it
    /// does not apply.
    public static func heuristic(
        _ fields: Fields, _ status: Status, _ control: ResponseCacheControl, date: Timestamp, settings: CachePolicySettings
    ) -> Int64? {
        guard settings.heuristicPercent > 0, CacheableStatus.isHeuristicallyCacheable(status) || control.isPublic, !control.noCache,
            let text = fields.first(.lastModified), let modified = HTTPDate.parse(text, now: date.seconds), modified < date.seconds
        else { return nil }
        return min((date.seconds - modified) * settings.heuristicPercent / 100, settings.heuristicLimit)
    }

    /// Value of the Age field (RFC 9111 §5.1): its first member; 0 if missing or not a number.
    public static func ageValue(_ fields: Fields) -> Int64 {
        FieldLists.members(of: .age, in: fields).first.flatMap(DeltaSeconds.parse) ?? 0
    }

    /// Current age in seconds, with the names of RFC 9111 §4.2.3.
    public static func currentAge(of stored: StoredMetadata, now: Timestamp) -> Int64 {
        let correctedAgeValue = stored.ageValue + responseDelay(of: stored)
        let correctedInitialAge = max(apparentAge(of: stored), correctedAgeValue)
        return correctedInitialAge + residentTime(of: stored, now: now)
    }

    /// Seconds.
    public static func apparentAge(of stored: StoredMetadata) -> Int64 { max(0, stored.responseTime.seconds - stored.date.seconds) }

    /// Seconds. A request's time may be ahead of the system clock (`CausalTimes`).
    public static func responseDelay(of stored: StoredMetadata) -> Int64 {
        max(0, stored.responseTime.milliseconds - stored.requestTime.milliseconds) / 1000
    }

    /// Seconds. A clock that was set back must not make a response younger than at its arrival.
    public static func residentTime(of stored: StoredMetadata, now: Timestamp) -> Int64 {
        max(0, now.milliseconds - stored.responseTime.milliseconds) / 1000
    }

    /// Seconds for which the response has been stale. Before its arrival, only its Age counts, because the upstream's clock may be behind.
    public static func localStaleness(of stored: StoredMetadata, now: Timestamp) -> Int64 {
        let lifetime = max(0, stored.freshnessLifetime ?? 0)
        let atArrival = max(0, stored.ageValue + responseDelay(of: stored) - lifetime)
        return min(currentAge(of: stored, now: now) - lifetime, atArrival + residentTime(of: stored, now: now))
    }

    /// Time until which `currentAge` does not change, unless the clock is set back.
    public static func ageEnds(of stored: StoredMetadata, now: Timestamp) -> Timestamp {
        Timestamp(milliseconds: stored.responseTime.milliseconds + (residentTime(of: stored, now: now) + 1) * 1000)
    }

    /// Returns whether the age is unknown, because the clock was set back after the response arrived. Small corrections are tolerated.
    public static func isAgeUnknown(of stored: StoredMetadata, now: Timestamp) -> Bool {
        stored.responseTime.milliseconds - now.milliseconds > clockTolerance
    }

    /// Milliseconds.
    private static let clockTolerance: Int64 = 1_000
}
