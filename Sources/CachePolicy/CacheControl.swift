// Cache-Control (RFC 9111 §5.2): directives with optional arguments, in tokens or quoted strings, names in any case. Numbers are
// delta-seconds (§1.2.2): what overflows is 2^31. Where a directive is repeated, the most restrictive value counts; one that cannot be
// read counts as if stale (§4.2.1).

import HTTPCore

/// Directives of an answer (RFC 9111 §5.2.2, RFC 5861, RFC 8246, RFC 9213).
package struct ResponseCacheControl: Sendable, Equatable {
    package var maxAge: Int64?
    package var sharedMaxAge: Int64?
    package var staleWhileRevalidate: Int64?
    package var staleIfError: Int64?
    package var noStore = false
    package var noCache = false
    package var isPrivate = false
    package var isPublic = false
    package var mustRevalidate = false
    package var proxyRevalidate = false
    package var mustUnderstand = false
    package var noTransform = false
    package var immutable = false
    /// The fields that `no-cache` and `private` name (§5.2.2.4, §5.2.2.7), in lower case: they are not kept, and the rest is.
    package var unkept: [[UInt8]] = []
    /// It comes from a targeted field: then Expires says nothing either (RFC 9213 §2.2).
    package var isTargeted = false

    package init() {}

    /// - Parameter targeted: names of targeted fields (RFC 9213), in lower case; the first that is there and valid hides Cache-Control.
    package init(_ fields: Fields, targeted: [[UInt8]] = []) {
        let lines = fields.all(.cacheControl)
        // More than is read: there may be a no-store behind it.
        guard !FieldListLimit.isExceeded(by: lines) else {
            (noStore, noTransform) = (true, true)
            return
        }
        for name in targeted {
            guard let control = TargetedCacheControl.read(fields, name) else { continue }
            self = control
            // That is no matter of caching, so it is not hidden (RFC 9110 §7.7).
            DirectiveReader.read(lines) { name, _ in
                if name.equalsIgnoringCase("no-transform") { noTransform = true }
            }
            return
        }
        DirectiveReader.read(lines) { name, argument in
            if name.equalsIgnoringCase("max-age") {
                maxAge = Self.smaller(maxAge, argument)
            } else if name.equalsIgnoringCase("s-maxage") {
                sharedMaxAge = Self.smaller(sharedMaxAge, argument)
            } else if name.equalsIgnoringCase("stale-while-revalidate") {
                staleWhileRevalidate = Self.smaller(staleWhileRevalidate, argument)
            } else if name.equalsIgnoringCase("stale-if-error") {
                staleIfError = Self.smaller(staleIfError, argument)
            } else if let names = Self.fieldNames(argument), name.equalsIgnoringCase("no-cache") || name.equalsIgnoringCase("private") {
                unkept += names
            } else {
                setFlag(name)
            }
        }
    }

    /// As a cache of this role reads them: `s-maxage` and `proxy-revalidate` are for shared ones (§5.2.2.8, §5.2.2.10).
    func asRead(by settings: CachePolicySettings) -> ResponseCacheControl {
        guard settings.isPrivate else { return self }
        var control = self
        control.sharedMaxAge = nil
        control.proxyRevalidate = false
        return control
    }

    /// The argument of `no-cache` and `private`; nil where it names nothing that is a field, and so restricts the whole answer.
    private static func fieldNames(_ argument: ArraySlice<UInt8>?) -> [[UInt8]]? {
        guard let argument else { return nil }
        let names = FieldLists.members(of: argument).map { $0.map(\.asciiLowercased) }
        return names.isEmpty || !names.allSatisfy({ $0.allSatisfy(isTokenByte) }) ? nil : names
    }

    mutating func setFlag(_ name: ArraySlice<UInt8>) {
        if name.equalsIgnoringCase("no-store") {
            noStore = true
        } else if name.equalsIgnoringCase("no-cache") {
            noCache = true
        } else if name.equalsIgnoringCase("private") {
            isPrivate = true
        } else if name.equalsIgnoringCase("public") {
            isPublic = true
        } else if name.equalsIgnoringCase("must-revalidate") {
            mustRevalidate = true
        } else if name.equalsIgnoringCase("proxy-revalidate") {
            proxyRevalidate = true
        } else if name.equalsIgnoringCase("must-understand") {
            mustUnderstand = true
        } else if name.equalsIgnoringCase("no-transform") {
            noTransform = true
        } else if name.equalsIgnoringCase("immutable") {
            immutable = true
        }
    }

    private static func smaller(_ old: Int64?, _ argument: ArraySlice<UInt8>?) -> Int64 {
        min(old ?? .max, argument.flatMap(DeltaSeconds.parse) ?? 0)
    }
}

/// Directives of a request (RFC 9111 §5.2.1, RFC 5861 §4).
package struct RequestCacheControl: Sendable, Equatable {
    package var maxAge: Int64?
    package var minFresh: Int64?
    /// `.max` where it was given without a value: any staleness.
    package var maxStale: Int64?
    package var staleIfError: Int64?
    package var noCache = false
    package var noStore = false
    package var onlyIfCached = false
    package var noTransform = false

    package init() {}

    package init(_ fields: Fields) {
        guard fields.contains(.cacheControl) else {
            // §5.4: Pragma counts only where there is no Cache-Control.
            noCache = FieldLists.contains(.pragma, in: fields) { $0.equalsIgnoringCase("no-cache") }
            return
        }
        let lines = fields.all(.cacheControl)
        // More than is read: as if it asked for most.
        guard !FieldListLimit.isExceeded(by: lines) else {
            (noCache, noStore) = (true, true)
            return
        }
        DirectiveReader.read(lines) { name, argument in
            if name.equalsIgnoringCase("max-age") {
                maxAge = min(maxAge ?? .max, argument.flatMap(DeltaSeconds.parse) ?? 0)
            } else if name.equalsIgnoringCase("min-fresh") {
                minFresh = max(minFresh ?? 0, argument.flatMap(DeltaSeconds.parse) ?? DeltaSeconds.limit)
            } else if name.equalsIgnoringCase("max-stale") {
                maxStale = min(maxStale ?? .max, argument.map { DeltaSeconds.parse($0) ?? 0 } ?? .max)
            } else if name.equalsIgnoringCase("stale-if-error") {
                staleIfError = min(staleIfError ?? .max, argument.flatMap(DeltaSeconds.parse) ?? 0)
            } else if name.equalsIgnoringCase("no-cache") {
                noCache = true
            } else if name.equalsIgnoringCase("no-store") {
                noStore = true
            } else if name.equalsIgnoringCase("only-if-cached") {
                onlyIfCached = true
            } else if name.equalsIgnoringCase("no-transform") {
                noTransform = true
            }
        }
    }
}

/// RFC 9111 §1.2.2.
package enum DeltaSeconds {
    package static let limit: Int64 = 1 << 31

    /// Digits only; anything larger than 2^31 is 2^31.
    package static func parse(_ text: ArraySlice<UInt8>) -> Int64? {
        guard !text.isEmpty, text.allSatisfy(\.isASCIIDigit) else { return nil }
        var value: Int64 = 0
        for digit in text {
            value = min(limit, value * 10 + Int64(digit - 0x30))
        }
        return value
    }
}

private enum DirectiveReader {
    /// Calls `take` with each directive's name and argument, quotes taken off.
    /// - Parameter lines: the values of all lines of the field.
    static func read(_ lines: [ArraySlice<UInt8>], _ take: (ArraySlice<UInt8>, ArraySlice<UInt8>?) -> Void) {
        for line in lines {
            for member in FieldMembers(of: line) { read(member, take) }
        }
    }

    private static func read(_ member: ArraySlice<UInt8>, _ take: (ArraySlice<UInt8>, ArraySlice<UInt8>?) -> Void) {
        let equals = member.firstIndex(of: UInt8(ascii: "="))
        guard isWellQuoted(member, equals) else {
            // A quote that nobody closed, or that stands where none may, must not hide a no-store behind it.
            for piece in member.split(separator: UInt8(ascii: ",")) { takePlain(piece.trimmed, take) }
            return
        }
        guard let equals else { return take(member, nil) }
        // White space before the sign is not allowed; what is meant restricts all the same. Behind it, it makes a number invalid.
        let argument = member[(equals + 1)...]
        take(member[..<equals].trimmed, argument.first == 0x22 ? argument.dropFirst().dropLast() : argument)
    }

    /// One directive, in which quotes mean nothing.
    private static func takePlain(_ piece: ArraySlice<UInt8>, _ take: (ArraySlice<UInt8>, ArraySlice<UInt8>?) -> Void) {
        guard let equals = piece.firstIndex(of: UInt8(ascii: "=")) else { return take(piece.filter { $0 != 0x22 }[...], nil) }
        take(piece[..<equals].trimmed, piece[(equals + 1)...])
    }

    /// Whether it has no quotes, or one right behind the equals sign and one that closes it at the end.
    private static func isWellQuoted(_ member: ArraySlice<UInt8>, _ equals: Int?) -> Bool {
        guard let quote = member.firstIndex(of: 0x22) else { return true }
        guard let equals, quote == equals + 1 else { return false }
        var isEscaped = false
        for index in (quote + 1)..<member.endIndex {
            if isEscaped {
                isEscaped = false
            } else if member[index] == 0x5c {
                isEscaped = true
            } else if member[index] == 0x22 {
                return index == member.endIndex - 1
            }
        }
        return false
    }
}
