// Dates as JSON carries them (RFC 3339): `2026-11-21T06:30:00.125Z`.

package enum RFC3339 {
    /// - Parameter milliseconds: since 1970, UTC.
    package static func format(milliseconds: Int64) -> String {
        let second = milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000
        let days = second >= 0 ? second / 86_400 : (second - 86_399) / 86_400
        let clock = second - days * 86_400
        let (year, month, day) = civil(days)
        let date = "\(digits(year, 4))-\(digits(month, 2))-\(digits(day, 2))"
        let time = "\(digits(clock / 3600, 2)):\(digits(clock / 60 % 60, 2)):\(digits(clock % 60, 2))"
        return "\(date)T\(time).\(digits(milliseconds - second * 1000, 3))Z"
    }

    private static func digits(_ value: Int64, _ width: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }

    /// Days since 1970 as a date of the Gregorian calendar; years are counted from March, so that leap days come last.
    private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}
