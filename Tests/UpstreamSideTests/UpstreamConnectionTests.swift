// Tests of connections to the upstream: TLS with certificates on both sides, a forward proxy, a Unix socket, and a base path.

import CachePolicy
import CacheStore
import HTTPCore
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Connections to the upstream", .play, .enabled(if: WebServer.isInstalled, "nginx or openssl is missing: make test installs them"))
struct UpstreamConnectionTests {
    /// An unused origin: requests go to the web server instead.
    private static func nobody() -> ScriptedOrigin { ScriptedOrigin { _ in [.close] } }

    private func secured(_ certificate: TestCertificates.Pair) -> WebServer.Setup {
        var setup = WebServer.Setup()
        setup.listens = "ssl"
        setup.certificate = certificate
        return setup
    }

    private func play(_ server: WebServer, ca: String?, _ more: @escaping (inout UpstreamSettings) -> Void = { _ in }) throws -> ProxyPlay {
        let port = server.port
        return try ProxyPlay(Self.nobody()) { settings in
            settings.upstream = UpstreamSettings(host: "127.0.0.1", port: port)
            settings.upstream.isTLS = true
            settings.upstream.caFile = ca
            more(&settings.upstream)
        }
    }

    // MARK: TLS

    @Test("TLS works with a configured authority; a certificate of another authority is a rescued failure")
    func authority() throws {
        let certificates = try TestCertificates()
        var server = try WebServer(secured(certificates.make("server")))
        let play = try play(server, ca: certificates.authority)
        #expect(try play.get("/a").text == "{\"protocol\":\"HTTP/1.1\",\"target\":\"/a\",\"client\":\"\"}")

        let others = try TestCertificates()
        let port = server.port
        server.stop()
        server = try WebServer(port: port, secured(others.make("server")))
        let rescued = try play.get("/a")
        #expect(rescued.status == 200)
        #expect(rescued["Cache-Status"]?.hasSuffix("detail=tls_certificate_error") == true)
        #expect(rescued.text == "{\"protocol\":\"HTTP/1.1\",\"target\":\"/a\",\"client\":\"\"}")
        let failed = try play.get("/b")
        #expect(failed.status == 502)
        #expect(
            failed["Proxy-Status"] == "cistern; error=tls_certificate_error; details=\"unable to get local issuer certificate\"")
    }

    @Test("a certificate for another host is refused, unless verification is disabled")
    func otherHost() throws {
        let certificates = try TestCertificates()
        let server = try WebServer(secured(certificates.make("server", hosts: "DNS:api.test")))
        let refused = try play(server, ca: certificates.authority).get("/a")
        #expect(refused["Proxy-Status"] == "cistern; error=tls_certificate_error; details=\"IP address mismatch\"")
        #expect(try play(server, ca: nil) { $0.verify = false }.get("/a").status == 200)
    }

    @Test("an upstream without TLS yields a TLS protocol error")
    func noTLS() throws {
        let server = try WebServer(WebServer.Setup())
        let response = try play(server, ca: nil).get("/a")
        #expect(response.status == 502)
        #expect(response["Proxy-Status"] == "cistern; error=tls_protocol_error; details=\"wrong version number\"")
    }

    @Test("the client certificate is presented to an upstream that requests one")
    func clientCertificate() throws {
        let certificates = try TestCertificates()
        let own = try certificates.make("cistern")
        var setup = try secured(certificates.make("server"))
        setup.clientAuthority = certificates.authority
        let server = try WebServer(setup)
        #expect(try play(server, ca: certificates.authority).get("/a").status == 400)
        let play = try play(server, ca: certificates.authority) {
            $0.clientCertificate = own.certificate
            $0.clientKey = own.key
        }
        #expect(try play.get("/a").text.contains("\"client\":\"CN=cistern\""))
    }

    // MARK: Proxies and sockets

    @Test("with a forward proxy, plain upstreams are requested by absolute URI and TLS upstreams through a tunnel")
    func forwardProxy() throws {
        let certificates = try TestCertificates()
        let server = try WebServer(secured(certificates.make("server")))
        let port = server.port
        let proxy = ScriptedOrigin { request in
            request.method == "CONNECT"
                ? [.send("HTTP/1.1 200 Connected\r\n\r\n"), .tunnel(port)] : [.json("{\"line\":\"\(request.line)\"}")]
        }
        let plain = try ProxyPlay(proxy) {
            $0.upstream.proxy = "http://127.0.0.1:\($0.upstream.port)"
            $0.upstream.host = "api.test"
            $0.upstream.port = 80
            $0.upstream.basePath = "/v1"
        }
        #expect(try plain.get("/a?x=%7e").text == "{\"line\":\"GET http://api.test/v1/a?x=%7e HTTP/1.1\"}")
        #expect(proxy.requests.last?["Host"] == "api.test")
        #expect(try plain.request("OPTIONS", "*").text == "{\"line\":\"OPTIONS http://api.test HTTP/1.1\"}")
        #expect(try plain.metric("cistern_upstream_connections_total") == 1)

        let proxyPort = proxy.port
        let tunnelled = try play(server, ca: certificates.authority) { $0.proxy = "http://127.0.0.1:\(proxyPort)" }
        #expect(try tunnelled.get("/a").text == "{\"protocol\":\"HTTP/1.1\",\"target\":\"/a\",\"client\":\"\"}")
        #expect(proxy.requests.last?.line == "CONNECT 127.0.0.1:\(port) HTTP/1.1")
        proxy.down()
        #expect(try tunnelled.get("/a")["Cache-Status"]?.contains("hit; ttl=") == true)
        #expect(try tunnelled.get("/b").status == 502)
    }

    @Test(
        "a tunnel refused by the forward proxy is reported as such and not retried", arguments: ["GET", "POST"],
        [407, 403, 502])
    func refusedTunnel(method: String, status: Int) throws {
        let proxy = ScriptedOrigin { _ in [.json("{\"proxy\":1}", status: "\(status) No")] }
        let play = try ProxyPlay(proxy) {
            $0.upstream.proxy = "http://127.0.0.1:\($0.upstream.port)"
            $0.upstream.host = "api.test"
            $0.upstream.port = 443
            $0.upstream.isTLS = true
        }
        let response = try play.request(method, "/a", content: method == "POST" ? "{}" : nil)
        #expect(response.status == 502)
        let details = "the forward proxy responded \(status) to CONNECT"
        #expect(response["Proxy-Status"] == "cistern; error=connection_refused; details=\"\(details)\"")
        #expect(response.text.contains(details) && !response.text.contains("proxy\":1"))
        #expect(proxy.requests.map(\.line) == ["CONNECT api.test:443 HTTP/1.1"])
        #expect(try play.metric("cistern_upstream_errors_total{error=\"tunnel_refused\"}") == 1)
    }

    @Test("credentials in the forward proxy's URL are sent only to that proxy")
    func proxyCredentials() throws {
        let certificates = try TestCertificates()
        let server = try WebServer(secured(certificates.make("server")))
        let port = server.port
        let proxy = ScriptedOrigin { request in
            request.method == "CONNECT" ? [.send("HTTP/1.1 200 Connected\r\n\r\n"), .tunnel(port)] : [.json("1")]
        }
        let plain = try ProxyPlay(proxy) {
            $0.upstream.proxy = "http://us%65r:pass@127.0.0.1:\($0.upstream.port)"
            $0.upstream.host = "api.test"
            $0.upstream.port = 80
        }
        #expect(try plain.get("/a").text == "1")
        #expect(proxy.requests.last?["Proxy-Authorization"] == "Basic dXNlcjpwYXNz")
        let proxyPort = proxy.port
        let tunnelled = try play(server, ca: certificates.authority) { $0.proxy = "http://user:pass@127.0.0.1:\(proxyPort)" }
        #expect(try tunnelled.get("/a").status == 200)
        #expect(proxy.requests.last?["Proxy-Authorization"] == "Basic dXNlcjpwYXNz")
    }
}

@Suite("Addresses of the upstream", .play)
struct UpstreamAddressTests {
    @Test("an upstream on a Unix socket fails and recovers")
    func unixSocket() throws {
        let directory = TestTools.temporaryDirectory()
        let origin = ScriptedOrigin(unixSocket: "\(directory.path)/api") { request in [.json("{\"host\":\"\(request["Host"] ?? "")\"}")] }
        let play = try ProxyPlay(origin) {
            $0.upstream.unixSocket = "\(directory.path)/api"
            $0.upstream.host = "api.test"
            $0.upstream.port = 80
        }
        #expect(try play.get("/a").text == "{\"host\":\"api.test\"}")
        origin.down()
        let rescued = try play.get("/a")
        #expect(rescued.text == "{\"host\":\"api.test\"}")
        #expect(rescued["Cache-Status"]?.hasSuffix("detail=connection_refused") == true)
        #expect(try play.get("/b").status == 502)
    }

    @Test("a base path is added to every target and removed from redirects")
    func basePath() throws {
        let origin = ScriptedOrigin { request in
            let host = request["Host"] ?? ""
            switch request.target {
            case "/v1/moved": return [.send("HTTP/1.1 301 Moved\r\nLocation: http://\(host)/v1/there?x=1\r\nContent-Length: 0\r\n\r\n")]
            case "/v1/away": return [.send("HTTP/1.1 301 Moved\r\nLocation: http://\(host)/other\r\nContent-Length: 0\r\n\r\n")]
            default: return [.json("\"\(request.line)\"")]
            }
        }
        let play = try ProxyPlay(origin) { $0.upstream.basePath = "/v1" }
        #expect(try play.get("/a?b=/c").text == "\"GET /v1/a?b=/c HTTP/1.1\"")
        #expect(try play.get("/").text == "\"GET /v1/ HTTP/1.1\"")
        #expect(try play.get("/moved")["Location"] == "/there?x=1")
        #expect(try play.get("/away")["Location"] == "http://127.0.0.1:\(origin.port)/other")
        #expect(try play.request("OPTIONS", "*").text == "\"OPTIONS * HTTP/1.1\"")
        let client = try play.client(sending: "GET http://a:\(play.port)/whole?x HTTP/1.1\r\nHost: a:\(play.port)\r\n\r\n")
        #expect(client.readResponse()?.text == "\"GET /v1/whole?x HTTP/1.1\"")
    }
}
