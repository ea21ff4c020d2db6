// Dictionaries, held against the parser of the package: the same texts are dictionaries, and the same members have the same values.

import HTTPCore
import RawStructuredFieldValues
import TestSupport
import Testing

@testable import CachePolicy

@Suite("Dictionaries in fields (RFC 9651 §4.2)")
struct StructuredDictionaryTests {
    private typealias Value = StructuredDictionary.Value

    private static func expected(_ text: String) -> [String: Value]? {
        var parser = StructuredFieldValueParser(Array(text.utf8))
        guard let dictionary = try? parser.parseDictionaryFieldValue() else { return nil }
        var members: [String: Value] = [:]
        for (key, value) in dictionary {
            guard case .item(let item) = value else {
                members[key] = .other
                continue
            }
            members[key] =
                switch item.rfc9651BareItem {
                case .integer(let number): .integer(number)
                case .bool(let flag): .boolean(flag)
                case .string: .string
                default: .other
                }
        }
        return members
    }

    @Test(
        "each text is what the parser says",
        arguments: [
            "", " ", "a", "a, b", "a ,b", "a,\tb", "a,", ",a", "a b", "A", "*a=1", "a_-.*9=1", "1a", "a=", "a= 1", "a =1", "a=1", "a=-0",
            "a=-999999999999999", "a=1234567890123456", "a=1.5", "a=123456789012.123", "a=1234567890123.1", "a=1.", "a=1.1234", "a=--1",
            "a=\"x\"", "a=\"x", "a=\"\\\"\\\\\"", "a=\"\\x\"", "a=\"\u{e9}\"", "a=tok:en/*", "a=*", "a=?1", "a=?0", "a=?2", "a=?",
            "a=:aGk=:", "a=::", "a=:a", "a=@1", "a=@-1", "a=@1.5", "a=@", "a=%\"x%c3%a9\"", "a=%\"%C3\"", "a=%\"%ff\"", "a=%x", "a=%\"a",
            "a=%\"a\\\", b", "a;b", "a;b=1;c=\"x\";b", "a; b", "a ;b", "a;", "a;b=", "a=1;b, c;d", "a=()", "a=(1 2)", "a=( 1  \"x,;\" );b",
            "a=(1;b 2;c=?0);d", "a=(1", "a=(1,2)", "a=(1\t2)", "a=(1)2", "a=((1))", "a=1, a=2", "a=1, b, a", "max-age=60, no-store",
            "a=1 ", "  a", "\ta", "a=1\t",
        ])
    func table(_ text: String) {
        #expect(StructuredDictionary(Array(text.utf8))?.members == Self.expected(text))
    }

    @Test("texts made of pieces of others are what the parser says")
    func walk() {
        let pieces = [
            "a", "b=1", "=", "?1", "\"", "x", "\\", ";", ";c", ",", ", ", " ", "\t", "(", ")", "1", ".5", "-", "@", "%\"", "%c3%a9", "*",
            "d=", "A",
        ]
        var valid = 0
        let isWhole = RandomSchedules.run(3_000, steps: 1) { _ in
        } step: { _, random in
            let text = (0..<1 + random.below(8)).map { _ in random.pick(pieces) }.joined()
            let found = StructuredDictionary(Array(text.utf8))?.members
            try demand(found == Self.expected(text), text.debugDescription)
            if found != nil { valid += 1 }
        }
        #expect(!isWhole || valid > 50)
    }
}
