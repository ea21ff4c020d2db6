// Vary (RFC 9111 §4.1): which request fields select among the responses of one key, and their values as part of a variant's key.

import HTTPCore

public enum SelectingFields {
    /// What the upstream gets from us and not from the client: two requests that look the same here may differ there.
    private static let madeHere: [StaticString] = ["forwarded", "x-forwarded-for"]

    /// A list that holds `*` anywhere never matches (RFC 9110 §12.5.5). Nor does one that names where the client is.
    public static func isStar(_ fields: Fields) -> Bool {
        FieldLists.contains(.vary, in: fields) { member in
            member.count == 1 && member.first == UInt8(ascii: "*") || madeHere.contains { member.equalsIgnoringCase($0) }
        }
    }

    /// The names by which this response varies, in lower case and in order. Left out are Accept-Encoding, since what is stored is decoded and
    /// serves everyone, and the credential fields where the key's partition holds them already.
    /// - Parameter isForAll: whether the operator has said that responses there are the same for all: then no key holds them.
    public static func names(response: Fields, request: Fields, settings: CachePolicySettings, isForAll: Bool = false) -> [[UInt8]] {
        guard response.containsAny(of: [.vary, .accessControlAllowOrigin]) else { return [] }
        // A set, since there may be many.
        var names: Set<[UInt8]> = []
        for member in FieldLists.members(of: .vary, in: response) {
            let name = member.map(\.asciiLowercased)
            let isCredential = settings.credentials.names.contains(name.span)
            let isCovered = name.elementsEqual("accept-encoding".utf8) || (isCredential && !settings.isPrivate && !isForAll)
            if !isCovered, settings.freshness.varies(by: name, credentials: settings.credentials.names) { names.insert(name) }
        }
        // An upstream that echoes the Origin and forgets to say so.
        if let allowed = response.first(.accessControlAllowOrigin), let own = request.first(.origin), allowed == own {
            names.insert(Array("origin".utf8))
        }
        return names.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// The presented request's values of these fields: length-prefixed, absent told apart from empty, white space around commas gone. What the upstream
    /// may take for one of them counts too, as it stands: `X_Tenant` where X-Tenant selects.
    /// - Parameter concealing: what stands for a field's values where these must not be readable; nil where they may be.
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

    /// One that is longer than lists are read counts as it stands: then fewer requests share a variant than might.
    private static func oneSpelling(of lines: [ArraySlice<UInt8>], areLanguages: Bool) -> [UInt8] {
        let comma = [UInt8(ascii: ",")]
        guard !FieldListLimit.isExceeded(by: lines) else { return Array(lines.joined(separator: comma)) }
        var members = lines.flatMap { FieldLists.members(of: $0) }.map { Array($0) }
        if areLanguages { members = preferences(members) ?? members }
        return Array(members.joined(separator: comma))
    }

    /// Languages in the order of their weights, in lower case (RFC 9110 §12.5.4): order says nothing where weights are equal, so equal ones
    /// are sorted by name. nil where something else stands among them: what that means, the upstream alone knows.
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

    /// `q=0.8` as thousandths (RFC 9110 §12.4.2); nil where it is none.
    private static func weight(_ parameter: ArraySlice<UInt8>) -> Int? {
        guard parameter.prefix(2).equalsIgnoringCase("q=") else { return nil }
        let digits = parameter.dropFirst(2)
        guard let first = digits.first, first == 0x30 || first == 0x31 else { return nil }
        guard digits.count > 1 else { return Int(first - 0x30) * 1000 }
        let fraction = digits.dropFirst(2)
        guard digits.dropFirst().first == UInt8(ascii: "."), fraction.count <= 3, fraction.allSatisfy(\.isASCIIDigit) else { return nil }
        var value = Int(first - 0x30)
        for place in 0..<3 { value = value * 10 + (place < fraction.count ? Int(fraction[fraction.startIndex + place] - 0x30) : 0) }
        return value <= 1000 ? value : nil
    }

    /// A marker's names as stored: one a line.
    public static func encode(_ names: [[UInt8]]) -> [UInt8] { Array(names.joined(separator: [0x0a])) }

    public static func decode(_ bytes: UnsafeRawBufferPointer) -> [ArraySlice<UInt8>] { Array(bytes).split(separator: 0x0a) }
}
