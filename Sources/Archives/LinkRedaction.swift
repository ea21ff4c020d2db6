// Replaces secrets in URLs within arbitrary text.

import CachePolicy
import HTTPCore

struct LinkRedaction {
    private let secrets: SecretRedaction
    /// Whether the result is for display only. Display also hides encoded URLs within URLs, user information, and arguments with names that
    /// merely end like a secret's.
    private let isForDisplay: Bool
    private static let placeholder = Array(SecretNames.redaction.utf8)

    init(_ secrets: SecretRedaction, isForDisplay: Bool) { (self.secrets, self.isForDisplay) = (secrets, isForDisplay) }

    func redact(_ text: ArraySlice<UInt8>) -> [UInt8] { redact(text, depth: 0) }

    private func redact(_ text: ArraySlice<UInt8>, depth: Int) -> [UInt8] {
        let redacted = links(text, depth: depth)
        return redacted.elementsEqual(text) && carriesSecret(text, depth: depth) ? Self.placeholder : redacted
    }

    /// Maximum nesting of encoded URLs. Deeper ones are not examined.
    private static let depthLimit = 3

    /// Whether the percent-decoded text contains a secret.
    private func carriesSecret(_ text: ArraySlice<UInt8>, depth: Int) -> Bool {
        guard isForDisplay, depth < Self.depthLimit, text.contains(UInt8(ascii: "%")),
            let decoded = PercentCoding.decode(text, plusIsSpace: true)
        else { return false }
        let bytes = Array(decoded.utf8)
        return redact(bytes[...], depth: depth + 1) != bytes
    }

    private func isSecret(_ name: ArraySlice<UInt8>) -> Bool {
        secrets.isSecret(argument: name) || isForDisplay && SecretNames.isSecret(shown: name)
    }

    /// Whether an argument begins after this byte. `;` counts because of `&amp;`.
    private static func beginsArgument(_ byte: UInt8) -> Bool { [0x3f, 0x26, 0x23, 0x3b].contains(byte) }

    /// Whether the byte ends a URL: white space, quotes, angle brackets.
    private static func endsLink(_ byte: UInt8) -> Bool { byte <= 0x20 || [0x22, 0x27, 0x3c, 0x3e, 0x60].contains(byte) }

    private func links(_ text: ArraySlice<UInt8>, depth: Int) -> [UInt8] {
        var redacted: [UInt8] = []
        redacted.reserveCapacity(text.count)
        var index = text.startIndex
        while index < text.endIndex {
            let byte = text[index]
            redacted.append(byte)
            index += 1
            if isForDisplay, byte == UInt8(ascii: ":"), let at = endOfUser(text[index...]) {
                redacted += Array("//".utf8) + Self.placeholder
                index = at
            }
            guard Self.beginsArgument(byte) else { continue }
            let name = text[index...].prefix { !Self.endsLink($0) && !Self.beginsArgument($0) && $0 != UInt8(ascii: "=") }
            guard !name.isEmpty, name.endIndex < text.endIndex, text[name.endIndex] == UInt8(ascii: "=") else { continue }
            redacted += text[name.startIndex...name.endIndex]
            let rest = text[(name.endIndex + 1)...]
            if isSecret(name) {
                redacted += Self.placeholder
                index = rest.prefix { !Self.endsLink($0) && $0 != UInt8(ascii: "&") && $0 != UInt8(ascii: "#") }.endIndex
            } else {
                let value = rest.prefix { !Self.endsLink($0) && !Self.beginsArgument($0) }
                redacted += carriesSecret(value, depth: depth) ? Self.placeholder : Array(value)
                index = value.endIndex
            }
        }
        return redacted
    }

    /// Index of the `@` that ends the user information (RFC 3986 §3.2.1); nil if there is none.
    private func endOfUser(_ rest: ArraySlice<UInt8>) -> Int? {
        guard rest.starts(with: "//".utf8) else { return nil }
        let authority = rest.dropFirst(2).prefix { !Self.endsLink($0) && !Self.beginsArgument($0) && $0 != UInt8(ascii: "/") }
        return authority.lastIndex(of: UInt8(ascii: "@"))
    }
}
