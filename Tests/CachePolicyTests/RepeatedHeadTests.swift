// Tests of the comparison of response heads.

import CachePolicy
import HTTPCore
import Testing

@Suite("Repeated response heads")
struct RepeatedHeadTests {
    private func number(_ lines: [(String, String)], status: Status = 200, seed: UInt64 = 7) -> UInt64? {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        return RepeatedHead.number(of: ResponseHead(status: status, fields: fields), seed: seed)
    }

    private let head = [
        ("Date", "Sun, 15 Jun 2025 15:06:40 GMT"), ("Content-Type", "application/json"), ("X-Request-Id", "1"), ("X-Total", "5"),
        ("RateLimit-Remaining", "99"), ("x-ratelimit-reset", "1"),
    ]

    @Test("values that are new in each response make no difference")
    func equal() throws {
        let first = try #require(number(head))
        for (name, value) in [("Date", "Sun, 15 Jun 2025 15:06:41 GMT"), ("X-Request-Id", "2"), ("RateLimit-Remaining", "98")] {
            #expect(number(head.map { $0.0 == name ? (name, value) : $0 }) == first)
        }
        #expect(number(head + [("Server-Timing", "a;dur=1")]) == first)
    }

    @Test(
        "every other field, the status and the seed make a difference",
        arguments: [
            ("Content-Type", "text/json"), ("X-Total", "6"), ("Cache-Control", "no-store"), ("ETag", "\"a\""), ("Vary", "Origin"),
            ("Access-Control-Allow-Origin", "*"), ("X-Rat", "1"), ("Content-Length", "3"),
        ])
    func different(name: String, value: String) throws {
        let first = try #require(number(head))
        let isThere = head.contains { $0.0 == name }
        #expect(number(isThere ? head.map { $0.0 == name ? (name, value) : $0 } : head + [(name, value)]) != first)
        #expect(number(head, status: 304) != first)
        #expect(number(head, seed: 8) != first)
        #expect(number(head.reversed()) != first)
    }

    @Test(
        "a head with fields that are processed each time has no number",
        arguments: ["Age", "Expires", "Set-Cookie", "Authorization", "X-Auth-Token"])
    func processed(name: String) { #expect(number(head + [(name, "1")]) == nil) }
}
