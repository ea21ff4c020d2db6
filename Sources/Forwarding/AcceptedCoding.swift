// Which clients receive coded content: only those that requested the coding, whatever the upstream sends (RFC 9110 §12.5.3).

import HTTPCore

/// Codings that a client names in Accept-Encoding. Without the field, every coding is permitted, but some such clients cannot decode any.
public struct AcceptedCodings: OptionSet, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let gzip = AcceptedCodings(rawValue: 1)
    public static let brotli = AcceptedCodings(rawValue: 2)
    public static let zstd = AcceptedCodings(rawValue: 4)

    public init(_ fields: Fields) {
        self = []
        guard fields.contains(.acceptEncoding) else { return }
        for member in FieldLists.members(of: .acceptEncoding, in: fields, limit: FieldListLimit.members) {
            let parts = FieldLists.members(of: member, separator: UInt8(ascii: ";"))
            guard let coding = parts.first.flatMap({ ContentCoding(named: $0) }),
                !parts.dropFirst().contains(where: ContentCoding.isZeroWeight)
            else { continue }
            insert(AcceptedCodings(coding))
        }
    }

    private init(_ coding: ContentCoding) {
        self =
            switch coding {
            case .identity: []
            case .gzip: .gzip
            case .brotli: .brotli
            case .zstd: .zstd
            }
    }

    public func accept(_ coding: ContentCoding) -> Bool { coding == .identity || contains(AcceptedCodings(coding)) }
}

public enum AcceptedCoding {
    public static func accepts(_ coding: ContentCoding, in fields: Fields) -> Bool {
        coding != .identity && AcceptedCodings(fields).accept(coding)
    }

    /// Value of Accept-Encoding for the upstream: the client's codings that Cistern can decode.
    public static func passedOn(_ fields: Fields) -> [UInt8] {
        let accepted = AcceptedCodings(fields)
        var out: [UInt8] = []
        for coding in [ContentCoding.gzip, .brotli, .zstd] where accepted.accept(coding) {
            if !out.isEmpty { out.append(", ") }
            out.append(coding.name)
        }
        if out.isEmpty { out.append(ContentCoding.identity.name) }
        return out
    }
}
