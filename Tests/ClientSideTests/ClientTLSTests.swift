// Tests of TLS with clients: choice of the certificate, refused clients, and sessions that are never resumed. Suites with `.clientProtocols` cover
// requests and responses over TLS.

import CacheStore
import Dispatch
import Downstream
import Glibc
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("TLS connections of clients", .play, .clientProtocol(.tls))
struct ClientTLSTests {
    private static func echo() -> ScriptedOrigin {
        ScriptedOrigin { request in [.json("{\"target\":\"\(request.target)\"}")] }
    }

    private func failed(_ play: ProxyPlay, _ reason: String) throws -> Bool {
        try play.waitFor("cistern_tls_handshakes_failed_total{reason=\"\(reason)\"}", 1)
    }

    @Test("TLS 1.2 and 1.3 are supported and counted")
    func versions() throws {
        let play = try ProxyPlay(Self.echo())
        var old = TLSOffer()
        old.isOld = true
        for (offer, version) in [(TLSOffer(), "TLSv1.3"), (old, "TLSv1.2")] {
            let client = try TestClient(port: play.port, offer)
            #expect(client.tls?.version == version && client.tls?.chosenProtocol == "http/1.1")
            #expect(client.get("/a")?.status == 200)
        }
        // Includes the connection that reads the metric.
        #expect(try play.metric("cistern_tls_handshakes_total{kind=\"full\"}") == 3)
    }

    @Test(
        "cipher suites without forward secrecy or AEAD are refused",
        arguments: ["AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA"])
    func oldSuites(_ suite: String) throws {
        let play = try ProxyPlay(Self.echo())
        var offer = TLSOffer()
        (offer.isOld, offer.suites) = (true, suite)
        #expect(throws: TestClient.NoConnection.self) { try TestClient(port: play.port, offer) }
        #expect(try failed(play, "parameters"))
    }

    @Test("an unsupported ALPN protocol is refused; without ALPN HTTP/1.1 is used")
    func protocols() throws {
        let play = try ProxyPlay(Self.echo())
        var offer = TLSOffer()
        offer.protocols = ["imap"]
        #expect(throws: TestClient.NoConnection.self) { try TestClient(port: play.port, offer) }
        #expect(try failed(play, "protocol"))
        offer.protocols = []
        #expect(try TestClient(port: play.port, offer).get("/a")?.status == 200)
    }

    @Test("the certificate is chosen by SNI: exact name, then wildcard, then the first")
    func names() throws {
        let certificates = try TestCertificates()
        let pairs = try [("one", "DNS:one.test"), ("wild", "DNS:*.many.test"), ("exact", "DNS:x.many.test")].map {
            try certificates.make($0, hosts: $1)
        }
        let play = try ProxyPlay(Self.echo()) {
            $0.listening.tls.certificates = pairs.map { ServerTLSSettings.Certificate(file: $0.certificate, keyFile: $0.key) }
        }
        let prints = pairs.map { CertificateFacts(FileContent.read($0.certificate) ?? [], []).fingerprint }
        let wanted: [(String?, Int)] = [
            ("one.test", 0), ("a.many.test", 1), ("X.MANY.test", 2), ("a.b.many.test", 0), ("unknown.test", 0), (nil, 0),
        ]
        for (name, place) in wanted {
            var offer = TLSOffer()
            (offer.name, offer.authority) = (name, nil)
            #expect(try TestClient(port: play.port, offer).tls?.fingerprint == prints[place], "\(name ?? "no name")")
        }
    }

    @Test("of two certificates for one name, the ECDSA one is used if supported, otherwise the RSA one")
    func kinds() throws {
        let certificates = try TestCertificates()
        let pairs = try [true, false].map { try certificates.make("kind\($0)", hosts: "DNS:one.test", isRSA: $0) }
        let prints = pairs.map { CertificateFacts(FileContent.read($0.certificate) ?? [], []).fingerprint }
        let play = try ProxyPlay(Self.echo()) {
            $0.listening.tls.certificates = pairs.map { ServerTLSSettings.Certificate(file: $0.certificate, keyFile: $0.key) }
        }
        for (name, isOld, suites, place) in [
            ("one.test", false, nil, 1), ("one.test", true, nil, 1), ("other.test", false, nil, 1),
            ("one.test", true, "ECDHE-RSA-AES128-GCM-SHA256", 0), ("one.test", true, "ECDHE-ECDSA-AES128-GCM-SHA256", 1),
        ] as [(String, Bool, String?, Int)] {
            var offer = TLSOffer()
            (offer.name, offer.authority, offer.isOld, offer.suites) = (name, nil, isOld, suites)
            #expect(try TestClient(port: play.port, offer).tls?.fingerprint == prints[place], "\(name), \(suites ?? "all suites")")
        }
    }

    @Test("certificates reloaded while they change end up equal on all shards", .slow)
    func reloads() throws {
        let certificates = try TestCertificates()
        let pairs = try (0..<3).map { try certificates.make("turn\($0)", hosts: "DNS:one.test") }
        let directory = TestTools.temporaryDirectory()
        let file = "\(directory.path)/served.pem"
        func put(_ pair: TestCertificates.Pair) throws {
            let text = [pair.certificate, pair.key].compactMap { FileContent.read($0) }.map { String(decoding: $0, as: UTF8.self) }.joined()
            try TestTools.write(text, to: file + ".new")
            rename(file + ".new", file)
        }
        try put(pairs[0])
        let play = try ProxyPlay(Self.echo()) {
            $0.shards = 4
            $0.listening.tls.certificates = [ServerTLSSettings.Certificate(file: file)]
        }
        for round in 0..<20 {
            try put(pairs[round % 3])
            let asking = (0..<4).map { _ in
                let done = DispatchSemaphore(value: 0)
                play.reload(then: { _ in done.signal() })
                return done
            }
            for done in asking { done.wait() }
        }
        let last = CertificateFacts(FileContent.read(pairs[19 % 3].certificate) ?? [], []).fingerprint
        for _ in 0..<16 {
            var offer = TLSOffer()
            offer.authority = nil
            #expect(try TestClient(port: play.port, offer).tls?.fingerprint == last)
        }
    }

    @Test("a session is resumed on any shard with a new ticket each time, but not for another name")
    func resumption() throws {
        let play = try ProxyPlay(Self.echo()) { $0.shards = 2 }
        let first = try play.client()
        #expect(first.get("/a")?.status == 200 && first.tls?.isResumed == false)
        var session = first.tls?.session
        for _ in 0..<6 {
            let ticket = session?.ticket
            var offer = TLSOffer()
            offer.session = session
            let client = try TestClient(port: play.port, offer)
            #expect(client.tls?.isResumed == true && client.get("/a")?.status == 200)
            session = client.tls?.session
            #expect(session?.ticket.isEmpty == false && session?.ticket != ticket)
        }
        var other = TLSOffer()
        (other.session, other.name) = (session, "other.test")
        #expect(try TestClient(port: play.port, other).tls?.isResumed == false)
    }

    @Test(
        "plain HTTP on a TLS port gets a 400 with an explanation",
        arguments: ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PATCH /x HTTP/1.1\r\n"])
    func clearRequest(_ text: String) throws {
        let play = try ProxyPlay(Self.echo())
        let client = try TestClient(port: play.port)
        client.send(text)
        let response = try #require(client.readResponse())
        #expect(response.status == 400 && response.text.contains("https"))
        client.finishSending()
        #expect(client.isClosedByServer())
        #expect(try play.metric("cistern_refused_requests_total{reason=\"clear_on_tls\"}") == 1)
    }

    @Test("TLS on a plain HTTP port is closed and counted", .clientProtocol(.clear))
    func tlsOnClear() throws {
        let play = try ProxyPlay(Self.echo())
        #expect(throws: TestClient.NoConnection.self) { try TestClient(port: play.port, TLSOffer()) }
        #expect(try play.metric("cistern_refused_requests_total{reason=\"tls_on_clear\"}") == 1)
        #expect(try play.get("/a").status == 200)
    }

    @Test("bytes that are not TLS close the connection at once and do not affect others")
    func garbage() throws {
        let play = try ProxyPlay(Self.echo())
        let kept = try play.client()
        for bytes: [UInt8] in [
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [0x16, 3, 1, 0xff, 0xff] + [UInt8](repeating: 0, count: 300),
            [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0], [0x80, 0x2e, 1, 3, 1], [0x17, 3, 3, 0, 2, 0, 0],
        ] {
            let client = try TestClient(port: play.port)
            client.send(bytes)
            client.finishSending()
            #expect(client.isClosedByServer())
        }
        #expect(kept.get("/a")?.status == 200)
        #expect(try play.metric("cistern_tls_handshakes_running") == 0)
    }

    @Test("an incomplete handshake ends after the handshake timeout")
    func halfOpen() throws {
        let play = try ProxyPlay(Self.echo()) { $0.listening.tls.handshakeTimeout = .seconds(3) }
        let kept = try play.client()
        let half = try TestClient(port: play.port)
        half.send([0x16, 3, 1, 2, 0, 1])
        while try play.metric("cistern_tls_handshakes_running") != 1 {}
        play.time.advance(by: .seconds(2))
        #expect(!half.hasInput(within: 50))
        play.time.advance(by: .seconds(3))
        #expect(half.isClosedByServer())
        #expect(try failed(play, "timeout"))
        #expect(kept.get("/a")?.status == 200)
    }

    @Test("beyond the handshake limit the oldest handshake is closed and new ones are served")
    func tooManyHandshakes() throws {
        let play = try ProxyPlay(Self.echo()) { $0.listening.tls.handshakeLimit = 3 }
        _ = try play.get("/a")
        let half = try (0..<3).map { _ in try TestClient(port: play.port) }
        while try play.metric("cistern_tls_handshakes_running") != 3 {}
        #expect(try play.client().get("/a")?.status == 200)
        #expect(half[0].isClosedByServer() && !half[1].hasInput(within: 0))
        #expect(try play.metric("cistern_tls_handshakes_failed_total{reason=\"crowded\"}") == 1)
    }

    @Test("an address beyond its share of handshakes loses its own handshakes, not those of others")
    func handshakeShareOfAddress() throws {
        let play = try ProxyPlay(Self.echo()) { $0.listening.tls.handshakeLimit = 16 }
        let other = try TestClient(port: play.port, from: "127.0.0.2")
        while try play.metric("cistern_tls_handshakes_running") != 1 {}
        let crowd = try (0..<30).map { _ in try TestClient(port: play.port) }
        while try play.metric("cistern_tls_handshakes_failed_total{reason=\"crowded\"}") != 15 {}
        #expect(crowd[..<15].allSatisfy { $0.isClosedByServer() } && !crowd[15...].contains { $0.hasInput(within: 0) })
        try other.secure()
        #expect(other.get("/a")?.status == 200)
    }

    @Test("a truncated response ends without close_notify; a complete one ends with it")
    func truncation() throws {
        let gate = Gate()
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                guard request.target == "/cut" else { return [.json("{}")] }
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                return [.send(head + "8\r\ndata: 1\n\r\n"), .pass(gate), .reset]
            })
        let cut = try play.client(sending: "GET /cut HTTP/1.0\r\n\r\n")
        #expect(cut.readResponse(toHead: true)?.status == 200)
        gate.open()
        _ = cut.readToEnd()
        #expect(cut.tls?.isClosed == false)
        let whole = try play.client(sending: "GET /a HTTP/1.0\r\n\r\n")
        #expect(String(decoding: whole.readToEnd(), as: UTF8.self).hasSuffix("{}") && whole.tls?.isClosed == true)
    }

    @Test("key updates within a connection are accepted")
    func keyUpdates() throws {
        let play = try ProxyPlay(Self.echo())
        let client = try play.client()
        for _ in 0..<5 {
            client.tls?.sendKeyUpdate()
            #expect(client.get("/a")?.status == 200)
        }
    }

    @Test("an idle connection that released its buffers still works")
    func rest() throws {
        let play = try ProxyPlay(Self.echo())
        let client = try play.client()
        for _ in 0..<3 {
            #expect(client.get("/a")?.status == 200)
            for _ in 0..<4 {
                play.time.advance(by: .seconds(1))
                _ = try play.get("/b")
            }
        }
    }
}
