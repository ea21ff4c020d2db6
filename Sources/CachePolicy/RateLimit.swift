// Reads rate limit fields of responses: RateLimit (draft-ietf-httpapi-ratelimit-headers) and the common X-RateLimit fields.

import HTTPCore

public enum RateLimit {
    /// Returns whether no requests remain in the client's quota.
    public static func isExhausted(_ response: Fields) -> Bool {
        (0..<response.count).contains { index in
            let name = response.name(at: index).filter { $0 != UInt8(ascii: "-") }.map(\.asciiLowercased)
            let text = String(decoding: name, as: UTF8.self)
            // Some services send several, for example X-RateLimit-Remaining-Requests.
            let isRemaining = text.contains("ratelimitremaining")
            return (isRemaining || text.hasSuffix("ratelimit")) && hasNone(response.value(at: index), isRemaining: isRemaining)
        }
    }

    /// Returns whether a value is `0` in a field for the remaining requests, or has `r=0` or `remaining=0` in a combined field.
    private static func hasNone(_ value: ArraySlice<UInt8>, isRemaining: Bool) -> Bool {
        let separators = Array(",; \t".utf8)
        return value.split(whereSeparator: separators.contains).contains { part in
            let name = part.prefix { $0 != UInt8(ascii: "=") }
            let number = isRemaining ? part : part.dropFirst(name.count + 1)
            guard isRemaining || name.equalsIgnoringCase("r") || name.equalsIgnoringCase("remaining") else { return false }
            return !number.isEmpty && number.allSatisfy { $0 == UInt8(ascii: "0") }
        }
    }
}
