// Formats several hexadecimal digits at once, which is faster than one digit at a time.

public enum HexDigits {
    /// Returns eight digits in lower case. The first digit is in the lowest byte in memory.
    public static func of(_ number: UInt32) -> UInt64 {
        var digits = UInt64(number.byteSwapped)
        digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff
        digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff
        digits = (digits >> 4 | digits << 8) & 0x0f0f_0f0f_0f0f_0f0f
        let isLetter = ((digits &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
        return (digits &+ 0x3030_3030_3030_3030 &+ isLetter &* 39).littleEndian
    }
}
