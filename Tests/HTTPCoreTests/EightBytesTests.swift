// Eight bytes together say the same as one after the other.

import TestSupport
import Testing

@testable import HTTPCore

@Suite("Eight bytes looked at together")
struct EightBytesTests {
    private static func eight(_ bytes: [UInt8]) -> EightBytes {
        bytes.withUnsafeBufferPointer { EightBytes(at: $0.baseAddress!) }
    }

    /// Every byte in every place, among neighbours that could disturb it.
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

    @Test("letters become small, the first of a kind and the first control character are found")
    func words() {
        for text in Self.texts {
            let word = Self.eight(text)
            #expect(word.asciiLowercased == Self.eight(text.map(\.asciiLowercased)).bits, "\(text)")
            #expect(word.firstControl == text.firstIndex { $0 < 0x20 || $0 == 0x7f }, "\(text)")
            for byte in [0x0a, 0x3a, text[3]] { #expect(word.first(byte) == text.firstIndex(of: byte), "\(byte) in \(text)") }
        }
    }

    @Test("a text of any length is searched and compared as byte by byte")
    func texts() {
        var random = SeededGenerator(seed: 27)
        for _ in 0..<(TestRun.isFast ? 4_000 : 20_000) {
            let alphabet: [UInt8] = [0x09, 0x0d, 0x20, 0x3a, 0x2d, 0x41, 0x61, 0x5a, 0x7a, 0x7f, 0xe4]
            let text = (0..<Int.random(in: 1...40, using: &random)).map { _ in
                Int.random(in: 0..<4, using: &random) == 0 ? alphabet.randomElement(using: &random)! : 0x62
            }
            let start = Int.random(in: 0...text.count, using: &random)
            let rest = text[start...]
            text.withUnsafeBufferPointer { bytes in
                #expect(bytes.place(of: 0x3a, from: start, before: text.count) == rest.firstIndex(of: 0x3a) ?? text.count)
                let end = bytes.endOfFieldValue(from: start, before: text.count)
                #expect(end == rest.firstIndex { !isFieldValueByte($0) } ?? text.count)
            }
            var other = text.map { Bool.random(using: &random) ? $0.asciiLowercased : $0 }
            let isSame = text.span.equalsIgnoringCase(other.span)
            other[Int.random(in: 0..<other.count, using: &random)] ^= 1
            let isStillSame = text.span.equalsIgnoringCase(other.span)
            #expect(isSame && !isStillSame, "\(text)")
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
