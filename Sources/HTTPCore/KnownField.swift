// The field names that Cistern reads or writes, as numbers, so that finding a field compares bytes instead of texts. Other fields are
// forwarded without being recognized.

/// A recognized field name (RFC 9110 §5.1). Names are case-insensitive; `name` is the spelling used for writing.
public enum KnownField: UInt8, CaseIterable, Sendable {
    case accept, acceptCharset, acceptEncoding, acceptLanguage, accessControlAllowOrigin, age, allow, alternateProtocol, altSvc
    case authenticationInfo, authorization
    case b3, baggage
    case cacheControl, cacheStatus, cdnLoop, cisternKey, cisternMode, cisternStale, cisternWhy, clearSiteData, connection, contentEncoding,
        contentLength,
        contentLocation,
        contentRange, contentType, cookie
    case date, etag, expect, expires, forwarded, frontEndHTTPS, host, http2Settings
    case ifMatch, ifModifiedSince, ifNoneMatch, ifRange, ifUnmodifiedSince, keepAlive, lastModified, link, location, maxForwards
    case origin, pragma, proxyAuthenticate, proxyAuthenticationInfo, proxyAuthorization, proxyConnection, proxyStatus
    case range, referer, refresh, retryAfter, server, serverTiming, setCookie, setCookie2, te, traceparent, tracestate, trailer,
        transferEncoding
    case trueClientIP, upgrade, userAgent
    case vary, via, warning, wwwAuthenticate, xAccelBuffering, xAPIKey, xAmznTraceID, xB3ParentSpanID, xB3Sampled, xB3SpanID, xB3TraceID,
        xCorrelationID
    case xForwardedFor, xForwardedHost, xForwardedPort, xForwardedPrefix, xForwardedProto
    case xForwardedScheme, xForwardedServer, xHost, xHTTPMethod, xHTTPMethodOverride, xMethodOverride, xOriginalURL, xRealIP, xRequestID
    case xRewriteURL, xWAPProfile

    /// The registered spelling in ASCII.
    public var name: StaticString {
        switch self {
        case .accept: "Accept"
        case .acceptCharset: "Accept-Charset"
        case .acceptEncoding: "Accept-Encoding"
        case .acceptLanguage: "Accept-Language"
        case .accessControlAllowOrigin: "Access-Control-Allow-Origin"
        case .age: "Age"
        case .allow: "Allow"
        case .alternateProtocol: "Alternate-Protocol"
        case .altSvc: "Alt-Svc"
        case .authenticationInfo: "Authentication-Info"
        case .authorization: "Authorization"
        case .b3: "b3"
        case .baggage: "baggage"
        case .cacheControl: "Cache-Control"
        case .cacheStatus: "Cache-Status"
        case .cdnLoop: "CDN-Loop"
        case .cisternKey: "Cistern-Key"
        case .cisternMode: "Cistern-Mode"
        case .cisternStale: "Cistern-Stale"
        case .cisternWhy: "Cistern-Why"
        case .clearSiteData: "Clear-Site-Data"
        case .connection: "Connection"
        case .contentEncoding: "Content-Encoding"
        case .contentLength: "Content-Length"
        case .contentLocation: "Content-Location"
        case .contentRange: "Content-Range"
        case .contentType: "Content-Type"
        case .cookie: "Cookie"
        case .date: "Date"
        case .etag: "ETag"
        case .expect: "Expect"
        case .expires: "Expires"
        case .forwarded: "Forwarded"
        case .frontEndHTTPS: "Front-End-Https"
        case .host: "Host"
        case .http2Settings: "HTTP2-Settings"
        case .ifMatch: "If-Match"
        case .ifModifiedSince: "If-Modified-Since"
        case .ifNoneMatch: "If-None-Match"
        case .ifRange: "If-Range"
        case .ifUnmodifiedSince: "If-Unmodified-Since"
        case .keepAlive: "Keep-Alive"
        case .lastModified: "Last-Modified"
        case .link: "Link"
        case .location: "Location"
        case .maxForwards: "Max-Forwards"
        case .origin: "Origin"
        case .pragma: "Pragma"
        case .proxyAuthenticate: "Proxy-Authenticate"
        case .proxyAuthenticationInfo: "Proxy-Authentication-Info"
        case .proxyAuthorization: "Proxy-Authorization"
        case .proxyConnection: "Proxy-Connection"
        case .proxyStatus: "Proxy-Status"
        case .range: "Range"
        case .referer: "Referer"
        case .refresh: "Refresh"
        case .retryAfter: "Retry-After"
        case .server: "Server"
        case .serverTiming: "Server-Timing"
        case .setCookie: "Set-Cookie"
        case .setCookie2: "Set-Cookie2"
        case .te: "TE"
        case .traceparent: "traceparent"
        case .tracestate: "tracestate"
        case .trailer: "Trailer"
        case .transferEncoding: "Transfer-Encoding"
        case .trueClientIP: "True-Client-IP"
        case .upgrade: "Upgrade"
        case .userAgent: "User-Agent"
        case .vary: "Vary"
        case .via: "Via"
        case .warning: "Warning"
        case .wwwAuthenticate: "WWW-Authenticate"
        case .xAccelBuffering: "X-Accel-Buffering"
        case .xAPIKey: "X-API-Key"
        case .xAmznTraceID: "X-Amzn-Trace-Id"
        case .xB3ParentSpanID: "X-B3-ParentSpanId"
        case .xB3Sampled: "X-B3-Sampled"
        case .xB3SpanID: "X-B3-SpanId"
        case .xB3TraceID: "X-B3-TraceId"
        case .xCorrelationID: "X-Correlation-Id"
        case .xForwardedFor: "X-Forwarded-For"
        case .xForwardedHost: "X-Forwarded-Host"
        case .xForwardedPort: "X-Forwarded-Port"
        case .xForwardedPrefix: "X-Forwarded-Prefix"
        case .xForwardedProto: "X-Forwarded-Proto"
        case .xForwardedScheme: "X-Forwarded-Scheme"
        case .xForwardedServer: "X-Forwarded-Server"
        case .xHost: "X-Host"
        case .xHTTPMethod: "X-HTTP-Method"
        case .xHTTPMethodOverride: "X-HTTP-Method-Override"
        case .xMethodOverride: "X-Method-Override"
        case .xOriginalURL: "X-Original-URL"
        case .xRealIP: "X-Real-IP"
        case .xRequestID: "X-Request-Id"
        case .xRewriteURL: "X-Rewrite-URL"
        case .xWAPProfile: "X-WAP-Profile"
        }
    }

    /// Recognizes a name in any case; nil if it is unknown.
    public init?(_ name: Span<UInt8>) {
        guard let field = KnownFieldTable.shared.find(name) else { return nil }
        self = field
    }
}

/// A small hash table of the names, created once and never freed. Plain memory, because it is searched for every field of every message.
/// `@unchecked Sendable` because it is immutable after `init`.
private struct KnownFieldTable: @unchecked Sendable {
    static let shared = KnownFieldTable()
    private let slots: UnsafeMutablePointer<UInt8>
    /// 32 bytes for each name in lower case, and the lengths of the names.
    private let names: UnsafeMutablePointer<UInt8>
    private let lengths: UnsafeMutablePointer<UInt8>

    private static let empty: UInt8 = 0xff
    private static let width = 32

    init() {
        let count = KnownField.allCases.count
        slots = .allocate(capacity: 1024)
        slots.initialize(repeating: Self.empty, count: 1024)
        names = .allocate(capacity: count * Self.width)
        names.initialize(repeating: 0, count: count * Self.width)
        lengths = .allocate(capacity: count)
        for (index, field) in KnownField.allCases.enumerated() {
            let name = field.name.withUTF8Buffer { $0.map(\.asciiLowercased) }
            lengths[index] = UInt8(name.count)
            for (offset, byte) in name.enumerated() { names[index * Self.width + offset] = byte }
            var slot = Self.slot(of: name.span)
            while slots[slot] != Self.empty { slot = (slot + 1) & 1023 }
            slots[slot] = UInt8(index)
        }
    }

    func find(_ name: Span<UInt8>) -> KnownField? {
        let count = name.count
        guard count >= 2, count <= Self.width else { return nil }
        var slot = Self.slot(of: name)
        while slots[slot] != Self.empty {
            let index = Int(slots[slot])
            if Int(lengths[index]) == count, Self.isSame(name, names + index * Self.width) { return KnownField(rawValue: slots[slot]) }
            slot = (slot + 1) & 1023
        }
        return nil
    }

    private static func isSame(_ name: Span<UInt8>, _ known: UnsafePointer<UInt8>) -> Bool {
        name.withUnsafeBufferPointer { UnsafeBufferPointer.isSame($0.baseAddress!, asLowercased: known, count: $0.count) }
    }

    private static func slot(of name: Span<UInt8>) -> Int {
        let count = name.count
        // Upper and lower case differ in this bit only. Other bytes may collide, which does no harm.
        let first = Int(name[0] | 0x20)
        let middle = Int(name[count / 2] | 0x20)
        let last = Int(name[count - 1] | 0x20)
        return (count &* 131 &+ first &* 31 &+ middle &* 7 &+ last &* 257) & 1023
    }
}
