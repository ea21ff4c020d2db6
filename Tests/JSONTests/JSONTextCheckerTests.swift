// JSON texts: a table of verdicts, each row whole and byte by byte.

import Testing

@testable import JSON

@Suite("JSON texts (RFC 8259)")
struct JSONTextCheckerTests {
    @Test(
        "verdicts",
        arguments: [
            ("{}", .valid), ("[]", .valid), (" {\"a\" : [1, -0.5e+10, true, false, null, \"\\u00e4\\n\"] } \n", .valid),
            ("[[[[]]]]", .valid),
            ("{\"a\":{\"b\":[]}}", .valid), ("\u{feff}{}", .valid), ("1", .validScalar), ("-0", .validScalar), ("1.5E-3", .validScalar),
            ("\"a\"", .validScalar), ("null", .validScalar), (" true ", .validScalar), ("", .empty), (" \n", .empty), ("{", .invalid),
            ("[1", .invalid),
            ("[1,]", .invalid), ("{,}", .invalid), ("{\"a\"}", .invalid), ("{\"a\":}", .invalid), ("{\"a\":1,}", .invalid),
            ("{a:1}", .invalid),
            ("['a']", .invalid), ("[1 2]", .invalid), ("{}{}", .invalid), ("{}x", .invalid), ("x{}", .invalid), ("]", .invalid),
            ("[}", .invalid),
            ("{]", .invalid), ("01", .invalid), ("+1", .invalid), (".5", .invalid), ("1.", .invalid), ("1e", .invalid), ("-", .invalid),
            ("tru", .invalid),
            ("True", .invalid), ("NaN", .invalid), ("\"\\x\"", .invalid), ("\"\\u12g4\"", .invalid), ("\"a", .invalid),
            ("\"\u{1}\"", .invalid),
            ("\"a\nb\"", .invalid), ("<html>", .invalid), ("// x\n{}", .invalid), ("[1,,2]", .invalid), ("{\"a\":1 \"b\":2}", .invalid),
        ] as [(String, JSONVerdict)])
    func verdicts(text: String, expected: JSONVerdict) {
        let bytes = Array(text.utf8)
        #expect(JSONTextChecker.check(bytes.span) == expected)
        var slow = JSONTextChecker()
        var isGood = true
        for byte in bytes where isGood {
            let one = [byte]
            isGood = slow.consume(one.span)
        }
        #expect((isGood ? slow.finish() : .invalid) == expected)
    }

    @Test(
        "bytes that are no UTF-8 are no JSON",
        arguments: [[0x80], [0xc0, 0x80], [0xc3], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe0, 0x80, 0x80], [0xff]] as [[UInt8]])
    func invalidUTF8(bytes: [UInt8]) {
        let text = [0x22] + bytes + [0x22] as [UInt8]
        #expect(JSONTextChecker.check(text.span) == .invalid)
    }

    @Test("nesting up to the limit is taken, beyond it is not")
    func depth() {
        for (depth, expected) in [(JSONTextChecker.depthLimit, JSONVerdict.valid), (JSONTextChecker.depthLimit + 1, .invalid)] {
            let text = Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
            #expect(JSONTextChecker.check(text.span) == expected)
        }
    }

    @Test("long strings are checked to their end, wherever the odd byte stands")
    func longStrings() {
        for place in 0..<40 {
            var text = Array("\"".utf8) + [UInt8](repeating: 0x61, count: 40) + Array("\"".utf8)
            text[1 + place] = 0x0a
            #expect(JSONTextChecker.check(text.span) == .invalid)
            text[1 + place] = 0x20
            #expect(JSONTextChecker.check(text.span) == .validScalar)
        }
    }
}
