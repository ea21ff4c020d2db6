// Tests of known field names, sets of them, and decimal numbers.

import HTTPCore
import Testing

@Suite("Known fields and numbers")
struct FieldTests {
    @Test("each known name is found in any case, and a set contains only the inserted fields", arguments: KnownField.allCases)
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

    @Test("lines of another message replace all lines with their names in any case, and only these")
    func replacing() {
        var fields = Fields()
        for (name, value) in [("Date", "1"), ("x-A", "1"), ("X-B", "1"), ("x-a", "2"), ("ETag", "t")] {
            fields.append(name: name, value: value)
        }
        var others = Fields()
        for (name, value) in [("X-A", "3"), ("X-A", "4"), ("etag", "u"), ("Age", "5")] { others.append(name: name, value: value) }
        fields.replace(byLinesOf: others) { $0.known != .etag }
        let lines = (0..<fields.count).map { String(decoding: fields.name(at: $0) + [0x3d] + fields.value(at: $0), as: UTF8.self) }
        #expect(lines == ["Date=1", "X-B=1", "ETag=t", "X-A=3", "X-A=4", "Age=5"])
        #expect(fields.contains(.age) && fields.contains(.etag) && fields.contains(named: "x-b") && !fields.contains(named: "x-c"))
        fields.remove(named: ["X-B", "age"])
        #expect(fields.count == 4 && !fields.contains(.age) && fields.contains(.date))
    }

    @Test(
        "any number is written in decimal digits", arguments: [0, 1, 9, 10, 99, 100, 12_345, 9_999_999_999, .max, .max - 1, -1, -10, .min])
    func decimals(number: Int) {
        var bytes = Array("x".utf8)
        bytes.append(decimal: number)
        #expect(String(decoding: bytes, as: UTF8.self) == "x\(number)")
    }
}
