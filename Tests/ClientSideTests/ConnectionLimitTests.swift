// Tests that one address that holds all available connections does not keep other clients out.

import Addresses
import HTTP2
import Logging
import TestSupport
import Testing

@testable import Downstream
@testable import ReverseProxy

@Suite("The limit on client connections", .play)
struct ConnectionLimitTests {
    /// State of a connection that occupies a slot.
    enum Holding: CaseIterable {
        case nothing, response, halfHead, upload, http2, http2Request, http2Upload, handshake, tls
    }

    private static let limit = 12
    private static let hog = "127.0.0.66"
    private static let evicted = "cistern_connections_closed_for_room_total"

    private func play(
        _ clientProtocol: ProxyPlay.ClientProtocol, shards: Int = 1, limit: Int = Self.limit,
        _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=600"])] }, clientProtocol: clientProtocol) {
            $0.shards = shards
            $0.downstream.maximumConnections = limit
            $0.listening.listeners[0].takesClearHTTP2 = !clientProtocol.isSecured
            configure(&$0)
        }
    }

    private func hold(_ play: ProxyPlay, _ holding: Holding, from source: String = Self.hog, isSecured: Bool) throws -> TestClient {
        let client = try TestClient(port: play.port, patience: 5, from: source)
        if holding == .handshake { return client }
        if isSecured {
            var offer = TLSOffer()
            if [.http2, .http2Request, .http2Upload].contains(holding) { offer.protocols = ["h2"] }
            try client.secure(offer)
        }
        let preface = RawHTTP2.preface + RawHTTP2.frame(.settings)
        switch holding {
        case .nothing, .handshake, .tls: break
        case .response: #expect(client.get("/a")?.status == 200)
        case .halfHead: client.send("GET /a HTTP/1.1\r\nHo")
        case .upload: client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx")
        case .http2: client.send(preface)
        case .http2Request, .http2Upload:
            var lines = RawHTTP2.usual
            if holding == .http2Upload { lines[0].1 = "POST" }
            if isSecured { lines[1].1 = "https" }
            client.send(preface + RawHTTP2.request(1, lines, ends: holding == .http2Request))
        }
        return client
    }

    @Test(
        "beyond the limit, idle connections of the address with the most connections are closed first",
        arguments: [ProxyPlay.ClientProtocol.clear, .tls], Holding.allCases)
    func idleConnectionsFirst(_ clientProtocol: ProxyPlay.ClientProtocol, _ holding: Holding) throws {
        if clientProtocol == .clear, holding == .tls || holding == .handshake { return }
        let play = try play(clientProtocol)
        let kept = try play.client()
        #expect(kept.get("/a")?.status == 200)
        #expect(try play.metric("cistern_connections") == 2)
        var held: [TestClient] = []
        for _ in 0..<(Self.limit - 2) { held.append(try hold(play, holding, isSecured: clientProtocol.isSecured)) }
        #expect(try play.waitFor("cistern_connections", Double(Self.limit)))
        #expect(try play.metric(Self.evicted) == 0)
        for number in 1...4 {
            let client = try play.client()
            #expect(client.get("/a")?.status == 200)
            #expect(try play.metric(Self.evicted) == Double(number))
            held.append(client)
        }
        #expect(kept.get("/a")?.status == 200, "the address with most connections lost one")
    }

    @Test("the connection limit also works across several shards", arguments: [2, 3])
    func severalShards(_ shards: Int) throws {
        let play = try play(.clear, shards: shards)
        let kept = try play.client()
        #expect(kept.get("/a")?.status == 200)
        var held: [TestClient] = []
        for _ in 0..<(Self.limit - 2) { held.append(try hold(play, .response, isSecured: false)) }
        _ = try play.metric("cistern_connections")
        // The addresses of these connections never hold the most connections.
        let new = try (0..<3).map { _ in try play.client() }
        for client in new { #expect(client.get("/a")?.status == 200) }
        #expect(kept.get("/a")?.status == 200)
        #expect(try play.metric(Self.evicted) ?? 0 >= 2)
    }

    @Test("busy connections are kept, and new connections wait until one is idle")
    func working() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { $0.target == "/slow" ? [.pass(gate), .json("1")] : [.json("2")] }
        let play = try ProxyPlay(origin) { $0.downstream.maximumConnections = 3 }
        #expect(try play.metric("cistern_connections") == 1)
        let working = try (0..<2).map { number in
            return try play.client(sending: "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n\(number)")
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 2))
        // The test's own connection is idle, so it is closed.
        #expect(try play.client().get("/b")?.text == "2")
        gate.open()
        for client in working { #expect(client.readResponse()?.text == "1") }
        #expect(try play.client().get("/b")?.text == "2")
    }

    private struct Walk {
        let tests: ConnectionLimitTests
        let play: ProxyPlay
        var held: [TestClient] = []
        var healthy: [String: TestClient] = [:]

        mutating func step(_ random: inout SeededGenerator) throws {
            switch random.below(4) {
            case 0, 1:
                let holdings = Holding.allCases.filter { $0 != .tls && $0 != .handshake && $0 != .response }
                held.append(try tests.hold(play, random.pick(holdings), isSecured: false))
            case 2: if !held.isEmpty { held.remove(at: random.below(held.count)) }
            default:
                let address = "127.0.0.\(2 + random.below(3))"
                let client = try healthy[address] ?? TestClient(port: play.port, from: address)
                healthy[address] = client
                try demand(client.get("/a")?.status == 200, address)
            }
        }
    }

    @Test("random schedules: every client gets a response, and addresses with fewer connections keep theirs")
    func schedules() {
        RandomSchedules.run(24, steps: 60) {
            Walk(tests: self, play: try play(.clear, shards: 1 + $0.below(3)))
        } step: {
            try $0.step(&$1)
        }
    }

    @Test("admin connections have reserved capacity")
    func reserve() throws {
        let play = try play(.clear) { $0.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))] }
        var held: [TestClient] = []
        for _ in 0..<(2 * Self.limit) { held.append(try hold(play, .nothing, isSecured: false)) }
        #expect(try TestClient(port: #require(play.adminPorts.first)).get("/metrics")?.status == 200)
    }
}

@Suite("Log messages about the connection limit")
struct ConnectionLimitLogTests {
    @Test("at most one message per minute summarizes the closed connections")
    func lines() {
        let (said, time) = (CapturedLines(), ManualTime())
        let log = CapacityLog(Logger(label: "room") { _ in LineHandler(said: said) }, time)
        let report = CapacityReport(cause: .connections, open: 10, most: 8, address: "192.0.2.1", closed: 3)
        for _ in 0..<3 { log.note(report) }
        time.advance(by: .seconds(60))
        log.note(report)
        let end = "idle connections, beginning with those of the address that has the most"
        let begin = "client connections have reached their limit: 10 are open (limits.connections), 8 of them from 192.0.2.1; "
        #expect(said.all == [begin + "closed 3 " + end, begin + "closed 9 " + end])
    }

    @Test("the message says if no connection could be closed or descriptors are exhausted")
    func others() {
        let none = CapacityReport(cause: .connections, open: 10, most: 0, address: nil, closed: 0)
        #expect(
            none.sentence(closed: 0)
                == "client connections have reached their limit: 10 are open (limits.connections); all of them are active, so new connections must wait"
        )
        let descriptors = CapacityReport(cause: .descriptors, open: 10, most: 2, address: "2001:db8::/64", closed: 1)
        #expect(
            descriptors.sentence(closed: 1).hasPrefix(
                "no file descriptor is left for client connections: 10 are open, 2 of them from 2001:db8::/64;"))
    }

    @Test(
        "an address is named in the form in which it is counted",
        arguments: [("192.0.2.1", "192.0.2.1"), ("2001:db8::5", "2001:db8::/64"), ("::1", "::/64"), ("255.255.255.255", "255.255.255.255")])
    func names(_ address: String, _ name: String) throws {
        #expect(IPAddress.text(ofClient: try #require(IPAddress(address)).client) == name)
    }
}
