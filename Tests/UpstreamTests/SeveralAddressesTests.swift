// A name with two addresses. The server at the first one accepts connections, and fails then.

import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("Names with several addresses", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct SeveralAddressesTests {
    /// - Parameter first: the server at the first address.
    private func asking(_ first: ScriptedOrigin, _ way: Way, authority: String? = nil) -> Asking {
        let names = ResolvedNames(NameLookUp { _ in ["127.0.0.1", "127.0.0.2"].compactMap { NamedAddress($0) } })
        names.refresh("localhost", interval: 1_000_000, now: 0)
        while names.addresses(of: "localhost").isEmpty {}
        return Asking(first, way) { settings in
            (settings.host, settings.names) = ("localhost", names)
            settings.caFile = authority
        }
    }

    @Test("after a failed TLS handshake, a request uses the next address, also a write", arguments: [false, true])
    func handshakes(isHTTP2: Bool) throws {
        let (certificates, others) = (try TestCertificates(), try TestCertificates())
        let bad = ScriptedOrigin(tls: OriginTLS(try others.make("server", hosts: "DNS:localhost"), choosesHTTP2: isHTTP2)) { _ in
            [.json("\"bad\"")]
        }
        let pair = try certificates.make("server", hosts: "DNS:localhost")
        let good = ScriptedOrigin(beside: bad, tls: OriginTLS(pair, choosesHTTP2: isHTTP2)) { _ in [.json("\"good\"")] }
        let asking = asking(bad, isHTTP2 ? .http2TLS : .tls, authority: certificates.authority)
        defer { asking.end() }
        let recorders = (0..<4).map { asking.ask($0 % 2 == 0 ? "GET" : "POST", "/\($0)") }
        for recorder in recorders { #expect(recorder.end() == .success(true) && recorder.now.content.elementsEqual("\"good\"".utf8)) }
        #expect(bad.requests.isEmpty)
        good.down()
        // Each address is tried once.
        let refused = asking.ask("GET", "/refused").end()
        #expect(refused == .failure(.tlsCertificateError) || refused == .failure(.connectionRefused))
    }

    @Test(
        "after a connection without a response, a safe request is repeated at the next address", arguments: [OriginStep.close, .reset],
        [Way.clear, .http2])
    func withoutResponse(step: OriginStep, way: Way) {
        let bad = way.origin { _ in [step] }
        let good = ScriptedOrigin(beside: bad) { _ in [.json("\"good\"")] }
        let asking = asking(bad, way)
        defer { asking.end() }
        for number in 0..<4 { #expect(asking.ask("GET", "/\(number)").end() == .success(true)) }
        #expect(!good.requests.isEmpty && bad.requests.count <= 4)
    }
}
