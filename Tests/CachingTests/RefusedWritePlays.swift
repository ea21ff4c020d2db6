// Tests of GraphQL mutations that the upstream refuses: they make stored responses stale, but do not take the rescues of other users away.

import CachePolicy
import HTTPCore
import ReverseProxy
import TestSupport
import Testing

@Suite("Refused GraphQL mutations", .play, .clientProtocols, .upstreams)
struct RefusedWritePlays {
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let content: String
        /// Whether stored responses remain for rescues.
        let isKept: Bool
        var isCompressed = false
        /// Whether the upstream closes the connection before the end of the content.
        var isCut = false
        var strictness = Strictness.rescue

        init(_ name: String, _ content: String, isKept: Bool, _ change: (inout Row) -> Void = { _ in }) {
            (testDescription, self.content, self.isKept) = (name, content, isKept)
            change(&self)
        }

        func steps() throws -> [OriginStep] {
            let bytes = isCompressed ? try TestContent.gzip(content) : Array(content.utf8)
            let coding = isCompressed ? "Content-Encoding: gzip\r\n" : ""
            let length = bytes.count + (isCut ? 9 : 0)
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\(coding)Content-Length: \(length)\r\n\r\n"
            return [.send(head), .sendBytes(bytes)] + (isCut ? [.cut] : [])
        }
    }

    private static let errors = "{\"errors\":[{\"message\":\"sign in\"}],\"data\":null}"
    private static let long = String(repeating: "x", count: 100_000)
    private static let rows = [
        Row("errors", errors, isKept: true),
        Row("compressed errors", errors, isKept: true) { $0.isCompressed = true },
        Row("errors longer than the examined part", "{\"errors\":[\"\(long)\"],\"data\":null}", isKept: true),
        Row("compressed long errors", "{\"errors\":[\"\(long)\"],\"data\":null}", isKept: true) { $0.isCompressed = true },
        Row("a batch of errors", "[\(errors),\(errors)]", isKept: true),
        Row("data", "{\"data\":{\"a\":1}}", isKept: false),
        Row("long data", "{\"data\":[\"\(long)\"],\"errors\":[{}]}", isKept: false),
        Row("errors of a part", "{\"errors\":[{}],\"data\":{\"a\":null}}", isKept: false),
        Row("errors of a part of a batch", "[\(errors),{\"data\":{\"a\":1}}]", isKept: false),
        Row("no content", "", isKept: false),
        Row("invalid JSON", "{\"errors\":[{}]", isKept: false),
        Row("truncated errors", "{\"errors\":[{}]", isKept: false) { $0.isCut = true },
        Row("errors, with policy strict", errors, isKept: false) { $0.strictness = .strict },
    ]

    @Test("a refused mutation makes the responses of all users stale, and any other one removes them", arguments: rows)
    func effect(row: Row) throws {
        let answer = try row.steps()
        let origin = ScriptedOrigin { request in
            String(decoding: request.content, as: UTF8.self).contains("mutation")
                ? answer : [.json("{\"data\":1}", ["Cache-Control: max-age=600, public"])]
        }
        let play = try ProxyPlay(origin) {
            var route = Route()
            (route.name, route.pattern, route.methods) = ("graphql", RoutePattern("/graphql"), [.post])
            $0.routes = [route]
            $0.policy.strictness = row.strictness
        }
        func ask(_ query: String, by user: String?) throws -> TestResponse {
            let fields = [("Content-Type", "application/json")] + (row.isCompressed ? [("Accept-Encoding", "gzip")] : [])
            return try play.request(
                "POST", "/graphql", fields + (user.map { [("Authorization", $0)] } ?? []), content: "{\"query\":\"\(query)\"}")
        }
        let users = ["alice", "bob"]
        for user in users {
            #expect(try ask("{ user }", by: user).status == 200)
            #expect(try ask("{ user }", by: user)["Cache-Status"]?.contains("; hit") == true)
        }
        play.time.advance(by: .milliseconds(5))
        let response = try? ask("mutation { x }", by: nil)
        if !row.isCut {
            #expect(response?.status == 200)
            #expect(try response?.content == (row.isCompressed ? TestContent.gzip(row.content) : Array(row.content.utf8)))
        }
        play.time.advance(by: .milliseconds(5))
        origin.down()
        for user in users {
            let rescued = try ask("{ user }", by: user)
            #expect((rescued.status == 200) == row.isKept, "\(user): \(rescued["Cache-Status"] ?? "")")
            // The response is no longer fresh.
            #expect(!row.isKept || rescued["Cache-Status"]?.contains("detail=") == true)
        }
        origin.up()
        play.time.advance(by: .seconds(60))
        #expect(try ask("{ user }", by: "alice")["Cache-Status"]?.contains("; hit") != true)
    }
}
