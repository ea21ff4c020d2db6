// Tests of upstreams that authenticate connections (NTLM, Negotiate, Kerberos: RFC 4559 §6). Only one client's requests use such a
// connection, and no other client gets data, or acts, as that user.

import Addresses
import Administration
import CacheStore
import Downstream
import Forwarding
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import Server
import TestSupport
import Testing
import Upstream

/// State of an upstream that authenticates connections: the user of each connection and the step of its NTLM handshake.
private final class SignedIn: Sendable {
    private struct State {
        var users: [Int: String] = [:]
        var begun: Set<Int> = []
    }

    /// Used by the origin's connections, read by the test.
    private let state = Mutex(State())

    /// The user of the request's connection, after the request.
    private func user(_ request: OriginRequest) -> String? {
        state.withLock { state in
            let words = (request["Authorization"] ?? "").split(separator: " ").map(String.init)
            switch (words.first, words.last) {
            case ("Negotiate", let token?): state.users[request.connection] = token
            case ("NTLM", "hello"): state.begun.insert(request.connection)
            case ("NTLM", let token?) where state.begun.remove(request.connection) != nil: state.users[request.connection] = token
            default: break
            }
            return state.users[request.connection]
        }
    }

    var script: ScriptedOrigin.Script {
        { [self] request in
            let user = user(request)
            if request["Authorization"] == "NTLM hello" { return [Self.challenge("NTLM", "NTLM TlRM")] }
            if request.target == "/bye" { return [.json("{\"user\":\"\(user ?? "nobody")\"}"), .close] }
            guard user != nil || request.target.hasPrefix("/public") else { return [Self.challenge("Negotiate", "NTLM")] }
            return [.json("{\"user\":\"\(user ?? "nobody")\"}", ["Cache-Control: public, max-age=60", "ETag: \"\(user ?? "nobody")\""])]
        }
    }

    private static func challenge(_ schemes: String...) -> OriginStep {
        .json("{}", status: "401 Unauthorized", schemes.map { "WWW-Authenticate: \($0)" } + ["Cache-Control: public, max-age=60"])
    }
}

@Suite("Connections authenticated as a user", .play)
struct ConnectionUserTests {
    private static func play(
        isTLS: Bool = false, clientProtocol: ProxyPlay.ClientProtocol = ProxyPlay.clientProtocol,
        _ configure: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin(tls: isTLS ? SharedCertificates.tls : nil, SignedIn().script), clientProtocol: clientProtocol) {
            settings in
            settings.upstream.isTLS = isTLS
            if isTLS { settings.upstream.caFile = SharedCertificates.authority }
            configure(&settings)
        }
    }

    private static let owned = "cistern_upstream_owned_connections"
    private static let ann = "{\"user\":\"ann\"}"
    private static let nobody = "{\"user\":\"nobody\"}"

    private func signIn(_ client: TestClient, as user: String, at target: String = "/data") -> TestResponse? {
        #expect(client.get(target, [("Authorization", "NTLM hello")])?.status == 401)
        return client.get(target, [("Authorization", "NTLM \(user)")])
    }

    @Test(
        "an NTLM handshake binds an upstream connection to its client, and no other client uses it",
        arguments: [false, true])
    func handshake(isTLS: Bool) throws {
        let play = try Self.play(isTLS: isTLS)
        let (client, other) = (try play.client(), try play.client())
        #expect(client.get("/data")?.status == 401)
        #expect(other.get("/data")?.status == 401)
        #expect(signIn(client, as: "ann")?.text == Self.ann)
        for _ in 0..<3 {
            let response = try #require(client.get("/public/a"))
            #expect(response.text == Self.ann)
            #expect(response["Cache-Status"]?.contains("fwd=bypass") == true)
            #expect(client.request("POST", "/data", content: "{}")?.text == Self.ann)
        }
        for _ in 0..<3 {
            #expect(other.get("/public/a")?.text == Self.nobody)
            #expect(other.get("/data")?.status == 401)
            #expect(other.request("POST", "/public/a", content: "{}")?.text == Self.nobody)
            #expect(try play.client().get("/public/a")?.text == Self.nobody)
        }
        // The handshake used the connection on which the upstream had offered the scheme.
        let ofClient = Set(play.origin.requests.filter { $0["Authorization"] != nil }.map(\.connection))
        #expect(ofClient.count == 1 && ofClient.first == play.origin.requests.first?.connection)
        #expect(client.get("/public/a")?.text == Self.ann)
        #expect(try play.metric(Self.owned) == 2)
    }

    @Test("one Negotiate step binds the connection, and stored responses are not served on it")
    func negotiate() throws {
        let play = try Self.play()
        let (client, other) = (try play.client(), try play.client())
        #expect(other.get("/public/a")?.text == Self.nobody)
        #expect(client.get("/public/a")?["Cache-Status"]?.contains("hit") == true)
        #expect(client.get("/public/a", [("Authorization", "Negotiate ann")])?.text == Self.ann)
        // Byte for byte equal to the earlier hit.
        for _ in 0..<3 { #expect(client.get("/public/a")?.text == Self.ann) }
        for _ in 0..<3 { #expect(other.get("/public/a")?.text == Self.nobody) }
        let count = play.origin.requests.count
        #expect(other.get("/public/a")?["Cache-Status"]?.contains("hit") == true)
        #expect(play.origin.requests.count == count)
    }

    private struct Walk {
        let play: ProxyPlay
        var clients: [(client: TestClient, user: String?, mayOwn: Bool)]

        init(shards: Int) throws {
            let play = try ConnectionUserTests.play { $0.shards = shards }
            self.play = play
            clients = try (0..<4).map { _ in (try play.client(), nil, false) }
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            let place = random.below(clients.count)
            let target = random.pick(["/data", "/public/a", "/public/b"])
            let action = random.below(10)
            if action == 1 { return try replace(place) }
            let (client, user, _) = clients[place]
            if action == 0 || action == 2 || target == "/data" { clients[place].mayOwn = true }
            switch action {
            case 0:
                let name = "user\(place)"
                clients[place].user = name
                try demandText(client.get(target, [("Authorization", "Negotiate \(name)")]), "{\"user\":\"\(name)\"}")
            case 2: try demand(client.get(target, [("Authorization", "NTLM hello")])?.status == 401)
            default:
                let response = client.request(random.isTrue() ? "GET" : "POST", target, content: nil)
                if let user {
                    try demandText(response, "{\"user\":\"\(user)\"}")
                } else if target == "/data" {
                    try demand(response?.status == 401, "\(String(describing: response))")
                } else {
                    try demandText(response, ConnectionUserTests.nobody)
                }
            }
        }

        /// Closes a client's connection and opens another. The closed one counts until Cistern has read its end, and four use the limit.
        private mutating func replace(_ place: Int) throws {
            clients[place] = (try play.client(), nil, false)
            let count = Double(clients.count { $0.mayOwn })
            try demand(try eventually { try play.metric(ConnectionUserTests.owned) ?? 0 <= count })
        }

        private func demandText(_ response: TestResponse?, _ text: String, line: Int = #line) throws {
            try demand(response?.text == text, "\(String(describing: response)) in place of \(text)", line: line)
        }
    }

    @Test("random schedules: no client's requests reach another user's connection", arguments: [1, 3])
    func walk(shards: Int) {
        RandomSchedules.run(10, steps: 60) { _ in
            try Walk(shards: shards)
        } step: {
            try $0.step(&$1)
        }
    }

    @Test(
        "a bound connection ends with its client or after an idle minute; an unused offer returns to the pool"
    )
    func ends() throws {
        let play = try Self.play()
        do {
            let (client, offered) = (try play.client(), try play.client())
            #expect(client.get("/public/a", [("Authorization", "Negotiate ann")])?.text == Self.ann)
            #expect(offered.get("/data")?.status == 401)
            #expect(try play.metric(Self.owned) == 2)
        }
        #expect(try play.waitFor(Self.owned, 0))
        #expect(try play.metric("cistern_upstream_connections_ended_total{cause=\"owner_gone\"}") == 1)
        let count = play.origin.connectionCount
        #expect(try play.client().get("/public/a")?.text == Self.nobody)
        #expect(play.origin.connectionCount == count)
        let idle = try play.client()
        #expect(idle.get("/public/a", [("Authorization", "Negotiate ann")])?.text == Self.ann)
        play.time.advance(by: .seconds(59))
        #expect(idle.get("/public/a")?.text == Self.ann)
        play.time.advance(by: .seconds(59))
        #expect(try play.metric(Self.owned) == 1)
        play.time.advance(by: .seconds(2))
        #expect(try play.waitFor(Self.owned, 0))
        // The user's connection is closed. Responses of the upstream still belong to this client only.
        #expect(idle.get("/data")?.status == 401)
    }

    @Test("if the upstream closes a bound connection, the client's next request uses another connection of its own")
    func upstreamCloses() throws {
        let play = try Self.play()
        let (client, other) = (try play.client(), try play.client())
        #expect(client.get("/bye", [("Authorization", "Negotiate ann")])?.text == Self.ann)
        #expect(other.get("/public/a")?.text == Self.nobody)
        #expect(client.get("/data")?.status == 401)
        #expect(client.get("/data", [("Authorization", "Negotiate ann")])?.text == Self.ann)
        #expect(client.get("/public/a")?.text == Self.ann)
        #expect(other.get("/public/a")?.text == Self.nobody)
    }

    @Test("requests pipelined behind the authenticating one use the bound connection")
    func pipelined() throws {
        let play = try Self.play()
        let client = try play.client()
        #expect(client.get("/data", [("Authorization", "NTLM hello")])?.status == 401)
        let plain = "GET /public/a HTTP/1.1\r\nHost: a\r\n\r\n"
        client.send("GET /data HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM ann\r\n\r\n" + plain + plain + plain)
        for _ in 0..<4 { #expect(client.readResponse()?.text == Self.ann) }
        #expect(try play.client().get("/public/a")?.text == Self.nobody)
    }

    @Test("after a reload a bound connection still serves only its own client")
    func reload() throws {
        let play = try Self.play()
        let (client, other) = (try play.client(), try play.client())
        #expect(client.get("/public/a", [("Authorization", "Negotiate ann")])?.text == Self.ann)
        #expect(play.reload { $0.settings.upstream.firstByteTimeout = .seconds(29) }?.label == "applied")
        #expect(other.get("/public/a")?.text == Self.nobody)
        #expect(client.get("/data")?.status == 401)
        #expect(client.get("/public/a", [("Authorization", "Negotiate ann")])?.text == Self.ann)
        #expect(client.get("/public/a")?.text == Self.ann)
        for _ in 0..<3 { #expect(try play.client().get("/public/a")?.text == Self.nobody) }
        #expect(try play.waitFor(Self.owned, 1))
    }

    @Test(
        "a client has at most four bound connections across shards; a fifth gets 503 and others are unaffected",
        arguments: [1, 4])
    func limitPerClient(shards: Int) throws {
        let play = try Self.play { $0.shards = shards }
        let clients = try (0..<4).map { _ in try play.client() }
        for client in clients { #expect(signIn(client, as: "ann")?.text == Self.ann) }
        let fifth = try play.client()
        let refused = try #require(fifth.get("/data", [("Authorization", "NTLM hello")]))
        #expect(refused.status == 503 && refused["Retry-After"] != nil)
        #expect(fifth.get("/public/a")?.text == Self.nobody)
        let other = try TestClient(port: play.port, from: "127.0.0.9")
        #expect(signIn(other, as: "bob")?.text == "{\"user\":\"bob\"}")
        for client in clients { #expect(client.get("/data")?.text == Self.ann) }
        #expect(try play.metric("cistern_refused_requests_total{reason=\"connection_users\"}") == 1)
    }

    @Test("bound connections use at most an eighth of the pool; connections with only an offer are released first")
    func limitOfAll() throws {
        let play = try Self.play { $0.upstream.maximumConnections = 16 }
        let offered = try (2..<12).map { try TestClient(port: play.port, from: "127.0.0.\($0)") }
        for client in offered { #expect(client.get("/data")?.status == 401) }
        #expect(try play.metric(Self.owned) == 2)
        let users = try (20..<23).map { try TestClient(port: play.port, from: "127.0.0.\($0)") }
        for user in users[..<2] { #expect(signIn(user, as: "ann")?.text == Self.ann) }
        #expect(users[2].get("/data", [("Authorization", "NTLM hello")])?.status == 503)
        for client in offered { #expect(client.get("/public/a")?.text == Self.nobody) }
        for user in users[..<2] { #expect(user.get("/data")?.text == Self.ann) }
    }

    @Test("an unused authentication offer costs neither hits nor other clients' connections")
    func onlyOffered() throws {
        let play = try Self.play()
        let client = try play.client()
        for _ in 0..<3 {
            #expect(client.get("/data")?.status == 401)
            #expect(client.get("/public/a")?.text == Self.nobody)
        }
        #expect(client.get("/public/a")?["Cache-Status"]?.contains("hit") == true)
        // The upstream's 401 permitted shared caching.
        #expect(play.origin.requests.count { $0.target == "/data" } == 3)
        #expect(play.origin.connectionCount == 2)
        let told = JSONValue(try play.admin("GET", "/-/why?last=20").content)?["exchanges"]?.array ?? []
        #expect(told.contains { $0["not_stored"]?.string == "connection_user" })
    }

    @Test("connection authentication over HTTP/2 gets 502 with an explanation", arguments: [ProxyPlay.ClientProtocol.http2, .http2TLS])
    func http2Clients(clientProtocol: ProxyPlay.ClientProtocol) throws {
        let play = try Self.play(clientProtocol: clientProtocol)
        let client = try play.http2Client()
        for field in ["Authorization", "Proxy-Authorization"] {
            let refused = try #require(client.request("GET", "/data", [(field, "Negotiate ann")], content: nil))
            #expect(refused.status == 502 && refused.text.contains("HTTP/1.1"))
        }
        #expect(client.request("GET", "/data", [], content: nil)?.status == 401)
        #expect(client.request("GET", "/public/a", [], content: nil)?.text == Self.nobody)
        #expect(play.origin.requests.allSatisfy { $0["Authorization"] == nil })
    }

    @Test("connection authentication does not use HTTP/2 to the upstream")
    func http2Upstream() throws {
        let origin = ScriptedOrigin(tls: SharedCertificates.http2TLS, SignedIn().script)
        let play = try ProxyPlay(origin) { settings in
            (settings.upstream.isTLS, settings.upstream.caFile) = (true, SharedCertificates.authority)
        }
        let (client, other) = (try play.client(), try play.client())
        #expect(other.get("/public/a")?.text == Self.nobody)
        #expect(client.get("/data")?.status == 401)
        #expect(signIn(client, as: "ann")?.text == Self.ann)
        #expect(client.get("/public/b")?.text == Self.ann)
        #expect(other.get("/public/b")?.text == Self.nobody)
        let lines = origin.requests.map { ($0.line.hasSuffix("HTTP/2"), $0.connection) }
        #expect(lines.map(\.0) == [true, true, false, false, false, true])
    }

    @Test("with an HTTP/2-only upstream, connection authentication gets 502 with an explanation")
    func http2Only() throws {
        let play = try Self.play { $0.upstream.http2 = .priorKnowledge }
        let client = try play.client()
        let refused = try #require(client.get("/data", [("Authorization", "Negotiate ann")]))
        #expect(refused.status == 502 && refused.text.contains("HTTP/2"))
        #expect(client.get("/public/a")?.text == Self.nobody)
    }

    @Test("without a store, connections are bound to clients as well")
    func withoutStore() throws {
        let play = try Self.play { $0.store = nil }
        let (client, other) = (try play.client(), try play.client())
        #expect(signIn(client, as: "ann")?.text == Self.ann)
        #expect(client.get("/public/a")?.text == Self.ann)
        #expect(other.get("/public/a")?.text == Self.nobody)
    }

    // MARK: Proxies

    private static func trusting(_ addresses: String...) throws -> (inout ProxySettings) -> Void {
        let networks = NetworkList(try addresses.map { try IPNetwork($0) })
        return { $0.downstream.trustedProxies = networks }
    }

    @Test(
        "connection authentication through a trusted proxy gets 502, because the proxy's connection may carry several clients",
        arguments: [["192.0.2.1"], ["unknown"], ["192.0.2.1, unknown"], [String(repeating: "127.0.0.1, ", count: 70)], []])
    func trustedProxy(forwarded: [String]) throws {
        let play = try Self.play(Self.trusting("127.0.0.1"))
        let proxy = try play.client()
        let client = forwarded.map { ("X-Forwarded-For", $0) }
        for field in ["Authorization", "Proxy-Authorization"] {
            for scheme in ["Negotiate ann", "NTLM hello", "NTLM ann"] {
                let refused = try #require(proxy.get("/data", client + [(field, scheme)]))
                #expect(refused.status == 502 && refused.text.contains("proxy"))
                #expect(proxy.request("POST", "/data", client + [(field, scheme)], content: "{}")?.status == 502)
            }
        }
        // The offer of the upstream binds no connection either.
        #expect(proxy.get("/data", client)?.status == 401)
        #expect(try play.metric(Self.owned) == 0)
        for user in [client, client + [("Authorization", "Bearer bob")]] {
            #expect(proxy.get("/public/a", user)?.text == Self.nobody)
            #expect(proxy.request("POST", "/public/a", user, content: "{}")?.text == Self.nobody)
        }
        #expect(play.origin.requests.allSatisfy { $0["Authorization"].map { $0 == "Bearer bob" } ?? true })
        #expect(try play.metric("cistern_refused_requests_total{reason=\"connection_user_proxy\"}") == 12)
    }

    @Test("beside a trusted proxy, a client that connects itself is bound, until its address becomes a trusted proxy")
    func untrustedPeer() throws {
        let play = try Self.play(Self.trusting("127.0.0.1"))
        let client = try TestClient(port: play.port, from: "127.0.0.9")
        #expect(signIn(client, as: "ann")?.text == Self.ann)
        #expect(client.get("/public/a", [("X-Forwarded-For", "192.0.2.1")])?.text == Self.ann)
        let trustBoth = try Self.trusting("127.0.0.1", "127.0.0.9")
        #expect(play.reload { trustBoth(&$0.settings) }?.label == "applied")
        for _ in 0..<3 { #expect(client.get("/public/a", [("X-Forwarded-For", "192.0.2.2")])?.text == Self.nobody) }
        #expect(client.get("/data", [("Authorization", "NTLM ann")])?.status == 502)
    }

    @Test(
        "with the PROXY protocol, each client has its own connection, which is bound if its address is known",
        arguments: [("TCP4 192.0.2.7 10.0.0.1 4711 80", true), ("UNKNOWN", false), ("TCP4 127.0.0.1 10.0.0.1 4711 80", false)])
    func proxyProtocol(_ row: (header: String, isBound: Bool)) throws {
        let trust = try Self.trusting("127.0.0.1")
        let play = try Self.play { settings in
            trust(&settings)
            settings.listening.listeners.append(settings.listening.listeners[0])
            settings.listening.listeners[1].takesProxyHeader = true
        }
        let client = try TestClient(port: #require(play.ports.last))
        client.send("PROXY \(row.header)\r\n")
        #expect(client.get("/public/a", [("Authorization", "Negotiate ann")])?.status == (row.isBound ? 200 : 502))
        #expect(client.get("/public/a")?.text == (row.isBound ? Self.ann : Self.nobody))
    }

    @Test("a Unix socket is used by proxies, so its connections are not bound")
    func unixSocket() throws {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/listen.sock"
        let play = try Self.play { $0.listening.listeners = [ListenerSettings(.unix(path: path))] }
        let client = try TestClient(.unix(path: path))
        #expect(client.get("/data", [("Authorization", "Negotiate ann")])?.status == 502)
        #expect(client.get("/public/a")?.text == Self.nobody)
        #expect(play.origin.requests.allSatisfy { $0["Authorization"] == nil })
    }
}
