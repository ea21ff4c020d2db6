// Tests of request IDs: how they are made, and which fields of a request carry one.

import Forwarding
import HTTPCore
import Testing

@Suite("Request IDs")
struct RequestIDTests {
    private func head(_ values: String...) -> RequestHead {
        var fields = Fields()
        for value in values { fields.append(.xRequestID, value) }
        return RequestHead(method: .get, target: Array("/".utf8)[...], version: .http11, fields: fields)
    }

    @Test("a client's request ID is used if it is safe for logs", arguments: ["a", "A-z.09_~+/=:-", String(repeating: "x", count: 128)])
    func own(value: String) { #expect(RequestID.own(head(value)).map { String(decoding: $0, as: UTF8.self) } == value) }

    @Test(
        "an unsafe client request ID is rejected",
        arguments: ["", String(repeating: "x", count: 129), "a b", "a,b", "a\"", "ü", "{1}", "a\u{1}", "a;b", "<a>"])
    func notOwn(value: String) { #expect(RequestID.own(head(value)) == nil) }

    @Test("a request ID is taken only from exactly one field")
    func several() {
        #expect(RequestID.own(head("a", "a")) == nil)
        #expect(RequestID.own(head()) == nil)
    }

    @Test("generated IDs are unique, also across shards, and valid as client IDs")
    func made() throws {
        var (one, other) = (RequestIDs(seed: 1), RequestIDs(seed: 2))
        var names: Set<[UInt8]> = []
        for _ in 0..<1_000 {
            let (first, second) = (one.number(head()), other.number(head("a b")))
            names.insert(try #require(one.name(of: first)))
            names.insert(try #require(other.name(of: second)))
        }
        #expect(names.count == 2_000)
        #expect(names.allSatisfy { RequestID.own(head(String(decoding: $0, as: UTF8.self))) != nil && $0.count == 32 })
        #expect(one.name(of: one.number(head("own"))) == Array("own".utf8))
        #expect(one.name(of: head()) == nil)
    }

    @Test("the second half of an ID does not reveal the request count")
    func secret() throws {
        // Equal numbers in two processes.
        let names = try (0..<2).map { _ in
            var ids = RequestIDs(seed: 1)
            return try #require(ids.name(of: ids.number(head())))
        }
        #expect(names[0].prefix(16) == names[1].prefix(16) && names[0].suffix(16) != names[1].suffix(16))
    }

    @Test("X-Request-Id lines are removed from a head in any case, and other lines stay")
    func removing() {
        let text = "HTTP/1.1 200 OK\r\nX-Request-Id: 1\r\nX-Request-Ids: 2\r\nx-request-id:3\r\nA: X-Request-Id: 4\r\n"
        let (head, plain) = (Array(text.utf8), Array("HTTP/1.1 200 OK\r\nA: b\r\n".utf8))
        let others = RequestID.removing(from: head.span)
        #expect(others.map { String(decoding: $0, as: UTF8.self) } == "HTTP/1.1 200 OK\r\nX-Request-Ids: 2\r\nA: X-Request-Id: 4\r\n")
        #expect(RequestID.removing(from: plain.span) == nil)
    }
}
