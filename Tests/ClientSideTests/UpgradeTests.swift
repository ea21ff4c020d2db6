// Tests of protocol upgrades: permitted upgrades, bytes in both directions, and ends.

import CachePolicy
import HTTPCore
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Protocol upgrades", .play, .http1Protocols)
struct UpgradeTests {
    private func play(
        _ upgrades: [String] = ["websocket"], _ configure: @escaping (inout ProxySettings) -> Void = { _ in },
        _ script: @escaping ScriptedOrigin.Script
    ) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin(script)) { settings in
            var route = Route()
            (route.name, route.upgrades) = ("ws", upgrades.map { Array($0.utf8) })
            route.pattern = .init("/ws/**")
            settings.routes = [route]
            configure(&settings)
        }
    }

    private static let request = [
        "GET /ws/a HTTP/1.1", "Host: a", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Key: k",
        "Sec-WebSocket-Version: 13",
        "", "",
    ].joined(separator: "\r\n")
    private static let accepted = OriginStep.send(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")

    private func read(_ count: Int, from client: TestClient) -> String { String(decoding: client.read(count), as: UTF8.self) }

    @Test("an allowed upgrade gets 101 and forwards bytes both ways, including early ones, until the upstream closes")
    func tunnel() throws {
        let play = try play { _ in [Self.accepted, .send("hello"), .echo] }
        let client = try play.client(sending: Self.request + "early")
        let head = try #require(client.readResponseHead())
        #expect(
            head.status == 101 && head["Upgrade"] == "websocket" && head["Connection"] == "Upgrade" && head["Sec-WebSocket-Accept"] == "x")
        #expect(read(10, from: client) == "helloearly")
        for word in ["one", "two", String(repeating: "x", count: 300_000)] {
            client.send(word)
            #expect(read(word.utf8.count, from: client) == word)
        }
        let sent = try #require(play.origin.requests.first)
        #expect(sent["Upgrade"] == "WebSocket" && sent["Connection"] == "Upgrade" && sent["Sec-WebSocket-Key"] == "k")
        #expect(try play.metric("cistern_streams") == 1)
        // The client closes its side: the echo ends, and the tunnel with it.
        client.finishSending()
        #expect(client.readToEnd().isEmpty)
        #expect(try play.waitFor("cistern_streams", 0))
        #expect(try play.metric("cistern_requests_total{result=\"bypass\",method=\"GET\",status_class=\"1xx\"}") == 1)
    }

    @Test(
        "a path that a server may interpret differently is not upgraded",
        arguments: ["/ws/../other", "/ws/..%2fother", "/ws/..;/other", "/ws/x%5c..%5c..%5cother", "/z/a%5cb/../../ws/a"])
    func spelled(_ target: String) throws {
        let play = try play { _ in [.json("1")] }
        let client = try play.client(sending: Self.request.replacing("/ws/a", with: target))
        #expect(client.readResponse()?.status == 200)
        #expect(play.origin.requests.first?["Upgrade"] == nil)
    }

    @Test("a client disconnect closes the tunnel, and so does the idle timeout")
    func ends() throws {
        let play = try play { _ in [Self.accepted, .hang] }
        do {
            let gone = try play.client(sending: Self.request)
            #expect(gone.readResponseHead()?.status == 101)
            gone.endsWithReset()
        }
        #expect(try play.waitFor("cistern_streams", 0))
        let idle = try play.client(sending: Self.request)
        #expect(idle.readResponseHead()?.status == 101)
        #expect(try play.waitFor("cistern_streams", 1))
        play.time.advance(by: .seconds(301))
        _ = idle.readToEnd()
        #expect(try play.waitFor("cistern_streams", 0))
    }

    @Test("traffic in one direction keeps the tunnel open")
    func oneWay() throws {
        let play = try play { _ in [Self.accepted, .hang] }
        let client = try play.client(sending: Self.request)
        #expect(client.readResponseHead()?.status == 101)
        for count in 1...4 {
            play.time.advance(by: .seconds(100))
            client.send("still here")
            #expect(try play.waitFor("cistern_request_bytes_total", Double(count * 10)))
        }
        #expect(try play.metric("cistern_streams") == 1)
    }

    @Test("a refused upgrade gets the upstream's response, and the connection continues")
    func declined() throws {
        let play = try play { _ in [.json("\"no\"", status: "403 Forbidden")] }
        let client = try play.client(sending: Self.request)
        let response = try #require(client.readResponse())
        #expect(response.status == 403 && response.text == "\"no\"")
        #expect(client.get("/b")?.status == 403)
    }

    @Test(
        "an upgrade that the route does not allow is forwarded without the Upgrade field",
        arguments: [
            ("/other", "websocket", "Upgrade", "HTTP/1.1"), ("/ws/a", "h2c", "Upgrade", "HTTP/1.1"),
            ("/ws/a", "websocket", "close", "HTTP/1.1"),
            ("/ws/a", "websocket", "Upgrade", "HTTP/1.0"),
        ])
    func notLetThrough(_ path: String, _ offered: String, _ connection: String, _ version: String) throws {
        let play = try play { _ in [.json("1")] }
        let client = try play.client()
        client.send("GET \(path) \(version)\r\nHost: a\r\nConnection: \(connection)\r\nUpgrade: \(offered)\r\nHTTP2-Settings: x\r\n\r\n")
        #expect(client.readResponse()?.text == "1")
        let sent = try #require(play.origin.requests.first)
        #expect(sent["Upgrade"] == nil && sent["HTTP2-Settings"] == nil)
    }

    @Test("HEAD is forwarded without the Upgrade field")
    func headOnly() throws {
        let play = try play { _ in [.json("1")] }
        let client = try play.client(sending: Self.request.replacing("GET", with: "HEAD"))
        #expect(client.readResponseHead()?.status == 200)
        #expect(try #require(play.origin.requests.first)["Upgrade"] == nil)
        #expect(client.get("/b")?.text == "1")
    }

    @Test(
        "an unrequested 101, or one for another protocol, is a failure",
        arguments: [("/ws/a", "h2c"), ("/ws/a", "websocket, h2c"), ("/other", "websocket")])
    func unrequestedUpgrade(_ path: String, _ chosen: String) throws {
        let play = try play { _ in
            [.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: \(chosen)\r\n\r\nsecret"), .hang]
        }
        let client = try play.client(sending: Self.request.replacing("/ws/a", with: path))
        let response = try #require(client.readResponse())
        #expect(response.status == 502 && !response.text.contains("secret"))
    }

    @Test("only the allowed protocols of an Upgrade field are forwarded")
    func several() throws {
        let play = try play(["websocket", "iot"]) { _ in [.json("1")] }
        let client = try play.client()
        client.send("GET /ws/a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c, IoT/1, websocket\r\n\r\n")
        #expect(client.readResponse()?.text == "1")
        #expect(play.origin.requests.first?["Upgrade"] == "IoT/1, websocket")
    }

    @Test("tunnels use at most half of the upstream connections")
    func limited() throws {
        let play = try play(["websocket"]) {
            $0.upstream.maximumConnections = 4
        } _: { request in
            request["Upgrade"] == nil ? [.json("1")] : [Self.accepted, .hang]
        }
        let clients = try (1...2).map { _ in
            let client = try play.client(sending: Self.request)
            #expect(client.readResponseHead()?.status == 101)
            return client
        }
        let other = try play.client(sending: Self.request)
        #expect(try play.get("/b").text == "1")
        #expect(!other.hasInput(within: 0))
        _ = clients
    }
}
