// Tests of upstream errors, each with a real origin. The response, Proxy-Status, `why`, `cistern upstream`, the status page and the log
// show the text of OpenSSL, the C library or the parser. The named setting removes the error.

import Downstream
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

/// One failure, and its text in every output.
struct CauseScene: Sendable, CustomTestStringConvertible {
    let name: String
    /// Replaces the test's origin.
    let origin: @Sendable () throws -> ScriptedOrigin
    /// Changes the settings to cause the failure.
    var settings: @Sendable (inout UpstreamSettings) -> Void = { _ in }
    let error: String
    /// nil if only the error is known.
    let details: String?
    /// Number of the received alert.
    var alert: Int?
    /// Description of the certificate in the log and `cistern upstream`.
    var certificate: [String] = []
    /// The named setting; nil if none helps.
    let setting: String?
    /// Changes that setting.
    var cure: (@Sendable (inout UpstreamSettings) -> Void)?

    var testDescription: String { name }

    var proxyStatus: String {
        if let alert { return "cistern; error=\(error); alert-id=\(alert); alert-message=\"\(details ?? "")\"" }
        return "cistern; error=\(error)" + (details.map { "; details=\"\($0)\"" } ?? "")
    }
}

/// The certificate authority of all scenes of a run. `@unchecked Sendable` because it is immutable; each certificate has a unique name.
final class CauseCertificates: @unchecked Sendable {
    private static let shared = CauseCertificates()

    private let made = try? TestCertificates()
    private let count = Mutex(0)

    struct Missing: Error {}

    static var authority: TestCertificates {
        get throws {
            guard let made = shared.made else { throw Missing() }
            return made
        }
    }

    static func fresh(_ name: String) -> String {
        name
            + String(
                shared.count.withLock { count in
                    count += 1
                    return count
                })
    }

    static func tls(_ pair: @autoclosure () throws -> TestCertificates.Pair, _ demand: OriginTLS.Demand? = nil) rethrows -> OriginTLS {
        let pair = try pair()
        return demand.map { OriginTLS(pair, $0) } ?? OriginTLS(pair)
    }
}

/// Steps of a test for any scene.
struct CausePlay {
    let scene: CauseScene
    let log = CapturedLines()
    let play: ProxyPlay
    let origin: ScriptedOrigin

    init(_ scene: CauseScene) throws {
        self.scene = scene
        let origin = try scene.origin()
        self.origin = origin
        play = try ProxyPlay(origin, log: log) { settings in
            settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
            scene.settings(&settings.upstream)
        }
    }

    func expectEverywhere() throws {
        let response = try play.get("/a")
        let status = scene.error.contains("timeout") ? 504 : 502
        #expect(response.status == status && response["Proxy-Status"] == scene.proxyStatus)
        let text = scene.details.map { "\(scene.error): \($0)" } ?? scene.error
        #expect(response.text.contains(text.replacingQuotes), "\(response.text)")
        try expectWhy()
        try expectUpstream()
        let page = try #require(TestClient(port: play.adminPort).get("/-/status")).text
        if let details = scene.details { #expect(page.contains(details.asMarkup), "the status page lacks \(details)") }
        let lines = log.all.filter { $0.contains(text) }
        #expect(lines.count == 1, "\(log.all)")
        for word in scene.certificate + [scene.setting ?? ""] where !word.isEmpty {
            #expect(lines.first?.contains(word) == true, "\(lines)")
        }
    }

    private func expectWhy() throws {
        let why = try #require(JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
        #expect(why["upstream"]?["error"]?.string == scene.error)
        #expect(why["upstream"]?["error_details"]?.string == scene.details)
        let sentences = (why["explanation"]?.array ?? []).compactMap(\.string).joined(separator: " ")
        #expect(sentences.contains(scene.details ?? ""), "\(sentences)")
        let settings = (why["advice"]?.array ?? []).compactMap { $0["setting"]?.string }.filter { $0.hasPrefix("upstream.") }
        #expect(settings == [scene.setting].compactMap { $0 })
    }

    private func expectUpstream() throws {
        let last = try #require(JSONValue(try play.admin("GET", "/-/upstream").content)?["last_failure"])
        #expect(last["cause"]?.string == scene.error && last["details"]?.string == scene.details)
        let shownAdvice = last["advice"]?.string ?? ""
        #expect(shownAdvice.hasPrefix(scene.setting ?? ""))
        #expect(last["over"] == false)
        let certificate = last["certificate"]?.string ?? ""
        for word in scene.certificate { #expect(certificate.contains(word), "\(certificate)") }
    }

    /// With the named setting the origin's response is served.
    func expectCure() throws {
        guard let cure = scene.cure else { return }
        let cured = try ProxyPlay(try scene.origin()) { settings in
            scene.settings(&settings.upstream)
            cure(&settings.upstream)
        }
        let response = try cured.get("/a")
        #expect(response.status == 200, "\(response["Proxy-Status"] ?? "")")
    }
}

extension String {
    /// Escaped for JSON.
    fileprivate var replacingQuotes: String { split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"") }
    /// Escaped for HTML.
    fileprivate var asMarkup: String { split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "&quot;") }
}

@Suite("Causes of TLS failures with the upstream", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct UpstreamTLSCauseTests {
    private static var certificates: TestCertificates { get throws { try CauseCertificates.authority } }
    @Sendable private static func respond(_ request: OriginRequest) -> [OriginStep] { [.json("1")] }
    @Sendable private static func trust(_ settings: inout UpstreamSettings) {
        settings.isTLS = true
        settings.caFile = try? certificates.authority
    }

    private static let alone = try? certificates.makeSelfSigned("alone")

    private static func origin(_ pair: @autoclosure () throws -> TestCertificates.Pair, _ demand: OriginTLS.Demand? = nil) throws
        -> ScriptedOrigin
    {
        ScriptedOrigin(tls: try CauseCertificates.tls(pair(), demand), respond)
    }

    static let scenes: [CauseScene] = certificateScenes + agreementScenes

    private static let certificateScenes = [
        CauseScene(
            name: "expired", origin: { try origin(certificates.make(CauseCertificates.fresh("expired"), validFrom: -7_200, to: -3_600)) },
            settings: trust,
            error: "tls_certificate_error", details: "certificate has expired", certificate: ["valid from", "issued by CN = authority"],
            setting: "upstream.verify", cure: { $0.verify = false }),
        CauseScene(
            name: "not yet valid", origin: { try origin(certificates.make(CauseCertificates.fresh("early"), validFrom: 3_600, to: 7_200)) },
            settings: trust,
            error: "tls_certificate_error", details: "certificate is not yet valid", certificate: ["valid from"],
            setting: "upstream.verify", cure: { $0.verify = false }),
        CauseScene(
            name: "of an unknown authority", origin: { try origin(certificates.make(CauseCertificates.fresh("foreign"))) },
            settings: {
                $0.isTLS = true
                $0.caFile = SharedCertificates.authority
            },
            error: "tls_certificate_error", details: "unable to get local issuer certificate", certificate: ["issued by CN = authority"],
            setting: "upstream.ca_file", cure: trust),
        CauseScene(
            name: "self-signed", origin: { try origin(#require(alone)) }, settings: trust,
            error: "tls_certificate_error", details: "self-signed certificate", certificate: ["issued by CN = alone"],
            setting: "upstream.ca_file", cure: { $0.caFile = alone?.certificate }),
        CauseScene(
            name: "for another name",
            origin: { try origin(certificates.make(CauseCertificates.fresh("named"), hosts: "DNS:localhost,DNS:*.api.test")) },
            settings: trust, error: "tls_certificate_error", details: "IP address mismatch",
            certificate: ["for DNS:localhost, DNS:*.api.test"], setting: "upstream.url", cure: { $0.host = "localhost" }),
        CauseScene(
            name: "an invalid certificate file", origin: { try origin(certificates.make(CauseCertificates.fresh("server"))) },
            settings: {
                $0.isTLS = true
                $0.caFile = "/nonexistent/ca.pem"
            },
            error: "tls_certificate_error", details: "a file of the TLS settings is unusable", setting: "upstream.ca_file", cure: trust),
    ]

    private static let agreementScenes = [
        CauseScene(
            name: "a required client certificate, TLS 1.3",
            origin: { try origin(certificates.make(CauseCertificates.fresh("server")), .clientCertificate(certificates.authority)) },
            settings: trust,
            error: "tls_alert_received", details: "certificate_required", alert: 116, setting: "upstream.client_certificate",
            cure: showOwn),
        CauseScene(
            name: "a client certificate is wanted, over HTTP/2",
            origin: {
                let pair = try certificates.make(CauseCertificates.fresh("server"))
                return ScriptedOrigin(tls: OriginTLS(pair, choosesHTTP2: true, .clientCertificate(try certificates.authority)), respond)
            }, settings: trust, error: "tls_alert_received", details: "certificate_required", alert: 116,
            setting: "upstream.client_certificate", cure: showOwn),
        CauseScene(
            name: "a required client certificate, TLS 1.2",
            origin: {
                let pair = try certificates.make(CauseCertificates.fresh("server"))
                return ScriptedOrigin(tls: OriginTLS(pair, isOld: true, .clientCertificate(try certificates.authority)), respond)
            }, settings: trust, error: "tls_alert_received", details: "handshake_failure", alert: 40,
            setting: "upstream.client_certificate", cure: showOwn),
        CauseScene(
            name: "a client certificate of another authority",
            origin: { try origin(certificates.make(CauseCertificates.fresh("server")), .clientCertificate(certificates.authority)) },
            settings: {
                trust(&$0)
                ($0.clientCertificate, $0.clientKey) = (SharedCertificates.client.certificate, SharedCertificates.client.key)
            },
            error: "tls_alert_received", details: "unknown_ca", alert: 48, setting: "upstream.client_certificate", cure: showOwn),
        CauseScene(
            name: "no common ALPN protocol",
            origin: { try origin(certificates.make(CauseCertificates.fresh("server")), .otherProtocol) }, settings: trust,
            error: "tls_alert_received", details: "no_application_protocol", alert: 120, setting: "upstream.http2"),
        CauseScene(
            name: "a TLS version that is too old",
            origin: { try origin(certificates.make(CauseCertificates.fresh("server")), .ancientTLS) }, settings: trust,
            error: "tls_alert_received", details: "protocol_version", alert: 70, setting: nil),
        CauseScene(
            name: "HTTP/2 is not agreed", origin: { try origin(certificates.make(CauseCertificates.fresh("server"))) },
            settings: {
                trust(&$0)
                $0.http2 = .priorKnowledge
            },
            error: "tls_protocol_error", details: "the upstream does not agree on HTTP/2", setting: "upstream.http2",
            cure: { $0.http2 = .auto }),
        CauseScene(
            name: "plain HTTP at an https upstream",
            origin: { ScriptedOrigin(greeting: [.send("HTTP/1.1 400 Bad Request\r\n\r\n")]) { _ in [.close] } }, settings: trust,
            error: "tls_protocol_error", details: "wrong version number", setting: "upstream.url"),
        CauseScene(
            name: "cut in the handshake", origin: { ScriptedOrigin(greeting: [.close]) { _ in [.close] } }, settings: trust,
            error: "tls_protocol_error", details: "the upstream closed the connection during the TLS handshake", setting: "upstream.url"),
    ]

    @Sendable private static func showOwn(_ settings: inout UpstreamSettings) {
        let pair = try? certificates.make(CauseCertificates.fresh("cistern"))
        (settings.clientCertificate, settings.clientKey) = (pair?.certificate, pair?.key)
    }

    @Test("every output names the cause and the setting that helps, and that setting solves the problem", arguments: scenes)
    func causes(_ scene: CauseScene) throws {
        let play = try CausePlay(scene)
        try play.expectEverywhere()
        try play.expectCure()
    }

    @Test("TLS on an http upstream is named as the cause, and https solves it")
    func clear() throws {
        let scene = CauseScene(
            name: "TLS at an http upstream", origin: { ScriptedOrigin { _ in [.send("\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{46}"), .close] } },
            settings: { $0.caFile = try? Self.certificates.authority },
            error: "http_protocol_error", details: ResponseProblem.tlsRecord.words, setting: "upstream.url")
        try CausePlay(scene).expectEverywhere()
        // A real TLS origin resets the connection, which may discard its alert.
        let secure = CauseScene(
            name: scene.name, origin: { try Self.origin(Self.certificates.make(CauseCertificates.fresh("server"))) },
            settings: scene.settings, error: scene.error, details: scene.details, setting: scene.setting, cure: { $0.isTLS = true })
        try CausePlay(secure).expectCure()
    }

    @Test("error responses reveal neither addresses nor certificate names")
    func clients() throws {
        for scene in Self.certificateScenes {
            let play = try CausePlay(scene)
            let response = try play.play.get("/a")
            let told = response.text + (response["Proxy-Status"] ?? "")
            for secret in ["127.0.0.1", "authority", "api.test", "localhost", "/ca.pem"] { #expect(!told.contains(secret), "\(told)") }
        }
    }

    @Test("with several addresses, each failed one is reported with its cause")
    func addresses() throws {
        let (first, second) = (
            try Self.origin(Self.certificates.make(CauseCertificates.fresh("expired"), validFrom: -7_200, to: -3_600)),
            ScriptedOrigin(Self.respond)
        )
        let log = CapturedLines()
        let port = second.port
        let play = try ProxyPlay(first, log: log) { settings in
            Self.trust(&settings.upstream)
            settings.upstream.fallbacks = [UpstreamAddress(isTLS: false, host: "127.0.0.1", port: port)]
        }
        #expect(try play.get("/a").status == 200)
        let value = try #require(JSONValue(try play.admin("GET", "/-/upstream").content))
        #expect(value["addresses"]?.array?.first?["error"]?.string == "tls_certificate_error: certificate has expired")
        #expect(log.count(of: "tls_certificate_error: certificate has expired") == 1)
    }
}

@Suite("Causes in upstream responses", .play)
struct UpstreamResponseCauseTests {
    private static func raw(_ name: String, _ text: String, _ error: String, _ details: String, _ setting: String? = nil) -> CauseScene {
        CauseScene(
            name: name, origin: { ScriptedOrigin { _ in [.send(text), .close] } }, settings: { $0.http2 = .off }, error: error,
            details: details, setting: setting)
    }

    private static func malformed(_ name: String, _ text: String, _ problem: ResponseProblem, _ setting: String? = nil) -> CauseScene {
        raw(name, text, "http_protocol_error", problem.words, setting)
    }

    private static let ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

    static let http1: [CauseScene] = [
        malformed("SMTP", "220 mail.example ESMTP\r\n", .replyCode, "upstream.url"),
        malformed("SSH", "SSH-2.0-OpenSSH_9.2\r\n", .notHTTP, "upstream.url"),
        malformed("content without a head", "<html></html>\r\n", .notHTTP, "upstream.url"),
        malformed("a malformed status line", "HTTP/1.1 2x0 OK\r\n\r\n", .statusLine),
        malformed("another version", "HTTP/2.0 200 OK\r\n\r\n", .version),
        malformed("no colon", ok + "no colon\r\n\r\n", .noColon),
        malformed("a field name with a space", ok + "X Y: 1\r\n\r\n", .fieldName),
        malformed("a control character in its value: remove it", ok + "X: a\u{1}b\r\n\r\n", .fieldValue),
        malformed("a folded line", ok + "X: a\r\n b\r\n\r\n", .foldedLine),
        malformed("conflicting lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n1", .contentLengthsDiffer),
        malformed("a length and a coding", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", .lengthAndCoding),
        malformed("a length that is not a number", ok + "Content-Length: one\r\n\r\n", .contentLength),
        malformed("bytes after the end", ok + "Content-Length: 1\r\n\r\n12", .surplus),
        raw(
            "a chunk size that is not a number", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "http_protocol_error",
            ChunkProblem.size.words),
        raw(
            "a head that is too long", ok + "X: \(String(repeating: "a", count: 80_000))\r\n\r\n", "http_response_header_section_size",
            ResponseProblem.headTooLong.words),
        raw(
            "an unknown coding", ok + "Transfer-Encoding: gzip\r\n\r\n", "http_response_transfer_coding",
            ResponseProblem.unknownCoding.words),
        CauseScene(
            name: "no response", origin: { ScriptedOrigin { _ in [.close] } }, error: "connection_terminated",
            details: "the upstream closed the connection without a response", setting: nil),
        CauseScene(
            name: "a reset", origin: { ScriptedOrigin { _ in [.reset] } }, error: "connection_terminated",
            details: "Connection reset by peer", setting: nil),
    ]

    @Test("the parser's error is in every output", arguments: http1)
    func parser(_ scene: CauseScene) throws { try CausePlay(scene).expectEverywhere() }

    private static func multiplexed(_ name: String, _ steps: [OriginStep], _ error: String, _ details: String) -> CauseScene {
        CauseScene(
            name: name, origin: { ScriptedOrigin { _ in steps } }, settings: { $0.http2 = .priorKnowledge }, error: error, details: details,
            setting: nil)
    }

    static let http2: [CauseScene] = [
        multiplexed(
            "a reset stream", [.resetStream(2)], "connection_terminated", "the upstream reset the HTTP/2 stream with INTERNAL_ERROR"),
        multiplexed(
            "an ended connection", [.goAway(accepts: true, code: 11), .close], "connection_terminated",
            "the upstream ended the HTTP/2 connection with ENHANCE_YOUR_CALM"),
        multiplexed(
            "a length that is not a number",
            [.fields([(":status", "200"), ("content-length", "2"), ("content-length", "3")], isLast: false)],
            "http_protocol_error", "the response violates HTTP/2: PROTOCOL_ERROR"),
    ]

    @Test("the HTTP/2 error code is in every output", arguments: http2)
    func codes(_ scene: CauseScene) throws { try CausePlay(scene).expectEverywhere() }

    @Test("an HTTP/1.1 response on HTTP/2 is named as the cause, and the setting solves it")
    func http1ForHTTP2() throws {
        let scene = CauseScene(
            name: "HTTP/1.1", origin: { ScriptedOrigin(greeting: []) { _ in [.json("1")] } }, error: "", details: nil, setting: nil)
        // Every request gets an HTTP/1.1 response, as from a server that speaks only HTTP/1.1.
        let origin = ScriptedOrigin(greeting: [.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), .close]) { _ in [.close] }
        let play = try ProxyPlay(origin) { $0.upstream.http2 = .priorKnowledge }
        let response = try play.get("/a")
        #expect(response["Proxy-Status"] == "cistern; error=http_protocol_error; details=\"\(ResponseProblem.http1Response.words)\"")
        let why = try #require(JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
        #expect(why["advice"]?.array?.first?["setting"]?.string == "upstream.http2")
        let cured = try ProxyPlay(try scene.origin()) { $0.upstream.http2 = .auto }
        #expect(try cured.get("/a").status == 200)
    }

    @Test("an HTTP/2 response on HTTP/1.1 is named as the cause")
    func http2ForHTTP1() throws {
        let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
        let origin = ScriptedOrigin { _ in [.sendBytes(settings), .close] }
        let play = try ProxyPlay(origin) { $0.upstream.http2 = .off }
        let response = try play.get("/a")
        #expect(response["Proxy-Status"] == "cistern; error=http_protocol_error; details=\"\(ResponseProblem.http2Frame.words)\"")
        let why = try #require(JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
        #expect(why["advice"]?.array?.first?["setting"]?.string == "upstream.http2")
    }
}

@Suite("Causes of failed connection attempts", .play)
struct UpstreamConnectionCauseTests {
    private static func nobody() -> ScriptedOrigin { ScriptedOrigin { _ in [.json("1")] } }

    private static func named(_ name: String, code: Int32, _ details: String, _ setting: String?) -> CauseScene {
        CauseScene(
            name: name, origin: { nobody() },
            settings: {
                $0.host = "upstream.invalid"
                $0.names = ResolvedNames(NameLookUp(withCode: { _ in (nil, code) }))
            },
            error: "dns_error", details: details, setting: setting, cure: { $0.host = "127.0.0.1" })
    }

    static let scenes: [CauseScene] = [
        named("a name that does not exist", code: -2, "Name or service not known", "upstream.url"),
        named("no name server", code: -3, "Temporary failure in name resolution", nil),
        CauseScene(
            name: "a socket that does not exist", origin: { nobody() }, settings: { $0.unixSocket = "/nonexistent/api.sock" },
            error: "connection_refused", details: "No such file or directory", setting: "upstream.unix_socket",
            cure: { $0.unixSocket = nil }),
        CauseScene(
            name: "connection refused", origin: { nobody() }, settings: { $0.port = 1 }, error: "connection_refused", details: nil,
            setting: "upstream.url"),
    ]

    @Test("the system's error is in every output, and the setting solves it", arguments: scenes)
    func causes(_ scene: CauseScene) throws {
        let play = try CausePlay(scene)
        try play.expectEverywhere()
        try play.expectCure()
    }
}
