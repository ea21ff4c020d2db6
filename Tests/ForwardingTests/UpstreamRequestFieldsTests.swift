// Tests of the request fields that the upstream receives. Without sockets.

import Forwarding
import HTTPCore
import Testing

@Suite("Request fields for the upstream")
struct UpstreamRequestFieldsTests {
    private static func fields(_ lines: [(String, String)]) -> Fields {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name, value: value) }
        return fields
    }

    private static func sent(
        _ lines: [(String, String)], method: HTTPCore.Method = .get, _ change: (inout ForwardingSettings) -> Void = { _ in }
    ) -> [String] {
        var settings = ForwardingSettings()
        change(&settings)
        let maker = UpstreamRequestFields(settings: settings, authority: Array("api.example".utf8), instance: "a1b2")
        let head = RequestHead(method: method, target: Array("/a".utf8)[...], version: .http11, fields: fields(lines))
        let client = UpstreamRequestFields.Client(address: Array("192.0.2.1".utf8), isIPv6: false, host: Array("cistern.example".utf8)[...])
        let made = maker.make(from: head, client: client, UpstreamFieldRules())
        return (0..<made.count).map { index in
            let (name, value) = (made.name(at: index), made.value(at: index))
            return String(decoding: name, as: UTF8.self).lowercased() + ": " + String(decoding: value, as: UTF8.self)
        }
    }

    @Test("Host is the upstream's, or the client's if preserve_host is set")
    func host() {
        #expect(Self.sent([("Host", "cistern.example")]).contains("host: api.example"))
        #expect(Self.sent([("Host", "cistern.example")]) { $0.preserveHost = true }.contains("host: cistern.example"))
    }

    @Test("hop-by-hop fields are not forwarded (RFC 9110 §7.6.1)")
    func hopByHop() {
        let sent = Self.sent([("Connection", "keep-alive, X-Own"), ("X-Own", "1"), ("Keep-Alive", "5"), ("TE", "trailers"), ("X-A", "1")])
        #expect(sent.contains("x-a: 1"))
        #expect(!sent.contains { $0.hasPrefix("x-own") || $0.hasPrefix("keep-alive") || $0.hasPrefix("connection") })
    }

    @Test("X-Forwarded-For is replaced, extended, passed on or removed as configured", arguments: ForwardedPolicy.allCases)
    func forwarding(_ policy: ForwardedPolicy) {
        let sent = Self.sent([("X-Forwarded-For", "203.0.113.9")]) { $0.forwarded = policy }
        let values = sent.filter { $0.hasPrefix("x-forwarded-for: ") }.map { $0.dropFirst("x-forwarded-for: ".count) }
        let expected: [Substring] =
            switch policy {
            case .replace: ["192.0.2.1"]
            case .add: ["203.0.113.9", "192.0.2.1"]
            case .trust: ["203.0.113.9"]
            case .off: []
            }
        #expect(values == expected)
    }

    @Test(
        "other fields with the client's address follow the policy for X-Forwarded-For",
        arguments: ["X-Client-IP", "CF-Connecting-IP", "True-Client-IP", "Fastly-Client-IP", "x_client_ip", "X-Real-IP"])
    func clientAddress(_ name: String) {
        for policy in ForwardedPolicy.allCases {
            let sent = Self.sent([(name, "203.0.113.9")]) { ($0.forwarded, $0.overrideFields) = (policy, []) }
            // A known field spelled with `_` is never accepted from a trusted proxy.
            #expect(sent.contains { $0.hasSuffix(": 203.0.113.9") } == (policy == .trust), "\(policy)")
        }
        let kept = Self.sent([("X-Client-IP", "203.0.113.9")]) { $0.addressFields = [] }
        #expect(kept.contains("x-client-ip: 203.0.113.9"))
    }

    @Test(
        "override fields are removed in any case and number",
        arguments: ["X-Original-URL", "x-http-method-override"])
    func overrides(_ name: String) {
        #expect(!Self.sent([(name, "/admin"), (name, "/other")]).contains { $0.hasPrefix(name.lowercased()) })
        #expect(Self.sent([(name, "/admin")]) { $0.overrideFields = [] }.contains { $0.hasPrefix(name.lowercased()) })
    }

    @Test(
        "user identity fields are removed in every spelling unless the sender is trusted",
        arguments: [
            "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Url", "X-Forwarded-Client-Cert", "X-ARR-ClientCert", "ssl-client-verify",
            "X-Auth-Request-Email", "Remote-User", "X-Amzn-Oidc-Data", "Cf-Access-Authenticated-User-Email", "X-Goog-IAP-JWT-Assertion",
            "X-Authentik-Username", "X-Consumer-Custom-Id", "X-MS-Client-Principal-Id", "X-Client-Cert-Subject",
        ])
    func identity(_ name: String) {
        let spellings = [name, name.uppercased()] + ["_", ".", "!", "~"].map { name.split(separator: "-").joined(separator: $0) }
        for spelling in spellings {
            #expect(!Self.sent([(spelling, "claim")]).contains { $0.hasSuffix(": claim") }, "\(spelling)")
        }
        // X-Forwarded-Url names a path, not a user, and is controlled by another setting.
        for change in [{ $0.forwarded = .trust }, { $0.trustsProxies = true }] as [(inout ForwardingSettings) -> Void] {
            #expect(
                Self.sent([(name, "claim")], change).contains { $0.hasSuffix(": claim") }
                    || name == "X-Forwarded-Url")
        }
        #expect(Self.sent([(name, "claim")]) { ($0.identityFields, $0.overrideFields) = ([], []) }.contains { $0.hasSuffix(": claim") })
    }

    @Test(
        "every token character that is not a letter or digit counts as a separator",
        arguments: [
            "X.Forwarded.Host", "X!Original~URL", "X`Rewrite|Url", "X#Real$IP", "Content.Length", "Transfer'Encoding", "Content_Type",
            "x^host",
        ])
    func separators(_ name: String) {
        #expect(!Self.sent([(name, "claim")]) { $0.forwarded = .trust }.contains { $0.hasSuffix(": claim") })
        #expect(Self.sent([("X.Keep", "claim")]).contains { $0.hasSuffix(": claim") })
    }

    @Test("Max-Forwards is decremented for OPTIONS only (RFC 9110 §7.6.2)")
    func maxForwards() {
        #expect(Self.sent([("Max-Forwards", "3")], method: .options).contains("max-forwards: 2"))
        #expect(Self.sent([("Max-Forwards", "3")]).contains("max-forwards: 3"))
    }

    @Test("a loop is detected by this process's own comment in Via")
    func loop() {
        let maker = UpstreamRequestFields(settings: ForwardingSettings(), authority: [], instance: "a1b2")
        let via = { (value: String) in
            maker.isLoop(
                RequestHead(method: .get, target: Array("/".utf8)[...], version: .http11, fields: Self.fields([("Via", value)])))
        }
        #expect(via("1.1 other, 1.1 cistern (a1b2)"))
        #expect(!via("1.1 cistern (ffff)"))
        #expect(Self.sent([]).contains("via: 1.1 cistern (a1b2)"))
    }
}
