// Reads Retry-After (RFC 9110 §10.2.3).

import HTTPCore

public enum RetryAfter {
    /// Milliseconds from now until the upstream accepts requests again; nil if the field is missing or invalid. A date in the past is 0.
    /// A date is compared with the response's Date, because the upstream's clock may differ. A Date that differs by a day or more is
    /// ignored, because a static response has one that never changes.
    public static func milliseconds(_ fields: Fields, now: Timestamp) -> Int64? {
        guard let value = fields.first(.retryAfter) else { return nil }
        if let seconds = DeltaSeconds.parse(value) { return seconds * 1000 }
        guard let end = HTTPDate.parse(value, now: now.seconds) else { return nil }
        let sent = fields.first(.date).flatMap { HTTPDate.parse($0, now: now.seconds) }.map { $0 + Freshness.ageValue(fields) }
        guard let sent, abs(sent - now.seconds) < 86_400 else { return max(0, end * 1000 - now.milliseconds) }
        return max(0, end - sent) * 1000
    }
}
