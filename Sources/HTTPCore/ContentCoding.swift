// Content codings (RFC 9110 §8.4): parsing Content-Encoding, and matching it with Accept-Encoding.

/// The content codings that Cistern can decode (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
public enum ContentCoding: Sendable, Equatable, CaseIterable {
    case identity, gzip, brotli, zstd

    /// Name in fields.
    public var name: StaticString {
        switch self {
        case .identity: "identity"
        case .gzip: "gzip"
        case .brotli: "br"
        case .zstd: "zstd"
        }
    }

    /// Finds a coding by its name, in any case. nil if it is not supported.
    public init?(named name: ArraySlice<UInt8>) {
        guard let known = Self.allCases.first(where: { name.equalsIgnoringCase($0.name) }) else {
            guard name.equalsIgnoringCase("x-gzip") else { return nil }
            self = .gzip
            return
        }
        self = known
    }

    /// The coding in Content-Encoding; nil if it is not supported, or if there are several.
    public init?(_ fields: Fields) {
        guard fields.contains(.contentEncoding) else {
            self = .identity
            return
        }
        let codings = FieldLists.members(of: .contentEncoding, in: fields, limit: FieldListLimit.members + 1)
        guard codings.count <= FieldListLimit.members else { return nil }
        let effective = codings.filter { !$0.equalsIgnoringCase("identity") && !Self.isNone($0, fields) }
        guard let first = effective.first else {
            self = .identity
            return
        }
        guard effective.count == 1, let coding = ContentCoding(named: first) else { return nil }
        self = coding
    }

    /// Values that some servers use as a coding of JSON although they are not codings. They are ignored.
    private static let noCodings: [StaticString] = ["utf-8", "utf8", "none", "binary"]

    private static func isNone(_ name: ArraySlice<UInt8>, _ fields: Fields) -> Bool {
        guard noCodings.contains(where: { name.equalsIgnoringCase($0) }), let type = MediaType(of: fields) else { return false }
        return type.subtype.equalsIgnoringCase("json") || type.suffix.equalsIgnoringCase("json")
    }

    /// Returns whether a client accepts the codings that a response names (RFC 9110 §12.5.3). Without Accept-Encoding, every coding is
    /// accepted. Otherwise the field must name the coding, or match it by `*`, with a weight other than 0.
    public static func allows(_ response: Fields, _ request: Fields) -> Bool {
        guard request.contains(.acceptEncoding) else { return true }
        // Each coding is searched in the whole list. A list above the limit is not read; the coding counts as not accepted.
        guard !FieldListLimit.isExceeded(by: request.all(.acceptEncoding)), !FieldListLimit.isExceeded(by: response.all(.contentEncoding))
        else { return false }
        let accepted = FieldLists.members(of: .acceptEncoding, in: request).map { FieldLists.members(of: $0, separator: UInt8(ascii: ";")) }
        return FieldLists.members(of: .contentEncoding, in: response).allSatisfy { coding in
            let named = accepted.filter { $0.first.map { isSame($0, coding) } ?? false }
            let fitting = named.isEmpty ? accepted.filter { $0.first?.elementsEqual([UInt8(ascii: "*")]) ?? false } : named
            return !fitting.isEmpty && !fitting.contains { $0.dropFirst().contains(where: isZeroWeight) }
        }
    }

    /// Compares the names of codings in any case, including older names.
    private static func isSame(_ one: ArraySlice<UInt8>, _ other: ArraySlice<UInt8>) -> Bool {
        if let known = ContentCoding(named: one) { return known == ContentCoding(named: other) }
        return one.equalsIgnoringCase(other)
    }

    /// Matches `q=0`, `q=0.000` and similar.
    public static func isZeroWeight(_ parameter: ArraySlice<UInt8>) -> Bool {
        parameter.prefix(2).equalsIgnoringCase("q=") && parameter.count > 2
            && parameter.dropFirst(2).allSatisfy { $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".") }
    }
}
