// Tests of key slots with the values of the Cluster specification.

import Testing

@testable import Engine

@Suite("Slots of keys")
struct KeySlotTests {
    private static func checksum(_ text: String) -> UInt16 { Array(text.utf8).withUnsafeBufferPointer { KeySlot.crc16($0) } }

    @Test("the checksum is CRC-16/XMODEM")
    func checksum() { #expect(Self.checksum("123456789") == 0x31C3) }

    @Test(
        "only the text between the first braces is hashed, unless it is empty",
        arguments: [
            ("{user1000}.following", "user1000"), ("{user1000}.followers", "user1000"), ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"), ("foo{bar}{zap}", "bar"), ("foo{bar", "foo{bar"), ("foo}bar{", "foo}bar{"), ("", ""),
        ])
    func tags(key: String, counted: String) {
        #expect(KeySlot.of(Array(key.utf8)) == Int(Self.checksum(counted)) % 16_384)
    }

    @Test(
        "slots equal those computed by redis-server",
        arguments: [("foo", 12182), ("bar", 5061), ("hello", 866), ("{user1000}.following", 3443)])
    func known(key: String, slot: Int) { #expect(KeySlot.of(Array(key.utf8)) == slot) }
}
