// Position in the log: the id of a stream entry. The engine assigns ascending ids, which order the actions of all nodes.

public struct LogPosition: Comparable, Hashable, Sendable {
    /// Time of the engine's clock when the entry was appended, or later.
    public var milliseconds: UInt64
    public var sequence: UInt64

    public init(_ milliseconds: UInt64, _ sequence: UInt64 = 0) {
        (self.milliseconds, self.sequence) = (milliseconds, sequence)
    }

    public static let beginning = LogPosition(0, 0)

    public static func < (one: LogPosition, other: LogPosition) -> Bool {
        (one.milliseconds, one.sequence) < (other.milliseconds, other.sequence)
    }

    /// The preceding position; the beginning has no predecessor and returns itself.
    public var previous: LogPosition {
        if sequence > 0 { return LogPosition(milliseconds, sequence - 1) }
        return milliseconds > 0 ? LogPosition(milliseconds - 1, .max) : self
    }

    /// The first position of an earlier millisecond, or the beginning.
    func earlier(byMilliseconds difference: UInt64) -> LogPosition {
        LogPosition(milliseconds > difference ? milliseconds - difference : 0, 0)
    }

    /// The first position of a later millisecond, at most the maximum.
    func later(byMilliseconds difference: UInt64) -> LogPosition {
        let (sum, overflows) = milliseconds.addingReportingOverflow(difference)
        return LogPosition(overflows ? .max : sum, 0)
    }

    public var text: String { "\(milliseconds)-\(sequence)" }

    /// - Returns: nil unless the text is two decimal numbers below 2^64, separated by a hyphen.
    public init?(text: some Collection<UInt8>) {
        guard let hyphen = text.firstIndex(of: UInt8(ascii: "-")),
            let milliseconds = decimalNumber(text[..<hyphen]), let sequence = decimalNumber(text[text.index(after: hyphen)...])
        else { return nil }
        self.init(milliseconds, sequence)
    }
}

/// Parses a decimal number without leading zeros, below 2^64.
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

/// Log epoch and position of a record in the shared level, inside its seal.
public struct RecordVersion: Hashable, Sendable {
    public var epoch: UInt64
    /// Position when the request was sent. Later entries may affect the response.
    public var position: LogPosition

    public init(epoch: UInt64, position: LogPosition) { (self.epoch, self.position) = (epoch, position) }

    public static let byteCount = 24

    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    public func append(to bytes: inout [UInt8]) {
        for number in [epoch, position.milliseconds, position.sequence] {
            withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
        }
    }

    public init?(bytes: some Collection<UInt8>) {
        var rest = Array(bytes)[...]
        guard rest.count == Self.byteCount, let epoch = rest.takeNumber(), let milliseconds = rest.takeNumber(),
            let sequence = rest.takeNumber()
        else { return nil }
        self.init(epoch: epoch, position: LogPosition(milliseconds, sequence))
    }
}
