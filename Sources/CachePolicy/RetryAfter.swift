// When the upstream wants to be asked again (RFC 9110 §10.2.3).

import HTTPCore

public enum RetryAfter {
    /// Milliseconds from now; nil where the field is missing or cannot be read. A date in the past is 0.
    public static func milliseconds(_ fields: Fields, now: Timestamp) -> Int64? {
        guard let value = fields.first(.retryAfter) else { return nil }
        if let seconds = DeltaSeconds.parse(value) { return seconds * 1000 }
        return HTTPDate.parse(value, now: now.seconds).map { max(0, $0 * 1000 - now.milliseconds) }
    }
}
