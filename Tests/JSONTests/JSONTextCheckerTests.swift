// A table of JSON texts with the checker's verdicts, each checked whole and byte by byte.

import TestSupport
import Testing

@testable import JSON

@Suite("JSON texts (RFC 8259)")
struct JSONTextCheckerTests {
    @Test("a plain run ends at the first special byte, at any position")
    func plainEnd() {
        for count in 0...40 {
            for place in 0...count {
                for byte in UInt8.min...UInt8.max {
                    var text = [UInt8](repeating: UInt8(ascii: "x"), count: count)
                    if place < count { text[place] = byte }
                    // A later special byte is not found first.
                    if place + 3 < count { text[place + 3] = 0x5c }
                    let isPlain = byte != 0x22 && byte != 0x5c && (0x20..<0x80).contains(byte)
                    let expected = place < count && !isPlain ? place : min(place + 3, count)
                    let end = text.withUnsafeBufferPointer { JSONScanning.plainEnd($0, from: min(1, place)) }
                    if end != expected { Issue.record("\(count) bytes, \(byte) at \(place): \(end)") }
                }
            }
        }
    }

    @Test(
        "each text gets the expected verdict",
        arguments: [
            ("{}", .valid), ("[]", .valid), (" {\"a\" : [1, -0.5e+10, true, false, null, \"\\u00e4\\n\"] } \n", .valid),
            ("[[[[]]]]", .valid),
            ("{\"a\":{\"b\":[]}}", .valid), ("\u{feff}{}", .valid), ("1", .validScalar), ("-0", .validScalar), ("1.5E-3", .validScalar),
            ("\"a\"", .validScalar), ("null", .validScalar), (" true ", .validScalar), ("", .empty), (" \n", .empty), ("{", .incomplete),
            ("[1", .incomplete),
            ("[1,]", .invalid), ("{,}", .invalid), ("{\"a\"}", .invalid), ("{\"a\":}", .invalid), ("{\"a\":1,}", .invalid),
            ("{a:1}", .invalid),
            ("['a']", .invalid), ("[1 2]", .invalid), ("{}{}", .invalid), ("{}x", .invalid), ("x{}", .invalid), ("]", .invalid),
            ("[}", .invalid),
            ("{]", .invalid), ("01", .invalid), ("+1", .invalid), (".5", .invalid), ("1.", .incomplete), ("1e", .incomplete),
            ("-", .incomplete),
            ("tru", .incomplete),
            ("True", .invalid), ("NaN", .invalid), ("\"\\x\"", .invalid), ("\"\\u12g4\"", .invalid), ("\"a", .incomplete),
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
        "an object or array after a complete text is a second value, also if it arrives byte by byte",
        arguments: [
            ("{}{", true), ("{}\n[", true), ("1 {", true), ("\"a\" \n{", true), ("[{},{}]", false), ("{}", false), ("{} x{", false),
            ("{}\n1", false),
            ("1{", false), ("[1 {", false), ("{\"a\":1 {", false), ("x{}{", false),
        ])
    func secondValue(text: String, expected: Bool) {
        let bytes = Array(text.utf8)
        var (whole, slow) = (JSONTextChecker(.extensions), JSONTextChecker())
        _ = whole.consume(bytes.span)
        for byte in bytes { _ = slow.consume([byte].span) }
        #expect(whole.hasSecondValue == expected && slow.hasSecondValue == expected)
    }

    @Test(
        "invalid UTF-8 is invalid JSON",
        arguments: [[0x80], [0xc0, 0x80], [0xc3], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe0, 0x80, 0x80], [0xff]] as [[UInt8]])
    func invalidUTF8(bytes: [UInt8]) {
        let text = [0x22] + bytes + [0x22] as [UInt8]
        #expect(JSONTextChecker.check(text.span) == .invalid)
    }

    @Test(
        "invalid JSON is accepted only by readings that tolerate its bytes or extensions",
        arguments: [
            ("\"caf\u{80}\"", [.invalid, .lenient, .lenient]), ("{\"a\u{80}\":1}", [.invalid, .lenient, .lenient]),
            ("[\"\u{81}\"]", [.invalid, .lenient, .lenient]), ("[\"\u{81}", [.incomplete, .incomplete, .incomplete]),
            ("{\"a\u{81}\":1", [.invalid, .incomplete, .incomplete]), ("[\u{80}]", [.invalid, .invalid, .invalid]),
            ("\u{80}", [.invalid, .invalid, .invalid]), ("[\"\\\u{80}\"]", [.invalid, .invalid, .invalid]),
            ("[\"\u{80}\n\"]", [.invalid, .invalid, .invalid]), ("\u{feff}{}", [.valid, .lenient, .lenient]),
            ("\u{feff}{", [.incomplete, .incomplete, .incomplete]), ("[NaN]", [.invalid, .invalid, .lenient]),
            ("[1,NaN]", [.invalid, .invalid, .lenient]), ("{\"a\":Infinity}", [.invalid, .invalid, .lenient]),
            ("[-Infinity , 1]", [.invalid, .invalid, .lenient]), ("[Infinit]", [.invalid, .invalid, .invalid]),
            ("[Na", [.invalid, .invalid, .incomplete]), ("[NaN", [.invalid, .invalid, .incomplete]),
            ("[nan]", [.invalid, .invalid, .invalid]),
            (")]}'\n{\"a\":1}", [.invalid, .invalid, .lenient]), (")]}',\n[1]", [.invalid, .invalid, .lenient]),
            ("while(1);[1]", [.invalid, .invalid, .lenient]), ("for(;;);{}", [.invalid, .invalid, .lenient]),
            (")]}'\n{\"a\":1", [.invalid, .invalid, .incomplete]), ("[)]}']", [.invalid, .invalid, .invalid]),
            ("[for(;;);1]", [.invalid, .invalid, .invalid]), ("<html>", [.invalid, .invalid, .invalid]),
            ("{'a':1}", [.invalid, .invalid, .invalid]), ("[1,]", [.invalid, .invalid, .invalid]), ("", [.empty, .empty, .empty]),
            ("{}", [.valid, .valid, .valid]), ("1", [.validScalar, .validScalar, .validScalar]),
        ] as [(String, [JSONVerdict])])
    func readings(text: String, expected: [JSONVerdict]) {
        // U+0080 represents an invalid UTF-8 byte, U+0081 a truncated UTF-8 sequence.
        let bytes: [UInt8] = text.unicodeScalars.flatMap { scalar -> [UInt8] in
            switch scalar {
            case "\u{80}": [0xe9]
            case "\u{81}": [0xf0, 0x9f]
            default: Array(String(scalar).utf8)
            }
        }
        for (reading, verdict) in zip([JSONReading.standard, .otherBytes, .extensions], expected) {
            #expect(JSONTextChecker.check(bytes.span, reading) == verdict, "\(reading)")
            for place in 0...bytes.count {
                let (first, rest) = (Array(bytes[..<place]), Array(bytes[place...]))
                var checker = JSONTextChecker(reading)
                let isGood = checker.consume(first.span) && checker.consume(rest.span)
                #expect((isGood ? checker.finish() : .invalid) == verdict, "\(reading) at \(place)")
            }
        }
    }

    @Test("no reading accepts a truncated text, and each accepts valid JSON")
    func readingsByRandom() {
        RandomSchedules.run(500) {
            RandomJSON($0)
        } end: { random in
            let text = random.below(2) == 0 ? random.bent() : random.text()
            let strict = JSONTextChecker.check(text.span)
            for reading in [JSONReading.otherBytes, .extensions] {
                let verdict = JSONTextChecker.check(text.span, reading)
                try demand(strict == .invalid || verdict == strict, String(decoding: text, as: UTF8.self))
                let cut = Array(text.dropLast())
                guard strict == .valid, text.last == UInt8(ascii: "}") || text.last == UInt8(ascii: "]") else { continue }
                try demand(JSONTextChecker.check(cut.span, reading) == .incomplete, String(decoding: text, as: UTF8.self))
            }
        }
    }

    @Test("nesting up to the limit is valid; deeper texts are too deep, or invalid if malformed")
    func depth() {
        let limit = JSONTextChecker.depthLimit
        for (depth, expected) in [(limit, JSONVerdict.valid), (limit + 1, .tooDeep), (limit + 64, .tooDeep), (100_000, .tooDeep)] {
            let (open, close) = (String(repeating: "[", count: depth), String(repeating: "]", count: depth))
            #expect(JSONTextChecker.check(Array((open + close).utf8).span) == expected)
            #expect(JSONTextChecker.check(Array(("[[1]," + open + close + ",[]]").utf8).span) == (depth < limit ? .valid : .tooDeep))
            for cut in [open, open + close.dropLast()] { #expect(JSONTextChecker.check(Array(cut.utf8).span) == .incomplete) }
            for broken in [open + close + "]", open + "}" + close.dropFirst(), open + "\"a\":1" + close] {
                #expect(JSONTextChecker.check(Array(broken.utf8).span) == .invalid)
            }
        }
        // Mismatched brackets are detected at every level.
        for depth in [limit - 1, limit, limit + 1, limit + 63, limit + 64] {
            let text = String(repeating: "[", count: depth) + "{\"a\":[{}]}" + String(repeating: "]", count: depth)
            #expect(JSONTextChecker.check(Array(text.utf8).span) == .tooDeep)
            #expect(JSONTextChecker.check(Array(text.replacing("}]}", with: "]}}").utf8).span) == .invalid)
        }
    }

    @Test("an invalid byte in a long string is found at any position")
    func longStrings() {
        for place in 0..<40 {
            var text = Array("\"".utf8) + [UInt8](repeating: 0x61, count: 40) + Array("\"".utf8)
            text[1 + place] = 0x0a
            #expect(JSONTextChecker.check(text.span) == .invalid)
            text[1 + place] = 0x20
            #expect(JSONTextChecker.check(text.span) == .validScalar)
        }
    }

    @Test("a text gives the same verdict when split at any position")
    func split() {
        RandomSchedules.run(500) {
            RandomJSON($0)
        } end: { random in
            let text = random.below(2) == 0 ? random.bent() : random.text()
            let whole = JSONTextChecker.check(text.span)
            for place in 0...text.count {
                let (first, rest) = (Array(text[..<place]), Array(text[place...]))
                var checker = JSONTextChecker()
                let isGood = checker.consume(first.span) && checker.consume(rest.span)
                try demand((isGood ? checker.finish() : .invalid) == whole, "\(String(decoding: text, as: UTF8.self)) at \(place)")
            }
        }
    }

    @Test("UTF-8 is validated as by Swift, for all two-byte prefixes")
    func everyStart() {
        for first in 0x80...0xff as ClosedRange<UInt8> {
            for second in 0x80...0xff as ClosedRange<UInt8> {
                for tail in [[], [0x80], [0xbf, 0x80], [0x80, 0x41], [0x80, 0x80, 0x80]] as [[UInt8]] {
                    let bytes = [first, second] + tail
                    let isText = String(validating: bytes, as: UTF8.self) != nil
                    let text = [0x22] + bytes + [0x22] as [UInt8]
                    #expect((JSONTextChecker.check(text.span) == .validScalar) == isText, "\(bytes)")
                }
            }
        }
    }
}
