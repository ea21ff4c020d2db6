// Whose requests these are, where a balancer or a proxy stands in front.

import Addresses
import Downstream
import ReverseProxy
import TestSupport
import Testing

@Suite("Whose requests these are", .play)
struct ClientAddressTests {
    /// Every client of the plays comes from here.
    static func local() throws -> NetworkList { NetworkList([try IPNetwork("127.0.0.0/8")]) }

    /// - Returns: a proxy with a plain listener, for the play itself, and one that takes the PROXY protocol.
    private func play(trusted: NetworkList, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: no-store"])] }) { settings in
            settings.listening.listeners.append(settings.listening.listeners[0])
            settings.listening.listeners[1].takesProxyHeader = true
            settings.downstream.trustedProxies = trusted
            configure(&settings)
        }
    }

    private func client(of play: ProxyPlay) throws -> TestClient { try TestClient(port: #require(play.ports.last)) }

    private static let block: [UInt8] =
        [0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x21, 0x11, 0, 12, 192, 0, 2, 7, 10, 0, 0, 1, 1, 1, 2, 2]

    @Test(
        "the upstream is told of the client that the PROXY protocol names, however it is cut",
        arguments: [
            (Array("PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n".utf8), "for=192.0.2.7;proto=http"), (block, "for=192.0.2.7;proto=http"),
            (Array("PROXY TCP6 2001:db8::7 ::1 4711 80\r\n".utf8), "for=\"[2001:db8::7]\";proto=http"),
            (Array("PROXY UNKNOWN\r\n".utf8), "for=127.0.0.1;proto=http"),
        ])
    func named(_ header: [UInt8], _ forwarded: String) throws {
        let play = try play(trusted: Self.local())
        let request = Array("GET /a HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        for pieces in [[header + request], [header, request], [Array(header.prefix(3)), Array(header.dropFirst(3)) + request]] {
            let client = try client(of: play)
            for piece in pieces { client.send(piece) }
            #expect(client.readResponse()?.text == "1")
            #expect(client.get("/a")?.text == "1", "the header is there once for all requests")
            #expect(play.origin.requests.suffix(2).allSatisfy { $0["Forwarded"] == forwarded })
        }
    }

    @Test(
        "a connection that does not begin with it is closed, and counted",
        arguments: ["GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "PROXY TCP4 192.0.2.7\r\n", "PROXY \(String(repeating: "x", count: 200))"])
    func missing(_ bytes: String) throws {
        let play = try play(trusted: Self.local())
        let client = try client(of: play)
        client.send(bytes)
        #expect(client.isClosedByServer())
        #expect(play.origin.requests.isEmpty)
        #expect(try play.metric("cistern_proxy_headers_refused_total") == 1)
    }

    @Test("it is taken from trusted proxies only, and in time")
    func untrusted() throws {
        let strangers = try play(trusted: NetworkList([try IPNetwork("10.0.0.0/8")]))
        let stranger = try client(of: strangers)
        stranger.send("PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(stranger.isClosedByServer() && strangers.origin.requests.isEmpty)
        let play = try play(trusted: Self.local())
        let slow = try client(of: play)
        slow.send("PROXY TCP4 192.0")
        #expect(try play.waitFor("cistern_connections", 2))
        play.time.advance(by: .seconds(11))
        #expect(slow.isClosedByServer())
    }

    @Test("connections are counted for the client that is named, and not for the balancer")
    func counted() throws {
        let play = try play(trusted: Self.local()) { $0.downstream.connectionsPerAddress = 2 }
        func named(_ address: String) throws -> TestClient {
            let client = try client(of: play)
            client.send("PROXY TCP4 \(address) 10.0.0.1 4711 80\r\n")
            return client
        }
        var clients = [try named("192.0.2.1"), try named("192.0.2.1"), try named("192.0.2.2")]
        for client in clients { #expect(client.get("/a")?.text == "1") }
        #expect(try named("192.0.2.1").isClosedByServer())
        clients.removeFirst()
        while try named("192.0.2.1").get("/a")?.text != "1" {}
    }
}
