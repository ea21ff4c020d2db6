// Tests of known field names, sets of them, and decimal numbers.

import HTTPCore
import Testing

@Suite("Known fields and numbers")
struct FieldTests {
    @Test("each known name is found in any case, and a set holds it and no other", arguments: KnownField.allCases)
    func knownFields(field: KnownField) {
        let name = field.name.withUTF8Buffer { Array($0) }
        for spelling in [name, name.map(\.asciiLowercased)] { #expect(KnownField(spelling.span) == field) }
        #expect(KnownField((name + [0x78]).span) == nil)
        var set = KnownFieldSet()
        set.insert(field)
        for other in KnownField.allCases { #expect(set.contains(other) == (other == field)) }
        #expect(!set.isDisjoint(with: [field, .via]))
        set.remove(field)
        #expect(set == KnownFieldSet() && set.isDisjoint(with: [field]))
    }

    @Test("decimal digits of any number", arguments: [0, 1, 9, 10, 99, 100, 12_345, 9_999_999_999, .max, .max - 1, -1, -10, .min])
    func decimals(number: Int) {
        var bytes = Array("x".utf8)
        bytes.append(decimal: number)
        #expect(String(decoding: bytes, as: UTF8.self) == "x\(number)")
    }
}
