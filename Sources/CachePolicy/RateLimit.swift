// What a response says of the client's share of requests (RateLimit fields, draft-ietf-httpapi-ratelimit-headers, and the usual fields before it).

import HTTPCore

public enum RateLimit {
    /// Whether nothing of the share is left.
    public static func isExhausted(_ response: Fields) -> Bool {
        (0..<response.count).contains { index in
            let name = response.name(at: index).filter { $0 != UInt8(ascii: "-") }.map(\.asciiLowercased)
            let text = String(decoding: name, as: UTF8.self)
            // Some services have several, such as X-RateLimit-Remaining-Requests.
            let isRemaining = text.contains("ratelimitremaining")
            return (isRemaining || text.hasSuffix("ratelimit")) && hasNone(response.value(at: index), isRemaining: isRemaining)
        }
    }

    /// `0` of a field for the rest; `r=0` or `remaining=0` of one for all.
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
