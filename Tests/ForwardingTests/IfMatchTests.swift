// Tests which entity tags in If-Match are forwarded. This depends on the known tag of the target.

import HTTPCore
import Testing

@testable import Forwarding

@Suite("If-Match for the upstream")
struct IfMatchTests {
    private static let (own, other) = ("W/\"0123456789abcdef0123456789abcdef\"", "W/\"ffffffffffffffffffffffffffffffff\"")

    private static func upstream(_ tag: String) -> KnownTag { .upstream(Array(tag.utf8)) }
    private static let stored = KnownTag.own(Array(own.utf8))
    private static let (weak, strong) = (KnownTag.unknown(sendsWeakTags: true), KnownTag.unknown(sendsWeakTags: false))

    private static let rows: [(known: KnownTag, lines: [String], expected: [String])] = [
        // A strong tag of the upstream that Cistern weakened.
        (upstream("\"x\""), ["W/\"x\""], ["\"x\""]), (upstream("\"x\""), ["\"x\""], ["\"x\""]), (upstream("\"x\""), ["*"], ["*"]),
        (upstream("\"x\""), ["\"a,W/\" , W/\"x\"", "W/\"y\""], ["\"a,W/\", \"x\", W/\"y\""]),
        // A weak tag of the upstream, no tag, and a tag of another version.
        (upstream("W/\"x\""), ["W/\"x\""], ["W/\"x\""]), (upstream("W/\"x\""), ["W/\"y\" ,\"x\""], ["W/\"y\" ,\"x\""]),
        (upstream(""), ["W/\"x\"", "\"y\""], ["W/\"x\"", "\"y\""]), (upstream("\"x\""), ["W/\"y\""], ["W/\"y\""]),
        // A tag that Cistern made, of this version and of another one.
        (stored, [own], []), (stored, [String(own.dropFirst(2))], []), (stored, ["\"x\", \(own)"], []), (stored, [other], [other]),
        (stored, ["\"x\"", other], ["\"x\"", other]), (stored, ["*"], ["*"]), (stored, ["W/\"x\""], ["W/\"x\""]),
        // No stored response.
        (strong, ["W/\"x\""], ["\"x\""]), (strong, ["\"a,W/\" , W/\"x\""], ["\"a,W/\", \"x\""]), (strong, ["*"], ["*"]),
        (weak, ["W/\"x\" ,  \"y\""], ["W/\"x\" ,  \"y\""]), (weak, [own], [own]),
        // Values that are no lists of tags.
        (strong, ["W/"], ["W/"]), (stored, [""], [""]), (weak, [""], [""]), (upstream("\""), ["W/\""], ["\""]),
    ]

    @Test("tags are forwarded in the form that the upstream knows", arguments: rows)
    func forwarded(_ row: (known: KnownTag, lines: [String], expected: [String])) {
        var fields = Fields()
        for line in row.lines { fields.append(name: "If-Match", value: line) }
        fields.translateIfMatch(row.known)
        #expect(fields.all(.ifMatch).map { String(decoding: $0, as: UTF8.self) } == row.expected)
    }
}
