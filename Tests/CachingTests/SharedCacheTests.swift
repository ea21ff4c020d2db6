// Tests of RFC 9111 and related RFCs over real sockets.

import CachePolicy
import Forwarding
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("A shared cache in strict mode", .play)
struct SharedCacheTests {
    private static func counting(_ steps: @escaping @Sendable (OriginRequest, Int) -> [OriginStep]) -> ScriptedOrigin {
        let counter = Counter()
        return ScriptedOrigin { steps($0, counter.next()) }
    }

    @Test("with store: any every final status is stored as permitted and forwarded unchanged")
    func anyStatus() throws {
        let origin = Self.counting { request, number in
            switch request.target {
            case "/204": [.send("HTTP/1.1 204 No Content\r\nX-Number: \(number)\r\nCache-Control: max-age=60\r\n\r\n")]
            case "/301":
                [
                    .answer(
                        "", type: "text/html", status: "301 Moved", ["Location: \(request["X-Origin"] ?? "")/b", "X-Number: \(number)"])
                ]
            default:
                [
                    .answer(
                        "<p>", type: "text/html", status: "\(request.target.dropFirst()) Odd words",
                        ["X-Number: \(number)", "Cache-Control: max-age=60"])
                ]
            }
        }
        let play = try ProxyPlay(origin) { $0.policy.keepsAny = true }
        for target in ["/200", "/204", "/299", "/404", "/410", "/499", "/503", "/599"] {
            let first = try play.get(target)
            #expect(first.status == Int(target.dropFirst()))
            let second = try play.get(target)
            #expect(second.statusLine == first.statusLine)
            #expect(second.content == first.content)
            #expect(second["X-Number"] == first["X-Number"], "\(target)")
            #expect(second["Content-Length"] == first["Content-Length"])
            #expect(second["Age"] == "0")
        }
        for target in ["/400", "/429"] {
            let first = try play.get(target)
            #expect(try play.get(target)["X-Number"] != first["X-Number"])
        }
        origin.down()
        // Stored without a freshness lifetime, for rescues only.
        play.time.advance(by: .seconds(100))
        #expect(try play.get("/404").status == 404)
        #expect(try play.get("/599").status == 502)
    }

    @Test(
        "identity fields with other names also separate users",
        arguments: [
            "X-API-Key", "X_Api_Key", "api_key", "x_auth_token", "PRIVATE-TOKEN", "X-Vault-Token", "X-Session-Token", "Token",
            "X-Goog-Api-Key",
            "Ocp-Apim-Subscription-Key", "X-Shopify-Access-Token", "X-Forwarded-User", "Remote-User", "Cf-Access-Jwt-Assertion", "DPoP",
            "X-Amzn-Mtls-Clientcert-Subject", "X-Scope-OrgID", "uid", "OIDC_CLAIM_email", "X-Some-Token", "x_own_user_id",
        ])
    func credentialFields(name: String) throws {
        let origin = ScriptedOrigin { request in [.json("\"\(request[name] ?? "nobody")\"", ["Cache-Control: max-age=60"])] }
        // Fields that only proxies write are removed unless the client is trusted.
        let play = try ProxyPlay(origin) { $0.forwarding.forwarded = .trust }
        for user in ["alice", "bob", "alice"] { #expect(try play.get("/me", [(name, user)]).text == "\"\(user)\"") }
        #expect(try play.get("/me").text == "\"nobody\"")
        // A DPoP proof is valid for one request, so its response is not stored.
        #expect(origin.requests.count == (name == "DPoP" ? 4 : 3))
    }

    @Test("a stored redirect within the upstream also points to the proxy")
    func redirect() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [] }) { $0.policy.keepsAny = true }
        let own = "http://127.0.0.1:\(play.origin.port)"
        play.origin.react { _ in
            [.answer("", type: "text/plain", status: "308 Permanent Redirect", ["Location: \(own)/b", "Cache-Control: max-age=60"])]
        }
        #expect(try play.get("/a")["Location"] == "/b")
        let hit = try play.get("/a")
        #expect(hit["Location"] == "/b")
        #expect(hit["Cache-Status"]?.contains("hit") == true)
    }

    @Test("a HEAD response freshens the stored GET response or makes it stale")
    func head() throws {
        let origin = Self.counting { request, number in
            guard request.method == "HEAD" else { return [.json("{\"n\":\(number)}", ["Cache-Control: max-age=60", "ETag: \"v\""])] }
            let tag = request.target == "/same" ? "\"v\"" : "\"w\""
            return [.send("HTTP/1.1 200 OK\r\nETag: \(tag)\r\nCache-Control: max-age=60\r\nX-New: 1\r\nContent-Length: 7\r\n\r\n")]
        }
        let play = try ProxyPlay(origin)
        for target in ["/same", "/other"] {
            let first = try play.get(target)
            play.time.advance(by: .seconds(30))
            #expect(try play.request("HEAD", target, [("Cache-Control", "no-cache")]).status == 200)
            play.time.advance(by: .seconds(40))
            let then = try play.get(target)
            #expect((then.text == first.text) == (target == "/same"))
            #expect((then["X-New"] == "1") == (target == "/same"))
        }
    }

    @Test("Via is correct after a 304 with its own Via")
    func via() throws {
        let origin = ScriptedOrigin { request in
            request["If-None-Match"] == nil
                ? [.json("{}", ["ETag: \"v\"", "Cache-Control: max-age=60", "Via: 1.1 first"])]
                : [.send("HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nVia: 1.1 second\r\nCache-Control: max-age=60\r\n\r\n")]
        }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").all("Via") == ["1.1 first", "1.1 cistern"])
        play.time.advance(by: .seconds(60))
        #expect(try play.get("/a").all("Via") == ["1.1 second", "1.1 cistern"])
        #expect(try play.get("/a").all("Via") == ["1.1 second", "1.1 cistern"])
    }

    @Test("only-if-cached never causes an upstream request, also with a range or precondition")
    func onlyIfCached() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        for field in [("Range", "bytes=0-1"), ("If-Match", "*"), ("X", "1")] {
            #expect(try play.get("/a", [("Cache-Control", "only-if-cached"), field]).status == 504)
        }
        #expect(play.origin.requests.isEmpty)
    }

    @Test("a write invalidates its Location behind the upstream's base path")
    func basePath() throws {
        let counter = Counter()
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                [
                    .json(
                        "{\"n\":\(counter.next())}",
                        ["Cache-Control: max-age=60"] + (request.method == "POST" ? ["Location: /api/made"] : []))
                ]
            }
        ) { $0.upstream.basePath = "/api" }
        let first = try play.get("/made").text
        #expect(try play.get("/made").text == first)
        play.time.advance(by: .milliseconds(5))
        _ = try play.request("POST", "/a", content: "{}")
        #expect(try play.get("/made").text != first)
    }

    @Test("Set-Cookie in stored responses is stripped, kept or prevents storing, as configured")
    func setCookie() throws {
        for treatment in SetCookieTreatment.allCases {
            let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Set-Cookie: a=1", "Cache-Control: max-age=60"])] }) {
                $0.policy.setCookie = treatment
            }
            #expect(try play.get("/a")["Set-Cookie"] == "a=1")
            let second = try play.get("/a")
            #expect(second["Set-Cookie"] == (treatment == .strip ? nil : "a=1"))
            #expect(play.origin.requests.count == (treatment == .refuse ? 2 : 1))
        }
    }

    @Test("a response to a request with Authorization is shared while fresh and never served stale")
    func authorized() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60, must-revalidate"])] }) {
            $0.policy.credentials.fields = []
        }
        _ = try play.get("/a", [("Authorization", "x")])
        #expect(try play.get("/a")["Age"] == "0")
        play.origin.down()
        play.time.advance(by: .seconds(60))
        #expect(try play.get("/a").status == 502)
    }
}
