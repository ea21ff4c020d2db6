// Selects the cookies of a request that identify its user (RFC 6265 §4.2). Only these are part of the partition; otherwise a cookie of a
// load balancer or of analytics would separate a client from its stored responses. Order and white space have no effect (§4.2.2). A Cookie
// field that can be read in two ways counts completely, byte for byte. Leaving out a credential by mistake would expose another user's
// responses.

import HTTPCore

public struct CredentialCookies: Sendable {
    /// Patterns of the cookies that count, and of the exceptions among them.
    private let counted: [CookiePattern]
    private let ignored: [CookiePattern]
    private let countsAll: Bool

    /// Maximum number of cookies to parse. With more, the field counts unchanged, because sorting would take long.
    public static let pairLimit = 256

    public struct Pair: Sendable, Equatable {
        public let name: ArraySlice<UInt8>
        public let value: ArraySlice<UInt8>

        public init(name: ArraySlice<UInt8>, value: ArraySlice<UInt8>) {
            self.name = name
            self.value = value
        }
    }

    public init(_ settings: CachePolicySettings) {
        // Under `strict`, a response with Vary: Cookie matches no other value of the whole field (RFC 9111 §4.1).
        let isStrict = settings.strictness == .strict
        counted = isStrict ? [CookiePattern("*")] : settings.credentials.cookies.map { CookiePattern($0) }
        ignored = isStrict ? [] : settings.credentials.ignoredCookies.map { CookiePattern($0) }
        countsAll = counted.contains { $0.takesAll }
    }

    /// Appends the request's cookies to its credentials, each part with its length. Appends nothing if no cookie counts.
    public func append(of fields: Fields, to parts: inout [UInt8]) {
        guard let pairs = pairs(of: fields) else {
            for value in fields.all(.cookie) {
                CacheKey.appendPart(Self.wholeMark, to: &parts)
                CacheKey.appendPart(Array(value), to: &parts)
            }
            return
        }
        Self.append(pairs, to: &parts)
    }

    /// Appends parsed cookies. They are the last of a request's credentials, and no field name contains a space, so these parts differ from
    /// all others.
    public static func append(_ pairs: [Pair], to parts: inout [UInt8]) {
        guard !pairs.isEmpty else { return }
        CacheKey.appendPart(pairsMark, to: &parts)
        for pair in pairs {
            CacheKey.appendPart(Array(pair.name), to: &parts)
            CacheKey.appendPart(Array(pair.value), to: &parts)
        }
    }

    private static let wholeMark = Array("cookie".utf8)
    private static let pairsMark = Array("cookie pairs".utf8)

    /// Returns the counted cookies ordered by name. Cookies with one name keep their order (§5.4: longer paths first). nil if the field is
    /// ambiguous.
    public func pairs(of fields: Fields) -> [Pair]? {
        var pairs: [Pair] = []
        var count = 0
        // Several fields form one list (RFC 9113 §8.2.3).
        for value in fields.all(.cookie) {
            for piece in value.split(separator: UInt8(ascii: ";")) {
                let piece = piece.trimmed
                if piece.isEmpty { continue }
                count += 1
                guard count <= Self.pairLimit, let pair = Self.pair(piece) else { return nil }
                if isCounted(pair) { pairs.append(pair) }
            }
        }
        if pairs.count > 1 { Self.sort(&pairs) }
        return pairs
    }

    /// Sorts by name. Slices of one message with equal names keep their order, which is that of their start indices.
    static func sort(_ pairs: inout [Pair]) {
        pairs.sort { left, right in
            if left.name.elementsEqual(right.name) { return left.name.startIndex < right.name.startIndex }
            return left.name.lexicographicallyPrecedes(right.name)
        }
    }

    /// Parses `name=value`. Returns nil if the text is something else or ambiguous. Quoted text may contain semicolons (RFC 2965), and
    /// `$Version` and similar belong to the neighbouring cookies.
    static func pair(_ piece: ArraySlice<UInt8>) -> Pair? {
        guard let equals = piece.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        let name = piece[..<equals].trimmed
        let value = piece[(equals + 1)...].trimmed
        guard let first = name.first, first != UInt8(ascii: "$"), name.allSatisfy(isNameByte) else { return nil }
        guard value.contains(0x22) else { return Pair(name: name, value: value) }
        let isQuoted = value.count >= 2 && value.first == 0x22 && value.last == 0x22 && !value.dropFirst().dropLast().contains(0x22)
        return isQuoted ? Pair(name: name, value: value) : nil
    }

    /// Accepts more than a token, because names such as `user[id]` are common; excludes separators.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x22, UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "="), UInt8(ascii: "\\"): false
        default: byte > 0x20 && byte < 0x7f
        }
    }

    /// Returns the cookie of a Set-Cookie field; nil if it cannot be parsed.
    static func pair(setBy line: ArraySlice<UInt8>) -> Pair? { pair(line.prefix { $0 != UInt8(ascii: ";") }.trimmed) }

    /// Returns whether a response sets a cookie that separates clients.
    public func areSet(by response: Fields) -> Bool {
        response.all(.setCookie).contains { line in Self.pair(setBy: line).map { isCounted($0) && !$0.value.isEmpty } ?? true }
    }

    func isCounted(_ pair: Pair) -> Bool {
        guard countsAll || counted.contains(where: { $0.matches(pair.name) }) else { return !Self.isPlain(pair.value) }
        guard ignored.contains(where: { $0.matches(pair.name) }) else { return true }
        return !Self.isPlain(pair.value)
    }

    /// Returns whether a value consists of cookie-octets (§4.1.1), optionally quoted. Another character, such as a comma, could begin
    /// another cookie for some servers.
    private static func isPlain(_ value: ArraySlice<UInt8>) -> Bool {
        let content = value.count >= 2 && value.first == 0x22 ? value.dropFirst().dropLast() : value
        return content.allSatisfy { byte in
            byte > 0x20 && byte < 0x7f && byte != 0x22 && byte != UInt8(ascii: ",") && byte != UInt8(ascii: "\\")
        }
    }
}

/// A cookie's name. A trailing `*` matches any ending. Names are case-sensitive (RFC 6265 §5.3).
public struct CookiePattern: Sendable {
    private let name: [UInt8]
    private let takesRest: Bool

    public init(_ text: String) {
        takesRest = text.hasSuffix("*")
        name = Array((takesRest ? String(text.dropLast()) : text).utf8)
    }

    var takesAll: Bool { takesRest && name.isEmpty }

    func matches(_ other: ArraySlice<UInt8>) -> Bool {
        takesRest ? other.starts(with: name) : other.elementsEqual(name)
    }

    /// The notation, for messages.
    public static let form = "a cookie's name, with * at the end for any rest"

    /// Returns whether the text is a valid pattern.
    public static func isPattern(_ text: String) -> Bool {
        let name = text.hasSuffix("*") ? text.dropLast() : text[...]
        return !text.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !Array("\",;=\\*".utf8).contains($0) }
    }
}
