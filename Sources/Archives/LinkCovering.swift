// Replaces secrets in URLs within arbitrary text.

import CachePolicy
import HTTPCore

struct LinkCovering {
    private let secrets: SecretCovering
    /// Whether the result is for display only. Display also hides encoded URLs within URLs, user information, and arguments with names that
    /// merely end like a secret's.
    private let isForPeople: Bool
    private static let placeholder = Array(SecretNames.redaction.utf8)

    init(_ secrets: SecretCovering, isForPeople: Bool) { (self.secrets, self.isForPeople) = (secrets, isForPeople) }

    func cover(_ text: ArraySlice<UInt8>) -> [UInt8] { cover(text, depth: 0) }

    private func cover(_ text: ArraySlice<UInt8>, depth: Int) -> [UInt8] {
        let covered = links(text, depth: depth)
        return covered.elementsEqual(text) && carriesSecret(text, depth: depth) ? Self.placeholder : covered
    }

    /// Maximum nesting of encoded URLs. Deeper ones are not examined.
    private static let depthLimit = 3

    /// Whether the percent-decoded text contains a secret.
    private func carriesSecret(_ text: ArraySlice<UInt8>, depth: Int) -> Bool {
        guard isForPeople, depth < Self.depthLimit, text.contains(UInt8(ascii: "%")),
            let decoded = PercentCoding.decode(text, plusIsSpace: true)
        else { return false }
        let bytes = Array(decoded.utf8)
        return cover(bytes[...], depth: depth + 1) != bytes
    }

    private func isSecret(_ name: ArraySlice<UInt8>) -> Bool {
        secrets.isSecret(argument: name) || isForPeople && SecretNames.isSecret(shown: name)
    }

    /// Whether an argument begins after this byte. `;` counts because of `&amp;`.
    private static func beginsArgument(_ byte: UInt8) -> Bool { [0x3f, 0x26, 0x23, 0x3b].contains(byte) }

    /// Whether the byte ends a URL: white space, quotes, angle brackets.
    private static func endsLink(_ byte: UInt8) -> Bool { byte <= 0x20 || [0x22, 0x27, 0x3c, 0x3e, 0x60].contains(byte) }

    private func links(_ text: ArraySlice<UInt8>, depth: Int) -> [UInt8] {
        var covered: [UInt8] = []
        covered.reserveCapacity(text.count)
        var index = text.startIndex
        while index < text.endIndex {
            let byte = text[index]
            covered.append(byte)
            index += 1
            if isForPeople, byte == UInt8(ascii: ":"), let at = endOfUser(text[index...]) {
                covered += Array("//".utf8) + Self.placeholder
                index = at
            }
            guard Self.beginsArgument(byte) else { continue }
            let name = text[index...].prefix { !Self.endsLink($0) && !Self.beginsArgument($0) && $0 != UInt8(ascii: "=") }
            guard !name.isEmpty, name.endIndex < text.endIndex, text[name.endIndex] == UInt8(ascii: "=") else { continue }
            covered += text[name.startIndex...name.endIndex]
            let rest = text[(name.endIndex + 1)...]
            if isSecret(name) {
                covered += Self.placeholder
                index = rest.prefix { !Self.endsLink($0) && $0 != UInt8(ascii: "&") && $0 != UInt8(ascii: "#") }.endIndex
            } else {
                let value = rest.prefix { !Self.endsLink($0) && !Self.beginsArgument($0) }
                covered += carriesSecret(value, depth: depth) ? Self.placeholder : Array(value)
                index = value.endIndex
            }
        }
        return covered
    }

    /// Index of the `@` that ends the user information (RFC 3986 §3.2.1); nil if there is none.
    private func endOfUser(_ rest: ArraySlice<UInt8>) -> Int? {
        guard rest.starts(with: "//".utf8) else { return nil }
        let authority = rest.dropFirst(2).prefix { !Self.endsLink($0) && !Self.beginsArgument($0) && $0 != UInt8(ascii: "/") }
        return authority.lastIndex(of: UInt8(ascii: "@"))
    }
}
