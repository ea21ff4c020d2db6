// What a confirmation (a 304, or a response with equal data) changes in a stored response. That decides when the change must be written.

import HTTPCore

public enum ConfirmationChange: Sendable {
    /// The times, and fields that have another value in each response.
    case times
    /// Fields that affect neither who may receive the response nor how long.
    case fields
    /// Who may receive the response, how long, or by which purges it is found. Such a change must not be lost.
    case rules

    /// Flags that describe how clients receive the content. A change of these flags does not make it another response.
    private static let formFlags: StoredFlags = [.cameCoded, .isOpen]
    /// Fields of the content as it was received, beside digests. The stored content is kept.
    private static let ofContent: [StaticString] = ["content-length", "date"]
    private static let ruleFields: KnownFieldSet = [.accessControlAllowOrigin, .cacheControl, .contentType, .vary]
    private static let otherRuleFields: [StaticString] = [
        "access-control-allow-credentials", "cache-groups", "cache-tag", "cdn-cache-control", "cistern-cache-control",
        "content-security-policy", "cross-origin-resource-policy", "no-vary-search", "surrogate-control", "surrogate-key",
    ]
    /// Fields that identify or measure one exchange. Under `rescue`, a stored response keeps those of the exchange that fetched it.
    private static let ofExchange: KnownFieldSet = [.traceparent, .tracestate, .xAmznTraceID, .xCorrelationID, .xRequestID]
    private static let otherOfExchange: [StaticString] = [
        "cf-ray", "correlation-id", "request-id", "x-amz-cf-id", "x-amz-id-2", "x-amz-request-id", "x-amzn-requestid",
        "x-cloud-trace-context", "x-envoy-upstream-service-time", "x-github-request-id", "x-ms-request-id", "x-response-time", "x-runtime",
        "x-served-by", "x-timer", "x-trace-id",
    ]

    /// - Parameters:
    ///   - head: head of the stored response, as `StoredHead.make` wrote it.
    ///   - fresh: metadata after the confirmation.
    ///   - freshHead: head after the confirmation.
    public init(
        from stored: StoredMetadata, _ head: Span<UInt8>, to fresh: StoredMetadata, _ freshHead: Span<UInt8>, strictness: Strictness
    ) {
        guard stored.freshnessLifetime == fresh.freshnessLifetime, stored.staleIfError == fresh.staleIfError,
            stored.staleWhileRevalidate == fresh.staleWhileRevalidate, stored.status == fresh.status,
            stored.flags.subtracting(Self.formFlags) == fresh.flags.subtracting(Self.formFlags)
        else {
            self = .rules
            return
        }
        if Self.haveEqualLines(head, freshHead, strictness) {
            self = .times
        } else if let one = StoredHead.parse(head)?.fields, let other = StoredHead.parse(freshHead)?.fields {
            self = Self.change(one, other, strictness)
        } else {
            self = .rules
        }
    }

    /// Returns whether the lines are equal in order, except those that differ in each response. Nothing is parsed or allocated.
    private static func haveEqualLines(_ one: Span<UInt8>, _ other: Span<UInt8>, _ strictness: Strictness) -> Bool {
        var (start, otherStart) = (0, 0)
        while start < one.count, otherStart < other.count {
            guard let end = one.first(0x0a, from: start), let otherEnd = other.first(0x0a, from: otherStart) else { return false }
            let line = one.extracting(start..<end)
            let otherLine = other.extracting(otherStart..<otherEnd)
            (start, otherStart) = (end + 1, otherEnd + 1)
            if line.equals(otherLine) { continue }
            guard let colon = line.first(UInt8(ascii: ":")), otherLine.first(UInt8(ascii: ":")) == colon,
                line.extracting(..<colon).equals(otherLine.extracting(..<colon)),
                differs(line.extracting(..<colon), strictness)
            else { return false }
        }
        return start == one.count && otherStart == other.count
    }

    private static func change(_ one: Fields, _ other: Fields, _ strictness: Strictness) -> ConfirmationChange {
        var change = ConfirmationChange.times
        for (fields, others) in [(one, other), (other, one)] {
            for entry in fields.entries {
                let name = fields.bytes.span.extracting(entry.nameRange)
                guard !differs(name, strictness), fields.all(named: name) != others.all(named: name) else { continue }
                if ruleFields.holds(entry) || otherRuleFields.contains(where: { name.equalsIgnoringCase($0) }) { return .rules }
                change = .fields
            }
        }
        return change
    }

    /// Returns whether the field may differ in each response.
    private static func differs(_ name: Span<UInt8>, _ strictness: Strictness) -> Bool {
        if ofContent.contains(where: { name.equalsIgnoringCase($0) }) || StoredHead.isDigest(name) { return true }
        return strictness == .rescue && isOfExchange(KnownField(name), name)
    }

    /// Returns whether the field identifies or measures one exchange.
    static func isOfExchange(_ known: KnownField?, _ name: Span<UInt8>) -> Bool {
        known.map(ofExchange.contains) ?? otherOfExchange.contains { name.equalsIgnoringCase($0) }
    }
}
