// Vary (RFC 9111 §4.1): which request fields select among the responses of one cache key, and how their values become part of a variant's
// key.

import HTTPCore

public enum SelectingFields {
    /// Fields that Cistern sets itself. Two requests with equal client fields may differ in them at the upstream.
    private static let madeHere: [StaticString] = ["forwarded", "x-forwarded-for"]

    /// Returns the names in Vary. A member that is not a token, such as `Accept; X-Tenant`, contains several.
    /// - Parameter limit: maximum number of members to read.
    public static func varied(_ response: Fields, limit: Int = .max) -> [ArraySlice<UInt8>] {
        let members = FieldLists.members(of: .vary, in: response, limit: limit)
        return members.allSatisfy({ $0.allSatisfy(isTokenByte) }) ? members : members.flatMap { $0.split { !isTokenByte($0) } }
    }

    /// Returns whether Vary never matches: a list that contains `*` anywhere (RFC 9110 §12.5.5), or a field with the client's address.
    public static func isStar(_ fields: Fields) -> Bool {
        fields.contains(.vary)
            && varied(fields).contains { name in
                name.count == 1 && name.first == UInt8(ascii: "*") || madeHere.contains { name.equalsIgnoringCase($0) }
            }
    }

    /// Returns the names that this response varies by, sorted and in lower case. Accept-Encoding is left out, because the store holds
    /// decoded content that serves every client. Credential fields are left out if the partition already covers them.
    /// - Parameter isForAll: whether the operator declared responses here equal for all users. The cache key then contains no credentials.
    public static func names(response: Fields, request: Fields, settings: CachePolicySettings, isForAll: Bool = false) -> [[UInt8]] {
        guard response.containsAny(of: [.vary, .accessControlAllowOrigin]) else { return [] }
        // A set, because the list may be long.
        var names: Set<[UInt8]> = []
        for member in varied(response) {
            let name = member.map(\.asciiLowercased)
            let isCredential = settings.credentials.names.separates(name.span)
            let isCovered = name.elementsEqual("accept-encoding".utf8) || (isCredential && !settings.isPrivate && !isForAll)
            if !isCovered, settings.freshness.varies(by: name, credentials: settings.credentials.names) { names.insert(name) }
        }
        // The upstream echoes Origin without listing it in Vary.
        if let allowed = response.first(.accessControlAllowOrigin), let own = request.first(.origin), allowed == own {
            names.insert(Array("origin".utf8))
        }
        return names.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Returns the request's values of these fields, length-prefixed. An absent field differs from an empty one, and white space around
    /// commas is removed. Other spellings that the upstream may read as the field are included unchanged: `X_Tenant` if X-Tenant selects.
    /// - Parameter concealing: replaces the values of a field that must not be readable; returns nil if they may be.
    public static func values(
        of names: [ArraySlice<UInt8>], in request: Fields, concealing: (ArraySlice<UInt8>, [UInt8]) -> [UInt8]? = { _, _ in nil }
    ) -> [UInt8] {
        var out: [UInt8] = []
        for name in names {
            CacheKey.appendPart(Array(name), to: &out)
            let bytes = name.span
            let lines = request.all(named: bytes)
            let others = request.all(readAs: bytes)
            out.append(!lines.isEmpty ? 1 : others.isEmpty ? 0 : 2)
            let text = oneSpelling(of: lines, areLanguages: name.elementsEqual("accept-language".utf8)) + others.joined()
            CacheKey.appendPart(concealing(name, text) ?? text, to: &out)
        }
        return out
    }

    /// A list that exceeds the parsing limit is used unchanged. Fewer requests then share a variant.
    private static func oneSpelling(of lines: [ArraySlice<UInt8>], areLanguages: Bool) -> [UInt8] {
        let comma = [UInt8(ascii: ",")]
        guard !FieldListLimit.isExceeded(by: lines) else { return Array(lines.joined(separator: comma)) }
        var members = lines.flatMap { FieldLists.members(of: $0) }.map { Array($0) }
        if areLanguages { members = preferences(members) ?? members }
        return Array(members.joined(separator: comma))
    }

    /// Returns languages ordered by weight, in lower case (RFC 9110 §12.5.4). Languages with equal weight are sorted by name, because their
    /// order has no meaning. Returns nil if a member has another form, because only the upstream knows its meaning.
    private static func preferences(_ members: [[UInt8]]) -> [[UInt8]]? {
        var weighted: [(language: [UInt8], weight: Int)] = []
        for member in members {
            let parts = FieldLists.members(of: member[...], separator: UInt8(ascii: ";"))
            guard let language = parts.first, parts.count <= 2, let weight = parts.count == 2 ? weight(parts[1]) : 1000 else { return nil }
            weighted.append((language.map(\.asciiLowercased), weight))
        }
        let sorted = weighted.sorted {
            $0.weight != $1.weight ? $0.weight > $1.weight : $0.language.lexicographicallyPrecedes($1.language)
        }
        return sorted.map { $0.weight == 1000 ? $0.language : $0.language + Array(";q=\($0.weight)".utf8) }
    }

    /// Returns `q=0.8` in thousandths (RFC 9110 §12.4.2); nil if the parameter is not a valid weight.
    private static func weight(_ parameter: ArraySlice<UInt8>) -> Int? {
        guard parameter.prefix(2).equalsIgnoringCase("q=") else { return nil }
        let digits = parameter.dropFirst(2)
        guard let first = digits.first, first == 0x30 || first == 0x31 else { return nil }
        guard digits.count > 1 else { return Int(first - 0x30) * 1000 }
        let fraction = digits.dropFirst(2)
        guard digits.dropFirst().first == UInt8(ascii: "."), fraction.count <= 3, fraction.allSatisfy(\.isASCIIDigit) else { return nil }
        var value = Int(first - 0x30)
        for index in 0..<3 { value = value * 10 + (index < fraction.count ? Int(fraction[fraction.startIndex + index] - 0x30) : 0) }
        return value <= 1000 ? value : nil
    }

    /// Encodes the names of a variant marker for storage, one per line.
    public static func encode(_ names: [[UInt8]]) -> [UInt8] { Array(names.joined(separator: [0x0a])) }

    public static func decode(_ bytes: Span<UInt8>) -> [ArraySlice<UInt8>] { Array(copying: bytes).split(separator: 0x0a) }
}
