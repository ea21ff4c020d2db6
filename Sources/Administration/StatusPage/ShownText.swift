// Escapes untrusted text for a page: targets, names, values. The text cannot become markup, change the direction of adjacent text or fill
// the page.

enum ShownText {
    /// Maximum number of characters. The middle of longer text is replaced by `…`.
    static let limit = 160

    /// Appends `text` as escaped HTML, also suitable for quoted attributes.
    static func append(_ text: some StringProtocol, limit: Int = limit, to bytes: inout [UInt8]) {
        let scalars = text.unicodeScalars
        let isCut = scalars.index(scalars.startIndex, offsetBy: limit + 1, limitedBy: scalars.endIndex) != nil
        guard isCut else { return append(scalars, to: &bytes) }
        let tail = limit / 4
        append(scalars.prefix(limit - tail - 1), to: &bytes)
        bytes += Array("…".utf8)
        append(scalars.suffix(tail), to: &bytes)
    }

    private static func append(_ scalars: some Sequence<Unicode.Scalar>, to bytes: inout [UInt8]) {
        var marks = 0
        for scalar in scalars {
            guard !isPlain(scalar) else {
                append(scalar, to: &bytes)
                marks = 0
                continue
            }
            let isMark = isMark(scalar)
            marks = isMark ? marks + 1 : 0
            // Many combining marks on a letter would cover adjacent lines.
            if isMark, marks > markLimit { continue }
            if mayShow(scalar) { append(scalar, to: &bytes) } else { appendCode(of: scalar, to: &bytes) }
        }
    }

    /// Appends a character, escaped if it is special in HTML.
    private static func append(_ scalar: Unicode.Scalar, to bytes: inout [UInt8]) {
        switch scalar {
        case "&": bytes += "&amp;".utf8
        case "<": bytes += "&lt;".utf8
        case ">": bytes += "&gt;".utf8
        case "\"": bytes += "&quot;".utf8
        case "'": bytes += "&#39;".utf8
        case _ where isPlain(scalar): bytes.append(UInt8(scalar.value))
        default: bytes += String(scalar).utf8
        }
    }

    /// Printable ASCII, the common case, which needs no lookup of Unicode properties.
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool { (0x20...0x7e).contains(scalar.value) }

    private static let markLimit = 2

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: true
        default: false
        }
    }

    /// False for control characters, format characters such as those that change the direction of text (`Cf`), and invisible or unassigned
    /// characters.
    private static func mayShow(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: !scalar.properties.isDefaultIgnorableCodePoint
        }
    }

    private static func appendCode(of scalar: Unicode.Scalar, to bytes: inout [UInt8]) {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        bytes += Array("⟨U+\(String(repeating: "0", count: max(0, 4 - digits.count)))\(digits)⟩".utf8)
    }
}
