// Tests of clients that use Cistern as a forward proxy: they can reach the served APIs by their URIs, and nothing else.

import Addresses
import HTTPCore
import JSON
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Forward proxy mode", .play)
struct ForwardProxyTests {
    private static func origin(_ name: String) -> ScriptedOrigin {
        ScriptedOrigin { request in [.json("\"\(name) \(request.target) \(request["Host"] ?? "")\"", ["Cache-Control: max-age=60"])] }
    }

    /// A request with an absolute URI, as clients send it with `http_proxy`.
    private func ask(_ uri: String, _ play: ProxyPlay, method: String = "GET", host: String? = nil) throws -> TestResponse {
        let client = try play.client()
        let authority = host ?? String(uri.split(separator: "/")[1])
        client.send("\(method) \(uri) HTTP/1.1\r\nHost: \(authority)\r\nProxy-Connection: keep-alive\r\n\r\n")
        return try #require(client.readResponse())
    }

    /// A single API with the name api.test. Its upstream has another name.
    private func alone(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(Self.origin("only")) { settings in
            settings.access.isForwardProxy = true
            settings.access.names = ServedNames(["api.test"])
            configure(&settings)
        }
    }

    @Test("a configured API is served under its absolute URI and shares stored responses with other requests")
    func served() throws {
        let play = try alone()
        let first = try ask("http://api.test/a?x=1", play)
        #expect(first.text == "\"only /a?x=1 127.0.0.1:\(play.origin.port)\"")
        #expect(try ask("http://API.test:8080/a?x=1", play)["Cache-Status"]?.contains("hit") == true)
        #expect(try play.get("/a?x=1", [("Host", "api.test")])["Cache-Status"]?.contains("hit") == true)
        #expect(try ask("http://api.test", play).status == 200)
        #expect(play.origin.requests.allSatisfy { $0["Proxy-Connection"] == nil })
    }

    @Test(
        "any other absolute URI gets 403 with an explanation and no stored data",
        arguments: ["http://other.test/a", "http://other.test/metrics", "http://api.test.evil/a", "http://127.0.0.1/healthz"])
    func others(_ uri: String) throws {
        let play = try alone()
        _ = try ask("http://api.test/a", play)
        for _ in 1...3 {
            let response = try ask(uri, play)
            #expect(response.status == 403 && response.text.contains("belongs to none of them"))
        }
        #expect(play.origin.requests.count == 1)
        #expect(try play.metric("cistern_refused_requests_total{reason=\"not_proxied\"}") == 3)
        #expect(try play.get("/healthz").status == 200)
    }

    @Test("under an absolute URI an API's path named like an internal page reaches the API")
    func ownPages() throws {
        let play = try alone()
        #expect(try ask("http://api.test/metrics", play).text.hasPrefix("\"only /metrics"))
    }

    @Test("CONNECT gets 405, whatever its target", arguments: ["api.test:443", "other.test:443"])
    func tunnels(_ target: String) throws {
        let response = try ask(target, alone(), method: "CONNECT", host: target)
        #expect(response.status == 405 && response["Allow"]?.contains("GET") == true)
        let several = try ask(target, self.several().play, method: "CONNECT", host: target)
        #expect(several.status == 405)
    }

    @Test("https URIs are served only over TLS", arguments: ["https://api.test/a"])
    func schemes(_ uri: String) throws {
        #expect(try ask(uri, alone()).status == 421)
        let secured = try ProxyPlay(Self.origin("only"), clientProtocol: .tls) { settings in
            settings.access.isForwardProxy = true
            settings.access.names = ServedNames(["api.test"])
        }
        #expect(try ask(uri, secured).status == 200)
        #expect(try ask("http://api.test/a", secured).status == 200, "TLS is used only to the forward proxy")
    }

    @Test("an API without a host is addressed by its upstream's name, and an https upstream also by http")
    func upstreamNames() throws {
        let play = try ProxyPlay(Self.origin("only")) { $0.access.isForwardProxy = true }
        #expect(try ask("http://127.0.0.1:\(play.origin.port)/a", play).status == 200)
        #expect(try ask("http://127.0.0.1:\(play.port)/a", play).status == 403)
        #expect(try ask("http://127.0.0.1/a", play).status == 403)
        let secured = try ProxyPlay(Self.origin("only")) { settings in
            settings.access.isForwardProxy = true
            (settings.upstream.isTLS, settings.upstream.host, settings.upstream.port) = (true, "api.test", 443)
            settings.upstream.connectTimeout = .milliseconds(1)
        }
        #expect(try ask("http://api.test/a", secured).status >= 502, "the proxy is contacted")
        #expect(try ask("http://api.test:443/a", secured).status >= 502)
        #expect(try ask("http://api.test:8080/a", secured).status == 403)
    }

    /// `users` has a host, `orders` a path on its host, and `named` is known by its upstream's name.
    private func several() throws -> (play: ProxyPlay, named: ScriptedOrigin) {
        let origins = ["users", "orders", "named"].map { Self.origin($0) }
        let play = try ProxyPlay(origins[0]) { settings in
            settings.access.isForwardProxy = true
            settings.access.names = ServedNames()
            var apis = [settings, settings, settings]
            for (place, name) in ["users", "orders", "named"].enumerated() {
                (apis[place].apiName, apis[place].upstream.port) = (name, origins[place].port)
            }
            for place in 0...1 {
                apis[place].scope.names = ServedNames(["shop.test"])
                apis[place].access.names = apis[place].scope.names
            }
            (apis[1].scope.path, apis[1].scope.isStripped) = (Array("/orders".utf8), true)
            (apis[0].scope.path, apis[0].scope.isStripped) = (Array("/users".utf8), false)
            settings.apis = apis
        }
        return (play, origins[2])
    }

    @Test("with several APIs the authority and path select the API")
    func chosen() throws {
        let (play, named) = try several()
        #expect(try ask("http://shop.test/users/1", play).text.hasPrefix("\"users /users/1"))
        #expect(try ask("http://shop.test/orders/1", play).text.hasPrefix("\"orders /1"))
        #expect(try ask("http://127.0.0.1:\(named.port)/x", play).text.hasPrefix("\"named /x"))
        #expect(try play.get("/x")["Cache-Status"]?.contains("hit") == true)
        #expect(try ask("http://shop.test/others", play).status == 404)
        #expect(try ask("http://elsewhere.test/x", play).status == 403)
        #expect(try ask("http://127.0.0.1:1/x", play).status == 403)
        let why = try play.admin("GET", "/-/why?last=1")
        #expect(JSONValue(why.content)?["exchanges"]?.array?.first?["api"]?.string == nil)
    }

    @Test("without forward proxy mode an absolute URI for another authority gets 421")
    func off() throws {
        let play = try alone { $0.access.isForwardProxy = false }
        #expect(try ask("http://other.test/a", play).status == 421)
        #expect(try ask("other.test:443", play, method: "CONNECT", host: "other.test:443").status == 405)
    }
}
