// Table of the decision whether a long response is forwarded while it is collected. Without sockets.

import CachePolicy
import Decisions
import HTTPCore
import Testing

@Suite("Forwarding long responses")
struct LongResponseTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let isForwarded: Bool
        var purpose = CollectedFor.store
        var coding = ""
        var sent: [(String, String)] = []
        var mayRescue = false
        var hasOtherRescue = false

        init(_ name: String, _ isForwarded: Bool, _ change: (inout Row) -> Void = { _ in }) {
            (testDescription, self.isForwarded) = (name, isForwarded)
            change(&self)
        }
    }

    private static let rows: [Row] = [
        Row("to be stored, and nothing can replace it", true),
        Row("a stored response may be served instead", false) { $0.mayRescue = true },
        Row("a response stored without credentials may be served instead", false) { $0.hasOtherRescue = true },
        Row("checked for a rescue only", false) { ($0.purpose, $0.mayRescue) = (.check(.noStore), true) },
        Row("the resource is gone", false) { $0.purpose = .gone(.status) },
        Row("the client may get a 304 by its tag", false) { $0.sent = [("If-None-Match", "\"1\"")] },
        Row("the client may get a 304 by its date", false) { $0.sent = [("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")] },
        Row("in a coding that the client accepts", true) { ($0.coding, $0.sent) = ("gzip", [("Accept-Encoding", "br, gzip")]) },
        Row("in a coding that the client does not accept", false) { ($0.coding, $0.sent) = ("gzip", [("Accept-Encoding", "br")]) },
        Row("in a coding that cannot be decoded", false) { ($0.coding, $0.sent) = ("x-own", [("Accept-Encoding", "x-own")]) },
    ]

    @Test("a long response is forwarded unless its end determines what the client receives", arguments: rows)
    func decision(_ row: Row) {
        var (fields, sent) = (Fields(), Fields())
        if !row.coding.isEmpty { fields.append(name: "Content-Encoding", value: row.coding) }
        for (name, value) in row.sent { sent.append(name: name, value: value) }
        let request = RequestHead(method: .get, target: Array("/a".utf8)[...], version: .http11, fields: sent)
        let response = ResponseHead(status: 200, reason: [], fields: fields)
        #expect(
            row.purpose.isForwarded(response, to: request, mayRescue: row.mayRescue) { row.hasOtherRescue } == row.isForwarded)
    }
}
