// Decides when two requests with equal target and partition count as equal.

import Forwarding
import HTTPCore

public enum RequestLikeness {
    /// Returns a canonical form of the fields that distinguish such requests: content negotiation (`Accept*`) sorted by name, the client's
    /// location as CDNs name it, and the hash of the unknown fields.
    /// - Parameter unknownFieldsHash: `TargetKeys.unknownFieldsHash`.
    public static func bytes(of request: Fields, unknownFieldsHash: UInt64) -> [UInt8] {
        var lines: [(name: [UInt8], value: [UInt8])] = []
        for index in 0..<request.count {
            let name = request.name(at: index)
            guard name.prefix(prefix.utf8CodeUnitCount).equalsIgnoringCase(prefix) else { continue }
            lines.append((name.map(\.asciiLowercased), Array(request.value(at: index))))
        }
        // Lines with equal names keep their order.
        lines.sort { $0.name.lexicographicallyPrecedes($1.name) }
        var out: [UInt8] = []
        out.append(littleEndian: unknownFieldsHash)
        for line in lines {
            CacheKey.appendPart(line.name, to: &out)
            CacheKey.appendPart(line.value, to: &out)
        }
        appendLocation(of: request, to: &out)
        return out
    }

    private static let prefix: StaticString = "accept"

    /// The fields by which a server selects a representation (RFC 9110 §12.5), apart from Accept-Encoding: Cistern converts codings itself.
    private static let selecting: [KnownField] = [.accept, .acceptCharset, .acceptLanguage]

    /// Appends a form of the fields by which a server may select a representation.
    public static func appendNegotiation(of request: Fields, to key: inout [UInt8]) {
        for field in selecting where request.contains(field) {
            key.append(field.rawValue)
            CacheKey.appendPart(request.combined(field) ?? [], to: &key)
        }
        appendLocation(of: request, to: &key)
    }

    /// A number for these fields; never 0.
    public static func negotiation(of request: Fields) -> UInt64 {
        var bytes: [UInt8] = []
        appendNegotiation(of: request, to: &bytes)
        return max(1, ContentHash.number(of: bytes.span))
    }

    /// Returns whether the stored response was fetched by a request with equal fields, or by an unknown one.
    public static func isNegotiated(_ stored: StoredMetadata, by request: Fields) -> Bool {
        stored.negotiation == 0 || stored.negotiation == negotiation(of: request)
    }

    private static let locationFields = Set(WellKnownNames.locationFields.map { ByteKey(Array($0.utf8)) })
    private static let locationInitials = Set(WellKnownNames.locationFields.compactMap(\.utf8.first))

    private static func appendLocation(of request: Fields, to key: inout [UInt8]) {
        for entry in request.entries where entry.known == nil {
            guard let first = request.bytes[entry.nameRange].first, locationInitials.contains(first.asciiLowercased) else { continue }
            let name = request.bytes[entry.nameRange].map(\.asciiLowercased)
            guard locationFields.contains(ByteKey(name)) else { continue }
            CacheKey.appendPart(name, to: &key)
            CacheKey.appendPart(Array(request.bytes[entry.valueRange]), to: &key)
        }
    }
}
