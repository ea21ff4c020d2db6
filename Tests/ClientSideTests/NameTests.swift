// Tests of changes of the upstream's addresses in DNS while Cistern runs.

import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("The upstream's host name", .play, .upstreams)
struct NameTests {
    /// Addresses that a scripted name server returns; nil if it does not answer.
    private final class Server: Sendable {
        private let answer = Mutex<[NamedAddress]?>([])

        init(_ first: String) { say([first]) }

        func say(_ addresses: [String]?) { answer.withLock { $0 = addresses?.compactMap { NamedAddress($0) } } }

        var lookUp: NameLookUp { NameLookUp { [self] _ in answer.withLock { $0 } } }
    }

    private static func origin(_ name: String, beside other: ScriptedOrigin? = nil) -> ScriptedOrigin {
        ScriptedOrigin(beside: other) { [.json("\"\(name) \($0.target)\"")] }
    }

    private func play(_ server: Server, _ origin: ScriptedOrigin) throws -> ProxyPlay {
        try ProxyPlay(origin) { settings in
            settings.upstream.host = "localhost"
            settings.upstream.names = ResolvedNames(server.lookUp)
        }
    }

    private static func lookUps(_ result: String) -> String { "cistern_upstream_name_lookups_total{result=\"\(result)\"}" }
    private static let gone = "cistern_upstream_connections_ended_total{cause=\"address_gone\"}"

    @Test(
        "new connections use the current DNS answer, pooled ones end after two answers without their address, failures change nothing")
    func moved() throws {
        let first = Self.origin("first")
        let second = Self.origin("second", beside: first)
        let server = Server("127.0.0.1")
        let proxy = try play(server, first)
        #expect(try proxy.get("/1").text == "\"first /1\"")
        #expect(try proxy.waitFor(Self.lookUps("found"), 1))
        server.say(["127.0.0.2"])
        for answers in [2.0, 3, 4] {
            proxy.time.advance(by: .seconds(30))
            #expect(try proxy.waitFor(Self.lookUps("found"), answers))
            if answers < 4 { #expect(try proxy.get("/\(answers)").text.hasPrefix("\"first"), "the kept-alive connection stays in use") }
        }
        #expect(try proxy.waitFor(Self.gone, 1))
        #expect(try proxy.get("/5").text == "\"second /5\"")
        server.say(nil)
        proxy.time.advance(by: .seconds(30))
        #expect(try proxy.waitFor(Self.lookUps("failed"), 1))
        second.down()
        second.up()
        #expect(try proxy.get("/6").text == "\"second /6\"")
        #expect(try proxy.metric(Self.gone) == 1)
    }

    @Test("if one of several addresses is unreachable, the next is tried")
    func several() throws {
        let first = Self.origin("first")
        let second = Self.origin("second", beside: first)
        let server = Server("127.0.0.2")
        let proxy = try play(server, first)
        _ = try proxy.get("/1")
        #expect(try proxy.waitFor(Self.lookUps("found"), 1))
        server.say(["127.0.0.2", "127.0.0.1"])
        proxy.time.advance(by: .seconds(30))
        #expect(try proxy.waitFor(Self.lookUps("found"), 2))
        second.down()
        let client = try proxy.client()
        client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        // libcurl tries the next address by its own clock, but runs when the test's clock advances.
        while !client.hasInput(within: 10) { proxy.time.advance(by: .milliseconds(10)) }
        #expect(client.readResponse()?.text == "\"first /2\"")
    }
}
