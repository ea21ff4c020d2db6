// Turns paths into templates such as `/users/*/posts`. Identifiers become `*`, so that a template contains no user's data, and all paths of
// one kind share it. A template is a valid path of a route.

import HTTPCore

enum PathTemplate {
    /// Maximum number of segments; deeper paths end with `**`.
    static let segmentLimit = 8
    /// Maximum length of a word in bytes; a longer segment is an identifier.
    private static let wordLimit = 32

    /// Whether a segment can be read in one way only. An empty segment before the last, `.` and `..` can be read in several.
    static func isClear(_ segment: ArraySlice<UInt8>, isLast: Bool) -> Bool {
        segment.isEmpty ? isLast : segment.count > 2 || segment.contains { $0 != UInt8(ascii: ".") }
    }

    /// Whether a segment is an identifier by its form: a number, a UUID, a hash, an encoded or a long text. Other segments are words, such
    /// as `users`, `v2` and `oauth2`.
    static func isIdentifier(_ segment: ArraySlice<UInt8>) -> Bool {
        guard segment.count <= wordLimit else { return true }
        var (digits, letters, separators) = (0, 0, 0)
        for byte in segment {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digits += 1
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): letters += 1
            case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): separators += 1
            default: return true
            }
        }
        if segment.isEmpty { return false }
        if digits == 0 { return letters == 0 || letters > 20 && separators == 0 }
        return digits > 2 || letters == 0 || !segment[segment.startIndex].isASCIILetter || letters > 12
    }
}
