// Table tests of CORS preflights: recognition, selecting fields, and permissions in their responses. No sockets.

import CachePolicy
import HTTPCore
import Testing

private func preflight(_ text: String, method: HTTPCore.Method = .options, content: ContentFraming = .none) -> Preflight? {
    let head = RequestHead(method: method, target: Array("/a".utf8)[...], version: .http11, fields: fields(text))
    return Preflight(head, content: content, credentials: CredentialNames(["x-api-key"]))
}

@Suite("Preflight requests")
struct PreflightTests {
    private static let plain = "Origin: https://app.test\nAccess-Control-Request-Method: PUT"

    @Test("a preflight with too many requested fields is refused, even if all fields are allowed")
    func tooManyFields() {
        var rules = CrossOriginRules()
        rules.origins = [Array("https://app.example".utf8)]
        func verdict(_ names: String) -> CrossOriginRules.Verdict? {
            let lines = "Origin: https://app.example\nAccess-Control-Request-Method: GET\nAccess-Control-Request-Headers: " + names
            return rules.verdict(
                of: RequestHead(method: .options, target: Array("/a".utf8)[...], version: .http11, fields: fields(lines)))
        }
        #expect(verdict("x-one, x-two") == .allowed)
        #expect(verdict("x-one, x two") == .fieldNotNamed)
        #expect(verdict(Array(repeating: "x", count: 129).joined(separator: ",")) == .fieldNotNamed)
    }

    @Test("a preflight has one origin, one method, no content and no credentials")
    func which() {
        #expect(preflight(Self.plain) != nil && preflight(Self.plain, content: .length(0)) != nil)
        #expect(preflight(Self.plain, method: .get) == nil && preflight(Self.plain, content: .length(1)) == nil)
        #expect(preflight("Origin: https://app.test") == nil && preflight("Access-Control-Request-Method: PUT") == nil)
        for more in [
            "Origin: https://b.test", "Access-Control-Request-Method: GET", "Authorization: x", "Cookie: a=b", "X-API-Key: x",
            "Access-Control-Request-Headers: a:b", "Max-Forwards: 1",
            "Access-Control-Request-Headers: \(String(repeating: "x-long-name,", count: 200))",
        ] {
            #expect(preflight(Self.plain + "\n" + more) == nil, "\(more.prefix(40))")
        }
    }

    @Test("a preflight's identity is its origin, method and field names, in any order and case")
    func identity() {
        func identity(_ text: String) -> [UInt8]? { preflight(text)?.identity }
        let named = identity(Self.plain + "\nAccess-Control-Request-Headers: authorization,content-type")
        #expect(named == identity(Self.plain + "\nAccess-Control-Request-Headers: Content-Type, Authorization"))
        #expect(
            named == identity(Self.plain + "\nAccess-Control-Request-Headers: content-type\nAccess-Control-Request-Headers: authorization"))
        let others = [
            identity(Self.plain), identity(Self.plain + "\nAccess-Control-Request-Headers: authorization"),
            identity("Origin: https://app.test:8443\nAccess-Control-Request-Method: PUT"),
            identity("Origin: https://app.test\nAccess-Control-Request-Method: put"),
            identity(Self.plain + "\nAccess-Control-Request-Private-Network: true"),
        ]
        #expect(Set(others + [named]).count == 6)
        #expect(others.allSatisfy { $0.map(Preflight.isIdentity) == true })
        #expect(!Preflight.isIdentity([4, 0, 0, 0] + Array("POST".utf8)))
    }

    @Test(
        "a preflight is allowed only by a successful response that permits its origin, method and fields",
        arguments: [
            ("Access-Control-Allow-Origin: https://app.test\nAccess-Control-Allow-Methods: GET, PUT", true),
            ("Access-Control-Allow-Origin: *\nAccess-Control-Allow-Methods: *", true),
            ("Access-Control-Allow-Origin: https://app.test", false),
            ("Access-Control-Allow-Origin: https://app.test\nAccess-Control-Allow-Methods: put", false),
            ("Access-Control-Allow-Origin: https://App.test\nAccess-Control-Allow-Methods: PUT", false),
            ("Access-Control-Allow-Origin: https://app.test.evil\nAccess-Control-Allow-Methods: PUT", false),
            ("Access-Control-Allow-Origin: https://b.test, https://app.test\nAccess-Control-Allow-Methods: PUT", false),
            ("Access-Control-Allow-Origin: *\nAccess-Control-Allow-Origin: *\nAccess-Control-Allow-Methods: PUT", false),
            ("Access-Control-Allow-Methods: PUT", false), ("Server: x", false),
        ])
    func allowed(response: String, isAllowed: Bool) throws {
        let plain = try #require(preflight(Self.plain))
        #expect(plain.isAllowed(by: ResponseHead(status: 204, fields: fields(response))) == isAllowed)
        #expect(!plain.isAllowed(by: ResponseHead(status: 403, fields: fields(response))))
        let named = try #require(preflight(Self.plain + "\nAccess-Control-Request-Headers: X-One, authorization"))
        for (list, isListed) in [("x-one,Authorization", true), ("*", true), ("x-one", false)] {
            let head = ResponseHead(status: 200, fields: fields(response + "\nAccess-Control-Allow-Headers: \(list)"))
            #expect(named.isAllowed(by: head) == (isAllowed && isListed))
        }
    }

    @Test(
        "Access-Control-Max-Age sets the lifetime, with a default and an upper limit",
        arguments: [
            ("", 5), ("600", 600), ("0", 0), ("-1", 0), ("86400", 86_400), ("86401", 86_400), ("99999999999999999999999", 86_400),
            ("1.5", 5),
            ("x", 5), ("-", 5), (" 7 ", 7),
        ])
    func lifetime(said: String, seconds: Int64) {
        #expect(Preflight.lifetime(fields(said.isEmpty ? "Server: x" : "Access-Control-Max-Age: \(said)")) == seconds)
    }

    @Test("a stored preflight keeps its permissions, Vary and Date, but no max-age, cookies or content fields")
    func kept() {
        let response = ResponseHead(
            status: 200,
            fields: fields(
                "Access-Control-Allow-Origin: *\nAccess-Control-Max-Age: 9\nVary: Origin\nSet-Cookie: a=b\nETag: \"1\"\nContent-Type: text/html\nDate: x"
            ))
        let kept = Preflight.kept(of: response).fields
        #expect(
            (0..<kept.count).map { String(decoding: kept.name(at: $0), as: UTF8.self) } == ["Access-Control-Allow-Origin", "Vary", "Date"])
    }
}

@Suite("CORS permissions from the upstream")
struct OriginGrantTests {
    private func grant(_ text: String, to origin: String = "https://app.test") -> OriginGrant? {
        OriginGrant(fields(text), to: Array(origin.utf8)[...])
    }

    @Test("permission for one origin applies to no other, and * never permits credentials")
    func grants() {
        let own = grant(
            "Access-Control-Allow-Origin: https://app.test\nAccess-Control-Allow-Credentials: true\nAccess-Control-Expose-Headers: Link\nVary: x"
        )
        #expect(own?.isForOneOrigin == true)
        #expect(
            own.map { String(decoding: $0.lines, as: UTF8.self) }
                == "Access-Control-Allow-Origin: https://app.test\r\nAccess-Control-Allow-Credentials: true\r\nAccess-Control-Expose-Headers: Link\r\n"
        )
        let all = grant("Access-Control-Allow-Origin: *\nAccess-Control-Allow-Credentials: true\nAccess-Control-Max-Age: 5")
        #expect(
            all.map { String(decoding: $0.lines, as: UTF8.self) } == "Access-Control-Allow-Origin: *\r\n" && all?.isForOneOrigin == false)
        for other in ["https://app.test:8443", "http://app.test", "https://app.tes", "null", ""] {
            #expect(grant("Access-Control-Allow-Origin: https://app.test", to: other) == nil)
        }
        #expect(grant("Access-Control-Allow-Origin: null") == nil)
        #expect(grant("Access-Control-Allow-Origin: *\nAccess-Control-Allow-Origin: *") == nil)
        #expect(grant("Server: x") == nil)
        #expect(grant("Access-Control-Allow-Origin: *\nAccess-Control-Expose-Headers: \(String(repeating: "x", count: 3_000))") == nil)
    }

    @Test(
        "without Vary: Origin, a response is bound to its origin unless it allows *",
        arguments: [
            ("Server: x", true), ("Access-Control-Allow-Origin: https://app.test", true), ("Access-Control-Allow-Origin: *", false),
            ("Vary: Accept, ORIGIN", false), ("Vary: *", false), ("Vary: Accept", true),
            ("Access-Control-Allow-Origin: https://app.test\nVary: Origin", false), ("Access-Control-Allow-Origin: *\nVary: Accept", false),
        ])
    func bound(_ text: String, isBound: Bool) { #expect(OriginGrant.isBound(fields(text)) == isBound) }
}
