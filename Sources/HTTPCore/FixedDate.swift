// Parses IMF-fixdate (RFC 9110 §5.6.7), the only date format that senders generate today. Its 29 bytes have fixed positions, so no scanning
// is needed. Other formats, and this one in another case, are left to `HTTPDate`.

enum FixedDate {
    private static let count = 29

    /// Parses `Sun, 06 Nov 1994 08:49:37 GMT` to seconds since 1970; nil if the text is something else.
    static func parse(_ text: Span<UInt8>) -> Int64? {
        guard text.count == count, isDay(text), isFrame(text), let month = month(text) else { return nil }
        var isNumber = true
        func two(_ index: Int) -> Int {
            let (tens, ones) = (text[index] &- 0x30, text[index + 1] &- 0x30)
            isNumber = isNumber && tens < 10 && ones < 10
            return Int(tens) * 10 + Int(ones)
        }
        let date = CivilDate(year: two(12) * 100 + two(14), month: month, day: two(5))
        let (hour, minute, second) = (two(17), two(20), two(23))
        guard isNumber, date.exists, hour < 24, minute < 60, second <= 60 else { return nil }
        return date.days * 86_400 + Int64(hour * 3600 + minute * 60 + second)
    }

    /// Returns three bytes as a number.
    private static func three(_ text: Span<UInt8>, at index: Int) -> UInt32 {
        UInt32(text[index]) << 16 | UInt32(text[index + 1]) << 8 | UInt32(text[index + 2])
    }

    private static func isDay(_ text: Span<UInt8>) -> Bool {
        switch three(text, at: 0) {
        case 0x4d6f6e, 0x547565, 0x576564, 0x546875, 0x467269, 0x536174, 0x53756e: true  // Mon Tue Wed Thu Fri Sat Sun
        default: false
        }
    }

    private static func month(_ text: Span<UInt8>) -> Int? {
        switch three(text, at: 8) {
        case 0x4a616e: 1  // Jan
        case 0x466562: 2  // Feb
        case 0x4d6172: 3  // Mar
        case 0x417072: 4  // Apr
        case 0x4d6179: 5  // May
        case 0x4a756e: 6  // Jun
        case 0x4a756c: 7  // Jul
        case 0x417567: 8  // Aug
        case 0x536570: 9  // Sep
        case 0x4f6374: 10  // Oct
        case 0x4e6f76: 11  // Nov
        case 0x446563: 12  // Dec
        default: nil
        }
    }

    /// Checks the comma, spaces, colons and GMT.
    private static func isFrame(_ text: Span<UInt8>) -> Bool {
        text[3] == 0x2c && text[4] == 0x20 && text[7] == 0x20 && text[11] == 0x20 && text[16] == 0x20 && text[19] == 0x3a
            && text[22] == 0x3a && text[25] == 0x20 && three(text, at: 26) == 0x474d54
    }
}
