// Heads of requests and responses (RFC 9110 §6, RFC 9112 §2).

/// A request method (RFC 9110 §9). Method names are case-sensitive.
public enum Method: Sendable, Equatable {
    case get, head, post, put, delete, connect, options, trace, patch, query
    case other([UInt8])

    public init(_ token: Span<UInt8>) {
        for known in Self.known where token.equals(known.name ?? "") {
            self = known
            return
        }
        self = .other(token.withUnsafeBufferPointer { Array($0) })
    }

    /// Implemented explicitly for speed, like the operators of `Status`.
    public static func == (one: Method, other: Method) -> Bool {
        switch (one, other) {
        case (.other(let one), .other(let other)): one == other
        case (.other, _), (_, .other): false
        case (let one, let other): one.number == other.number
        }
    }

    public static func != (one: Method, other: Method) -> Bool { !(one == other) }

    private var number: Int {
        switch self {
        case .get: 0
        case .head: 1
        case .post: 2
        case .put: 3
        case .delete: 4
        case .connect: 5
        case .options: 6
        case .trace: 7
        case .patch: 8
        case .query: 9
        case .other: 10
        }
    }

    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    public func append(to out: inout [UInt8]) {
        if case .other(let token) = self { out += token }
        if let name { out.append(name) }
    }

    public func write(to out: inout ByteWriter) {
        if case .other(let token) = self { out.put(token) }
        if let name { out.put(name) }
    }

    /// Number of bytes that `append(to:)` adds.
    public var length: Int {
        if case .other(let token) = self { return token.count }
        return name?.utf8CodeUnitCount ?? 0
    }

    /// nil for an unknown method.
    private var name: StaticString? {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .connect: "CONNECT"
        case .options: "OPTIONS"
        case .trace: "TRACE"
        case .patch: "PATCH"
        case .query: "QUERY"
        case .other: nil
        }
    }

    /// Whether the method is safe (RFC 9110 §9.2.1). Unknown methods count as unsafe.
    public var isSafe: Bool {
        switch self {
        case .get, .head, .options, .trace, .query: true
        case .post, .put, .delete, .connect, .patch, .other: false
        }
    }

    /// True for GET and HEAD.
    public var isRead: Bool {
        switch self {
        case .get, .head: true
        default: false
        }
    }

    private static let known: [Method] = [.get, .head, .post, .put, .delete, .connect, .options, .trace, .patch, .query]
}

/// A status code (RFC 9110 §15): three digits.
public struct Status: RawRepresentable, Hashable, Sendable, ExpressibleByIntegerLiteral {
    public let rawValue: UInt16
    @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }
    @inlinable public init(integerLiteral value: UInt16) { self.init(rawValue: value) }

    /// Implemented explicitly: the generic operators of types with raw values use witness tables, and a request needs about thirty
    /// comparisons.
    @inlinable public static func == (one: Status, other: Status) -> Bool { one.rawValue == other.rawValue }

    @inlinable public static func != (one: Status, other: Status) -> Bool { one.rawValue != other.rawValue }

    /// Used by `switch`.
    @inlinable public static func ~= (pattern: Status, status: Status) -> Bool { pattern.rawValue == status.rawValue }

    public var isInformational: Bool { rawValue < 200 }
    public var isSuccessful: Bool { rawValue / 100 == 2 }
    public var isRedirection: Bool { rawValue / 100 == 3 }
    /// True for statuses without content: 1xx, 204 and 304 (RFC 9110 §6.4.1). 205 has no content either (§15.3.6) but is not included.
    public var forbidsContent: Bool { isInformational || rawValue == 204 || rawValue == 304 }
}

/// HTTP/1.x (RFC 9112 §2.3), where a minor version above 1 is treated as 1; or HTTP/2 (RFC 9113).
public enum HTTPVersion: Sendable, Equatable {
    case http10, http11, http2

    /// Name in logs and metrics.
    public var name: String {
        switch self {
        case .http10: "HTTP/1.0"
        case .http11: "HTTP/1.1"
        case .http2: "HTTP/2"
        }
    }

    /// Name in Via (RFC 9110 §7.6.3).
    public var receivedProtocol: StaticString {
        switch self {
        case .http10: "1.0"
        case .http11: "1.1"
        case .http2: "2"
        }
    }
}

/// A request's line and fields. `fields.bytes` is the head as received, and `target` is a slice of it. A class, because passing it along
/// then counts one reference instead of those of all its parts.
public final class RequestHead: Sendable {
    public let method: Method
    /// The request target exactly as received (RFC 9112 §3.2).
    public let target: ArraySlice<UInt8>
    /// Path and query, also of an absolute target.
    public let pathAndQuery: ArraySlice<UInt8>
    public let version: HTTPVersion
    public let fields: Fields
    /// Number of the request, used as its identifier if it has no request ID; 0 if no identifier is needed.
    public let number: UInt64
    /// The span recorded for the request; `none` if it is not traced.
    public let span: SpanContext

    public init(
        method: Method, target: ArraySlice<UInt8>, version: HTTPVersion, fields: Fields, number: UInt64 = 0, span: SpanContext = .none
    ) {
        self.method = method
        self.target = target
        pathAndQuery = RequestTarget.pathAndQuery(of: target, method)
        self.version = version
        self.fields = fields
        self.number = number
        self.span = span
    }

    /// Returns whether one of the fields is present. Avoids reference counting for `fields`.
    @inlinable public func hasAny(of fields: KnownFieldSet) -> Bool { self.fields.containsAny(of: fields) }

    /// Returns whether the field is present.
    @inlinable public func contains(_ field: KnownField) -> Bool { fields.contains(field) }

    /// Returns the request without the end-to-end fields that its Connection field names.
    /// - Parameter isKept: whether a named field is kept nevertheless.
    public func removingNamed(keeping isKept: (_ name: Span<UInt8>) -> Bool) -> RequestHead {
        fields.removingNamed(keeping: isKept).map(replacing) ?? self
    }

    /// Returns the request with other fields.
    public func replacing(fields: Fields) -> RequestHead {
        RequestHead(method: method, target: target, version: version, fields: fields, number: number, span: span)
    }

    /// Returns the request with another number.
    public func numbered(_ number: UInt64) -> RequestHead {
        RequestHead(method: method, target: target, version: version, fields: fields, number: number, span: span)
    }

    /// Returns the request with another span.
    public func recorded(as span: SpanContext) -> RequestHead {
        RequestHead(method: method, target: target, version: version, fields: fields, number: number, span: span)
    }

    /// The request without its request ID, trace fields, number and span.
    public var unnamed: RequestHead {
        var fields = fields
        for field: KnownField in [.xRequestID, .traceparent, .tracestate] { fields.remove(field) }
        return RequestHead(method: method, target: target, version: version, fields: fields, number: 0, span: .none)
    }

    /// The GET for the complete response, in place of a HEAD or a range request.
    public var asCompleteGet: RequestHead {
        guard method != .get || hasAny(of: [.range, .ifRange]) else { return self }
        var fields = fields
        for field: KnownField in [.range, .ifRange] { fields.remove(field) }
        return RequestHead(method: .get, target: target, version: version, fields: fields, number: number, span: span)
    }
}

/// A response's status line and fields.
public struct ResponseHead: Sendable {
    public var status: Status
    public var reason: [UInt8]
    public var fields: Fields
    /// Version in which the response was received.
    public var version = HTTPVersion.http11

    public init(status: Status, reason: [UInt8] = [], fields: Fields = Fields()) {
        self.status = status
        self.reason = reason
        self.fields = fields
    }
}

/// Framing of a request's content (RFC 9112 §6.3).
public enum ContentFraming: Sendable, Equatable {
    case none
    case length(Int)
    case chunked
    /// No content before the response. After a 101, the bytes of another protocol up to the end of the connection (RFC 9110 §7.8).
    case tunnel

    /// Implemented explicitly for speed, like the operators of `Status`.
    @inlinable public static func == (one: ContentFraming, other: ContentFraming) -> Bool {
        switch (one, other) {
        case (.none, .none), (.chunked, .chunked), (.tunnel, .tunnel): true
        case (.length(let one), .length(let other)): one == other
        case (.none, _), (.chunked, _), (.tunnel, _), (.length, _): false
        }
    }

    @inlinable public static func != (one: ContentFraming, other: ContentFraming) -> Bool { !(one == other) }
}
