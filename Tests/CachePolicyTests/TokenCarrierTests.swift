// Tests which credential carries the user's token. Only that credential is left out of the cache key.

import CachePolicy
import HTTPCore
import Testing

@Suite("Carriers of user tokens")
struct TokenCarrierTests {
    struct Row: Sendable, CustomStringConvertible {
        let description: String
        let lines: [(String, String)]
        /// Remaining credentials; nil if none is left out.
        let rest: [String]?

        init(_ description: String, _ lines: [(String, String)], _ rest: [String]?) {
            (self.description, self.lines, self.rest) = (description, lines, rest)
        }
    }

    @Test(
        "a single plausible token carrier is separated from the other credentials; several plausible ones give none",
        arguments: [
            Row("Authorization beside a tenant", [("Authorization", "Bearer a"), ("X-Tenant", "red")], ["X-Tenant: red"]),
            Row(
                "Authorization beside an app's key", [("apikey", "k"), ("Authorization", "Bearer a"), ("X-API-Key", "k")],
                ["apikey: k", "X-API-Key: k"]),
            Row("a session cookie beside others", [("Cookie", "tenant=red; sid=s1; lang=de")], ["Cookie: lang=de", "Cookie: tenant=red"]),
            Row("two fields with cookies", [("Cookie", "tenant=red"), ("Cookie", "PHPSESSID=s1")], ["Cookie: tenant=red"]),
            Row("a token field beside an organization", [("X-Auth-Token", "t"), ("X-Org-Id", "7")], ["X-Org-Id: 7"]),
            Row("an API key alone", [("X-API-Key", "k"), ("X-Tenant", "red")], ["X-Tenant: red"]),
            Row(
                "a session beside a CSRF token", [("Cookie", "csrftoken=x; sessionid=s1"), ("X-CSRF-Token", "x")],
                ["X-CSRF-Token: x", "Cookie: csrftoken=x"]),
            Row("a session field beside an impersonated user", [("X-Session", "s"), ("X-User", "ann")], ["X-User: ann"]),
            Row("two Authorization fields", [("Authorization", "Bearer a"), ("Authorization", "Bearer b")], nil),
            Row("Authorization and a session cookie", [("Authorization", "Bearer a"), ("Cookie", "sid=s1")], nil),
            Row("two session cookies", [("Cookie", "sid=s1; sid=s2")], nil),
            Row("an ambiguous Cookie field", [("Cookie", "a=\"1; sid=s2")], nil),
            Row("a tenant alone", [("X-Tenant", "red")], nil),
            Row("a tenant's cookie alone", [("Cookie", "tenant=5f1c7a52e3b74b0f9a")], nil),
            Row("a user's name alone", [("X-User", "ann")], nil),
            Row("a choice", [("X-Auth", "true")], nil),
            Row("no credential", [("Accept", "a/b")], nil),
        ])
    func carrier(row: Row) {
        var fields = Fields()
        for (name, value) in row.lines { fields.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        let carriers = TokenCarriers(CachePolicySettings())
        let rest = carriers.carrier(of: fields).map { carriers.removing($0, from: fields) }
        let text = rest.map { rest in
            rest.entries.map { entry in
                [entry.nameRange, entry.valueRange].map { String(decoding: rest.bytes[$0], as: UTF8.self) }.joined(separator: ": ")
            }
        }
        #expect(text == row.rest)
    }

    @Test("a write ends the learned identity of its token, whatever its spelling and other credentials")
    func allReadings() throws {
        let carriers = TokenCarriers(CachePolicySettings())
        func fields(_ lines: [(String, String)]) -> Fields {
            var fields = Fields()
            for (name, value) in lines { fields.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
            return fields
        }
        for token in [("Authorization", "Bearer a"), ("Cookie", "sid=s1"), ("X-Session", "s")] {
            let alone = fields([token])
            let carrier = try #require(carriers.carrier(of: alone))
            let bytes = carriers.bytes(of: carrier, in: alone)
            for beside in [[], [("X-Tenant", "red")], [("Cookie", "session=s2")], [("Authorization", "Basic x")], [("Cookie", "a=\"1")]] {
                #expect(carriers.allBytes(in: fields(beside + [token])).contains(bytes), "\(token) \(beside)")
            }
        }
        let session = fields([("X-Session", "s")])
        let bytes = carriers.bytes(of: try #require(carriers.carrier(of: session)), in: session)
        #expect(carriers.allBytes(in: fields([("x_session", "s")])) == [bytes])
    }

    @Test(
        "a response changes the credentials if it sets a cookie that counts",
        arguments: [("sid=s2; Path=/", true), ("_ga=1", false), ("broken", true), ("cart=1", true)])
    func setCookie(line: String, isChange: Bool) {
        var fields = Fields()
        fields.append(.setCookie, line)
        #expect(TokenCarriers(CachePolicySettings()).areChanged(by: fields) == isChange)
    }
}
