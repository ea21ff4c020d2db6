// Decides when two requests with equal target and partition count as equal.

import Forwarding
import HTTPCore

public enum RequestLikeness {
    /// Returns a canonical form of the fields that distinguish such requests: content negotiation (`Accept*`) sorted by name, the client's
    /// location as CDNs name it, and the hash of the unknown fields.
    /// - Parameter unknownFieldsHash: `TargetKeys.unknownFieldsHash`.
    public static func bytes(of request: Fields, unknownFieldsHash: UInt64) -> [UInt8] {
        var lines: [(name: [UInt8], value: ArraySlice<UInt8>)] = []
        for entry in request.entries where request.bytes.span.extracting(entry.nameRange).startsIgnoringCase(prefix) {
            lines.append((request.bytes[entry.nameRange].map(\.asciiLowercased), request.bytes[entry.valueRange]))
        }
        // Lines with equal names keep their order.
        if lines.count > 1 { lines.sort { $0.name.lexicographicallyPrecedes($1.name) } }
        var out: [UInt8] = []
        out.reserveCapacity(usualBytes)
        out.append(littleEndian: unknownFieldsHash)
        for line in lines {
            CacheKey.appendPart(line.name[...], to: &out)
            CacheKey.appendPart(line.value, to: &out)
        }
        appendLocation(of: request, to: &out)
        return out
    }

    private static let prefix: StaticString = "accept"
    /// Space for the fields of most requests.
    private static let usualBytes = 128

    /// The fields by which a server selects a representation (RFC 9110 §12.5), apart from Accept-Encoding: Cistern converts codings itself.
    private static let selecting: [KnownField] = [.accept, .acceptCharset, .acceptLanguage]

    /// Appends a form of the fields by which a server may select a representation.
    public static func appendNegotiation(of request: Fields, to key: inout [UInt8]) {
        key.reserveCapacity(key.count + usualBytes)
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

    /// Returns whether the upstream is expected to select the stored representation for this request: the response declares for which
    /// requests it may be used, or it was fetched by a request with equal fields. Other representations may have an equal weak entity tag or
    /// Last-Modified.
    public static func isSelected(_ stored: StoredMetadata, by request: Fields) -> Bool {
        stored.flags.contains(.forAllFields) || isNegotiated(stored, by: request)
    }

    private static let locationFields = Set(WellKnownNames.locationFields.map { ByteKey(Array($0.utf8)) })
    private static let mayBeginLocation = (0...UInt8.max).map { byte in WellKnownNames.locationFields.contains { $0.utf8.first == byte } }

    private static func appendLocation(of request: Fields, to key: inout [UInt8]) {
        for entry in request.entries where entry.known == nil {
            guard entry.nameLength > 0, mayBeginLocation[Int(request.bytes[Int(entry.nameStart)].asciiLowercased)] else { continue }
            let name = request.bytes[entry.nameRange].map(\.asciiLowercased)
            guard locationFields.contains(ByteKey(name)) else { continue }
            CacheKey.appendPart(name, to: &key)
            CacheKey.appendPart(request.bytes[entry.valueRange], to: &key)
        }
    }
}
