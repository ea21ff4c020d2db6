// Parses the Cache-Control directives that the cache understands (RFC 9111 §5.2): a case-insensitive name with an optional argument, as a
// token or a quoted string. Unknown directives are ignored.

import HTTPCore

enum CacheDirective {
    case maxAge, sharedMaxAge, staleWhileRevalidate, staleIfError, minFresh, maxStale
    case noStore, noCache, isPrivate, isPublic, mustRevalidate, proxyRevalidate, mustUnderstand, noTransform, immutable, onlyIfCached

    private var name: StaticString {
        switch self {
        case .maxAge: "max-age"
        case .sharedMaxAge: "s-maxage"
        case .staleWhileRevalidate: "stale-while-revalidate"
        case .staleIfError: "stale-if-error"
        case .minFresh: "min-fresh"
        case .maxStale: "max-stale"
        case .noStore: "no-store"
        case .noCache: "no-cache"
        case .isPrivate: "private"
        case .isPublic: "public"
        case .mustRevalidate: "must-revalidate"
        case .proxyRevalidate: "proxy-revalidate"
        case .mustUnderstand: "must-understand"
        case .noTransform: "no-transform"
        case .immutable: "immutable"
        case .onlyIfCached: "only-if-cached"
        }
    }

    init?(_ name: Span<UInt8>) {
        guard let directive = Self.candidate(for: name), name.equalsIgnoringCase(directive.name) else { return nil }
        self = directive
    }

    private init?(trimming name: Span<UInt8>) { self.init(name.extracting(name.trimmedRange)) }

    /// The only directive that the name can be, given its length and one or two letters.
    private static func candidate(for name: Span<UInt8>) -> CacheDirective? {
        func isAt(_ index: Int, _ letter: Unicode.Scalar) -> Bool { name[index].asciiLowercased == UInt8(ascii: letter) }
        switch name.count {
        case 6: return .isPublic
        case 7: return isAt(0, "m") ? .maxAge : .isPrivate
        case 8: return isAt(0, "s") ? .sharedMaxAge : isAt(3, "s") ? .noStore : .noCache
        case 9: return isAt(1, "m") ? .immutable : isAt(1, "i") ? .minFresh : .maxStale
        case 12: return .noTransform
        case 14: return isAt(0, "o") ? .onlyIfCached : .staleIfError
        case 15: return isAt(5, "u") ? .mustUnderstand : .mustRevalidate
        case 16: return .proxyRevalidate
        case 22: return .staleWhileRevalidate
        default: return nil
        }
    }

    // MARK: Reading

    /// Calls `take` with each directive of Cache-Control and its argument without quotes.
    static func read(_ fields: Fields, _ take: (CacheDirective, Span<UInt8>?) -> Void) {
        fields.forEach(.cacheControl) { line in
            var position = 0
            while position < line.count {
                let end = FieldMembers.endOfMember(in: line, from: position)
                readMember(line.extracting(position..<end), take)
                position = end + 1
            }
        }
    }

    private static func readMember(_ text: Span<UInt8>, _ take: (CacheDirective, Span<UInt8>?) -> Void) {
        let member = text.extracting(text.trimmedRange)
        var (equals, quote): (Int?, Int?) = (nil, nil)
        for index in member.indices {
            if member[index] == UInt8(ascii: "="), equals == nil { equals = index }
            if member[index] == 0x22, quote == nil { quote = index }
        }
        guard isWellQuoted(member, equals, quote) else {
            readBadlyQuoted(member, take)
            return readWords(of: member, take)
        }
        guard let equals else {
            if let directive = CacheDirective(member) { take(directive, nil) } else if !isToken(member) { readWords(of: member, take) }
            return
        }
        // White space before the equals sign is invalid, but the directive still applies, because it restricts caching. White space after
        // the sign makes a number invalid.
        let name = member.extracting(..<equals)
        let argument = member.extracting((equals + 1)...)
        let directive = CacheDirective(trimming: name)
        if let directive { take(directive, quote == nil ? argument : argument.extracting(1..<(argument.count - 1))) }
        if directive == nil && !isToken(name) || quote == nil && !isToken(argument) { readWords(of: member, take) }
    }

    /// Reads a member with a misplaced or unterminated quote as separate directives, so that the quote cannot hide a no-store after it.
    private static func readBadlyQuoted(_ member: Span<UInt8>, _ take: (CacheDirective, Span<UInt8>?) -> Void) {
        var position = 0
        while position < member.count {
            let end = member.first(UInt8(ascii: ","), from: position) ?? member.count
            readPlain(member.extracting(position..<end), take)
            position = end + 1
        }
    }

    /// Reads one directive and ignores the quotes in it.
    private static func readPlain(_ text: Span<UInt8>, _ take: (CacheDirective, Span<UInt8>?) -> Void) {
        let piece = text.extracting(text.trimmedRange)
        if let equals = piece.first(UInt8(ascii: "=")) {
            if let directive = CacheDirective(trimming: piece.extracting(..<equals)) { take(directive, piece.extracting((equals + 1)...)) }
        } else {
            let name = Array(copying: piece).filter { $0 != 0x22 }
            if let directive = CacheDirective(name.span) { take(directive, nil) }
        }
    }

    /// Returns whether the member has no quotes, or one right after the equals sign and a closing one at the end.
    private static func isWellQuoted(_ member: Span<UInt8>, _ equals: Int?, _ quote: Int?) -> Bool {
        guard let quote else { return true }
        guard let equals, quote == equals + 1 else { return false }
        var isEscaped = false
        for index in (quote + 1)..<member.count {
            if isEscaped {
                isEscaped = false
            } else if member[index] == 0x5c {
                isEscaped = true
            } else if member[index] == 0x22 {
                return index == member.count - 1
            }
        }
        return false
    }
}
