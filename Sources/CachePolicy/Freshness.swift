// How long a response counts as fresh, and how old it is (RFC 9111 §4.2).

import HTTPCore

public enum Freshness {
    /// RFC 9111 §4.2.1: `s-maxage`, else `max-age`, else Expires − Date. Seconds; nil where nothing is said.
    /// - Parameter now: seconds since 1970, for dates with a two-digit year.
    public static func lifetime(_ fields: Fields, _ control: ResponseCacheControl, date: Timestamp, now: Int64) -> Int64? {
        if let shared = control.sharedMaxAge { return shared }
        if let age = control.maxAge { return age }
        guard !control.hidesExpires else { return nil }
        let expires = fields.all(.expires)
        guard let first = expires.first else { return nil }
        // §5.3: an invalid date, above all "0", is in the past.
        guard let time = HTTPDate.parse(first, now: now) else { return 0 }
        return max(0, time - date.seconds)
    }

    /// §4.2.2: a share of the time since the last change, for responses that say nothing themselves. Seconds; nil where there is none.
    public static func heuristic(
        _ fields: Fields, _ status: Status, _ control: ResponseCacheControl, date: Timestamp, settings: CachePolicySettings
    ) -> Int64? {
        guard settings.heuristicPercent > 0, CacheableStatus.isHeuristicallyCacheable(status) || control.isPublic, !control.noCache,
            let text = fields.first(.lastModified), let modified = HTTPDate.parse(text, now: date.seconds), modified < date.seconds
        else { return nil }
        return min((date.seconds - modified) * settings.heuristicPercent / 100, settings.heuristicLimit)
    }

    /// The Age field's value (RFC 9111 §5.1): the first member; what is no number says nothing.
    public static func ageValue(_ fields: Fields) -> Int64 {
        FieldLists.members(of: .age, in: fields).first.flatMap(DeltaSeconds.parse) ?? 0
    }

    /// RFC 9111 §4.2.3, in its own letters. Seconds.
    public static func currentAge(of stored: StoredMetadata, now: Timestamp) -> Int64 {
        let correctedAgeValue = stored.ageValue + responseDelay(of: stored)
        let correctedInitialAge = max(apparentAge(of: stored), correctedAgeValue)
        return correctedInitialAge + residentTime(of: stored, now: now)
    }

    /// Seconds.
    public static func apparentAge(of stored: StoredMetadata) -> Int64 { max(0, stored.responseTime.seconds - stored.date.seconds) }

    /// Seconds. A request's time may be ahead of the clock of day (`CausalTimes`).
    public static func responseDelay(of stored: StoredMetadata) -> Int64 {
        max(0, stored.responseTime.milliseconds - stored.requestTime.milliseconds) / 1000
    }

    /// Seconds. A clock that was set back must not make a response younger than it came.
    public static func residentTime(of stored: StoredMetadata, now: Timestamp) -> Int64 {
        max(0, now.milliseconds - stored.responseTime.milliseconds) / 1000
    }

    /// Until when `currentAge` stays what it is, as long as the clock is not set back.
    public static func ageEnds(of stored: StoredMetadata, now: Timestamp) -> Timestamp {
        Timestamp(milliseconds: stored.responseTime.milliseconds + (residentTime(of: stored, now: now) + 1) * 1000)
    }

    /// Whether how long a response has been here cannot be told, since the clock was set back after it came. Small corrections do not count.
    public static func isAgeUnknown(of stored: StoredMetadata, now: Timestamp) -> Bool {
        stored.responseTime.milliseconds - now.milliseconds > clockTolerance
    }

    /// Milliseconds.
    private static let clockTolerance: Int64 = 1_000
}
