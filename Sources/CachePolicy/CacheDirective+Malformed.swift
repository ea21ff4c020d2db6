// Members of Cache-Control that are not `token[=value]`, such as `private; max-age=600` or `no-store no-cache`. Their author separated
// directives by something other than a comma. The directives that protect a user's data still apply.

import HTTPCore

extension CacheDirective {
    /// Whether a directive applies although its member is malformed.
    private var isProtective: Bool { self == .noStore || self == .noCache || self == .isPrivate }

    /// Whether all bytes may occur in a token. True for an empty text.
    static func isToken(_ text: Span<UInt8>) -> Bool {
        for index in text.indices where !isTokenByte(text[index]) { return false }
        return true
    }

    /// Calls `take` with each protective directive that a malformed member contains as a word, without an argument.
    static func readWords(of member: Span<UInt8>, _ take: (CacheDirective, Span<UInt8>?) -> Void) {
        var position = 0
        while position < member.count {
            var end = position
            while end < member.count, isWordByte(member[end]) { end += 1 }
            if let directive = CacheDirective(member.extracting(position..<end)), directive.isProtective { take(directive, nil) }
            position = end + 1
        }
    }

    /// Fewer bytes than in a token, so that punctuation separates words.
    private static func isWordByte(_ byte: UInt8) -> Bool {
        byte.isASCIIDigit || (0x61...0x7a).contains(byte | 0x20) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
}
