// HTTP dates (RFC 9110 §5.6.7): parses three formats, writes one.

public enum HTTPDate {
    private static let days: [StaticString] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months: [StaticString] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// The seconds of the years 0 to 9999, which four digits can represent.
    static let formattable: ClosedRange<Int64> = -62_167_219_200...253_402_300_799

    /// Length of a formatted date in bytes.
    public static let length = 29

    /// Formats a date as IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
    /// - Parameter seconds: since 1970-01-01 00:00 UTC.
    public static func format(_ seconds: Int64) -> [UInt8] {
        let seconds = min(max(seconds, formattable.lowerBound), formattable.upperBound)
        let day = floorDivide(seconds, 86_400)
        let rest = Int(seconds - day * 86_400)
        let date = CivilDate(days: day)
        return [UInt8](atMost: length) { out in
            out.put(days[Int((day % 7 + 7) % 7)])
            out.put(", ")
            out.put(two: date.day)
            out.put(" ")
            out.put(months[date.month - 1])
            out.put(" ")
            out.put(two: date.year / 100)
            out.put(two: date.year % 100)
            out.put(" ")
            out.put(two: rest / 3600)
            out.put(":")
            out.put(two: rest / 60 % 60)
            out.put(":")
            out.put(two: rest % 60)
            out.put(" GMT")
        }
    }

    /// Parses a date to seconds since 1970; nil if it is not a valid HTTP date. Letters may have any case (RFC 9111 §4.2). The day name is
    /// not checked against the date.
    /// - Parameter now: seconds since 1970, used to resolve two-digit years (at most 50 years ahead).
    public static func parse(_ text: ArraySlice<UInt8>, now: Int64) -> Int64? {
        FixedDate.parse(text.span) ?? parseAny(text, now: now)
    }

    /// Parses a date without the fast path for IMF-fixdate.
    static func parseAny(_ text: ArraySlice<UInt8>, now: Int64) -> Int64? {
        var reader = Reader(text: text)
        guard let day = reader.word(), reader.isDay(day) else { return nil }
        let date: CivilDate
        let time: Int64
        if reader.skip(","), reader.skip(" ") {
            guard let dayOfMonth = reader.number(digits: 2) else { return nil }
            let isOld = reader.peek == UInt8(ascii: "-")
            guard reader.skip(isOld ? "-" : " "), let month = reader.month(), reader.skip(isOld ? "-" : " "),
                var year = reader.number(digits: isOld ? 2 : 4), reader.skip(" "), let clock = reader.time(), reader.skip(" GMT")
            else { return nil }
            if isOld { year = fullYear(year, now: now) }
            (date, time) = (CivilDate(year: year, month: month, day: dayOfMonth), clock)
        } else {
            guard day.count == 3, reader.skip(" "), let month = reader.month(), reader.skip(" ") else { return nil }
            let isPadded = reader.skip(" ")
            guard let dayOfMonth = reader.number(digits: isPadded ? 1 : 2), reader.skip(" "), let clock = reader.time(), reader.skip(" "),
                let year = reader.number(digits: 4)
            else { return nil }
            (date, time) = (CivilDate(year: year, month: month, day: dayOfMonth), clock)
        }
        guard reader.isAtEnd, date.exists else { return nil }
        return date.days * 86_400 + time
    }

    private static func fullYear(_ year: Int, now: Int64) -> Int {
        let current = CivilDate(days: floorDivide(now, 86_400)).year
        let full = current / 100 * 100 + year
        return full > current + 50 ? full - 100 : full
    }

    private struct Reader {
        var text: ArraySlice<UInt8>

        var peek: UInt8? { text.first }
        var isAtEnd: Bool { text.isEmpty }

        mutating func skip(_ wanted: StaticString) -> Bool {
            let count = wanted.utf8CodeUnitCount
            guard text.count >= count else { return false }
            guard text.prefix(count).equalsIgnoringCase(wanted) else { return false }
            text.removeFirst(count)
            return true
        }

        mutating func word() -> ArraySlice<UInt8>? {
            let letters = text.prefix { $0.isASCIILetter }
            text = text[letters.endIndex...]
            return letters.isEmpty ? nil : letters
        }

        /// Returns whether the word is a short day name, or a long one of the obsolete format.
        func isDay(_ word: ArraySlice<UInt8>) -> Bool {
            let long: [StaticString] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
            return (days + long).contains { word.equalsIgnoringCase($0) }
        }

        mutating func month() -> Int? {
            for (index, name) in months.enumerated() where skip(name) { return index + 1 }
            return nil
        }

        mutating func number(digits: Int) -> Int? {
            let number = text.prefix(digits)
            guard number.count == digits, number.allSatisfy(\.isASCIIDigit) else { return nil }
            text.removeFirst(digits)
            return number.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        }

        mutating func time() -> Int64? {
            guard let hour = number(digits: 2), skip(":"), let minute = number(digits: 2), skip(":"), let second = number(digits: 2),
                hour < 24, minute < 60, second <= 60
            else { return nil }
            return Int64(hour * 3600 + minute * 60 + second)
        }
    }
}
