// The content codings that can be taken off again (RFC 9110 §8.4).

/// The content codings that can be taken off (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
package enum ContentCoding: Sendable, Equatable, CaseIterable {
    case identity, gzip, brotli, zstd

    /// As it is written in fields.
    package var name: StaticString {
        switch self {
        case .identity: "identity"
        case .gzip: "gzip"
        case .brotli: "br"
        case .zstd: "zstd"
        }
    }

    /// One coding by its name, in any case.
    package init?(named name: ArraySlice<UInt8>) {
        guard let known = Self.allCases.first(where: { name.equalsIgnoringCase($0.name) }) else {
            guard name.equalsIgnoringCase("x-gzip") else { return nil }
            self = .gzip
            return
        }
        self = known
    }

    /// nil where the content is coded in another way, or more than once.
    package init?(_ fields: Fields) {
        let codings = FieldLists.members(of: .contentEncoding, in: fields).filter { !$0.equalsIgnoringCase("identity") }
        guard let first = codings.first else {
            self = .identity
            return
        }
        guard codings.count == 1, let coding = ContentCoding(named: first) else { return nil }
        self = coding
    }
}
