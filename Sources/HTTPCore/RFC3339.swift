// Timestamps in JSON (RFC 3339), for example `2026-11-21T06:30:00.125Z`.

public enum RFC3339 {
    /// - Parameter milliseconds: since 1970, UTC.
    public static func format(milliseconds: Int64) -> String {
        let second = floorDivide(milliseconds, 1000)
        let days = floorDivide(second, 86_400)
        let clock = second - days * 86_400
        let civil = CivilDate(days: days)
        let date = "\(digits(Int64(civil.year), 4))-\(digits(Int64(civil.month), 2))-\(digits(Int64(civil.day), 2))"
        let time = "\(digits(clock / 3600, 2)):\(digits(clock / 60 % 60, 2)):\(digits(clock % 60, 2))"
        return "\(date)T\(time).\(digits(milliseconds - second * 1000, 3))Z"
    }

    /// Milliseconds since 1970; nil if the text is not a valid date and time.
    public static func parse(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        func number(_ range: Range<Int>) -> Int64? {
            guard range.upperBound <= bytes.count, bytes[range].allSatisfy(\.isASCIIDigit) else { return nil }
            return bytes[range].reduce(0) { $0 * 10 + Int64($1 - 0x30) }
        }
        guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10), let hour = number(11..<13),
            let minute = number(14..<16), let second = number(17..<19), (1...12).contains(month), (1...31).contains(day), hour < 24,
            minute < 60, second <= 60
        else { return nil }
        var rest = bytes[19...]
        var milliseconds: Int64 = 0
        if rest.first == UInt8(ascii: ".") {
            let fraction = rest.dropFirst().prefix(while: \.isASCIIDigit)
            for (index, unit) in [Int64(100), 10, 1].enumerated() where index < fraction.count {
                milliseconds += Int64(fraction[fraction.startIndex + index] - 0x30) * unit
            }
            rest = rest[fraction.endIndex...]
        }
        guard let offset = offset(rest) else { return nil }
        let date = CivilDate(year: Int(year), month: Int(month), day: Int(day))
        let seconds = date.days * 86_400 + hour * 3_600 + minute * 60 + second
        return (seconds - offset) * 1000 + milliseconds
    }

    /// Offset from UTC in seconds; positive values are east of Greenwich.
    private static func offset(_ text: ArraySlice<UInt8>) -> Int64? {
        let bytes = Array(text)
        if bytes == [UInt8(ascii: "Z")] || bytes == [UInt8(ascii: "z")] { return 0 }
        guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"), let sign = bytes.first.flatMap({ [0x2b: 1, 0x2d: -1][$0] as Int64? }) else {
            return nil
        }
        let digits = [bytes[1], bytes[2], bytes[4], bytes[5]]
        guard digits.allSatisfy(\.isASCIIDigit) else { return nil }
        let values = digits.map { Int64($0 - 0x30) }
        let (hours, minutes) = (values[0] * 10 + values[1], values[2] * 10 + values[3])
        return hours < 24 && minutes < 60 ? sign * (hours * 3_600 + minutes * 60) : nil
    }

    private static func digits(_ value: Int64, _ width: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }
}
