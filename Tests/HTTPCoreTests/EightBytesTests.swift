// Tests that processing eight bytes at once has the result of processing them one by one.

import TestSupport
import Testing

@testable import HTTPCore

@Suite("Processing eight bytes at a time")
struct EightBytesTests {
    private static func eight(_ bytes: [UInt8]) -> EightBytes {
        bytes.withUnsafeBufferPointer { EightBytes(at: $0.baseAddress!) }
    }

    /// Every byte at every position, among neighbours that could disturb it.
    private static var texts: [[UInt8]] {
        var texts: [[UInt8]] = []
        for neighbour: UInt8 in [0x00, 0x09, 0x1f, 0x20, 0x41, 0x5a, 0x5b, 0x7f, 0x80, 0xff] {
            for place in 0..<8 {
                for byte in UInt8.min...UInt8.max {
                    var text = [UInt8](repeating: neighbour, count: 8)
                    text[place] = byte
                    texts.append(text)
                }
            }
        }
        return texts
    }

    @Test("eight bytes are lowercased, and the first occurrence of a byte or control character is found")
    func words() {
        for text in Self.texts {
            let word = Self.eight(text)
            #expect(word.asciiLowercased == Self.eight(text.map(\.asciiLowercased)).bits, "\(text)")
            #expect(word.firstControl == text.firstIndex { $0 < 0x20 || $0 == 0x7f }, "\(text)")
            for byte in [0x0a, 0x3a, text[3]] { #expect(word.first(byte) == text.firstIndex(of: byte), "\(byte) in \(text)") }
        }
    }

    @Test("text of any length is searched and compared as byte by byte")
    func texts() {
        RandomSchedules.run(20_000, steps: 1) { _ in
        } step: { _, random in
            let alphabet: [UInt8] = [0x09, 0x0d, 0x20, 0x3a, 0x2d, 0x41, 0x61, 0x5a, 0x7a, 0x7f, 0xe4]
            let text = (0..<1 + random.below(40)).map { _ in random.isTrue(oneIn: 4) ? random.pick(alphabet) : 0x62 }
            let start = random.below(text.count + 1)
            let rest = text[start...]
            let (place, end) = text.withUnsafeBufferPointer { bytes in
                (bytes.index(of: 0x3a, from: start, before: text.count), bytes.endOfFieldValue(from: start, before: text.count))
            }
            try demand(place == rest.firstIndex(of: 0x3a) ?? text.count, "\(text) from \(start)")
            try demand(end == rest.firstIndex { !isFieldValueByte($0) } ?? text.count, "\(text) from \(start)")
            var other = text.map { random.isTrue() ? $0.asciiLowercased : $0 }
            let isSame = text.span.equalsIgnoringCase(other.span)
            other[random.below(other.count)] ^= 1
            let isStillSame = text.span.equalsIgnoringCase(other.span)
            try demand(isSame && !isStillSame, "\(text)")
        }
    }

    @Test("every known name is found in any case, and no other", arguments: KnownField.allCases)
    func names(field: KnownField) {
        let name = field.name.withUTF8Buffer { Array($0) }
        for text in [name, name.map(\.asciiLowercased), name.map { $0.isASCIILetter ? $0 & 0xdf : $0 }] {
            let found = KnownField(text.span)
            #expect(found == field)
        }
        for place in name.indices {
            var other = name
            other[place] ^= 0x04
            let found = KnownField(other.span)
            #expect(found != field)
        }
        let longer = name + [0x73]
        let found = KnownField(longer.span)
        #expect(found != field)
    }
}
