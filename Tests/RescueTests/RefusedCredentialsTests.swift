// Tests that a client cannot get stored data by a failure that it provokes itself, after the upstream has refused its credentials.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Refused credentials", .play, .clientProtocols)
struct RefusedCredentialsTests {
    private static let own = [("Authorization", "Bearer 1")]
    private static let other = [("Authorization", "Bearer 2")]

    private func status(_ status: String, _ fields: [String] = []) -> ScriptedOrigin.Script {
        { _ in [.json("{\"error\":1}", status: status, fields)] }
    }

    @Test("after a 401, a rate limit, its pause and a slow response serve no stored response, until a good response to these credentials")
    func provoked() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        for fields in [Self.own, Self.other] {
            for target in ["/a", "/b"] { #expect(try play.get(target, fields).text == "{\"id\":1}") }
        }
        play.origin.react(status("401 Unauthorized"))
        #expect(try play.get("/a", Self.own).status == 401)
        play.origin.react(status("429 Too Many Requests", ["Retry-After: 5"]))
        #expect(try play.get("/b", Self.own).status == 429)
        #expect(try play.get("/b", Self.own).status >= 429, "a pause is no reason either")
        #expect(try play.get("/b", Self.other).status == 200)
        #expect(try play.get("/b", Self.own + [("Range", "bytes=0-1")]).status >= 429)
        play.time.advance(by: .seconds(10))
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get("/b", Self.own + [("Range", "bytes=0-1")]).status == 429)
        play.origin.react(status("503 Service Unavailable"))
        #expect(try play.get("/b", Self.own).status == 200, "the client cannot provoke a failure of the upstream")
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [.json("{\"id\":2}")] }
        #expect(try play.get("/a", Self.own).text == "{\"id\":2}")
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get("/a", Self.own).text == "{\"id\":2}")
    }

    @Test("after a 401, a slow response is awaited")
    func slow() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        #expect(try play.get("/a", Self.own).status == 200)
        play.origin.react(status("401 Unauthorized"))
        #expect(try play.get("/a", Self.own).status == 401)
        let (asked, gate) = (Gate(), Gate())
        play.origin.react { _ in [.open(asked), .pass(gate), .json("{\"error\":1}", status: "401 Unauthorized")] }
        let client = try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 1\r\n\r\n")
        asked.pass()
        play.time.advance(by: .seconds(20))
        gate.open()
        #expect(client.readResponse()?.status == 401)
    }
}
