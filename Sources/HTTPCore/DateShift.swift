// Moves dates in texts by a duration: IMF-fixdate (RFC 9110 §5.6.7), and dates of RFC 3339 with or without a time. The text keeps its
// length, precision and offset from UTC.

public struct DateShift: Sendable, Equatable {
    public let seconds: Int64
    /// Added to dates without a time, so that the day of the one moment becomes the day of the other.
    public let days: Int64

    /// The shift that moves one moment to another one, both in seconds since 1970.
    public init(from: Int64, to: Int64) {
        seconds = to - from
        days = floorDivide(to, 86_400) - floorDivide(from, 86_400)
    }

    /// Maximum length of a date.
    public static let longest = 64

    /// Returns the bytes that replace the beginning of the text; nil if the whole text is no date, or its year would not have four digits.
    public func beginning(of text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.count <= Self.longest else { return nil }
        guard text.first?.isASCIIDigit == true else { return fixdate(text) }
        guard let year = Self.number(text, 0, 4), Self.has("-", text, 4), let month = Self.number(text, 5, 2), Self.has("-", text, 7),
            let day = Self.number(text, 8, 2), case let date = CivilDate(year: year, month: month, day: day), date.exists
        else { return nil }
        if text.count == 10 { return Self.written(date.days + days, nil) }
        guard Self.has("T", text, 10) || Self.has("t", text, 10) || Self.has(" ", text, 10), let hour = Self.number(text, 11, 2),
            Self.has(":", text, 13), let minute = Self.number(text, 14, 2), Self.has(":", text, 16),
            let second = Self.number(text, 17, 2), hour < 24, minute < 60, second <= 60, Self.isEnd(text.dropFirst(19))
        else { return nil }
        let moved = date.days * 86_400 + Int64(hour * 3_600 + minute * 60 + second) + seconds
        let movedDays = floorDivide(moved, 86_400)
        return Self.written(movedDays, (text[text.startIndex + 10], Int(moved - movedDays * 86_400)))
    }

    private func fixdate(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard let time = FixedDate.parse(text.span), HTTPDate.format(time).elementsEqual(text) else { return nil }
        let moved = HTTPDate.format(time + seconds)
        return FixedDate.parse(moved.span) == time + seconds ? moved : nil
    }

    /// Whether the text after the seconds is a fraction and an offset, both optional.
    private static func isEnd(_ text: ArraySlice<UInt8>) -> Bool {
        var rest = text
        if rest.first == UInt8(ascii: ".") || rest.first == UInt8(ascii: ",") {
            let fraction = rest.dropFirst().prefix(while: \.isASCIIDigit)
            guard !fraction.isEmpty else { return false }
            rest = rest[fraction.endIndex...]
        }
        switch rest.first {
        case nil: return true
        case UInt8(ascii: "Z"), UInt8(ascii: "z"): return rest.count == 1
        case UInt8(ascii: "+"), UInt8(ascii: "-"):
            let digits = rest.dropFirst().filter { $0 != UInt8(ascii: ":") }
            return digits.count == 4 && digits.allSatisfy(\.isASCIIDigit) && (rest.count == 5 || has(":", rest, 3) && rest.count == 6)
        default: return false
        }
    }

    private static func written(_ days: Int64, _ time: (separator: UInt8, seconds: Int)?) -> [UInt8]? {
        let date = CivilDate(days: days)
        guard 0...9_999 ~= date.year else { return nil }
        var out: [UInt8] = []
        append(date.year / 100, to: &out)
        append(date.year % 100, to: &out)
        for value in [date.month, date.day] {
            out.append(UInt8(ascii: "-"))
            append(value, to: &out)
        }
        guard let time else { return out }
        for (index, value) in [time.seconds / 3_600, time.seconds / 60 % 60, time.seconds % 60].enumerated() {
            out.append(index == 0 ? time.separator : UInt8(ascii: ":"))
            append(value, to: &out)
        }
        return out
    }

    private static func append(_ value: Int, to out: inout [UInt8]) {
        out += [0x30 + UInt8(value / 10), 0x30 + UInt8(value % 10)]
    }

    private static func has(_ character: Unicode.Scalar, _ text: ArraySlice<UInt8>, _ offset: Int) -> Bool {
        text.count > offset && text[text.startIndex + offset] == UInt8(ascii: character)
    }

    private static func number(_ text: ArraySlice<UInt8>, _ offset: Int, _ count: Int) -> Int? {
        let digits = text.dropFirst(offset).prefix(count)
        guard digits.count == count, digits.allSatisfy(\.isASCIIDigit) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
}
