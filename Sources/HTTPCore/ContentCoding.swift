// The content codings that can be taken off again (RFC 9110 §8.4).

/// The content codings that can be taken off (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
public enum ContentCoding: Sendable, Equatable, CaseIterable {
    case identity, gzip, brotli, zstd

    /// As it is written in fields.
    public var name: StaticString {
        switch self {
        case .identity: "identity"
        case .gzip: "gzip"
        case .brotli: "br"
        case .zstd: "zstd"
        }
    }

    /// One coding by its name, in any case.
    public init?(named name: ArraySlice<UInt8>) {
        guard let known = Self.allCases.first(where: { name.equalsIgnoringCase($0.name) }) else {
            guard name.equalsIgnoringCase("x-gzip") else { return nil }
            self = .gzip
            return
        }
        self = known
    }

    /// nil where the content is coded in another way, or more than once.
    public init?(_ fields: Fields) {
        guard fields.contains(.contentEncoding) else {
            self = .identity
            return
        }
        let codings = FieldLists.members(of: .contentEncoding, in: fields, limit: FieldListLimit.members + 1)
        guard codings.count <= FieldListLimit.members else { return nil }
        let telling = codings.filter { !$0.equalsIgnoringCase("identity") && !Self.isNone($0, fields) }
        guard let first = telling.first else {
            self = .identity
            return
        }
        guard telling.count == 1, let coding = ContentCoding(named: first) else { return nil }
        self = coding
    }

    /// What some servers take for a coding of JSON, and is none: its content is looked at as it is.
    private static let noCodings: [StaticString] = ["utf-8", "utf8", "none", "binary"]

    private static func isNone(_ name: ArraySlice<UInt8>, _ fields: Fields) -> Bool {
        guard noCodings.contains(where: { name.equalsIgnoringCase($0) }), let type = MediaType(of: fields) else { return false }
        return type.subtype.equalsIgnoringCase("json") || type.suffix.equalsIgnoringCase("json")
    }

    /// Whether the client of a request may have content in the codings that these fields of a response name (RFC 9110 §12.5.3): without
    /// Accept-Encoding any; else those that it names, or allows by a star, with a weight other than 0.
    public static func allows(_ response: Fields, _ request: Fields) -> Bool {
        guard request.contains(.acceptEncoding) else { return true }
        // Each coding is looked for in the whole list. Nobody knows what a longer one allows.
        guard !FieldListLimit.isExceeded(by: request.all(.acceptEncoding)), !FieldListLimit.isExceeded(by: response.all(.contentEncoding))
        else { return false }
        let accepted = FieldLists.members(of: .acceptEncoding, in: request).map { FieldLists.members(of: $0, separator: UInt8(ascii: ";")) }
        return FieldLists.members(of: .contentEncoding, in: response).allSatisfy { coding in
            let named = accepted.filter { $0.first.map { isSame($0, coding) } ?? false }
            let fitting = named.isEmpty ? accepted.filter { $0.first?.elementsEqual([UInt8(ascii: "*")]) ?? false } : named
            return !fitting.isEmpty && !fitting.contains { $0.dropFirst().contains(where: isZeroWeight) }
        }
    }

    /// Coding names, in any case and with their older forms.
    private static func isSame(_ one: ArraySlice<UInt8>, _ other: ArraySlice<UInt8>) -> Bool {
        if let known = ContentCoding(named: one) { return known == ContentCoding(named: other) }
        return one.equalsIgnoringCase(other)
    }

    /// `q=0`, `q=0.000`.
    public static func isZeroWeight(_ parameter: ArraySlice<UInt8>) -> Bool {
        parameter.prefix(2).equalsIgnoringCase("q=") && parameter.count > 2
            && parameter.dropFirst(2).allSatisfy { $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".") }
    }
}
