// Tests of JSON values, percent-encoding and dates of the administration interface.

import HTTPCore
import JSON
import Testing

@Suite("JSON values")
struct JSONValueTests {
    @Test(
        "a parsed value is serialized to the same text",
        arguments: [
            "null", "true", "-12", "\"a\"", "[]", "{}", "[1,[2,[]],{}]", #"{"a":{"b":[1,2.5,"x"]},"c":null}"#, #""\"\\\n\t\u0001äöü😀""#,
            "1e+300",
        ])
    func roundTrip(text: String) throws {
        let value = try #require(JSONValue(Array(text.utf8)))
        #expect(String(decoding: value.serialized(), as: UTF8.self) == text)
        #expect(JSONValue(value.serialized(depth: 0)) == value)
    }

    @Test("white space, escapes and surrogate pairs are parsed")
    func escapes() throws {
        let text = " { \"a\\u00e4\" : [ \"\\ud83d\\ude00\" , \"\\ud83d\" , \"\\ud83dx\\n\" , \"\\/\" ] } "
        let value = try #require(JSONValue(Array(text.utf8)))
        #expect(value["aä"] == ["😀", "\u{fffd}", "\u{fffd}x\n", "/"])
    }

    @Test("invalid JSON gives no value", arguments: ["", "{", "[1,]", "01", "nul", "\"a", "{\"a\":1}x", "\u{1}"])
    func invalid(text: String) { #expect(JSONValue(Array(text.utf8)) == nil) }

    @Test("percent-encoding is encoded and decoded, and invalid sequences are rejected")
    func percent() {
        #expect(PercentCoding.encode("a b/ä~") == "a%20b%2F%C3%A4~")
        #expect(PercentCoding.decode(Array("a%20b%2F%c3%a4+".utf8), plusIsSpace: false) == "a b/ä+")
        #expect(PercentCoding.decode(Array("a+b".utf8), plusIsSpace: true) == "a b")
        for bad in ["%", "%4", "%zz", "%ff"] { #expect(PercentCoding.decode(Array(bad.utf8), plusIsSpace: true) == nil) }
    }

    @Test(
        "RFC 3339 dates are formatted and parsed",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_125, "2000-02-29T00:00:00.125Z"), (1_763_706_600_000, "2025-11-21T06:30:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func dates(milliseconds: Int64, text: String) {
        #expect(RFC3339.format(milliseconds: milliseconds) == text)
        #expect(RFC3339.parse(text) == milliseconds)
    }

    @Test(
        "RFC 3339 dates with offsets and fractions are parsed, and invalid ones are rejected",
        arguments: [
            ("2026-11-21T08:30:00.5+02:00", 1_795_242_600_500), ("2026-11-21T06:30:00Z", 1_795_242_600_000), ("2026-11-21T06:30:00", nil),
            ("2026-13-21T06:30:00Z", nil), ("", nil), ("2026-11-21T06:30:00.123456Z", 1_795_242_600_123), ("2026-11-21T06:30:00+0200", nil),
        ] as [(String, Int64?)])
    func readDates(text: String, milliseconds: Int64?) { #expect(RFC3339.parse(text) == milliseconds) }
}
