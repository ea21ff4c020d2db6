// How much of a request's head is taken, and what is said when it is too much or wrong.

/// Limits on the head of a request. Each has a status of its own (RFC 9110 §15.5, RFC 6585 §5).
public struct RequestLimits: Sendable, Equatable {
    /// Bytes of the request target; beyond it 414. RFC 9112 §3 recommends at least 8,000 for the whole line.
    public var targetBytes = 8192
    /// Bytes of the whole head; beyond it 431.
    public var headBytes = 32_768
    /// Number of field lines; beyond it 431.
    public var fieldCount = 100

    public init() {}
}

/// Why a request is refused before anything is done with it.
public struct RequestRejection: Error, Sendable, Equatable {
    /// A label in metrics and logs.
    public enum Kind: String, Sendable, CaseIterable {
        case malformed, framing, host, version
        case clearOnTLS = "clear_on_tls"
        case tlsOnClear = "tls_on_clear"
        case targetTooLong = "target_too_long"
        case fieldsTooLarge = "fields_too_large"
        case contentTooLarge = "content_too_large"
        case codingNotImplemented = "coding_not_implemented"
        case expectationFailed = "expectation_failed"
        case rulesChanged = "client_rules_changed"
        case timeout
    }

    public let kind: Kind
    public let status: Status
    /// What the client reads.
    public let sentence: String

    public init(_ kind: Kind, _ status: Status, _ sentence: String) {
        self.kind = kind
        self.status = status
        self.sentence = sentence
    }

    public static func == (left: Self, right: Self) -> Bool { left.kind == right.kind && left.status == right.status }

    static func malformed(_ sentence: String) -> Self { Self(.malformed, 400, sentence) }
    static func framing(_ sentence: String) -> Self { Self(.framing, 400, sentence) }
    static func host(_ sentence: String) -> Self { Self(.host, 400, sentence) }
}
