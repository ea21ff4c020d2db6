// A place in the log: the id of an entry of a stream. The engine gives them, and they only ever grow, so they order what all nodes do,
// whatever their clocks say.

/// The id of a stream's entry: "milliseconds-sequence".
public struct LogPosition: Comparable, Hashable, Sendable {
    /// The engine's clock when the entry was appended, or ahead of it: ids never go back.
    public var milliseconds: UInt64
    /// Tells apart what was appended within one millisecond.
    public var sequence: UInt64

    public init(_ milliseconds: UInt64, _ sequence: UInt64 = 0) {
        (self.milliseconds, self.sequence) = (milliseconds, sequence)
    }

    /// Before every entry: no stream has an entry of this id.
    public static let beginning = LogPosition(0, 0)

    public static func < (one: LogPosition, other: LogPosition) -> Bool {
        (one.milliseconds, one.sequence) < (other.milliseconds, other.sequence)
    }

    /// The greatest one below this one; the beginning stays the beginning.
    public var previous: LogPosition {
        if sequence > 0 { return LogPosition(milliseconds, sequence - 1) }
        return milliseconds > 0 ? LogPosition(milliseconds - 1, .max) : self
    }

    /// The first of an earlier time, or the beginning.
    func earlier(byMilliseconds difference: UInt64) -> LogPosition {
        LogPosition(milliseconds > difference ? milliseconds - difference : 0, 0)
    }

    /// The first of a later time. The last millisecond that there is stays itself.
    func later(byMilliseconds difference: UInt64) -> LogPosition {
        let (sum, overflows) = milliseconds.addingReportingOverflow(difference)
        return LogPosition(overflows ? .max : sum, 0)
    }

    // MARK: - Text

    /// As the engine reads and writes it.
    public var text: String { "\(milliseconds)-\(sequence)" }

    /// - Returns: nil unless these are two decimal numbers below 2^64, without leading zeros, and one hyphen between them.
    public init?(text: some Collection<UInt8>) {
        guard let hyphen = text.firstIndex(of: UInt8(ascii: "-")),
            let milliseconds = decimalNumber(text[..<hyphen]), let sequence = decimalNumber(text[text.index(after: hyphen)...])
        else { return nil }
        self.init(milliseconds, sequence)
    }
}

/// A decimal number in its one spelling: digits only, no leading zero, below 2^64.
func decimalNumber(_ text: some Collection<UInt8>) -> UInt64? {
    guard let first = text.first, first != UInt8(ascii: "0") || text.count == 1 else { return nil }
    var number: UInt64 = 0
    for byte in text {
        guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        let (product, isTooMuch) = number.multipliedReportingOverflow(by: 10)
        let (sum, overflows) = product.addingReportingOverflow(UInt64(byte - UInt8(ascii: "0")))
        guard !isTooMuch, !overflows else { return nil }
        number = sum
    }
    return number
}
