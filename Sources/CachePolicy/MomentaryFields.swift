// Response fields that concern one moment, one exchange or one client. The client that caused the fetch receives them, but they are not
// stored. RFC 9111 §3.1 requires all fields to be stored, so `strict` removes only those with the upstream's addresses.

import HTTPCore

enum MomentaryFields {
    private static let known: KnownFieldSet = [.clearSiteData, .refresh, .serverTiming]
    /// Rate limit fields, in the spellings of public APIs.
    private static let beginnings: [StaticString] = ["ratelimit", "x-ratelimit-", "x-rate-limit-"]

    /// - Parameter status: Retry-After is kept with an error, because it belongs to the error.
    static func remove(from fields: inout Fields, _ status: Status) {
        fields.removeAll { entry, bytes in
            if let field = entry.known { return known.contains(field) || field == .retryAfter && status.isSuccessful }
            return isRateLimit(bytes.span.extracting(entry.nameRange))
        }
    }

    static func isRateLimit(_ name: Span<UInt8>) -> Bool {
        // Most names begin with another letter.
        guard name.count >= 9, name[0] | 0x20 == UInt8(ascii: "r") || name[0] | 0x20 == UInt8(ascii: "x") else { return false }
        return beginnings.contains { start in
            let count = start.utf8CodeUnitCount
            return name.count >= count && name.extracting(0..<count).equalsIgnoringCase(start)
        }
    }
}
