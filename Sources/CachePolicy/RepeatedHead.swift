// Recognizes a response head that repeats an earlier one in all fields, except those with a new value in each response. Decisions about the
// earlier response then apply to the later one.

import HTTPCore

public enum RepeatedHead {
    /// Fields with a new value in each response, besides those of one exchange. The caller reads Date.
    private static let changing: KnownFieldSet = [.date, .serverTiming]
    /// Fields that must be processed in each response.
    private static let processed: KnownFieldSet = [.age, .expires, .setCookie, .setCookie2]

    /// Returns a number for comparison with other heads: it covers the status and all fields, except those with a new value in each
    /// response. nil if the head has fields that must be processed each time.
    /// - Parameter seed: secret, so that an upstream cannot construct two heads with equal numbers.
    public static func number(of head: ResponseHead, seed: UInt64) -> UInt64? {
        guard !head.fields.containsAny(of: processed) else { return nil }
        var number = seed ^ UInt64(head.status.rawValue)
        let bytes = head.fields.bytes.span
        for entry in head.fields.entries {
            let name = bytes.extracting(entry.nameRange)
            if changing.holds(entry) || ConfirmationChange.isOfExchange(entry.known, name) { continue }
            if entry.known == nil, MomentaryFields.isRateLimit(name) { continue }
            if ResponseCredentials.isOther(entry, head.fields.bytes) { return nil }
            let line = bytes.extracting(Int(entry.nameStart)..<Int(entry.valueStart + entry.valueLength))
            number = ContentHash.number(of: line, seed: number)
        }
        return number
    }
}
