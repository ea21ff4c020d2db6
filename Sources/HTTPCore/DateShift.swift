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
        let date = text.prefix(10)
        guard let midnight = Self.seconds(date, "00:00:00".utf8), Self.written(midnight)?.prefix(10).elementsEqual(date) == true else {
            return nil
        }
        if text.count == 10 { return Self.written(midnight + days * 86_400).map { Array($0.prefix(10)) } }
        let (separator, clock) = (text[date.endIndex], text.dropFirst(11).prefix(8))
        guard "Tt ".utf8.contains(separator), Self.has(":", clock, 2), Self.has(":", clock, 5), Self.isEnd(text.dropFirst(19)),
            let time = Self.seconds(date, clock), var moved = Self.written(time + seconds)
        else { return nil }
        moved[10] = separator
        return moved
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

    /// Seconds since 1970; nil if the texts are no date and no time.
    private static func seconds(_ date: ArraySlice<UInt8>, _ clock: some Collection<UInt8>) -> Int64? {
        RFC3339.parse(String(decoding: Array(date) + "T".utf8 + clock + "Z".utf8, as: UTF8.self)).map { $0 / 1_000 }
    }

    /// Date and time without an offset; nil if the year does not have four digits.
    private static func written(_ seconds: Int64) -> [UInt8]? {
        HTTPDate.formattable.contains(seconds) ? Array(RFC3339.format(milliseconds: seconds * 1_000).utf8.prefix(19)) : nil
    }

    private static func has(_ character: Unicode.Scalar, _ text: ArraySlice<UInt8>, _ offset: Int) -> Bool {
        text.count > offset && text[text.startIndex + offset] == UInt8(ascii: character)
    }
}
