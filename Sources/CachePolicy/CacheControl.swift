// Interprets Cache-Control (RFC 9111 §5.2). Numbers are delta-seconds (§1.2.2); an overflow is 2^31. If a directive is repeated, the most
// restrictive value applies; an invalid lifetime counts as stale (§4.2.1).

import HTTPCore

/// Directives of a response (RFC 9111 §5.2.2, RFC 5861, RFC 8246, RFC 9213). Times in seconds; nil if absent.
public struct ResponseCacheControl: Sendable, Equatable {
    public var maxAge: Int64?
    public var sharedMaxAge: Int64?
    /// True if an `s-maxage` has a non-numeric argument.
    public private(set) var hasUnreadableSharedMaxAge = false
    public var staleWhileRevalidate: Int64?
    public var staleIfError: Int64?
    public var noStore = false
    public var noCache = false
    public var isPrivate = false
    public var isPublic = false
    public var mustRevalidate = false
    public var proxyRevalidate = false
    public var mustUnderstand = false
    public var noTransform = false
    public var immutable = false
    /// Fields that `no-cache` and `private` name (§5.2.2.4, §5.2.2.7), in lower case. They are not stored; the rest of the response is.
    public var unstoredFields: [[UInt8]] = []
    /// True if Expires is ignored: directives come from a targeted field (RFC 9213 §2.2), or the operator ignores it.
    public var hidesExpires = false

    public init() {}

    /// - Parameter targeted: names of targeted fields (RFC 9213), in lower case. The first present and valid one replaces Cache-Control.
    public init(_ fields: Fields, targeted: [[UInt8]] = []) {
        self.init()
        read(fields, targeted)
    }

    /// Separate from `init`, which would copy the result.
    private mutating func read(_ fields: Fields, _ targeted: [[UInt8]]) {
        // The field exceeds the limit: the unread part may contain no-store.
        guard !FieldListLimit.isExceeded(by: .cacheControl, in: fields) else {
            (noStore, noTransform) = (true, true)
            return
        }
        for name in targeted where fields.contains(named: name.span) {
            guard let control = TargetedCacheControl.read(fields, name) else { continue }
            self = control
            // no-transform does not concern caching, so a targeted field does not replace it (RFC 9110 §7.7).
            CacheDirective.read(fields) { directive, _ in
                if directive == .noTransform { noTransform = true }
            }
            return
        }
        CacheDirective.read(fields) { directive, argument in
            switch directive {
            case .maxAge: maxAge = Self.smaller(maxAge, argument)
            case .sharedMaxAge:
                sharedMaxAge = Self.smaller(sharedMaxAge, argument)
                if DeltaSeconds.parse(argument) == nil { hasUnreadableSharedMaxAge = true }
            case .staleWhileRevalidate: staleWhileRevalidate = Self.smaller(staleWhileRevalidate, argument)
            case .staleIfError: staleIfError = Self.smaller(staleIfError, argument)
            case .noCache, .isPrivate:
                if let argument, let names = Self.fieldNames(argument) { unstoredFields += names } else { setFlag(directive) }
            case .noStore, .isPublic, .mustRevalidate, .proxyRevalidate, .mustUnderstand, .noTransform, .immutable: setFlag(directive)
            case .minFresh, .maxStale, .onlyIfCached: break
            }
        }
    }

    /// Returns whether no-transform is set. A Cache-Control that is shorter than the directive is not parsed.
    public static func forbidsTransforming(_ fields: Fields) -> Bool {
        guard fields.contains(.cacheControl) else { return false }
        var bytes = 0
        for entry in fields.entries where entry.known == .cacheControl { bytes += Int(entry.valueLength) + 1 }
        return bytes > "no-transform".utf8.count && ResponseCacheControl(fields).noTransform
    }

    /// Returns the directives as this kind of cache reads them: `s-maxage` and `proxy-revalidate` apply to shared caches only (§5.2.2.8,
    /// §5.2.2.10).
    func asRead(by settings: CachePolicySettings) -> ResponseCacheControl {
        guard settings.isPrivate else { return self }
        var control = self
        control.sharedMaxAge = nil
        control.proxyRevalidate = false
        return control
    }

    /// Returns the field names in the argument of `no-cache` or `private`. Returns nil if there is no valid list; the directive then
    /// applies to the whole response.
    private static func fieldNames(_ argument: Span<UInt8>) -> [[UInt8]]? {
        let names = FieldLists.members(of: Array(copying: argument)[...]).map { $0.map(\.asciiLowercased) }
        return names.isEmpty || !names.allSatisfy({ $0.allSatisfy(isTokenByte) }) ? nil : names
    }

    /// Sets a directive that needs no argument. Ignores other directives.
    mutating func setFlag(_ directive: CacheDirective) {
        switch directive {
        case .noStore: noStore = true
        case .noCache: noCache = true
        case .isPrivate: isPrivate = true
        case .isPublic: isPublic = true
        case .mustRevalidate: mustRevalidate = true
        case .proxyRevalidate: proxyRevalidate = true
        case .mustUnderstand: mustUnderstand = true
        case .noTransform: noTransform = true
        case .immutable: immutable = true
        case .maxAge, .sharedMaxAge, .staleWhileRevalidate, .staleIfError, .minFresh, .maxStale, .onlyIfCached: break
        }
    }

    private static func smaller(_ old: Int64?, _ argument: Span<UInt8>?) -> Int64 { min(old ?? .max, DeltaSeconds.parse(argument) ?? 0) }
}

/// Directives of a request (RFC 9111 §5.2.1, RFC 5861 §4). Times in seconds; nil if absent.
public struct RequestCacheControl: Sendable, Equatable {
    public var maxAge: Int64?
    public var minFresh: Int64?
    /// `.max` if given without a value: any staleness.
    public var maxStale: Int64?
    public var staleIfError: Int64?
    public var noCache = false
    public var noStore = false
    public var onlyIfCached = false
    public var noTransform = false

    public init() {}

    /// The directives without those that can force a request to the upstream although a fresh response is stored.
    public var withoutForcing: RequestCacheControl {
        var directives = self
        (directives.noCache, directives.maxAge, directives.minFresh) = (false, nil, nil)
        return directives
    }

    /// The directives with `max-stale` restricted to the operator's limit (`stale_for`).
    /// - Parameter staleFor: maximum staleness in seconds; nil means no limit.
    public func limited(to staleFor: @autoclosure () -> Int64?) -> RequestCacheControl {
        var directives = self
        if let wanted = maxStale, let limit = staleFor() { directives.maxStale = min(wanted, limit) }
        return directives
    }

    public init(_ fields: Fields) {
        guard fields.contains(.cacheControl) else {
            // §5.4: Pragma applies only without Cache-Control.
            noCache = FieldLists.contains(.pragma, in: fields) { $0.equalsIgnoringCase("no-cache") }
            return
        }
        // The field exceeds the limit: assume the strictest directives.
        guard !FieldListLimit.isExceeded(by: .cacheControl, in: fields) else {
            (noCache, noStore) = (true, true)
            return
        }
        CacheDirective.read(fields) { directive, argument in
            switch directive {
            case .maxAge: maxAge = min(maxAge ?? .max, DeltaSeconds.parse(argument) ?? 0)
            case .minFresh: minFresh = max(minFresh ?? 0, DeltaSeconds.parse(argument) ?? DeltaSeconds.limit)
            case .maxStale:
                var staleness = Int64.max
                if let argument { staleness = DeltaSeconds.parse(argument) ?? 0 }
                maxStale = min(maxStale ?? .max, staleness)
            case .staleIfError: staleIfError = min(staleIfError ?? .max, DeltaSeconds.parse(argument) ?? 0)
            case .noCache: noCache = true
            case .noStore: noStore = true
            case .onlyIfCached: onlyIfCached = true
            case .noTransform: noTransform = true
            case .sharedMaxAge, .staleWhileRevalidate, .isPrivate, .isPublic, .mustRevalidate, .proxyRevalidate, .mustUnderstand,
                .immutable:
                break
            }
        }
    }
}

/// delta-seconds (RFC 9111 §1.2.2).
public enum DeltaSeconds {
    public static let limit: Int64 = 1 << 31

    /// Parses digits; a number above 2^31 becomes 2^31. nil if the text is missing or not a number.
    public static func parse(_ text: Span<UInt8>?) -> Int64? {
        guard let text, !text.isEmpty else { return nil }
        var value: Int64 = 0
        for index in text.indices {
            guard text[index].isASCIIDigit else { return nil }
            value = min(limit, value * 10 + Int64(text[index] - 0x30))
        }
        return value
    }

    public static func parse(_ text: ArraySlice<UInt8>) -> Int64? {
        let digits = text.span
        return parse(digits)
    }
}
