// Tables of recordings and requests, with the recorded response that each request gets.

import HTTPCore
import Testing

@testable import Archives

/// `METHOD target`, then fields as `name: value`, then content after an empty line.
enum Spelt {
    static func request(_ text: String, _ secrets: SecretRedaction, _ rules: ReplayRules = ReplayRules()) -> ReplayRequest {
        let parts = text.split(separator: "\n\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let lines = parts[0].split(separator: "\n").map(String.init)
        let words = lines[0].split(separator: " ").map { Array($0.utf8) }
        return ReplayRequest(
            method: words[0], target: words[1], fields: fields(lines.dropFirst()), content: parts.count > 1 ? Array(parts[1].utf8) : [],
            secrets, rules)
    }

    static func fields(_ lines: some Collection<String>) -> Fields {
        var fields = Fields()
        for line in lines {
            let colon = line.firstIndex(of: ":") ?? line.endIndex
            fields.append(name: String(line[..<colon]), value: String(line[line.index(after: colon)...].drop { $0 == " " }))
        }
        return fields
    }
}

struct ReplayRow: CustomTestStringConvertible {
    let sentence: String
    let recorded: [String]
    let order: ReplayOrder
    /// Requests in order, each with its decision.
    let steps: [(request: String, decision: ReplayDecision)]
    var vary = ""

    var testDescription: String { sentence }
}

private let json = "Content-Type: application/json"

@Suite("Selection of recorded responses")
struct ReplayTests {
    private let secrets = SecretRedaction(fields: ["x-tenant-key"], names: ["customer"])

    static let rows: [ReplayRow] = [
        ReplayRow(
            sentence: "requests are matched by method and target", recorded: ["GET /a", "POST /a", "GET /b"], order: .repeating,
            steps: [("GET /b", .serve(2)), ("POST /a", .serve(1)), ("GET /a", .serve(0))]),
        ReplayRow(
            sentence: "argument order and percent-encoding do not matter",
            recorded: ["GET /a?x=1&y=%41"], order: .repeating, steps: [("GET /a?y=A&x=1", .serve(0))]),
        ReplayRow(
            sentence: "several responses to one request are served in order, the last one repeatedly",
            recorded: ["GET /a", "GET /b", "GET /a"],
            order: .repeating, steps: [("GET /a", .serve(0)), ("GET /a", .serve(2)), ("GET /a", .serve(2)), ("GET /b", .serve(1))]),
        ReplayRow(
            sentence: "once: each response is served once", recorded: ["GET /a", "GET /a"], order: .once,
            steps: [("GET /a", .serve(0)), ("GET /a", .serve(1)), ("GET /a", .refuse(.usedUp(count: 2)))]),
        ReplayRow(
            sentence: "strict: the next request must be the next recorded one", recorded: ["GET /a", "GET /b"], order: .strict,
            steps: [
                ("GET /b", .refuse(.outOfOrder(next: 0))), ("GET /a", .serve(0)), ("GET /b", .serve(1)), ("GET /b", .refuse(.atEnd)),
            ]),
        ReplayRow(
            sentence: "JSON content is compared by value", recorded: ["POST /a\n\(json)\n\n{\"a\":1,\"b\":2}"], order: .repeating,
            steps: [
                ("POST /a\n\(json); charset=utf-8\n\n{\"b\": 2, \"a\": 1.0}", .serve(0)),
                ("POST /a\n\(json)\n\n{\"a\":2}", .refuse(.otherContent(nearest: [0]))),
            ]),
        ReplayRow(
            sentence: "any credential matches the recorded one",
            recorded: ["GET /a?api_key=REDACTED\nAuthorization: Bearer REDACTED"],
            order: .repeating, steps: [("GET /a?api_key=x\nAuthorization: Bearer y", .serve(0)), ("GET /a?api_key=z", .serve(0))]),
        ReplayRow(
            sentence: "any password, token or configured member in the content matches",
            recorded: ["POST /login?customer=REDACTED\n\(json)\n\n{\"user\":\"a\",\"password\":\"REDACTED\"}"], order: .repeating,
            steps: [
                ("POST /login?customer=7\n\(json)\n\n{\"user\":\"a\",\"password\":\"x\"}", .serve(0)),
                (
                    "POST /login?customer=7\n\(json)\n\n{\"user\":\"b\",\"password\":\"x\"}",
                    .refuse(.otherContent(nearest: [0]))
                ),
            ]),
        ReplayRow(
            sentence: "requests with and without credentials are matched separately",
            recorded: ["GET /me", "GET /me\nX-Tenant-Key: REDACTED"], order: .repeating,
            steps: [("GET /me\nX-Tenant-Key: t", .serve(1)), ("GET /me", .serve(0)), ("GET /me\nX-Tenant-Key: t", .serve(1))]),
        ReplayRow(
            sentence: "responses are selected by Vary", recorded: ["GET /a\nAccept-Language: de", "GET /a\nAccept-Language: fr"],
            order: .repeating,
            steps: [
                ("GET /a\nAccept-Language: fr", .serve(1)), ("GET /a\nAccept-Language: de", .serve(0)),
                ("GET /a\nAccept-Language: it", .serve(0)),
            ],
            vary: "Vary: Accept-Language, Accept-Encoding"),
        ReplayRow(
            sentence: "HEAD is answered with the GET response, unless a HEAD was recorded", recorded: ["GET /a", "HEAD /b", "GET /b"],
            order: .repeating,
            steps: [("HEAD /a", .serve(0)), ("HEAD /b", .serve(1))]),
        ReplayRow(
            sentence: "a recorded range matches only that range; other ranges get the whole response",
            recorded: ["GET /a\nRange: bytes=0-1", "GET /b"],
            order: .repeating,
            steps: [
                ("GET /a\nRange: bytes=0-1", .serve(0)), ("GET /b\nRange: bytes=0-1", .serve(1)),
                ("GET /a", .refuse(.otherContent(nearest: [0, 1]))),
            ]),
        ReplayRow(
            sentence: "strict: preflights are served at any time and repeatedly",
            recorded: ["POST /a", "OPTIONS /a\nAccess-Control-Request-Method: POST", "GET /b"], order: .strict,
            steps: [
                ("OPTIONS /a\nAccess-Control-Request-Method: POST", .serve(1)), ("POST /a", .serve(0)),
                ("OPTIONS /a\nAccess-Control-Request-Method: POST", .serve(1)), ("GET /b", .serve(2)), ("GET /b", .refuse(.atEnd)),
            ]),
        ReplayRow(
            sentence: "preflights are matched by the requested method",
            recorded: ["OPTIONS /a\nAccess-Control-Request-Method: GET", "OPTIONS /a\nAccess-Control-Request-Method: PUT"],
            order: .repeating,
            steps: [
                ("OPTIONS /a\nAccess-Control-Request-Method: PUT", .serve(1)),
                ("OPTIONS /a\nAccess-Control-Request-Method: GET", .serve(0)),
                ("OPTIONS /a\nAccess-Control-Request-Method: DELETE", .refuse(.otherContent(nearest: [0, 1]))),
            ]),
        ReplayRow(
            sentence: "the three nearest recordings are reported, the nearest first",
            recorded: ["DELETE /orders", "GET /users", "GET /users/1", "POST /users", "GET /x/y/z"], order: .repeating,
            steps: [("GET /userz", .refuse(.notRecorded(nearest: [1, 3, 2])))]),
    ]

    @Test("a sequence of requests gets the expected responses", arguments: rows)
    func steps(row: ReplayRow) {
        let vary = Spelt.fields(row.vary.isEmpty ? [] : [row.vary])
        var replay = Replay(row.recorded.map { (Spelt.request($0, secrets), vary) }, order: row.order)
        for step in row.steps { #expect(replay.respond(to: Spelt.request(step.request, secrets)) == step.decision) }
        let served = row.steps.count { if case .serve = $0.decision { true } else { false } }
        #expect(replay.served == served && replay.refused == row.steps.count - served)
    }

    @Test("recorded responses that were never requested are counted")
    func left() {
        var replay = Replay(["GET /a", "GET /b"].map { (Spelt.request($0, secrets), Fields()) }, order: .once)
        #expect(replay.unused == [0, 1])
        for _ in 0..<2 { _ = replay.respond(to: Spelt.request("GET /a", secrets)) }
        #expect(replay.unused == [1])
    }

    /// Number of recorded targets, length of their common prefix, and expected index of the nearest target.
    @Test(
        "the nearest recorded request is found with bounded effort, and different content is always recognized",
        arguments: [(1_000, 10, [999]), (200, 8_000, [0])])
    func nearestOfMany(count: Int, shared: Int, nearest: [Int]) {
        let path = "/" + String(repeating: "a", count: shared)
        let request = { (name: String, content: String) in
            ReplayRequest(
                method: Array("GET".utf8), target: Array("\(path)/\(name)".utf8), fields: Fields(), content: Array(content.utf8), secrets)
        }
        let recorded = (0..<count).map { request($0 == count - 1 ? "wanted" : "b\($0)", "") }
        var replay = Replay(recorded.map { ($0, Fields()) }, order: .repeating)
        guard case .refuse(.notRecorded(let found)) = replay.respond(to: request("wantee", "")) else {
            Issue.record("the request matches a recording")
            return
        }
        #expect(Array(found.prefix(1)) == nearest)
        // A request that differs only in its content is found at any position.
        if case .refuse(.otherContent) = replay.respond(to: request("wanted", "{}")) {
        } else {
            Issue.record("its other content was overlooked")
        }
    }

    @Test("unknown request content matches any content, and an exact match takes precedence")
    func unknownContent() {
        let unknown = ReplayRequest(method: Array("POST".utf8), target: Array("/a".utf8), fields: Fields(), content: nil, secrets)
        let known = Spelt.request("POST /a\n\(json)\n\n{\"a\":1}", secrets)
        for order in [ReplayOrder.repeating, .strict] {
            var replay = Replay([(unknown, Fields()), (known, Fields())], order: order)
            #expect(replay.respond(to: Spelt.request("POST /a\n\(json)\n\n{\"a\":2}", secrets)) == .serve(0))
            #expect(replay.respond(to: known) == .serve(1))
        }
    }

    @Test("a preflight that was never requested does not count as unused", arguments: [ReplayOrder.repeating, .once, .strict])
    func unusedPreflight(order: ReplayOrder) {
        var replay = Replay(
            ["GET /a", "OPTIONS /a\nAccess-Control-Request-Method: PUT"].map { (Spelt.request($0, secrets), Fields()) }, order: order)
        _ = replay.respond(to: Spelt.request("GET /a", secrets))
        #expect(replay.unused == [])
    }

    @Test("where another variant must not be served, a request with other values of Vary's fields is refused")
    func otherVariant() {
        let recorded = (Spelt.request("GET /a\nAccept-Language: de", secrets), Spelt.fields(["Vary: Accept-Language"]))
        var replay = Replay([recorded], order: .repeating, needsVariant: true)
        #expect(replay.respond(to: Spelt.request("GET /a\nAccept-Language: fr", secrets)) == .refuse(.otherVariant(nearest: [0])))
        #expect(replay.respond(to: Spelt.request("GET /a\nAccept-Language: de\nCookie: a", secrets)) == .serve(0))
        #expect(replay.reportText.contains("GET /a (other variant; GET /a differs in its fields)"))
    }

    @Test("a refusal names the nearest recorded requests and shows no secret")
    func sentences() {
        let replay = Replay(["GET /users?token=REDACTED", "GET /b"].map { (Spelt.request($0, secrets), Fields()) }, order: .repeating)
        let request = Spelt.request("GET /user?token=mine", secrets)
        let sentence = replay.sentence(.notRecorded(nearest: [0, 1]), to: request, nil)
        #expect(
            sentence
                == "GET /user?token=REDACTED was not recorded. The most similar recorded requests are GET /users?token=REDACTED and GET /b."
        )
        let problem = String(
            decoding: replay.problem(
                .outOfOrder(next: 1), status: 404, replay.sentence(.outOfOrder(next: 1), to: request, nil)), as: UTF8.self)
        #expect(problem.contains("In strict order the next request must be GET /b, number 2 of 2, not GET /user?token=REDACTED."))
        #expect(problem.contains("\"target\": \"/b\"") && !problem.contains("mine"))
    }
}
