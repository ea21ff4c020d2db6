// Tests of what a confirmation changes in a stored response.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Changes by confirmations (RFC 9111 §4.3.4)")
struct ConfirmationChangeTests {
    private static func stored(_ lines: [(String, String)], status: Status = 200, at seconds: Int64 = 1_795_000_000) -> (
        head: [UInt8], metadata: StoredMetadata
    ) {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name, value: value) }
        fields.append(name: "Date", value: String(decoding: HTTPDate.format(seconds), as: UTF8.self))
        let head = ResponseHead(status: status, fields: fields)
        let time = Timestamp(seconds: seconds)
        let received = ReceivedResponse(
            head, control: ResponseCacheControl(fields, targeted: []), contentBytes: Int(seconds % 10), requestTime: time,
            responseTime: time)
        let made = StoredHead.make(received, settings: CachePolicySettings())
        return (made.bytes, made.metadata)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        var before: [(String, String)] = []
        let after: [(String, String)]
        let change: ConfirmationChange
        var strictly: ConfirmationChange?
        var testDescription: String { name }
    }

    @Test(
        "the change of a confirmation decides when it is written",
        arguments: [
            Row(name: "nothing but the times", before: [("A", "1")], after: [("A", "1")], change: .times),
            Row(
                name: "an identifier of the exchange", before: [("X-Request-ID", "1"), ("A", "1")],
                after: [("X-Request-ID", "22"), ("A", "1")], change: .times, strictly: .fields),
            Row(
                name: "another order of fields", before: [("A", "1"), ("B", "2"), ("X-Runtime", "1")],
                after: [("X-Runtime", "2"), ("B", "2"), ("A", "1")], change: .times, strictly: .fields),
            Row(name: "a digest of the content as received", before: [("Digest", "1")], after: [("Digest", "2")], change: .times),
            Row(name: "another field", before: [("A", "1")], after: [("A", "2")], change: .fields),
            Row(name: "a new field", before: [("A", "1")], after: [("A", "1"), ("B", "2")], change: .fields),
            Row(name: "a missing field", before: [("A", "1"), ("B", "2")], after: [("B", "2")], change: .fields),
            Row(name: "a second line", before: [("A", "1")], after: [("A", "1"), ("A", "1")], change: .fields),
            Row(name: "another name of equal length", before: [("A", "1")], after: [("B", "1")], change: .fields),
            Row(name: "no-cache", after: [("Cache-Control", "no-cache")], change: .rules),
            Row(name: "an unknown directive", after: [("Cache-Control", "x=1")], change: .rules),
            Row(name: "a lifetime", after: [("Cache-Control", "max-age=9")], change: .rules),
            Row(name: "a rescue limit", after: [("Cache-Control", "stale-if-error=9")], change: .rules),
            Row(name: "Vary", before: [("Vary", "a")], after: [("vary", "a, b")], change: .rules),
            Row(name: "a tag", before: [("Cache-Tag", "a")], after: [("Cache-Tag", "b")], change: .rules),
            Row(name: "No-Vary-Search", after: [("No-Vary-Search", "params")], change: .rules),
        ])
    func change(_ row: Row) {
        let (one, other) = (Self.stored(row.before), Self.stored(row.after, at: 1_795_000_777))
        for (strictness, expected) in [(Strictness.rescue, row.change), (.strict, row.strictly ?? row.change)] {
            let change = ConfirmationChange(from: one.metadata, one.head.span, to: other.metadata, other.head.span, strictness: strictness)
            #expect(change == expected, "\(strictness)")
        }
    }

    @Test("another status is another response")
    func status() {
        let (one, other) = (Self.stored([]), Self.stored([], status: 203))
        #expect(
            ConfirmationChange(from: one.metadata, one.head.span, to: other.metadata, other.head.span, strictness: .rescue) == .rules)
    }
}
