// Tests of the client's address behind a load balancer or another proxy.

import Addresses
import CachePolicy
import CacheStore
import Downstream
import Forwarding
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Client addresses", .play)
struct ClientAddressTests {
    /// - Returns: a proxy with a plain listener for the test itself, and a second listener that accepts the PROXY protocol.
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
        "the client address of the PROXY protocol is forwarded, however the header is split",
        arguments: [
            (Array("PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n".utf8), "for=192.0.2.7;proto=http"), (block, "for=192.0.2.7;proto=http"),
            (Array("PROXY TCP6 2001:db8::7 ::1 4711 80\r\n".utf8), "for=\"[2001:db8::7]\";proto=http"),
            (Array("PROXY UNKNOWN\r\n".utf8), "for=unknown;proto=http"),
        ])
    func named(_ header: [UInt8], _ forwarded: String) throws {
        let play = try play(trusted: NetworkList.local())
        let request = Array("GET /a HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        for pieces in [[header + request], [header, request], [Array(header.prefix(3)), Array(header.dropFirst(3)) + request]] {
            let client = try client(of: play)
            for piece in pieces { client.send(piece) }
            #expect(client.readResponse()?.text == "1")
            #expect(client.get("/a")?.text == "1", "one PROXY header applies to all requests")
            #expect(play.origin.requests.suffix(2).allSatisfy { $0["Forwarded"] == forwarded })
        }
    }

    @Test(
        "an unknown client behind the load balancer cannot choose its address and does not get the balancer's",
        arguments: [
            Array("PROXY UNKNOWN\r\n".utf8), Array("PROXY UNKNOWN 192.0.2.7 10.0.0.1 4711 80\r\n".utf8),
            [0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x21, 0, 0, 0],
        ])
    func unknown(_ header: [UInt8]) throws {
        let play = try play(trusted: NetworkList.local())
        let client = try client(of: play)
        client.send(header)
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-User: ann\r\n\r\n")
        #expect(client.readResponse()?.text == "1")
        let request = try #require(play.origin.requests.last)
        #expect(request["Forwarded"] == "for=unknown;proto=http" && request["X-Forwarded-For"] == nil && request["X-Forwarded-User"] == nil)
        let rules = try AddressRules(allow: [IPNetwork("127.0.0.0/8")], deny: [])
        let strict = try self.play(trusted: NetworkList.local()) { $0.access.rules = rules }
        let refused = try self.client(of: strict)
        refused.send(header)
        refused.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(refused.readResponse()?.status == 403)
    }

    @Test(
        "a connection without a valid PROXY header is closed and counted",
        arguments: ["GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "PROXY TCP4 192.0.2.7\r\n", "PROXY \(String(repeating: "x", count: 200))"])
    func missing(_ bytes: String) throws {
        let play = try play(trusted: NetworkList.local())
        let client = try client(of: play)
        client.send(bytes)
        #expect(client.isClosedByServer())
        #expect(play.origin.requests.isEmpty)
        #expect(try play.metric("cistern_proxy_headers_refused_total") == 1)
    }

    @Test("a PROXY header is accepted only from trusted proxies and within the timeout")
    func untrusted() throws {
        let strangers = try play(trusted: NetworkList([try IPNetwork("10.0.0.0/8")]))
        let stranger = try client(of: strangers)
        stranger.send("PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(stranger.isClosedByServer() && strangers.origin.requests.isEmpty)
        let play = try play(trusted: NetworkList.local())
        let slow = try client(of: play)
        slow.send("PROXY TCP4 192.0")
        #expect(try play.waitFor("cistern_connections", 2))
        play.time.advance(by: .seconds(11))
        #expect(slow.isClosedByServer())
    }

    @Test("connections are counted for the named client, not for the load balancer")
    func counted() throws {
        let play = try play(trusted: NetworkList.local()) { $0.downstream.connectionsPerAddress = 2 }
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

@Suite("Requests through trusted proxies", .play, .clientProtocols)
struct TrustedProxyTests {
    private func play(_ networks: String = "127.0.0.0/8", _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws
        -> ProxyPlay
    {
        let trusted = NetworkList([try IPNetwork(networks)])
        return try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }) { settings in
            settings.downstream.trustedProxies = trusted
            configure(&settings)
        }
    }

    @Test("clients of a Unix socket are trusted only if configured", arguments: [true, false])
    func unixSocket(isTrusted: Bool) throws {
        let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: no-store"])] }
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/cistern.sock"
        let play = try ProxyPlay(origin, clientProtocol: .clear) { settings in
            settings.listening.listeners = [ListenerSettings(.unix(path: path))]
            settings.downstream.trustedProxies = NetworkList(hasLocal: isTrusted)
        }
        let client = try TestClient(.unix(path: path))
        #expect(client.get("/a", Self.forwarded)?.text == "1")
        let told = try #require(play.origin.requests.last?["Forwarded"])
        #expect(told == (isTrusted ? "for=192.0.2.7;proto=https" : "for=unknown;proto=http"))
    }

    /// The latest exchange in `/-/why`.
    static func why(_ play: ProxyPlay) throws -> JSONValue {
        try #require(JSONValue(play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
    }

    private static let forwarded = [("X-Forwarded-For", "198.51.100.9, 192.0.2.7"), ("X-Forwarded-Proto", "https")]

    @Test("upstream, log and why name the client given by a trusted proxy, but the peer if it is untrusted")
    func reportedAddress() throws {
        let play = try play()
        _ = try play.get("/a", Self.forwarded)
        #expect(play.origin.requests.last?["Forwarded"] == "for=192.0.2.7;proto=https")
        #expect(play.origin.requests.last?["X-Forwarded-For"] == "192.0.2.7" && play.origin.requests.last?["X-Forwarded-Proto"] == "https")
        #expect(try Self.why(play)["client"]?.string == "192.0.2.7")
        // The forwarded fields of one request do not apply to the next one.
        _ = try play.get("/b")
        #expect(play.origin.requests.last?["Forwarded"] == "for=127.0.0.1;proto=\(ProxyPlay.clientProtocol.scheme)")
        let strangers = try self.play("10.0.0.0/8")
        _ = try strangers.get("/a", Self.forwarded)
        #expect(strangers.origin.requests.last?["Forwarded"] == "for=127.0.0.1;proto=\(ProxyPlay.clientProtocol.scheme)")
    }

    @Test("forwarding fields are passed on only from trusted clients", arguments: [ForwardedPolicy.trust, .add])
    func untrustedFields(_ policy: ForwardedPolicy) throws {
        let fields = Self.forwarded + [("X-Forwarded-Host", "evil.example"), ("True-Client-IP", "192.0.2.66")]
        let known = try play { $0.forwarding.forwarded = policy }
        _ = try known.get("/a", fields)
        #expect(known.origin.requests.last?["X-Forwarded-For"] == "198.51.100.9, 192.0.2.7")
        let strangers = try self.play("10.0.0.0/8") { $0.forwarding.forwarded = policy }
        _ = try strangers.get("/a", fields)
        let request = try #require(strangers.origin.requests.last)
        #expect(request["X-Forwarded-For"] == "127.0.0.1" && request["X-Forwarded-Host"] == nil && request["True-Client-IP"] == nil)
        #expect(request["X-Forwarded-Proto"] == ProxyPlay.clientProtocol.scheme)
    }
}

@Suite("Access rules", .play, .clientProtocols)
struct AccessTests {
    private func play(_ configure: @escaping (inout ProxySettings) throws -> Void) throws -> ProxyPlay {
        let trusted = try NetworkList.local()
        return try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }) { settings in
            settings.downstream.trustedProxies = trusted
            do { try configure(&settings) } catch { Issue.record(error) }
        }
    }

    private func from(_ address: String) -> [(String, String)] { [("X-Forwarded-For", address)] }

    private static func rules(allow: [String] = [], deny: [String] = []) throws -> AddressRules {
        try AddressRules(allow: allow.map { try IPNetwork($0) }, deny: deny.map { try IPNetwork($0) })
    }

    @Test("denied addresses get 403 and no stored responses; the refusal is counted and explained")
    func denied() throws {
        let play = try play { $0.access.rules = try Self.rules(deny: ["192.0.2.0/24"]) }
        for _ in 0..<4 { #expect(try play.get("/a", from("198.51.100.1")).text == "1") }
        for _ in 0..<4 {
            let refused = try play.get("/a", from("192.0.2.7"))
            #expect(refused.status == 403 && refused.text == "Clients at this address may not access this resource.\n")
            #expect(try play.get("/a", from("198.51.100.1")).text == "1")
        }
        #expect(try play.get("/metrics", from("192.0.2.7")).status == 403)
        #expect(try play.metric("cistern_refused_requests_total{reason=\"client_address\"}") == 5)
        _ = try play.get("/a", from("192.0.2.7"))
        let why = try TrustedProxyTests.why(play)
        #expect(why["reason"]?.string == "client_address" && why["client"]?.string == "192.0.2.7")
        #expect(why["advice"]?.array?.first?["setting"]?.string == "access.allow")
        #expect(play.origin.requests.count == 1)
    }

    @Test("the content of a refused request is not awaited, and the connection closes or stays in sync")
    func content() throws {
        let play = try play { $0.access.rules = try Self.rules(deny: ["192.0.2.0/24"]) }
        let client = try play.client()
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nContent-Length: 1000000\r\n\r\n")
        #expect(client.readResponse()?.status == 403)
        #expect(try play.request("POST", "/a", from("192.0.2.7"), content: "x").status == 403)
        #expect(play.origin.requests.isEmpty)
    }

    @Test("a route can restrict access further, and a listener can have its own rules", .clientProtocol(.clear))
    func places() throws {
        let play = try play { settings in
            settings.access.rules = try Self.rules(deny: ["192.0.2.0/24"])
            var route = Route()
            (route.name, route.pattern) = ("inner", RoutePattern("/inner/**"))
            route.access = try Self.rules(allow: ["198.51.100.0/24"])
            settings.routes = [route]
            settings.listening.listeners.append(settings.listening.listeners[0])
            settings.listening.listeners[1].access = try Self.rules(deny: ["198.51.100.1"])
        }
        #expect(try play.get("/inner/a", from("198.51.100.1")).status == 200 && play.get("/inner/a", from("203.0.113.1")).status == 403)
        #expect(try play.get("/a", from("203.0.113.1")).status == 200 && play.get("/a", from("192.0.2.1")).status == 403)
        let other = try TestClient(port: try #require(play.ports.last))
        #expect(other.get("/a", from("192.0.2.1"))?.status == 200 && other.get("/a", from("198.51.100.1"))?.status == 403)
        #expect(other.get("/inner/a", from("203.0.113.1"))?.status == 403)
    }

    @Test("rules of an admin listener replace the global rules, which do not apply to clients of this machine", .clientProtocol(.clear))
    func administrators() throws {
        let play = try play { settings in
            settings.access.rules = try Self.rules(deny: ["127.0.0.1"])
            let address = settings.listening.listeners[0]
            settings.listening.adminListeners = [address, address]
            settings.listening.adminListeners[1].access = try Self.rules(allow: ["10.0.0.0/8"])
        }
        #expect(try play.get("/a").status == 403)
        #expect(try play.adminPorts.map { try TestClient(port: $0).get("/metrics")?.status } == [200, 403])
    }

    @Test(
        "the global rules apply to other machines' requests for the admin interface",
        .clientProtocol(.clear), arguments: ["/metrics", "/healthz", "/-/status", "/", "/-/entries", "/none"])
    func otherMachines(_ path: String) throws {
        let play = try play { settings in
            settings.access.rules = try Self.rules(allow: ["198.51.100.0/24", "::1"], deny: ["192.0.2.0/24"])
            var address = settings.listening.listeners[0]
            address.takesProxyHeader = true
            settings.listening.adminListeners = [address, address]
            settings.listening.adminListeners[1].access = try Self.rules(allow: ["192.0.2.7"])
        }
        func status(_ place: Int, _ address: String, _ family: String = "TCP4") throws -> Int? {
            let client = try TestClient(port: play.adminPorts[place])
            client.send("PROXY \(family) \(address) \(address) 4711 80\r\nGET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return client.readResponse()?.status
        }
        let admitted = try status(0, "198.51.100.1")
        #expect(path.hasPrefix("/-/") || admitted != 403)
        #expect(try status(0, "192.0.2.7") == 403 && status(0, "203.0.113.1") == 403 && status(0, "2001:db8::1", "TCP6") == 403)
        #expect(try status(0, "127.0.0.1") == admitted && status(0, "::1", "TCP6") == admitted)
        #expect(try status(1, "192.0.2.7") == admitted && status(1, "198.51.100.1") == 403 && status(1, "127.0.0.1") == 403)
    }

    @Test("with configured names, other hosts get 421, except for internal pages")
    func names() throws {
        let play = try play { $0.access.names = ServedNames(["api.example.com", "*.example.org:8443", "[::1]"]) }
        for (host, status) in [
            ("api.example.com", 200), ("API.example.com:8080", 200), ("api.example.com.", 200), ("x.api.example.com", 421),
            ("a.example.org:8443", 200), ("a.example.org", 421), ("a.b.example.org:8443", 421), ("example.org:8443", 421), ("[::1]:1", 200),
            ("localhost", 421),
        ] {
            let client = try play.client(sending: "GET /a HTTP/1.1\r\nHost: \(host)\r\n\r\nGET /healthz HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            #expect(client.readResponse()?.status == status, "\(host)")
            #expect(client.readResponse()?.status == 200)
        }
    }

    @Test("an absolute URI for another authority always gets 421 and no data of this upstream")
    func wholeURI() throws {
        let play = try play { $0.listening.listeners.append($0.listening.listeners[0]) }
        let (port, other) = (play.port, try #require(play.ports.last))
        let scheme = ProxyPlay.clientProtocol.isSecured ? "https" : "http"
        for _ in 0..<4 {
            for (authority, status) in [
                ("api.example.com", 421), ("api.example.com:\(port)", 200), ("127.0.0.1:\(port)", 200), ("127.0.0.1:\(other)", 421),
                ("127.0.0.1:\(play.origin.port)", 200), ("api.example.com:80", 421),
            ] {
                let client = try play.client(sending: "GET \(scheme)://\(authority)/a HTTP/1.1\r\nHost: \(authority)\r\n\r\n")
                #expect(client.readResponse()?.status == status, "\(authority)")
            }
        }
    }

    @Test("concurrent upstream requests per address are limited; fresh responses are still served")
    func requests() throws {
        let gate = Gate()
        let trusted = NetworkList([try IPNetwork("10.0.0.0/8")])
        let origin = ScriptedOrigin { request in
            (request.target.hasPrefix("/slow") ? [.pass(gate)] : []) + [.json("1", ["Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin) { settings in
            settings.access.requestsPerAddress = 2
            settings.downstream.trustedProxies = trusted
        }
        #expect(try play.get("/stored").text == "1")
        let clients = try (1...2).map { number in
            return try play.client(getting: "/slow\(number)")
        }
        #expect(origin.waitForRequests(3))
        let refused = try play.get("/other")
        #expect(refused.status == 429 && refused["Retry-After"] == "1")
        #expect(try play.request("POST", "/other", content: "x").status == 429)
        #expect(try play.get("/stored").text == "1")
        #expect(try play.metric("cistern_refused_requests_total{reason=\"requests_per_address\"}") == 2)
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == "1") }
        #expect(try play.get("/other").status == 200)
    }
}

@Suite("Access rules under attack", .play, .clientProtocols)
struct AccessAttackTests {
    private func play(_ configure: @escaping (inout ProxySettings) throws -> Void = { _ in }) throws -> ProxyPlay {
        let trusted = NetworkList([try IPNetwork("127.0.0.0/8"), try IPNetwork("10.0.0.0/8")])
        return try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] }) { settings in
            settings.downstream.trustedProxies = trusted
            do { try configure(&settings) } catch { Issue.record(error) }
        }
    }

    @Test(
        "a client with an unreadable address matches no allowed network",
        arguments: ["unknown", "fe80::1%eth0", "192.0.2.1,", "", "10.1.1.1, _hidden"])
    func unknown(_ forwarded: String) throws {
        let inside = try play {
            $0.access.rules = try AddressRules(allow: [try IPNetwork("127.0.0.0/8"), try IPNetwork("10.0.0.0/8")], deny: [])
        }
        #expect(try inside.get("/a", [("X-Forwarded-For", forwarded)]).status == 403)
        #expect(try inside.get("/a").status == 200)
        let open = try play()
        #expect(try open.get("/a", [("X-Forwarded-For", forwarded)]).status == 200)
        #expect(open.origin.requests.last?["Forwarded"] == "for=unknown;proto=\(ProxyPlay.clientProtocol.scheme)")
    }

    @Test(
        "a route's access rules apply to every spelling of its path",
        arguments: ["/inner/a", "/%69nner/a", "//inner/a", "/./inner/a", "/x/../inner/a", "/inner;x/a", "/inner%2fa"])
    func spelled(_ path: String) throws {
        let play = try play { settings in
            var route = Route()
            (route.name, route.pattern) = ("inner", RoutePattern("/inner/**"))
            route.access = try AddressRules(allow: [try IPNetwork("10.0.0.0/8")], deny: [])
            settings.routes = [route]
        }
        #expect(try play.get(path, [("X-Forwarded-For", "192.0.2.1")]).status == 403)
        #expect(try play.get(path, [("X-Forwarded-For", "10.1.1.1")]).status == 200)
        #expect(try play.get("/outer/inner/a", [("X-Forwarded-For", "192.0.2.1")]).status == 200)
    }

    @Test("forwarding fields of an untrusted client do not select a variant", arguments: [ForwardedPolicy.replace, .trust])
    func selected(_ policy: ForwardedPolicy) throws {
        let trusted = NetworkList([try IPNetwork("10.0.0.0/8")])
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60", "Vary: X-Forwarded-Host"])] }) {
            settings in
            settings.downstream.trustedProxies = trusted
            settings.forwarding.forwarded = policy
        }
        for host in ["one", "two", "three"] { _ = try play.get("/a", [("X-Forwarded-Host", host)]) }
        #expect(play.origin.requests.count == 1)
    }

    @Test("each request on a connection is logged with its own client, also if pipelined or repeated")
    func pipelined() throws {
        let play = try play()
        _ = try play.get("/a", [("X-Forwarded-For", "192.0.2.1")])
        let client = try play.client()
        let request = { (path: String, address: String) in
            "GET \(path) HTTP/1.1\r\nHost: cistern.test\r\nX-Forwarded-For: \(address)\r\n\r\n"
        }
        client.send(
            request("/b", "192.0.2.2") + request("/a", "192.0.2.3") + request("/c", "192.0.2.4") + "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in 0..<4 { #expect(client.readResponse()?.status == 200) }
        for _ in 0..<8 {
            client.send(request("/a", "192.0.2.5"))
            #expect(client.readResponse()?.status == 200)
        }
        let exchanges = try #require(JSONValue(play.admin("GET", "/-/why?last=12").content)?["exchanges"]?.array)
        let clients = exchanges.compactMap { $0["client"]?.string }
        #expect(clients.filter { $0 == "192.0.2.5" }.count == 8)
        for address in ["192.0.2.2", "192.0.2.3", "192.0.2.4", "127.0.0.1"] {
            #expect(clients.filter { $0 == address }.count == 1, "\(address)")
        }
    }

    @Test("a disconnected client's request counts toward the limit while the upstream processes it")
    func abandoned() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) { $0.access.requestsPerAddress = 1 }
        do {
            let gone = try play.client(getting: "/a")
            #expect(origin.waitForRequests(1))
            gone.endsWithReset()
        }
        #expect(try play.waitFor("cistern_connections", 1))
        #expect(try play.get("/b").status == 429)
        gate.open()
        while try play.get("/b").status == 429 {}
    }

    @Test("an only-if-cached request needs no upstream slot")
    func storedOnly() throws {
        let gate = Gate()
        let origin = ScriptedOrigin { _ in [.pass(gate), .json("1")] }
        let play = try ProxyPlay(origin) { $0.access.requestsPerAddress = 1 }
        let client = try play.client(getting: "/a")
        #expect(origin.waitForRequests(1))
        #expect(try play.get("/b", [("Cache-Control", "only-if-cached")]).status == 504)
        gate.open()
        #expect(client.readResponse()?.status == 200)
    }
}
