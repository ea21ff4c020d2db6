// Which of a Cluster's 16,384 slots a key is in: CRC16 of what stands between the first { and the first } behind it, where something does
// (redis.io, "Cluster specification": hash tags).

public enum KeySlot {
    public static let count = 16_384

    public static func of(_ key: [UInt8]) -> Int {
        key.withUnsafeBufferPointer { key in
            guard let open = key.firstIndex(of: UInt8(ascii: "{")), let close = key[(open + 1)...].firstIndex(of: UInt8(ascii: "}")),
                close > open + 1
            else { return Int(crc16(key)) % count }
            return Int(crc16(UnsafeBufferPointer(rebasing: key[(open + 1)..<close]))) % count
        }
    }

    /// CRC-16/XMODEM: polynomial 0x1021, begins with 0, nothing is turned round.
    static func crc16(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt16 {
        let table = table
        var crc: UInt16 = 0
        for byte in bytes { crc = crc << 8 ^ table[Int(UInt8(truncatingIfNeeded: crc >> 8) ^ byte)] }
        return crc
    }

    private static let table: [UInt16] = (0..<256).map { place in
        var value = UInt16(place) << 8
        for _ in 0..<8 { value = value & 0x8000 != 0 ? value << 1 ^ 0x1021 : value << 1 }
        return value
    }
}
