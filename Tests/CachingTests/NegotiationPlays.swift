// Tests of upstreams that select a representation by Accept, Accept-Charset or Accept-Language, and name none of them in Vary. Each client
// gets the representation that it would get without Cistern, as long as the upstream responds.

import CachePolicy
import ReverseProxy
import TestSupport
import Testing

@Suite("Content negotiation without Vary", .play, .http1Protocols)
struct NegotiationPlays {
    static let fields = ["Accept", "Accept-Charset", "Accept-Language", "CF-IPCountry", "X-Requested-With"]
    private static let values = ["application/vnd.v1+json", "application/vnd.v2+json"]

    /// Responds with the value of the field, and confirms every conditional request.
    private func negotiating(by field: String, _ fields: [String], before gate: Gate? = nil) -> ScriptedOrigin {
        ScriptedOrigin { request in
            if request["If-None-Match"] != nil || request["If-Modified-Since"] != nil {
                return [.send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
            }
            let response = OriginStep.json("\"\(request[field] ?? "-")\"", fields)
            return gate.map { [.pass($0), response] } ?? [response]
        }
    }

    /// Sends a request for `/a` with these field lines over a new connection.
    private func start(_ play: ProxyPlay, _ lines: String) throws -> TestClient {
        return try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\n\(lines)\r\n\r\n")
    }

    /// Validators that many upstreams give to all representations of a row. The date is long ago.
    static let weak = [["Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT"], ["ETag: W/\"row-7\""]]

    @Test("a validator that other representations may share confirms a response only for an equal request", arguments: fields, weak)
    func validators(field: String, sent: [String]) throws {
        let play = try ProxyPlay(negotiating(by: field, sent))
        for value in Self.values + Self.values { #expect(try play.get("/a", [(field, value)]).text == "\"\(value)\"") }
        #expect(!play.origin.requests.contains { $0["If-None-Match"] != nil || $0["If-Modified-Since"] != nil })
        #expect(try play.get("/a", [(field, Self.values[1])]).text == "\"\(Self.values[1])\"")
        #expect(play.origin.requests.last.map { $0["If-None-Match"] ?? $0["If-Modified-Since"] } != nil)
    }

    @Test("a strong entity tag confirms a response for any request")
    func strongTag() throws {
        let play = try ProxyPlay(negotiating(by: "Accept", ["ETag: \"1\""]))
        for value in Self.values { _ = try play.get("/a", [("Accept", value)]) }
        #expect(play.origin.requests.map { $0["If-None-Match"] } == [nil, "\"1\""])
    }

    @Test("requests with other values do not wait for each other, and equal ones do", arguments: fields)
    func concurrent(field: String) throws {
        let gate = Gate()
        let play = try ProxyPlay(negotiating(by: field, [], before: gate))
        let clients = try (Self.values + Self.values).map { value in
            (try start(play, "\(field): \(value)"), value)
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        gate.open()
        for (client, value) in clients { #expect(client.readResponse()?.text == "\"\(value)\"") }
        // The second response may have replaced the first before its follower reads it.
        #expect((2...3).contains(play.origin.requests.count))
    }

    @Test("requests with other values share the fetch of a response that declared a lifetime")
    func declared() throws {
        let gate = Gate()
        let play = try ProxyPlay(negotiating(by: "Accept", ["Cache-Control: max-age=60"], before: gate))
        gate.open()
        _ = try play.get("/a", [("Accept", Self.values[0])])
        play.time.advance(by: .seconds(100))
        let second = Gate()
        play.origin.react { _ in [.pass(second), .json("2", ["Cache-Control: max-age=60"])] }
        let clients = try Self.values.map { try start(play, "Accept: \($0)") }
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        second.open()
        for client in clients { #expect(client.readResponse()?.text == "2") }
        #expect(play.origin.requests.count == 2)
    }

    @Test("requests that differ in Accept-Encoding or in ignored credentials share a fetch and its validators")
    func shared() throws {
        let gate = Gate()
        let play = try ProxyPlay(negotiating(by: "Accept", Self.weak[0], before: gate)) { $0.otherRoute.credentials.areIgnored = true }
        for round in 1...2 {
            let clients = try (0..<4).map { try start(play, "Accept-Encoding: x\($0)\r\nAuthorization: Bearer \($0)") }
            if round == 1 { #expect(try play.waitFor("cistern_collapsed_waiting", 3)) }
            gate.open()
            for client in clients { #expect(client.readResponse()?.text == "\"-\"") }
        }
        let requests = play.origin.requests
        #expect(requests.count == requests.count { $0["If-Modified-Since"] != nil } + 1)
    }

    @Test("a flight that confirms the response of a request with other values serves its followers", arguments: ["ETag: \"1\"", "X: 1"])
    func confirmed(sent: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", [sent])] })
        _ = try play.get("/a", [("Accept", Self.values[0])])
        for round in 1...2 {
            let gate = Gate()
            play.origin.react { request in
                [.pass(gate), request["If-None-Match"] == nil ? .json("1", [sent]) : .send("HTTP/1.1 304 Not Modified\r\n\(sent)\r\n\r\n")]
            }
            let clients = try (0..<4).map { _ in try start(play, "Accept: \(Self.values[1])") }
            #expect(try play.waitFor("cistern_collapsed_waiting", 3))
            gate.open()
            for client in clients { #expect(client.readResponse()?.text == "1") }
            #expect(play.origin.requests.count == 1 + round)
        }
    }

    @Test("a slow upstream is given more time if only another representation is stored; a failing one is not", arguments: fields)
    func slow(field: String) throws {
        let gate = Gate()
        let play = try ProxyPlay(negotiating(by: field, [])) { $0.otherRoute.rescueAfter = 500 }
        _ = try play.get("/a", [(field, Self.values[0])])
        play.origin.react { request in [.pass(gate), .json("\"\(request[field] ?? "-")\"")] }
        let clients = try Self.values.map { try start(play, "\(field): \($0)") }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        play.time.advance(by: .milliseconds(600))
        #expect(clients[0].readResponse()?.text == "\"\(Self.values[0])\"")
        #expect(!clients[1].hasInput(within: 20))
        gate.open()
        #expect(clients[1].readResponse()?.text == "\"\(Self.values[1])\"")
        play.origin.down()
        #expect(try play.get("/a", [(field, "other")]).status == 200)
    }
}
