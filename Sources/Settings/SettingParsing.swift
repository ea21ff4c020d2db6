// Parses values of settings: numbers, sizes with units, durations with units, words.

/// The text of a setting's value, from any source.
public enum SettingText: Sendable, Equatable {
    case one(String)
    case many([String])

    /// Words of a list.
    var words: [String] {
        switch self {
        case .many(let words): words
        case .one(let words): words.split(separator: ",").map { String($0.trimmingSpaces) }
        }
    }
}

/// How the words of a list say that they are changes to the value that otherwise applies: the default, that of a lower layer, or for an API
/// that of all paths. `+name` adds an item, and `-name` removes one.
public enum ListChanges: Sendable {
    case names
    /// `+json` is a media type's suffix, so `++json` adds it.
    case mediaTypes

    private func isChange(_ word: String) -> Bool {
        if word.hasPrefix("-") { return true }
        return word.hasPrefix("+") && (self == .names || word.hasPrefix("++") || word.contains("/"))
    }

    /// Returns nil, or the mistake as a clause that follows the setting's name.
    func apply(_ words: [String], to list: inout [String]) -> String? {
        guard words.contains(where: isChange) else {
            list = words
            return nil
        }
        if let word = words.first(where: { !isChange($0) }) {
            return "mixes names with changes: write +\(word) to add \"\(word)\", or give the whole list without + and -"
        }
        for change in words {
            let name = String(change.dropFirst())
            let index = list.firstIndex { $0.lowercased() == name.lowercased() }
            switch (change.hasPrefix("+"), index) {
            case (_, _) where name.isEmpty: return "has \"\(change)\" without a name"
            case (true, nil): list.append(name)
            case (true, .some): break
            case (false, let index?): list.remove(at: index)
            case (false, nil): return "cannot remove \"\(name)\": the list does not contain it"
            }
        }
        return nil
    }
}

/// Why a text is not a value of a setting, as a clause that follows the setting's name.
struct ValueMistake: Error {
    let clause: String
}

/// Units of numbers, as named in messages.
public enum NumberUnit: String, Sendable {
    case count = "a whole number"
    case size = "a size such as 8MiB"
    case duration = "a duration such as 1.5s"
    case share = "a number such as 0.01"

    func parse(_ word: String) -> Int? {
        switch self {
        case .count: Int(word)
        case .size: ByteSize.parse(word)
        case .duration: TimeSpan.parse(word)
        case .share: Share.parse(word)
        }
    }

    /// What is wrong with a value that cannot be parsed, as text that follows it: a suggested spelling, or the cause. Empty if unknown.
    public func hint(_ word: String) -> String {
        if word.isEmpty { return "; it is empty" }
        if word.hasPrefix("-"), parse(String(word.dropFirst())) != nil { return "; it cannot be negative" }
        if word.contains(","), case let point = word.replacing(",", with: "."), parse(point) != nil { return "; did you mean \(point)?" }
        let digits = word.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard !digits.isEmpty, digits.split(separator: ".", omittingEmptySubsequences: false).count < 3 else { return "" }
        let unit = word[digits.endIndex...].trimmingSpaces.lowercased()
        if unit.isEmpty, self == .duration, let number = Int(digits), number >= 100, parse(digits + "s") != nil {
            return "; did you mean \(digits)ms or \(digits)s?"
        }
        if let meant = Self.units[self]?[unit], parse(digits + meant) != nil { return "; did you mean \(digits)\(meant)?" }
        guard let known else { return wordAfter(unit) }
        if unit.contains(where: \.isNumber) { return "; give one number with one unit" }
        if unit.isEmpty || Self.units[self]?[unit] != nil { return "; the number is too large" }
        return unit.allSatisfy(\.isLetter) ? "; the unit \(unit.prefix(20)) is unknown: use \(known)" : ""
    }

    /// As `hint`, for the end of a sentence; empty for a value that can be parsed.
    public func advice(_ word: String) -> String {
        guard parse(word) == nil, case let hint = hint(word), !hint.isEmpty else { return "" }
        return hint.replacing("; did you mean ", with: "; write ").replacing("?", with: "")
    }

    private func wordAfter(_ unit: String) -> String {
        if unit.isEmpty { return self == .count ? "; it must have no fraction" : "" }
        return unit.allSatisfy(\.isLetter) ? "; a unit is not possible here" : ""
    }

    /// Names of the units; nil for numbers without one.
    private var known: String? {
        switch self {
        case .duration: "ms, s, m, h or d"
        case .size: "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        case .count, .share: nil
        }
    }

    private static let units: [NumberUnit: [String: String]] = [
        .duration: [
            "": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
            "hr": "h",
            "hour": "h", "hours": "h", "day": "d", "days": "d", "msec": "ms", "milliseconds": "ms", "ms": "ms", "s": "s", "m": "m",
            "h": "h", "d": "d",
        ],
        .size: [
            "k": "KiB", "kib": "KiB", "kb": "kB", "m": "MiB", "mib": "MiB", "mb": "MB", "g": "GiB", "gib": "GiB", "gb": "GB", "t": "TiB",
            "tib": "TiB", "tb": "TB",
        ],
    ]

    public func format(_ number: Int) -> String {
        switch self {
        case .count: String(number)
        case .size: ByteSize.format(number)
        case .duration: TimeSpan.format(number)
        case .share: Share.format(number)
        }
    }
}

public enum ByteSize {
    private static let units: [(name: String, bytes: Int)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("TB", 1_000_000_000_000), ("GB", 1_000_000_000),
        ("MB", 1_000_000), ("kB", 1_000), ("KB", 1_000), ("B", 1), ("", 1),
    ]

    /// Parses `512`, `64KiB`, `1.5GiB`, `1GB`; nil if malformed.
    public static func parse(_ text: String) -> Int? { Units.parse(text, units.map { ($0.name, Double($0.bytes)) }) }

    public static func format(_ bytes: Int) -> String {
        for (name, size) in units.prefix(4) where bytes >= size && bytes % size == 0 { return "\(bytes / size)\(name)" }
        return String(bytes)
    }
}

/// Durations in milliseconds.
public enum TimeSpan {
    private static let units: [(name: String, milliseconds: Double)] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]

    /// Parses `250ms`, `1.5s`, `5m`, `1h`, `7d`, `0`; nil if malformed.
    public static func parse(_ text: String) -> Int? {
        text == "0" ? 0 : Units.parse(text, units.map { ($0.name, $0.milliseconds) } + [("d", 86_400_000)])
    }

    public static func format(_ milliseconds: Int) -> String {
        if milliseconds == 0 { return "0" }
        for (name, size) in units.reversed() where milliseconds % Int(size) == 0 && (name != "m" || milliseconds % 60_000 == 0) {
            return "\(milliseconds / Int(size))\(name)"
        }
        return "\(milliseconds)ms"
    }
}

/// Fractions in millionths.
enum Share {
    static let whole = 1_000_000

    /// Parses decimal fractions such as `0.01` and `1`, rounded to millionths; nil if malformed.
    static func parse(_ text: String) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: ".") }), let number = Double(text),
            number < 1_000
        else { return nil }
        return Int((number * Double(whole)).rounded())
    }

    static func format(_ millionths: Int) -> String {
        guard millionths % whole != 0 else { return String(millionths / whole) }
        var digits = String(millionths % whole)
        digits = String(repeating: "0", count: 6 - digits.count) + digits
        while digits.hasSuffix("0") { digits.removeLast() }
        return "\(millionths / whole).\(digits)"
    }
}

private enum Units {
    static func parse(_ text: String, _ units: [(name: String, size: Double)]) -> Int? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let unit = String(text[digits.endIndex...].trimmingSpaces)
        guard let number = Double(digits), let size = units.first(where: { $0.name == unit })?.size else { return nil }
        let value = number * size
        return value.isFinite && value < 9e18 ? Int(value.rounded()) : nil
    }
}

extension StringProtocol {
    var trimmingSpaces: SubSequence {
        var text = self[...]
        while text.first == " " { text = text.dropFirst() }
        while text.last == " " { text = text.dropLast() }
        return text
    }
}
