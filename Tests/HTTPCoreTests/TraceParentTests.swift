// Tests of traceparent (W3C Trace Context, level 2, §3.2.2): valid and invalid values.

import HTTPCore
import Testing

@Suite("traceparent")
struct TraceParentTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let span = "00f067aa0ba902b7"

    private func read(_ values: String...) -> TraceParent? {
        var fields = Fields()
        for value in values { fields.append(.traceparent, Array(value.utf8).span) }
        return TraceParent(fields)
    }

    @Test(
        "trace, span and sampling flag are parsed, and unknown flags are not forwarded",
        arguments: [("00", false), ("01", true), ("02", false), ("03", true), ("ff", true)])
    func fieldsParsed(flags: String, isSampled: Bool) throws {
        let parent = try #require(read("00-\(Self.trace)-\(Self.span)-\(flags)"))
        #expect(parent.trace.text == Self.trace && parent.span.hexDigits == Self.span && parent.isSampled == isSampled)
        // Unknown flags are not forwarded.
        #expect(String(decoding: parent.bytes, as: UTF8.self) == "00-\(Self.trace)-\(Self.span)-\(flags == "ff" ? "03" : flags)")
    }

    @Test("later versions are parsed as far as known, and their additional fields are ignored")
    func later() {
        #expect(read("cc-\(Self.trace)-\(Self.span)-01")?.isSampled == true)
        #expect(read("cc-\(Self.trace)-\(Self.span)-01-what-else")?.isSampled == true)
        #expect(read("cc-\(Self.trace)-\(Self.span)-01.what") == nil)
    }

    @Test(
        "an invalid traceparent is ignored",
        arguments: [
            "", "00", "ff-\(trace)-\(span)-01", "00-\(trace)-\(span)-01-more", "00-\(trace)-\(span)-1", "00-\(trace)-\(span)_01",
            "00-00000000000000000000000000000000-\(span)-01", "00-\(trace)-0000000000000000-01", "00-\(trace.uppercased())-\(span)-01",
            "00-\(trace)-\(span)-0x", "00-\(trace)\(span)--01", "0x-\(trace)-\(span)-01",
        ])
    func malformed(value: String) { #expect(read(value) == nil) }

    @Test("two traceparent fields are ignored")
    func twice() { #expect(read("00-\(Self.trace)-\(Self.span)-01", "00-\(Self.trace)-\(Self.span)-01") == nil) }
}
