// Which cookies of a request say who somebody is (RFC 6265 §4.2): only those count for the partition of its credentials. A load balancer's
// or an analytics cookie would otherwise cut a client off from its own earlier copies. Order and white space make no difference (§4.2.2:
// servers should not rely on the order). Where a Cookie field can be read in two ways, all of it counts, byte for byte: what is left out of a
// partition by mistake would be another's to see.

import HTTPCore

public struct CredentialCookies: Sendable {
    /// Names that count, and those among them that do not.
    private let counted: [CookiePattern]
    private let ignored: [CookiePattern]
    private let countsAll: Bool

    /// Beyond it all cookies count as they came: sorting them would take long.
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
        // To the letter a response that says Vary: Cookie fits no other value of the field (RFC 9111 §4.1).
        let isStrict = settings.strictness == .strict
        counted = isStrict ? [CookiePattern("*")] : settings.credentials.cookies.map { CookiePattern($0) }
        ignored = isStrict ? [] : settings.credentials.ignoredCookies.map { CookiePattern($0) }
        countsAll = counted.contains { $0.takesAll }
    }

    /// Appends what the cookies of a request add to its credentials, each part with its length; nothing where none of them counts.
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

    /// The same for cookies that were read. They are the last of a request's credentials, and no field's name holds a space: so these parts
    /// are never those of others.
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

    /// The cookies that count, by name; those of one name in the order in which they came (§5.4: the one of the longer path first). nil where
    /// it is not clear what they are.
    public func pairs(of fields: Fields) -> [Pair]? {
        var pairs: [Pair] = []
        var count = 0
        // Several fields are one list (RFC 9113 §8.2.3).
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

    /// By name; the places tell which came first, since all are parts of one message.
    static func sort(_ pairs: inout [Pair]) {
        pairs.sort { left, right in
            if left.name.elementsEqual(right.name) { return left.name.startIndex < right.name.startIndex }
            return left.name.lexicographicallyPrecedes(right.name)
        }
    }

    /// `name=value`; nil where it is something else, or could be read as something else: a quoted text may hold semicolons for some
    /// (RFC 2965), and `$Version` and its like belong to the cookies beside them.
    static func pair(_ piece: ArraySlice<UInt8>) -> Pair? {
        guard let equals = piece.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        let name = piece[..<equals].trimmed
        let value = piece[(equals + 1)...].trimmed
        guard let first = name.first, first != UInt8(ascii: "$"), name.allSatisfy(isNameByte) else { return nil }
        guard value.contains(0x22) else { return Pair(name: name, value: value) }
        let isQuoted = value.count >= 2 && value.first == 0x22 && value.last == 0x22 && !value.dropFirst().dropLast().contains(0x22)
        return isQuoted ? Pair(name: name, value: value) : nil
    }

    /// More than a token, since `user[id]` is common; nothing that separates.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x22, UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "="), UInt8(ascii: "\\"): false
        default: byte > 0x20 && byte < 0x7f
        }
    }

    func isCounted(_ pair: Pair) -> Bool {
        guard countsAll || counted.contains(where: { $0.matches(pair.name) }) else { return !Self.isPlain(pair.value) }
        guard ignored.contains(where: { $0.matches(pair.name) }) else { return true }
        return !Self.isPlain(pair.value)
    }

    /// cookie-octets (§4.1.1), perhaps in quotes. Anything else in a value, such as a comma, could begin another cookie for some.
    private static func isPlain(_ value: ArraySlice<UInt8>) -> Bool {
        let content = value.count >= 2 && value.first == 0x22 ? value.dropFirst().dropLast() : value
        return content.allSatisfy { byte in
            byte > 0x20 && byte < 0x7f && byte != 0x22 && byte != UInt8(ascii: ",") && byte != UInt8(ascii: "\\")
        }
    }
}

/// A cookie's name, or with `*` at its end all names that begin so. Names are case-sensitive (RFC 6265 §5.3).
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

    /// How they are written, for people.
    public static let form = "a cookie's name, with * at the end for any rest"

    /// Whether a text can fit any name.
    public static func isPattern(_ text: String) -> Bool {
        let name = text.hasSuffix("*") ? text.dropLast() : text[...]
        return !text.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !Array("\",;=\\*".utf8).contains($0) }
    }
}
