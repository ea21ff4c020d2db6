// Reads Retry-After (RFC 9110 §10.2.3).

import HTTPCore

public enum RetryAfter {
    /// Milliseconds from now until the upstream accepts requests again; nil if the field is missing or invalid. A date in the past is 0.
    public static func milliseconds(_ fields: Fields, now: Timestamp) -> Int64? {
        guard let value = fields.first(.retryAfter) else { return nil }
        if let seconds = DeltaSeconds.parse(value) { return seconds * 1000 }
        return HTTPDate.parse(value, now: now.seconds).map { max(0, $0 * 1000 - now.milliseconds) }
    }
}
