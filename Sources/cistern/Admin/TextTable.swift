// Formats columns for terminals, as wide as their content. Untrusted text cannot contain control characters.

struct TextTable {
    private var rows: [[String]]
    /// Whether a column is aligned right, as for numbers.
    private let alignsRight: [Bool]

    init(_ columns: [(title: String, alignsRight: Bool)]) {
        rows = [columns.map(\.title)]
        alignsRight = columns.map(\.alignsRight)
    }

    mutating func add(_ row: [String]) { rows.append(row.map(Printable.text)) }

    var text: String {
        let widths = alignsRight.indices.map { column in rows.reduce(0) { max($0, $1[column].count) } }
        return rows.map { row in
            let cells = row.enumerated().map { column, cell -> String in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                if alignsRight[column] { return padding + cell }
                return column == row.count - 1 ? cell : cell + padding
            }
            return cells.joined(separator: "  ") + "\n"
        }.joined()
    }
}

enum Printable {
    /// Replaces control characters, and those that change the direction of text, by `?`.
    static func text(_ text: String) -> String { masked(text, but: []) }

    /// As `text`, but keeps line breaks and tabs.
    static func lines(_ text: String) -> String { masked(text, but: ["\n", "\t"]) }

    private static func masked(_ text: String, but kept: [Unicode.Scalar]) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { isMasked($0) && !kept.contains($0) ? "?" : $0 }))
    }

    private static func isMasked(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7f..<0xa0, 0x200e...0x200f, 0x202a...0x202e, 0x2066...0x2069: true
        default: false
        }
    }

    /// `812 B`, `4.2 KiB`, `1.0 MiB`.
    static func bytes(_ count: Int) -> String {
        guard count >= 1_024 else { return "\(count) B" }
        var value = Double(count)
        for unit in ["KiB", "MiB", "GiB"] {
            value /= 1_024
            if value < 999.95 { return "\(rounded(value)) \(unit)" }
        }
        return "\(rounded(value / 1_024)) TiB"
    }

    /// `45 s`, `12 min`, `3 h`, `2 d`; also for negative numbers.
    static func seconds(_ count: Int) -> String {
        let size = count.magnitude
        for (unit, length) in [("d", 86_400), ("h", 3_600), ("min", 60)] as [(String, UInt)] where size >= 2 * length {
            return "\(count / Int(length)) \(unit)"
        }
        return "\(count) s"
    }

    /// `80 µs`, `2.5 ms`, `1.0 s`.
    static func duration(_ seconds: Double) -> String {
        if seconds < 0.001 { return "\(Int((seconds * 1e6).rounded())) µs" }
        return seconds < 1 ? "\(rounded(seconds * 1e3)) ms" : "\(rounded(seconds)) s"
    }

    /// Rounded to one decimal place.
    static func rounded(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(abs(tenths % 10))"
    }
}
