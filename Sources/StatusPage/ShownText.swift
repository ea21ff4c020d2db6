// Text of others on a page: targets, names, values. Nothing of it may become markup, turn the direction of what stands beside it, or fill the page.

public enum ShownText {
    /// So many characters at most: of what is longer the middle is left out.
    public static let limit = 160

    /// Markup in which `text` stands as text, also within an attribute's quotes.
    public static func append(_ text: some StringProtocol, limit: Int = limit, to bytes: inout [UInt8]) {
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
            // A letter with a tower of marks would reach over the lines beside it.
            if isMark, marks > markLimit { continue }
            if mayShow(scalar) { append(scalar, to: &bytes) } else { appendCode(of: scalar, to: &bytes) }
        }
    }

    /// One character, in the place of which no markup can stand.
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

    /// Nearly all are: nothing has to be looked up of these.
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool { (0x20...0x7e).contains(scalar.value) }

    private static let markLimit = 2

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: true
        default: false
        }
    }

    /// Controls, what turns the direction of text (`Cf`), and what nobody sees or knows are not.
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
