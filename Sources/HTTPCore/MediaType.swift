// The media type of a message's content. It is read several times for each response, so parsing allocates no memory.

/// A media type (RFC 9110 §8.3.1) without parameters. Case-insensitive.
public struct MediaType: Sendable {
    /// Type and subtype in their original case.
    private let spelt: ArraySlice<UInt8>
    /// Index of the slash between them.
    private let slash: Int

    public init?(_ value: ArraySlice<UInt8>) {
        guard let ranges = Self.ranges(in: value.span) else { return nil }
        let start = value.startIndex
        spelt = value[start + ranges.essence.lowerBound..<start + ranges.essence.upperBound]
        slash = start + ranges.slash
    }

    /// The media type in Content-Type; nil if the field is missing or invalid.
    public init?(of fields: Fields) {
        guard let value = fields.first(.contentType) else { return nil }
        self.init(value)
    }

    private static func ranges(in text: Span<UInt8>) -> (essence: Range<Int>, slash: Int)? {
        // Fast path for the most common type.
        if text.equalsIgnoringCase("application/json") { return (0..<text.count, "application".utf8.count) }
        let start = text.endOfWhitespace(from: 0)
        let slash = text.endOfToken(from: start)
        guard slash > start, slash < text.count, text[slash] == UInt8(ascii: "/") else { return nil }
        let end = text.endOfToken(from: slash + 1)
        guard end > slash + 1 else { return nil }
        // If a list of types is given, the first one is used.
        let next = text.endOfWhitespace(from: end)
        guard next == text.count || text[next] == UInt8(ascii: ";") || text[next] == UInt8(ascii: ",") else { return nil }
        return (start..<end, slash)
    }

    /// Parts of the names of charsets in which a byte of a character may look like a backslash or a quotation mark: Shift_JIS, Windows-31J,
    /// GBK, GB18030, Big5, ISO-2022 and their other names.
    private static let overlapping = ["shift", "sjis", "932", "31j", "gb", "big5", "iso-2022"]

    /// Whether bytes that look like ASCII are ASCII characters. RFC 8259 §8.1 requires UTF-8 for JSON, but some APIs use another charset.
    public static func extendsASCII(_ fields: Fields) -> Bool {
        guard let value = fields.first(.contentType), value.count > "application/json".utf8.count,
            !value.suffix(5).equalsIgnoringCase("utf-8")
        else { return true }
        let parts = String(decoding: value, as: UTF8.self).lowercased().split(separator: "charset=", maxSplits: 1)
        return parts.count < 2 || !overlapping.contains { parts[1].prefix { $0 != ";" }.contains($0) }
    }

    public var type: ArraySlice<UInt8> { spelt[..<slash] }
    public var subtype: ArraySlice<UInt8> { spelt[(slash + 1)...] }

    /// Type and subtype in lower case.
    public var essence: [UInt8] { spelt.map(\.asciiLowercased) }

    public func isEssence(_ text: StaticString) -> Bool { spelt.equalsIgnoringCase(text) }
    public func isEssence(_ text: [UInt8]) -> Bool { spelt.equalsIgnoringCase(text[...]) }

    /// Whether the content is compressible text. Images and archives are already compressed.
    public var isText: Bool {
        if isEssence("application/json") { return true }
        if type.equalsIgnoringCase("text") || suffix.equalsIgnoringCase("json") || suffix.equalsIgnoringCase("xml") { return true }
        let texts: [StaticString] = ["json", "x-ndjson", "jsonl", "json-seq", "javascript", "xml", "yaml"]
        return type.equalsIgnoringCase("application") && texts.contains { subtype.equalsIgnoringCase($0) }
    }

    /// The suffix after the last `+` (RFC 6839); empty if there is none.
    public var suffix: ArraySlice<UInt8> {
        guard let plus = subtype.lastIndex(of: UInt8(ascii: "+")) else { return [] }
        return spelt[(plus + 1)...]
    }
}

extension Span<UInt8> {
    fileprivate func endOfWhitespace(from start: Int) -> Int {
        var index = start
        while index < count, self[index].isOptionalWhitespace { index += 1 }
        return index
    }

    fileprivate func endOfToken(from start: Int) -> Int {
        var index = start
        while index < count, isTokenByte(self[index]) { index += 1 }
        return index
    }
}
