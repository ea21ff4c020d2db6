// Parses and writes traceparent (W3C Trace Context, level 2, §3.2).

/// Identifier of a trace, 16 bytes (§3.2.2.3). All zeros are invalid.
public struct TraceID: Sendable, Hashable {
    public let high: UInt64
    public let low: UInt64

    public init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

    /// 32 hexadecimal digits.
    public var text: String {
        String(unsafeUninitializedCapacity: 32) { text in
            high.writeHexDigits(to: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(text)[..<16]))
            low.writeHexDigits(to: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(text)[16...]))
            return 32
        }
    }
}

/// Identifier of one span in one trace.
public struct SpanContext: Sendable, Hashable {
    public let trace: TraceID
    /// Identifier of the span, 8 bytes (§3.2.2.4); 0 if there is none.
    public let span: UInt64

    public init(trace: TraceID, span: UInt64) { (self.trace, self.span) = (trace, span) }

    /// Value for requests that are not traced.
    public static let none = SpanContext(trace: TraceID(high: 0, low: 0), span: 0)

    @inlinable public var isRecorded: Bool { span != 0 }
}

extension UInt64 {
    /// 16 hexadecimal digits in lower case.
    public var hexDigits: String {
        String(unsafeUninitializedCapacity: 16) { text in
            writeHexDigits(to: UnsafeMutableRawBufferPointer(text))
            return 16
        }
    }

    fileprivate func writeHexDigits(to text: UnsafeMutableRawBufferPointer) {
        text.storeBytes(of: HexDigits.of(UInt32(self >> 32)), as: UInt64.self)
        text.storeBytes(of: HexDigits.of(UInt32(truncatingIfNeeded: self)), toByteOffset: 8, as: UInt64.self)
    }
}

public struct TraceParent: Sendable, Equatable {
    public let trace: TraceID
    /// The span that sent the request.
    public let span: UInt64
    /// The defined flags: `sampled` and `random` (§3.2.3).
    public let flags: UInt8

    public static let sampled: UInt8 = 0x01
    /// The trace identifier is random.
    public static let random: UInt8 = 0x02
    private static let known: UInt8 = 0x03

    /// Whether the sender may have recorded the trace.
    public var isSampled: Bool { flags & Self.sampled != 0 }

    public init(_ context: SpanContext, flags: UInt8) { (trace, span, self.flags) = (context.trace, context.span, flags) }

    /// nil if the field is missing, repeated or invalid.
    public init?(_ fields: Fields) {
        guard let value = fields.only(.traceparent) else { return nil }
        self.init(value)
    }

    init?(_ value: ArraySlice<UInt8>) {
        let (bytes, hyphen) = (value.span, UInt8(ascii: "-"))
        // 00-<32>-<16>-<2>; later versions may add a hyphen and more data.
        guard bytes.count >= 55, let version = Self.number(bytes, 0..<2), version != 0xff else { return nil }
        guard bytes.count == 55 || version != 0 && bytes[55] == hyphen else { return nil }
        guard bytes[2] == hyphen, bytes[35] == hyphen, bytes[52] == hyphen else { return nil }
        guard let high = Self.number(bytes, 3..<19), let low = Self.number(bytes, 19..<35), let span = Self.number(bytes, 36..<52),
            let flags = Self.number(bytes, 53..<55)
        else { return nil }
        // All zeros are invalid identifiers.
        guard high | low != 0, span != 0 else { return nil }
        (trace, self.span, self.flags) = (TraceID(high: high, low: low), span, UInt8(flags) & Self.known)
    }

    /// Parses hexadecimal digits in lower case; nil for others.
    private static func number(_ bytes: Span<UInt8>, _ range: Range<Int>) -> UInt64? {
        var number: UInt64 = 0
        for index in range {
            let (digit, letter) = (bytes[index] &- UInt8(ascii: "0"), bytes[index] &- UInt8(ascii: "a"))
            guard digit < 10 || letter < 6 else { return nil }
            number = number << 4 | UInt64(digit < 10 ? digit : letter + 10)
        }
        return number
    }

    /// The value of the field, in version 00.
    public var bytes: [UInt8] { Array("00-\(trace.text)-\(span.hexDigits)-0\(flags & Self.known)".utf8) }
}
