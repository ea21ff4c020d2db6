// Whether a JSON text has a value at a place (RFC 6901).

import HTTPCore

/// A JSON Pointer: `/data/0/id`; the empty one is the whole text.
package struct JSONPointer: Sendable, Equatable {
    private let tokens: [[UInt8]]

    /// nil where the text is no pointer: it is neither empty nor begins with `/`, or `~` is followed by neither 0 nor 1 (§3).
    package init?(_ text: String) {
        guard text.isEmpty || text.hasPrefix("/") else { return nil }
        var tokens: [[UInt8]] = []
        for part in text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst() {
            var token: [UInt8] = []
            var rest = Array(part)[...]
            while let byte = rest.popFirst() {
                guard byte == UInt8(ascii: "~") else {
                    token.append(byte)
                    continue
                }
                switch rest.popFirst() {
                case UInt8(ascii: "0"): token.append(UInt8(ascii: "~"))
                case UInt8(ascii: "1"): token.append(UInt8(ascii: "/"))
                default: return nil
                }
            }
            tokens.append(token)
        }
        self.tokens = tokens
    }

    /// Whether there is a value, `null` too.
    package func exists(in value: JSONValue) -> Bool {
        var place = value
        for token in tokens {
            guard let next = Self.step(token, from: place) else { return false }
            place = next
        }
        return true
    }

    private static func step(_ token: [UInt8], from value: JSONValue) -> JSONValue? {
        switch value {
        case .object: value[String(decoding: token, as: UTF8.self)]
        case .array(let items): index(token).flatMap { $0 < items.count ? items[$0] : nil }
        default: nil
        }
    }

    /// An index is digits without a leading zero (§4).
    private static func index(_ token: [UInt8]) -> Int? {
        guard !token.isEmpty, token.count <= 9, token.allSatisfy(\.isASCIIDigit), token == [0x30] || token[0] != 0x30 else { return nil }
        return token.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
}
