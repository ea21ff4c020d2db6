// Tests of requests that differ in an unknown field. An upstream may select an account by it without sending Vary.

import CachePolicy
import Forwarding
import Reactor
import ReverseProxy
import TestSupport
import Testing

/// Fields by which public APIs select an account, project or version. They are on no list of credentials.
let selectingFields = [
    "Stripe-Account", "On-Behalf-Of", "X-Mailgun-On-Behalf-Of", "OpenAI-Project", "X-Goog-User-Project", "Impersonate-Group",
    "Accept-Profile", "Api-Version",
]

/// An origin that responds for the account in a field.
func accountOrigin(_ field: String, _ fields: String...) -> ScriptedOrigin {
    ScriptedOrigin { request in [.json("\"\(request[field] ?? "none")\"", fields)] }
}

@Suite("Unlisted request fields that may select a response", .play, .clientProtocols)
struct UnknownFieldTests {
    private let token = ("Authorization", "Bearer 1")

    private func isHit(_ response: TestResponse) -> Bool { response["Cache-Status"]?.contains("; hit") == true }

    private func why(_ play: ProxyPlay, _ path: String = "/a") throws -> String {
        String(decoding: try play.admin("GET", "/-/why?path=\(path)&last=1").content, as: UTF8.self)
    }

    @Test("concurrent requests for two accounts cause two fetches", arguments: selectingFields)
    func collapsing(field: String) throws {
        let (asked, gate) = (Gate(), Gate())
        let origin = ScriptedOrigin { request in [.open(asked), .pass(gate), .json("\"\(request[field] ?? "none")\"")] }
        let play = try ProxyPlay(origin)
        let clients = try ["A", "B", "B"].map { account in
            let client = try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 1\r\n\(field): \(account)\r\n\r\n")
            if account == "A" { asked.pass() }
            return client
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        #expect(clients.map { $0.readResponse()?.text } == ["\"A\"", "\"B\"", "\"B\""])
        #expect(origin.requests.count == 2)
    }

    @Test("in an outage each account receives only its own stored response, also after a restart", arguments: selectingFields)
    func rescue(field: String) throws {
        let play = try ProxyPlay(accountOrigin(field))
        #expect(try play.get("/a", [token, (field, "A")]).text == "\"A\"")
        #expect(try play.get("/a", [(field, "A")]).text == "\"A\"")
        play.origin.down()
        for _ in 0..<2 {
            for fields in [[token], []] {
                #expect(try play.get("/a", fields + [(field, "A")]).text == "\"A\"")
                for other in [[(field, "B")], [], [(field, "A"), (field, "B")], [(field, "A"), ("X-Other", "1")]] {
                    #expect(try play.get("/a", fields + other).status >= 502, "\(fields) \(other)")
                }
            }
            try play.restart()
        }
    }

    @Test("responses to requests with and without an account field neither replace nor serve each other")
    func plain() throws {
        let play = try ProxyPlay(accountOrigin("Stripe-Account", "ETag: \"1\""))
        #expect(try play.get("/a").text == "\"none\"")
        #expect(try play.get("/a", [("Stripe-Account", "A")]).text == "\"A\"")
        #expect(play.origin.requests.last?["If-None-Match"] == nil, "validators of another account's stored response are not sent")
        #expect(try play.get("/a").status == 200)
        #expect(play.origin.requests.last?["If-None-Match"] == "\"1\"")
        play.origin.down()
        #expect(try play.get("/a").text == "\"none\"")
        #expect(try play.get("/a", [("Stripe-Account", "A")]).text == "\"A\"")
        #expect(try play.get("/a", [("Stripe-Account", "B")]).status >= 502)
    }

    @Test(
        "unlisted fields do not select if the response states its audience by Vary or Cache-Control",
        arguments: ["Vary: X-Tenant", "Cache-Control: public", "Cache-Control: max-age=60", "Cache-Control: s-maxage=1"])
    func language(said: String) throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", [said])] })
        _ = try play.get("/a", [("X-Device", "1")])
        play.origin.react { _ in [.pass(gate), .json("2", [said])] }
        play.time.advance(by: .seconds(100))
        let clients = try ["2", "3"].map { device in
            return try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nX-Device: \(device)\r\n\r\n")
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        #expect(clients.map { $0.readResponse()?.text } == ["2", "2"])
        play.origin.down()
        #expect(try play.get("/a", [("X-Device", "4")]).text == "2")
        #expect(try play.get("/a").text == "2")
    }

    @Test(
        "a Vary that frameworks add by themselves does not state the audience",
        arguments: ["Accept", "Accept-Language, Cookie", "Origin, User-Agent", "Accept, Authorization", "x-requested-with"])
    func frameworks(vary: String) throws {
        let play = try ProxyPlay(accountOrigin("Api-Version", "Vary: \(vary)"))
        for version in ["1", "2"] { #expect(try play.get("/a", [("Api-Version", version)]).text == "\"\(version)\"") }
        play.origin.down()
        for version in ["1", "2"] { #expect(try play.get("/a", [("Api-Version", version)]).text == "\"\(version)\"") }
        for fields in [[], [("Api-Version", "3")]] { #expect(try play.get("/a", fields).status >= 502) }
    }

    @Test("when the upstream stops stating the audience, unlisted fields select again at once")
    func languageLost() throws {
        let (asked, gate) = (Gate(), Gate())
        let play = try ProxyPlay(accountOrigin("X-Account", "Cache-Control: max-age=1"))
        #expect(try play.get("/a", [("X-Account", "A")]).text == "\"A\"")
        play.time.advance(by: .seconds(5))
        play.origin.react { [.open(asked), .pass(gate), .json("\"new \($0["X-Account"] ?? "none")\"")] }
        let clients = try ["A", "B"].map { account in
            let client = try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nX-Account: \(account)\r\n\r\n")
            if account == "A" { asked.pass() }
            return client
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        #expect(clients.map { $0.readResponse()?.text } == ["\"new A\"", "\"new B\""])
        play.origin.down()
        #expect(try play.get("/a", [("X-Account", "A")]).text == "\"new A\"")
        #expect(try play.get("/a", [("X-Account", "B")]).text == "\"new B\"")
    }

    @Test("a cacheable error caused by one client's fields does not replace another client's stored response")
    func errorForAll() throws {
        let play = try ProxyPlay(accountOrigin("X-Account")) { $0.policy.keepsAny = true }
        _ = try play.get("/a", [("X-Account", "A")])
        play.origin.react { _ in [.json("{}", status: "404 Not Found", ["Cache-Control: max-age=600"])] }
        #expect(try play.get("/a", [("X-Account", "evil")]).status == 404)
        play.origin.react { _ in [.json("\"A\"")] }
        #expect(try play.get("/a", [("X-Account", "A")]).text == "\"A\"")
        play.origin.down()
        #expect(try play.get("/a", [("X-Account", "A")]).text == "\"A\"")
    }

    @Test("harmless fields that change with each request do not prevent a rescue")
    func harmless() throws {
        let play = try ProxyPlay(accountOrigin("Stripe-Account"))
        let names = ["X-Request-Id", "sentry-trace", "traceparent", "X-Stripe-Client-Telemetry", "CF-Ray", "Sec-CH-UA", "User-Agent"]
        _ = try play.get("/a", names.map { ($0, "1") } + [("Stripe-Account", "A")])
        play.origin.down()
        #expect(try play.get("/a", names.map { ($0, "2") } + [("Stripe-Account", "A")]).text == "\"A\"")
        #expect(try play.get("/a", [("stripe-account", "A")]).text == "\"A\"")
    }

    @Test("the operator can declare a field harmless or not harmless")
    func setting() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) {
            $0.policy.harmlessFields = HarmlessFields.changed($0.policy.harmlessFields, by: ["+X-Device-Id", "-Accept-Language"])
        }
        _ = try play.get("/a", [("X-Device-Id", "1"), ("Accept-Language", "de")])
        play.origin.down()
        #expect(try play.get("/a", [("X-Device-Id", "2"), ("Accept-Language", "de")]).text == "1")
        #expect(try play.get("/a", [("X-Device-Id", "1"), ("Accept-Language", "en")]).status >= 502)
    }

    @Test("a forwarded Forwarded field selects by its hosts, not by its addresses")
    func forwardedHost() throws {
        let play = try ProxyPlay(accountOrigin("Forwarded")) { $0.forwarding.forwarded = .trust }
        for _ in 0..<4 { _ = try play.get("/a", [("Forwarded", "for=192.0.2.1;host=a.example")]) }
        _ = try play.get("/b", [("Forwarded", "for=192.0.2.1")])
        play.origin.down()
        #expect(try play.get("/a", [("Forwarded", "for=192.0.2.2; Host=A.example")]).status == 200)
        for other in ["for=192.0.2.1;host=b.example", "for=192.0.2.1", "for=\"x;host=a.example, for=y\";host=b.example"] {
            #expect(try play.get("/a", [("Forwarded", other)]).status >= 502, "\(other)")
        }
        #expect(try play.get("/a").status >= 502)
        #expect(try play.get("/b", [("Forwarded", "for=192.0.2.2")]).status == 200)
    }

    @Test(
        "forwarded statements about host, scheme and path are part of the key, whatever the response says",
        arguments: ["Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded-Ssl"])
    func forwardedKey(name: String) throws {
        let origin = ScriptedOrigin { [.json("\"\($0[name] ?? "")\"", ["Cache-Control: public, max-age=60"])] }
        let play = try ProxyPlay(origin) { $0.forwarding.forwarded = .trust }
        for _ in 0..<3 {
            for value in ["host=evil.example", "host=good.example"] {
                #expect(try play.get("/a", [(name, value)]).text == "\"\(value)\"")
            }
            #expect(try play.get("/a").text.contains("example") == false)
        }
        #expect(origin.requests.count == 3)
    }

    @Test("requests for one forwarded host share a response, and a 410 for it is remembered")
    func oneHost() throws {
        let isGone = Mutex(false)
        let origin = ScriptedOrigin { request in
            if isGone.withLock({ $0 }) { return [.json("{}", status: "410 Gone")] }
            return [.json("\"\(request["X-Forwarded-Host"] ?? "")\"", ["Cache-Control: public, max-age=60"])]
        }
        let play = try ProxyPlay(origin) { $0.forwarding.forwarded = .trust }
        for device in 0..<3 {
            for host in ["a.example", "b.example"] {
                #expect(try play.get("/a", [("X-Forwarded-Host", host), ("X-Device-Id", "\(device)")]).text == "\"\(host)\"")
            }
        }
        #expect(origin.requests.count == 2)
        isGone.withLock { $0 = true }
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/a", [("X-Forwarded-Host", "a.example")]).status == 410)
        origin.down()
        #expect(try play.get("/a", [("X-Forwarded-Host", "a.example")]).status == 410)
        #expect(try play.get("/a", [("X-Forwarded-Host", "b.example")]).text == "\"b.example\"")
    }

    @Test("in strict mode only Vary selects (RFC 9111 §4.1)")
    func strict() throws {
        let play = try ProxyPlay(accountOrigin("X-Account", "Cache-Control: max-age=60")) { $0.policy.strictness = .strict }
        _ = try play.get("/a", [("X-Account", "A")])
        #expect(isHit(try play.get("/a", [("X-Account", "B")])))
    }

    @Test("a field that changes with each request does not prevent rescues, but still separates concurrent requests")
    func changing() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] })
        for number in 1...17 { _ = try play.get("/\(number % 5)", [("X-Timestamp", "\(number)")]) }
        for number in 18...20 {
            let response = try play.get("/a", [("X-Timestamp", "\(number)")])
            #expect(response["Cache-Status"]?.contains("detail=changing_field") == true)
        }
        #expect(try play.get("/a", [("X-Timestamp", "21")])["Cache-Status"]?.contains("stored") == true)
        let gate = Gate()
        play.origin.react { request in [.pass(gate), .json("\"\(request["X-Timestamp"] ?? "")\"")] }
        let clients = try [41, 42].map { number in
            return try play.client(sending: "GET /b HTTP/1.1\r\nHost: a\r\nX-Timestamp: \(number)\r\n\r\n")
        }
        gate.open()
        #expect(clients.map { $0.readResponse()?.text } == ["\"41\"", "\"42\""])
        play.origin.down()
        #expect(try play.get("/a", [("X-Timestamp", "30")]).text == "1")
        #expect(try play.get("/a").status >= 502, "a response to requests with the field is not served without it")
    }

    @Test("a field that repeats a value selects again, and responses stored without it are not served")
    func repeated() throws {
        let play = try ProxyPlay(accountOrigin("X-Account"))
        for number in 1...18 { _ = try play.get("/a", [("X-Account", "\(number)")]) }
        play.origin.down()
        #expect(try play.get("/a", [("X-Account", "3")]).text == "\"3\"")
        for number in 1...20 {
            let response = try play.get("/a", [("X-Account", "\(number)")])
            #expect(response.status >= 502 || response.text == "\"\(number)\"")
        }
    }

    @Test("a write invalidates the responses of all accounts, and an administrator can list and purge them", arguments: [true, false])
    func writes(hasToken: Bool) throws {
        let play = try ProxyPlay(accountOrigin("Stripe-Account"))
        let own = hasToken ? [token] : []
        for account in ["A", "B"] { _ = try play.get("/a", own + [("Stripe-Account", account)]) }
        #expect(try play.request("POST", "/a", own, content: "{}").status == 200)
        play.origin.down()
        for account in ["A", "B"] { #expect(try play.get("/a", own + [("Stripe-Account", account)]).status >= 502) }
        play.origin.up()
        play.time.advance(by: .seconds(120))
        for account in ["A", "B"] { _ = try play.get("/a", own + [("Stripe-Account", account)]) }
        let listed = try play.admin("GET", "/-/entries?prefix=/a").text
        #expect(listed.split(separator: "\"target\"").count == 3, "\(listed)")
        #expect(!listed.contains("Stripe"))
        #expect(try play.admin("POST", "/-/purge?prefix=/a").status == 200)
        play.origin.down()
        for account in ["A", "B"] { #expect(try play.get("/a", own + [("Stripe-Account", account)]).status >= 502) }
    }

    @Test("the number of stored variants per target is limited, whatever values one client sends")
    func limit() throws {
        let play = try ProxyPlay(accountOrigin("X-Account"))
        for number in 0..<100 {
            _ = try play.get("/a", [("X-Account", "\(number % 80)")])
        }
        let entries = try play.admin("GET", "/-/entries?prefix=/a&limit=200").text
        #expect(entries.split(separator: "\"target\"").count - 1 <= 64)
    }
}
