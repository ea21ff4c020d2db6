// Eight bytes of a text looked at together: heads are long, and a step for each byte is most of what reading one costs. Little endian, as
// all machines are that we build for: the first byte is the lowest.

struct EightBytes {
    private static let low: UInt64 = 0x0101_0101_0101_0101
    private static let high: UInt64 = 0x8080_8080_8080_8080

    private(set) var bits: UInt64

    /// - Parameter place: eight bytes can be read from there on.
    @inline(__always)
    init(at place: UnsafePointer<UInt8>) { bits = UInt64(littleEndian: UnsafeRawPointer(place).loadUnaligned(as: UInt64.self)) }

    /// A–Z become a–z; every other byte stays.
    @inline(__always)
    var asciiLowercased: UInt64 {
        let letters = bits & ~Self.high
        // The highest bit of each byte that is at least "A", and of each that is beyond "Z".
        let fromA = letters &+ Self.low &* (0x80 - 0x41)
        let beyondZ = letters &+ Self.low &* (0x80 - 0x5b)
        return bits | (((fromA ^ beyondZ) & ~bits & Self.high) >> 2)
    }

    /// The place of the first byte that is `byte`.
    @inline(__always)
    func first(_ byte: UInt8) -> Int? { Self.first(Self.zeros(bits ^ (Self.low &* UInt64(byte)))) }

    /// The place of the first control character, which HTAB is too (RFC 9110 §5.5).
    @inline(__always)
    var firstControl: Int? {
        let below = (bits &- Self.low &* 0x20) & ~bits & Self.high
        return Self.first(below | Self.zeros(bits ^ (Self.low &* 0x7f)))
    }

    /// Marks zero bytes. Behind the first some may be marked that are none.
    @inline(__always)
    private static func zeros(_ bits: UInt64) -> UInt64 { (bits &- low) & ~bits & high }

    @inline(__always)
    private static func first(_ marks: UInt64) -> Int? { marks == 0 ? nil : marks.trailingZeroBitCount / 8 }
}

extension UnsafeBufferPointer<UInt8> {
    /// The place of the first `byte` from `start` on; `limit` where there is none before.
    @inline(__always)
    public func place(of byte: UInt8, from start: Int, before limit: Int) -> Int {
        var index = start
        while limit - index >= 8 {
            if let place = EightBytes(at: baseAddress! + index).first(byte) { return index + place }
            index += 8
        }
        while index < limit, self[index] != byte { index += 1 }
        return index
    }

    /// The place of the first byte from `start` on that may not stand in a field value; `limit` where there is none before.
    @inline(__always)
    func endOfFieldValue(from start: Int, before limit: Int) -> Int {
        var index = start
        while limit - index >= 8 {
            guard let place = EightBytes(at: baseAddress! + index).firstControl else {
                index += 8
                continue
            }
            index += place
            guard self[index] == 0x09 else { return index }
            index += 1
        }
        while index < limit, isFieldValueByte(self[index]) { index += 1 }
        return index
    }

    /// Whether `count` bytes at both places are the same text but for the case of `self`'s letters.
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
            // The last eight overlap with those before.
            index = Swift.min(index + 8, count - 8)
        }
    }

    /// Whether both, of one length, are the same text but for the case of letters.
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
