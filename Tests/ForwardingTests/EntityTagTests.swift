// Tests which entity tags of clients are forwarded, and in which form.

import HTTPCore
import Testing

@testable import Forwarding

@Suite("Entity tags for the upstream")
struct EntityTagTests {
    private static let own = "W/\"cistern~0123456789abcdef0123456789abcdef\""
    private static let former = "W/\"0123456789abcdef0123456789abcdef\""

    /// Values of If-Match and of If-None-Match that are forwarded; nil: the field is removed.
    private static let rows: [(lines: [String], match: [String], noneMatch: [String])] = [
        // A strong tag that Cistern weakened.
        (["W/\"x~cistern\""], ["\"x\""], ["\"x\""]), (["W/\"~cistern\""], ["\"\""], ["\"\""]),
        (["\"a,W/\" , W/\"x~cistern\"", "W/\"y\""], ["\"a,W/\", \"x\", W/\"y\""], ["\"a,W/\", \"x\", W/\"y\""]),
        // Tags of the upstream, also with the form of a changed one.
        (["W/\"x\" ,\"y\""], ["W/\"x\" ,\"y\""], ["W/\"x\" ,\"y\""]), (["\"x~cistern\""], ["\"x~cistern\""], ["\"x~cistern\""]),
        (["W/\"x~cistern~cistern\""], ["\"x~cistern\""], ["\"x~cistern\""]),
        (["W/\"x~cistern-\""], ["W/\"x~cistern-\""], ["W/\"x~cistern-\""]),
        // A tag that Cistern made, also without W/.
        ([own], [], [own]), ([String(own.dropFirst(2))], [], [String(own.dropFirst(2))]),
        (["\"x\", \(own)"], ["\"x\""], ["\"x\", \(own)"]), ([own, "W/\"x~cistern\""], ["\"x\""], ["\(own), \"x\""]),
        (["\"cistern~1\""], ["\"cistern~1\""], ["\"cistern~1\""]), (["W/\"cistern~\""], ["W/\"cistern~\""], ["W/\"cistern~\""]),
        // A tag that an earlier version made.
        ([former], [former], [former]),
        // Values that are no lists of tags.
        (["*"], ["*"], ["*"]), (["W/"], ["W/"], ["W/"]), ([""], [""], [""]), (["~cistern\""], ["~cistern\""], ["~cistern\""]),
        (["W/~cistern\""], ["W/~cistern\""], ["W/~cistern\""]),
    ]

    @Test("tags in preconditions are forwarded in the form that the upstream knows, and those in If-Range unchanged", arguments: rows)
    func forwarded(_ row: (lines: [String], match: [String], noneMatch: [String])) {
        for (field, expected) in [(KnownField.ifMatch, row.match), (.ifNoneMatch, row.noneMatch), (.ifRange, row.lines)] {
            var fields = Fields()
            for line in row.lines { fields.append(field, line) }
            fields.translateTags(in: .ifMatch)
            fields.translateTags(in: .ifNoneMatch)
            #expect(fields.all(field).map { String(decoding: $0, as: UTF8.self) } == expected, "\(field)")
        }
    }

    @Test("a weakened tag is weak and leads back to the upstream's tag", arguments: ["\"x\"", "\"\"", "\"x~cistern\"", "\"cistern~x\""])
    func weakened(tag: String) {
        var weakened: [UInt8] = []
        EntityTag.appendWeakened(Array(tag.utf8).span, to: &weakened)
        #expect(String(decoding: weakened, as: UTF8.self) == "W/\(tag.dropLast())~cistern\"")
        #expect(Array(EntityTag.upstream(weakened[...])) == Array(tag.utf8))
    }

    @Test(
        "a 304 of the upstream has the tag that the client presented",
        arguments: [
            ("W/\"x~cistern\"", 304, "W/\"x~cistern\""), ("\"y\" ,W/\"x~cistern\"", 304, "W/\"x~cistern\""), ("\"x\"", 304, "\"x\""),
            ("W/\"x\"", 304, "\"x\""), ("W/\"x~cistern\"", 200, "\"x\""), ("*", 304, "\"x\""),
        ])
    func notModified(presented: String, status: UInt16, expected: String) {
        var (request, response) = (Fields(), ResponseHead(status: Status(rawValue: status)))
        request.append(.ifNoneMatch, presented)
        response.fields.append(.etag, "\"x\"")
        #expect(response.withTag(knownTo: request).fields.all(.etag).map { String(decoding: $0, as: UTF8.self) } == [expected])
    }
}
