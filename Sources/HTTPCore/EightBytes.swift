// Processes eight bytes of text at once, because a step for each byte is most of the cost of parsing a head. Little-endian: the first byte
// is the lowest.

struct EightBytes {
    private static let low: UInt64 = 0x0101_0101_0101_0101
    private static let high: UInt64 = 0x8080_8080_8080_8080

    private(set) var bits: UInt64

    /// - Parameter offset: address of at least eight readable bytes.
    @inline(__always)
    init(at address: UnsafePointer<UInt8>) { bits = UInt64(littleEndian: UnsafeRawPointer(address).loadUnaligned(as: UInt64.self)) }

    /// The bytes with A–Z converted to a–z; other bytes are unchanged.
    @inline(__always)
    var asciiLowercased: UInt64 {
        let letters = bits & ~Self.high
        // The highest bit of each byte that is at least "A", and of each byte above "Z".
        let fromA = letters &+ Self.low &* (0x80 - 0x41)
        let beyondZ = letters &+ Self.low &* (0x80 - 0x5b)
        return bits | (((fromA ^ beyondZ) & ~bits & Self.high) >> 2)
    }

    /// Index of the first byte equal to `byte`; nil if there is none.
    @inline(__always)
    func first(_ byte: UInt8) -> Int? { Self.first(Self.zeros(bits ^ (Self.low &* UInt64(byte)))) }

    /// Index of the first control character, including HTAB (RFC 9110 §5.5); nil if there is none.
    @inline(__always)
    var firstControl: Int? {
        let below = (bits &- Self.low &* 0x20) & ~bits & Self.high
        return Self.first(below | Self.zeros(bits ^ (Self.low &* 0x7f)))
    }

    /// Marks zero bytes. Marks after the first one may be wrong.
    @inline(__always)
    private static func zeros(_ bits: UInt64) -> UInt64 { (bits &- low) & ~bits & high }

    @inline(__always)
    private static func first(_ marks: UInt64) -> Int? { marks == 0 ? nil : marks.trailingZeroBitCount / 8 }
}

extension UnsafeBufferPointer<UInt8> {
    /// Returns the index of the first `byte` at or after `start`; `limit` if there is none before it.
    @inline(__always)
    public func index(of byte: UInt8, from start: Int, before limit: Int) -> Int {
        var index = start
        while limit - index >= 8 {
            if let offset = EightBytes(at: baseAddress! + index).first(byte) { return index + offset }
            index += 8
        }
        while index < limit, self[index] != byte { index += 1 }
        return index
    }

    /// Returns the index of the first byte at or after `start` that is invalid in a field value; `limit` if there is none before it.
    @inline(__always)
    func endOfFieldValue(from start: Int, before limit: Int) -> Int {
        var index = start
        while limit - index >= 8 {
            guard let offset = EightBytes(at: baseAddress! + index).firstControl else {
                index += 8
                continue
            }
            index += offset
            guard self[index] == 0x09 else { return index }
            index += 1
        }
        while index < limit, isFieldValueByte(self[index]) { index += 1 }
        return index
    }

    /// Returns whether `count` bytes at both addresses are equal, after `text` is converted to lower case.
    @inline(__always)
    static func isSame(_ text: UnsafePointer<UInt8>, asLowercased other: UnsafePointer<UInt8>, count: Int) -> Bool {
        guard count >= 8 else {
            for index in 0..<count where text[index].asciiLowercased != other[index] { return false }
            return true
        }
        var index = 0
        while true {
            guard EightBytes(at: text + index).asciiLowercased == EightBytes(at: other + index).bits else { return false }
            if index == count - 8 { return true }
            // The last eight bytes overlap with those before.
            index = Swift.min(index + 8, count - 8)
        }
    }

    /// Returns whether two texts of equal length are equal, ignoring the case of ASCII letters.
    static func isSameText(_ text: UnsafeBufferPointer<UInt8>, _ other: UnsafeBufferPointer<UInt8>) -> Bool {
        let count = text.count
        guard count >= 8, let one = text.baseAddress, let two = other.baseAddress else {
            for index in 0..<count where text[index].asciiLowercased != other[index].asciiLowercased { return false }
            return true
        }
        var index = 0
        while true {
            guard EightBytes(at: one + index).asciiLowercased == EightBytes(at: two + index).asciiLowercased else { return false }
            if index == count - 8 { return true }
            index = Swift.min(index + 8, count - 8)
        }
    }
}
