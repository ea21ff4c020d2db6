// Limits on request heads, and rejections of requests that exceed them or are invalid.

/// Limits on the head of a request. Exceeding one results in a specific status (RFC 9110 §15.5, RFC 6585 §5).
public struct RequestLimits: Sendable, Equatable {
    /// Maximum length of the request target in bytes; beyond it 414. RFC 9112 §3 recommends at least 8,000 for the whole line.
    public var targetBytes = 8192
    /// Maximum length of the head in bytes; beyond it 431.
    public var headBytes = 32_768
    /// Maximum number of field lines; beyond it 431.
    public var fieldCount = 100

    public init() {}
}

/// Why a request is rejected before it is processed.
public struct RequestRejection: Error, Sendable, Equatable {
    /// The raw value is the label in metrics and logs.
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
    /// Text for the client.
    public let sentence: String

    public init(_ kind: Kind, _ status: Status, _ sentence: String) {
        self.kind = kind
        self.status = status
        self.sentence = sentence
    }

    public static func == (left: Self, right: Self) -> Bool { left.kind == right.kind && left.status == right.status }

    public static let targetTooLong = Self(.targetTooLong, 414, "The request target is too long.")
    public static let contentTooLarge = Self(.contentTooLarge, 413, "The request's content is too large.")

    static func malformed(_ sentence: String) -> Self { Self(.malformed, 400, sentence) }
    static func framing(_ sentence: String) -> Self { Self(.framing, 400, sentence) }
    static func host(_ sentence: String) -> Self { Self(.host, 400, sentence) }
}
