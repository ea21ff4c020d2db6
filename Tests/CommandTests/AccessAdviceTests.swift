// Tests of rejected requests and unverified tokens: the settings that `why` names change the outcome.

import CachePolicy
import CacheStore
import Forwarding
import JSON
import TestSupport
import Testing

@Suite("Advice on access refusals, tokens and identity lookups", .play)
struct AccessAdviceTests {
    /// nil if it depends on the client's connection (TLS, HTTP/2, PROXY protocol), which other suites test.
    private static func trial(_ refusal: AccessRefusal) -> AdviceTrial? {
        switch refusal {
        case .address:
            return AdviceTrial(
                "access: {allow: [\"10.0.0.0/8\"]}", .json("{}"), changes: ["access.allow": .init("access: {allow: [\"127.0.0.0/8\"]}")])
        case .misdirected:
            return AdviceTrial(
                "forwarding: {names: [api.test]}", .json("{}"),
                changes: ["forwarding.names": .init("forwarding: {names: [api.test, cistern.test]}")])
        case .noAPI:
            return AdviceTrial(
                "apis: [{name: x, path: /x, upstream: \"UPSTREAM\"}]", .json("{}"),
                changes: ["apis.path": .init("apis: [{name: x, path: /a, upstream: \"UPSTREAM\"}]")])
        case .outside:
            var trial = AdviceTrial(
                "upstream: {url: \"UPSTREAM/v1\"}", .json("{}"), changes: ["upstream.url": .init("upstream: {url: \"UPSTREAM\"}")]
            ) { _ = try $0.play.get("/..%2fa") }
            trial.target = "/..%2fa"
            return trial
        case .notProxied:
            var trial = AdviceTrial(
                "forwarding: {forward_proxy: on, names: [cistern.test]}", .json("{}"),
                changes: ["forwarding.names": .init("forwarding: {forward_proxy: on, names: [other.test, cistern.test]}")]
            ) { _ = try $0.play.get("http://other.test/a", [("Host", "other.test")]) }
            trial.target = "/a"
            return trial
        case .requestsPerAddress:
            return AdviceTrial(
                "limits: {requests_per_address: 1}",
                script: AdviceTrial.holdingB,
                changes: ["limits.requests_per_address": .init("limits: {requests_per_address: 2}")]
            ) { stage in
                let first = try stage.play.client(getting: "/b")
                #expect(stage.play.origin.waitForRequests(1))
                _ = try stage.play.get("/a")
                stage.gate.open()
                #expect(first.readResponse()?.status == 200)
            }
        case .userAtHTTP2Upstream:
            return AdviceTrial(
                "upstream: {http2: prior-knowledge}", .json("{}"), changes: ["upstream.http2": .init("upstream: {http2: auto}")]
            ) { _ = try $0.play.get("/a", [("Authorization", "Negotiate a")]) }
        case .userConnections:
            return AdviceTrial(
                "upstream: {connections: 8}", .json("{}", ["Cache-Control: private"]),
                changes: ["upstream.connections": .init("upstream: {connections: 64}")]
            ) { stage in
                let others = try (0..<3).map { _ in try stage.play.client() }
                for client in others { _ = client.get("/b", [("Authorization", "Negotiate b")]) }
                _ = try stage.play.get("/a", [("Authorization", "Negotiate a")])
                withExtendedLifetime(others) {}
            }
        case .otherScheme:
            let names = "forwarding: {names: [cistern.test]}"
            return AdviceTrial(
                names, .json("{}"), changes: ["trusted_proxies": .init("trusted_proxies: [\"127.0.0.0/8\"]\n\(names)")]
            ) { _ = try $0.play.get("https://cistern.test/a", [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")]) }
        case .otherCertificate, .noCertificate, .userOverHTTP2, .userBehindProxy: return nil
        }
    }

    @Test(
        "a refused request is accepted after the advised setting is changed",
        arguments: [
            AccessRefusal.address, .misdirected, .noAPI, .outside, .notProxied, .requestsPerAddress, .userAtHTTP2Upstream, .userConnections,
            .otherScheme,
        ])
    func refused(_ refusal: AccessRefusal) throws {
        let trial = try #require(Self.trial(refusal))
        try trial.verify(isMet: { $0["reason"]?.string == refusal.rawValue }, isHelped: { $0["status"] == 200 })
    }

    // MARK: Tokens

    /// A key set in a file, and settings that verify tokens with it.
    private final class Tokens {
        let directory = TestTools.temporaryDirectory()
        let issuer = TokenIssuer()
        var keys: String { directory.path + "/keys" }

        init() throws {
            try TestTools.write(#"{"keys":[\#(issuer.jwk())]}"#, to: keys)
            try TestTools.write(#"{"keys":[\#(TokenIssuer(name: "two").jwk())]}"#, to: directory.path + "/others")
        }

        func settings(_ changes: [String: String] = [:]) -> String {
            let usual = ["keys": "\"\(keys)\"", "issuer": "[\"https://id.example\"]", "audience": "[api]"]
            let all = usual.merging(changes) { $1 }.sorted { $0.key < $1.key }.map { "\($0): \($1)" }.joined(separator: ", ")
            return "credentials: {identity: {jwt: {\(all)}}}"
        }

        func token(_ stage: AdviceStage, seconds: Int64 = 300, notBefore: Int64 = 0) -> (String, String) {
            let now = stage.play.time.wallMilliseconds / 1_000
            let claims =
                #"{"iss":"https://id.example","aud":"api","sub":"ann","user":"ann","nbf":\#(now + notBefore),"exp":\#(now + seconds)}"#
            return ("Authorization", "Bearer \(issuer.token(claims))")
        }
    }

    @Test(
        "a token that fails verification is accepted after the advised setting is changed",
        arguments: [
            (TokenRefusal.unknownKey, "keys", "OTHERS", "KEYS"), (.type, "type", "[at+jwt]", "[]"),
            (.issuer, "issuer", "[\"https://other.example\"]", "[\"https://id.example\"]"), (.audience, "audience", "[web]", "[web, api]"),
            (.subject, "subject", "owner", "user"), (.notYetValid, "leeway", "0", "10m"),
        ])
    func tokens(_ refusal: TokenRefusal, _ name: String, _ value: String, _ other: String) throws {
        let tokens = try Tokens()
        let files = { (text: String) in
            text == "OTHERS" ? "\"\(tokens.directory.path)/others\"" : text == "KEYS" ? "\"\(tokens.keys)\"" : text
        }
        let trial = AdviceTrial(
            tokens.settings([name: files(value)]), .json("{}"),
            changes: ["credentials.identity.jwt.\(name)": .init(tokens.settings([name: files(other)]))]
        ) { stage in
            _ = try stage.play.get("/a", [tokens.token(stage, notBefore: refusal == .notYetValid ? 200 : 0)])
        }
        try trial.verify(isMet: { $0["identity"]?.string == refusal.rawValue }, isHelped: { $0["identity"] == "verified" })
    }

    @Test("with rescue_expired, an expired token gets its user's stored response while the upstream fails")
    func expired() throws {
        let tokens = try Tokens()
        var trial = AdviceTrial(
            tokens.settings(["rescue_expired": "0"]), .json("{}", ["Cache-Control: private, max-age=60"]),
            changes: ["credentials.identity.jwt.rescue_expired": .init(tokens.settings(["rescue_expired": "1h"]))]
        ) { stage in
            let token = tokens.token(stage)
            _ = try stage.play.get("/a", [token])
            stage.play.time.advance(by: .seconds(400))
            stage.play.origin.react { _ in [.close] }
            _ = try stage.play.get("/a", [token])
        }
        trial.target = "/a"
        try trial.verify(isMet: { $0["identity"] == "expired" && $0["result"] == "error" }, isHelped: { $0["result"] == "rescued" })
    }

    @Test("advice for an unsuccessful or expired identity lookup names a setting that makes the lookup succeed")
    func lookUps() throws {
        let settings = { (more: String) in "credentials: {identity: {lookup: {path: /me, \(more)}}}" }
        let script: AdviceTrial.Script = { request, _ in
            guard request["Authorization"] != nil else { return [.json("{}", status: "401 No")] }
            return request.target == "/me" ? [.json("{\"id\":\"ann\"}")] : [.json("{}", ["Cache-Control: private, max-age=60"])]
        }
        let user = [("Authorization", "Bearer a")]
        try AdviceTrial(
            settings("identity: [/user]"), script: script,
            changes: ["credentials.identity.lookup.identity": .init(settings("identity: [/id]"))]
        ) { stage in
            _ = try stage.play.get("/b", user)
            let name = "cistern_identity_lookups_total{result=\"\(stage.isChanged ? "told" : "nothing")\"}"
            #expect(try stage.play.waitFor(name, 1))
            _ = try stage.play.get("/a", user)
        }.verify(isMet: { $0["identity"] == "untold" }, isHelped: { $0["identity"] == "told" })
    }
}
