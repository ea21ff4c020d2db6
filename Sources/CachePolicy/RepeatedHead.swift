// Recognizes a response head that repeats an earlier one in all fields, except those with a new value in each response. Decisions about the
// earlier response then apply to the later one.

import HTTPCore

public enum RepeatedHead {
    /// Recognized fields that no decision about storing reads. Date is read, but separately.
    private static let changing: KnownFieldSet = [
        .date, .serverTiming, .traceparent, .tracestate, .xAmznTraceID, .xCorrelationID, .xRequestID,
    ]
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
            if let field = entry.known {
                if changing.contains(field) { continue }
            } else {
                let name = bytes.extracting(entry.nameRange)
                if MomentaryFields.isRateLimit(name) || ConfirmationChange.isOfExchange(name) { continue }
            }
            let line = bytes.extracting(Int(entry.nameStart)..<Int(entry.valueStart + entry.valueLength))
            number = ContentHash.number(of: line, seed: number)
        }
        return number
    }
}
