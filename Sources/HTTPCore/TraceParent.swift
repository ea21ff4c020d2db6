// Which trace a request belongs to (W3C Trace Context, level 2, §3.2), as the field traceparent says it. Pure.

public struct TraceParent: Sendable, Equatable {
    /// 32 hexadecimal digits.
    public let trace: String
    /// The span that has sent the request: 16 digits.
    public let span: String
    /// Whether who sent it keeps the trace, perhaps.
    public let isSampled: Bool

    /// nil where it does not say so, or not by the rules, or more than once.
    public init?(_ fields: Fields) {
        let values = fields.all(.traceparent)
        guard values.count == 1 else { return nil }
        self.init(values[0])
    }

    init?(_ value: ArraySlice<UInt8>) {
        let bytes = Array(value)
        // 00-<32>-<16>-<2>; later versions may go on behind a hyphen.
        guard bytes.count >= 55, Self.isHex(bytes[0..<2]), bytes[0..<2] != Array("ff".utf8)[...] else { return nil }
        guard bytes.count == 55 || bytes[0..<2] != Array("00".utf8)[...] && bytes[55] == UInt8(ascii: "-") else { return nil }
        guard [2, 35, 52].allSatisfy({ bytes[$0] == UInt8(ascii: "-") }) else { return nil }
        let (trace, span, flags) = (bytes[3..<35], bytes[36..<52], bytes[53..<55])
        guard Self.isHex(trace), Self.isHex(span), Self.isHex(flags) else { return nil }
        // All zeros name nothing.
        guard trace.contains(where: { $0 != UInt8(ascii: "0") }), span.contains(where: { $0 != UInt8(ascii: "0") }) else { return nil }
        (self.trace, self.span) = (String(decoding: trace, as: UTF8.self), String(decoding: span, as: UTF8.self))
        isSampled = (bytes[54].hexValue ?? 0) & 1 == 1
    }

    /// Capital letters are none of its digits.
    private static func isHex(_ bytes: ArraySlice<UInt8>) -> Bool { bytes.allSatisfy { $0.hexValue != nil && $0.asciiLowercased == $0 } }
}
