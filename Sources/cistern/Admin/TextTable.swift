// Columns for people: as wide as what is in them, the last one as it is. What comes from elsewhere cannot steer the terminal.

struct TextTable {
    private var rows: [[String]]
    /// Whether a column's texts end at the same place, as numbers do.
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
    /// Control characters are shown as `?`.
    static func text(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || (0x7f..<0xa0).contains($0.value) ? "?" : $0 }))
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

    /// `45 s`, `12 m`, `3 h`, `2 d`; negative ones too.
    static func seconds(_ count: Int) -> String {
        let size = count.magnitude
        for (unit, length) in [("d", 86_400), ("h", 3_600), ("m", 60)] as [(String, UInt)] where size >= 2 * length {
            return "\(count / Int(length)) \(unit)"
        }
        return "\(count) s"
    }

    /// `80 µs`, `2.5 ms`, `1.0 s`.
    static func duration(_ seconds: Double) -> String {
        if seconds < 0.001 { return "\(Int((seconds * 1e6).rounded())) µs" }
        return seconds < 1 ? "\(rounded(seconds * 1e3)) ms" : "\(rounded(seconds)) s"
    }

    /// With one digit behind the point.
    static func rounded(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(abs(tenths % 10))"
    }
}
