// Tests of the canonical form: a table, and random texts compared with a reference implementation that builds a tree.

import HTTPCore
import JSON
import TestSupport
import Testing

@Suite("Canonical form of JSON")
struct CanonicalJSONTests {
    private func form(_ text: String) -> String? {
        CanonicalJSON.make(Array(text.utf8).span).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "equivalent texts have the same canonical form",
        arguments: [
            (" { \"b\" : 1 , \"a\" : [ 1.0 , 1e1 ] } ", "{\"a\":[1,10],\"b\":1}"),
            ("{\"a\":{\"d\":1,\"c\":{}},\"A\":[]}", "{\"A\":[],\"a\":{\"c\":{},\"d\":1}}"),
            ("\"\\u0041\\/\\u00e4\\n\"", "\"A/ä\\u000a\""), ("-0.0e5", "0"), ("1e400", "1e400"), ("0.1", "0.1"),
            ("12345678901234567890", "12345678901234567890"), ("[]", "[]"), ("{}", "{}"), ("\"\\ud83d\\ude00\"", "\"😀\""),
            ("[[],[[]],{}]", "[[],[[]],{}]"), ("null", "null"),
        ])
    func forms(text: String, expected: String) { #expect(form(text) == expected) }

    @Test(
        "an ambiguous or invalid text has no canonical form",
        arguments: [
            "", "{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":2,\"\\u0061\":3}", "[1,]", "\"\\ud800\"", "{\"\\udc00\":1}", "\u{feff}{}",
            String(repeating: "[", count: 65) + String(repeating: "]", count: 65),
            String(repeating: "[", count: 64) + "1" + String(repeating: "]", count: 64), "[1] 2",
        ])
    func none(text: String) { #expect(form(text) == nil) }

    @Test("numbers can keep their spelling")
    func numbersAsSpelled() {
        let form = CanonicalJSON.make(Array("{\"b\":1.0,\"a\":[ 1e0 , -0, true ]}".utf8).span, keepsNumbers: true)
        #expect(form.map { String(decoding: $0, as: UTF8.self) } == "{\"a\":[1e0,-0,true],\"b\":1.0}")
    }

    @Test("numbers that a double cannot distinguish have different forms")
    func largeNumbers() {
        #expect(form("9007199254740993") != form("9007199254740992"))
        #expect(form("0.1234567890123456") != form("0.1234567890123457"))
        // The second number is the double nearest to the first.
        #expect(form("1.23456789012345e18") != form("1234567890123450112") && form("1.23456789012345e18") != form("1234567890123449856"))
        // So small that a double has less precision.
        #expect(form("1.23456789012345e-320") != form("1.23456789012346e-320"))
    }

    @Test("the form of random texts equals that of the reference and is stable")
    func againstTree() {
        RandomSchedules.run(6_000) {
            RandomJSON($0)
        } end: { random in
            let text = random.below(3) == 0 ? random.bent() : random.text()
            let form = CanonicalJSON.make(text.span)
            try demand(form == TreeCanonicalForm.make(text), String(decoding: text, as: UTF8.self))
            if let form { try demand(CanonicalJSON.make(form.span) == form) }
        }
    }

    @Test("texts have equal digests exactly if they have equal canonical forms")
    func digests() {
        func digest(of text: [UInt8]) -> [UInt8]? {
            [.valid, .validScalar].contains(JSONTextChecker.check(text.span))
                ? CanonicalJSON.digest(ofChecked: text.span) { Array(copying: $0) } : nil
        }
        RandomSchedules.run(300) {
            RandomJSON($0)
        } end: { random in
            var forms: [[UInt8]: [UInt8]] = [:]
            var digests: [[UInt8]: [UInt8]] = [:]
            for _ in 0..<30 {
                let (text, other) = random.texts()
                for text in [text, other, random.bent()] {
                    let (form, digest) = (CanonicalJSON.make(text.span), digest(of: text))
                    try demand((form == nil) == (digest == nil), String(decoding: text, as: UTF8.self))
                    guard let form, let digest else { continue }
                    try demand(forms[digest, default: form] == form, String(decoding: text, as: UTF8.self))
                    try demand(digests[form, default: digest] == digest, String(decoding: text, as: UTF8.self))
                    (forms[digest], digests[form]) = (form, digest)
                }
            }
        }
    }

    @Test("invalid JSON is handled without a crash, even unchecked")
    func unchecked() {
        RandomSchedules.run(3_000) {
            RandomJSON($0)
        } end: { random in
            let text = random.bent()
            _ = CanonicalJSON.make(checked: text.span)
            _ = JSONPointer.found(JSONPointerTests.some, in: text.span)
        }
    }

    @Test("up to 65,536 members are sorted, and more have no canonical form")
    func members() throws {
        func text(_ count: Int) -> String { "{" + (0..<count).reversed().map { "\"\($0)\":\($0)" }.joined(separator: ",") + "}" }
        let sorted = (0..<65_536).map(String.init).sorted()
        #expect(form(text(65_536)) == "{" + sorted.map { "\"\($0)\":\($0)" }.joined(separator: ",") + "}")
        #expect(form(text(65_537)) == nil)
    }
}
