// Tests of client certificates: which clients need one, how it identifies a user, and what the upstream learns of it.

import Addresses
import Administration
import CachePolicy
import Downstream
import Forwarding
import ReverseProxy
import Server
import TestSupport
import Testing

@Suite("Client certificates", .play, .clientProtocol(.tls))
struct ClientCertificateTests {
    /// Issued by the authority that the proxy trusts.
    private let certificates: TestCertificates

    init() throws { certificates = try TestCertificates() }

    private func pair(_ name: String) throws -> TestCertificates.Pair { try certificates.make(name) }

    private func play(
        _ verification: ClientVerification, _ change: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws -> ProxyPlay {
        let file = certificates.authority
        let origin = ScriptedOrigin { request in
            [.json("{\"client\":\"\(request["Client-Cert"] ?? "none")\"}", ["Cache-Control: max-age=600"])]
        }
        return try ProxyPlay(origin) {
            $0.listening.tls.certificates[0].clientAuthorities = file
            $0.listening.tls.certificates[0].verification = verification
            change(&$0)
        }
    }

    private func client(_ play: ProxyPlay, _ pair: TestCertificates.Pair?) throws -> TestClient {
        var offer = TLSOffer()
        offer.pair = pair
        return try TestClient(port: play.port, offer)
    }

    /// In TLS 1.3, a client learns that it was rejected when it reads.
    private func isLetIn(_ play: ProxyPlay, _ pair: TestCertificates.Pair?) throws -> Bool {
        try client(play, pair).get("/a")?.status == 200
    }

    @Test("when a certificate is required, clients without one or with another authority's are rejected")
    func required() throws {
        let play = try play(.required)
        #expect(try isLetIn(play, pair("ann")))
        #expect(try !isLetIn(play, nil))
        #expect(try !isLetIn(play, SharedCertificates.client))
    }

    @Test("when a certificate is optional, clients without one are accepted and invalid ones rejected")
    func optional() throws {
        let play = try play(.optional)
        #expect(try isLetIn(play, pair("ann")) && isLetIn(play, nil))
        #expect(try !isLetIn(play, SharedCertificates.client))
        #expect(try play.metric("cistern_tls_handshakes_failed_total{reason=\"certificate\"}") == 1)
    }

    @Test("stored responses are separate per client certificate; a resumed session keeps its client")
    func partitions() throws {
        let play = try play(.optional)
        let (ann, bob) = (try client(play, pair("ann")), try client(play, pair("bob")))
        let nobody = try client(play, nil)
        for client in [ann, bob, nobody] {
            #expect(client.get("/a")?["Cache-Status"]?.contains("fwd=uri-miss") == true)
        }
        for _ in 0..<20 {
            for client in [ann, bob, nobody] { #expect(client.get("/a")?["Cache-Status"]?.contains("hit") == true) }
        }
        #expect(play.origin.requests.count == 3)
        var again = TLSOffer()
        (again.pair, again.session) = (try pair("ann"), ann.tls?.session)
        let resumed = try TestClient(port: play.port, again)
        #expect(resumed.tls?.isResumed == true && resumed.get("/a")?["Cache-Status"]?.contains("hit") == true)
    }

    @Test(
        "a renewed certificate is the same client by subject, but another client by key", arguments: [ClientIdentification.subject, .key])
    func renewed(_ identification: ClientIdentification) throws {
        let play = try play(.required) { $0.listening.tls.identification = identification }
        let one = try client(play, pair("ann"))
        #expect(one.get("/a")?["Cache-Status"]?.contains("fwd=uri-miss") == true)
        let renewed = try client(play, pair("ann"))
        #expect(renewed.get("/a")?["Cache-Status"]?.contains("hit") == (identification == .subject))
    }

    @Test("the upstream receives the client certificate only if configured, and never forged certificate fields")
    func forwarded() throws {
        let forged = [("Client-Cert", ":AAAA:"), ("X-SSL-Client-Verify", "SUCCESS"), ("client_cert", "x")]
        for isSent in [false, true] {
            let play = try play(.required) { $0.listening.tls.sendsCertificate = isSent }
            let response = try #require(client(play, pair("ann")).get("/a", forged))
            #expect(response.text.contains("none") == !isSent && !response.text.contains(":AAAA:"))
            #expect(response.text.contains(":MII") == isSent)
            let seen = try #require(play.origin.requests.last)
            #expect(seen["X-SSL-Client-Verify"] == nil && seen["client certificate"] == nil && seen["client_cert"] == nil)
        }
    }

    @Test("a client cannot remove its certificate from the upstream request through Connection")
    func connectionOption() throws {
        let play = try play(.required) { $0.listening.tls.sendsCertificate = true }
        let client = try client(play, pair("ann"))
        for option in ["client certificate", "Client-Cert", "client scheme, client certificate", "client-certificate"] {
            #expect(client.get("/\(option.utf8.count)", [("Connection", option)])?.text.contains(":MII") == true, "\(option)")
        }
    }

    @Test("a route that needs a certificate refuses clients without one, also for stored responses")
    func route() throws {
        let play = try play(.optional) { settings in
            var route = Route()
            (route.name, route.pattern, route.needsCertificate) = ("inner", RoutePattern("/inner/**"), true)
            settings.routes = [route]
        }
        let (ann, nobody) = (try client(play, pair("ann")), try client(play, nil))
        #expect(ann.get("/inner/a")?.status == 200)
        for _ in 0..<3 {
            let refused = try #require(nobody.get("/inner/a"))
            #expect(refused.status == 403 && refused.text.contains("client certificate"))
        }
        #expect(nobody.get("/outer")?.status == 200)
    }

    @Test("a host with other client certificate requirements is not served on this connection")
    func otherHost() throws {
        let outer = try certificates.make("outer", hosts: "DNS:outer.test")
        let play = try play(.required) {
            $0.listening.tls.certificates.insert(ServerTLSSettings.Certificate(file: outer.certificate, keyFile: outer.key), at: 0)
        }
        var offer = TLSOffer()
        (offer.name, offer.authority) = ("outer.test", nil)
        let client = try TestClient(port: play.port, offer)
        #expect(client.get("/a", [("Host", "outer.test")])?.status == 200)
        for host in ["cistern.test", "CISTERN.test:443"] { #expect(client.get("/a", [("Host", host)])?.status == 421) }
        for host in ["cistern.test.", "cistern.test.."] { #expect(client.get("/a", [("Host", host)])?.status == 421) }
        // The session cannot be resumed for another host.
        (offer.name, offer.session) = ("cistern.test", client.tls?.session)
        let other = try? TestClient(port: play.port, offer)
        #expect(other?.get("/a", [("Host", "cistern.test")]) == nil)
    }

    @Test("certificate requirements also apply per host if the listener requires certificates from all clients")
    func otherAuthority() throws {
        let others = try TestCertificates()
        let outer = try certificates.make("outer", hosts: "DNS:outer.test")
        let play = try play(.off) { settings in
            var first = ServerTLSSettings.Certificate(file: outer.certificate, keyFile: outer.key)
            first.clientAuthorities = others.authority
            settings.listening.tls.certificates.insert(first, at: 0)
            settings.listening.listeners[0].verification = .required
        }
        var offer = TLSOffer()
        (offer.name, offer.authority, offer.pair) = ("outer.test", nil, try others.make("eve"))
        let client = try TestClient(port: play.port, offer)
        for _ in 0..<3 {
            #expect(client.get("/a", [("Host", "outer.test")])?.status == 200)
            #expect(client.get("/a", [("Host", "cistern.test")])?.status == 421)
        }
    }

    /// Changes by a reload, and whether an open connection would be refused under the new settings.
    enum Change: CaseIterable {
        case required, otherAuthority, listenerRequires, nothing, addressDenied, otherName

        var ends: Bool { self != .nothing && self != .otherName }
    }

    @Test("after a reload changes client authentication, existing connections serve no more requests", arguments: Change.allCases)
    func reload(_ change: Change) throws {
        let others = try TestCertificates()
        let play = try play(.optional)
        let (ann, other) = (try client(play, pair("ann")), try HTTP2TestClient(port: play.port, isSecured: true))
        let upload = try client(play, pair("ann"))
        for _ in 0..<2 { #expect(ann.get("/a")?.status == 200 && other.get("/a")?.status == 200 && upload.get("/a")?.status == 200) }
        let extra = try certificates.make("extra", hosts: "DNS:extra.test")
        let denied = try AddressRules(allow: [], deny: [IPNetwork("192.0.2.0/24")])
        let outcome = play.reload {
            switch change {
            case .required: $0.settings.listening.tls.certificates[0].verification = .required
            case .otherAuthority: $0.settings.listening.tls.certificates[0].clientAuthorities = others.authority
            case .listenerRequires: $0.settings.listening.listeners[0].verification = .required
            case .addressDenied: $0.settings.listening.listeners[0].access = denied
            case .otherName:
                $0.settings.listening.tls.certificates.append(ServerTLSSettings.Certificate(file: extra.certificate, keyFile: extra.key))
            case .nothing: $0.settings.forwarding.name = "other"
            }
        }
        guard outcome?.label == "applied" else {
            Issue.record("the reload was refused")
            return
        }
        let response = ann.get("/a")
        #expect(response?.status == (change.ends ? 421 : 200))
        #expect(response?["Connection"] == (change == .nothing ? nil : "close"))
        #expect(other.get("/a")?.status == (change.ends ? 421 : 200))
        #expect(upload.request("POST", "/a", content: "1")?.status == (change.ends ? 421 : 200))
    }
}
