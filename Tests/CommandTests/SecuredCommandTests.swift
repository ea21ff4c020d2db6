// Tests of commands over TLS: with an admin interface that requires a client certificate, and with the proxy.

import Administration
import Downstream
import ReverseProxy
import TestSupport
import Testing

@Suite("Commands over TLS", .slow, .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct SecuredCommandTests {
    private let certificates: TestCertificates
    private let server: TestCertificates.Pair
    private let client: TestCertificates.Pair

    init() throws {
        certificates = try TestCertificates()
        (server, client) = (try certificates.make("server"), try certificates.make("client"))
    }

    /// - Parameter token: additional token of the admin interface; nil for none.
    private func play(token: String? = nil) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) { [certificates, server] settings in
            settings.listening.listeners[0].isTLS = true
            var admin = ListenerSettings(.ipv4(host: "0.0.0.0", port: 0))
            (admin.isTLS, admin.verification) = (true, .required)
            settings.listening.adminListeners = [admin]
            var one = ServerTLSSettings.Certificate(file: server.certificate, keyFile: server.key)
            one.clientAuthorities = certificates.authority
            settings.listening.tls.certificates = [one]
            settings.admin.token = token.map { Array($0.utf8) }
        }
    }

    private var trust: String { "--ca-file \(certificates.authority)" }
    private var own: String { "--client-cert \(client.certificate) --client-key \(client.key)" }

    @Test("only a trusted client certificate gives access to the admin API")
    func certificate() throws {
        let play = try play()
        let stats = "status --admin https://127.0.0.1:\(play.adminPort)"
        let good = try CommandLineTool.run("\(stats) \(trust) \(own)")
        #expect(good.status == 0 && good.text.contains("requests"), "\(good.text)")
        for files in ["", trust, "\(own)", "--ca-file \(server.certificate) \(own) --admin https://localhost:\(play.adminPort)"] {
            let refused = try CommandLineTool.run("\(stats) \(files)")
            #expect(refused.status == 1 && refused.text.contains("no Cistern responds on https://"), "\(files): \(refused.text)")
        }
    }

    @Test("if a token is configured, it is required in addition to the certificate")
    func token() throws {
        let play = try play(token: "0123456789abcdef")
        let stats = "status --admin https://127.0.0.1:\(play.adminPort) \(trust) \(own)"
        let refused = try CommandLineTool.run(stats)
        #expect(refused.status == 1 && refused.text.contains("The bearer token of the admin interface is missing or wrong"))
        let file = play.directory + "/token"
        try TestTools.write("0123456789abcdef\n", to: file)
        #expect(try CommandLineTool.run("\(stats) --token-file \(file)").status == 0)
    }

    @Test("a web page of another origin is refused despite the browser's client certificate")
    func webPages() throws {
        let play = try play()
        var offer = TLSOffer()
        (offer.name, offer.authority, offer.pair) = (nil, nil, client)
        let browser = try TestClient(port: play.adminPort, offer)
        #expect(browser.get("/-/stats", [("Origin", "https://evil.example")])?.status == 403)
        #expect(browser.get("/-/stats")?.status == 200)
    }

    @Test("warm connects to the proxy over TLS")
    func warm() throws {
        let play = try play()
        let list = play.directory + "/targets"
        try TestTools.write("/a\n/b\n", to: list)
        let outcome = try CommandLineTool.run("warm \(list) --proxy https://127.0.0.1:\(play.port) \(trust)")
        #expect(outcome.status == 0, "\(outcome.text)")
        #expect(play.origin.requests.map(\.target).sorted() == ["/a", "/b"])
    }
}
