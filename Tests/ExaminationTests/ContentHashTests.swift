// Tests of the hash of content in entity tags.

import TestSupport
import Testing

@testable import HTTPCore

@Suite("Content hashes")
struct ContentHashTests {
    @Test("hexadecimal digits equal those of the standard library, padded with zeros")
    func digits() {
        var generator = SeededGenerator(seed: 4711)
        let numbers =
            [0, 1, 9, 10, 15, 16, 0x0123_4567, 0x89ab_cdef, .max]
            + (0..<1_000).map { _ in UInt32.random(in: 0 ... .max, using: &generator) }
        for number in numbers {
            let text = String(number, radix: 16)
            let expected = String(repeating: "0", count: 8 - text.utf8.count) + text
            #expect(withUnsafeBytes(of: HexDigits.of(number)) { String(decoding: $0, as: UTF8.self) } == expected)
        }
    }

    @Test("a tag is stable across machines and restarts")
    func tag() {
        var tag: [UInt8] = []
        let content = Array("{\"a\":1}".utf8)
        ContentHash.appendHex(of: content.span, to: &tag)
        ContentHash.appendHex(of: Span(), to: &tag)
        #expect(String(decoding: tag, as: UTF8.self) == "3c8c141663acf5a1b6b7137162fa70fb99aa06d3014798d86001c324468d497f")
    }
}
