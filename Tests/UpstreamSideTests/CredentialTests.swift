// Tests of credential rules of routes: ignored credentials, and public responses shared by all requests with Authorization (RFC 9111 §3.5).

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

/// Responds with the request's credentials, and the Cache-Control in the path: `/x/public,max-age=60`.
private func origin() -> ScriptedOrigin {
    ScriptedOrigin { request in
        let control = request.target.split(separator: "/").last.map { $0.split(separator: "?")[0] } ?? ""
        if let tag = request["If-None-Match"] {
            return [.send("HTTP/1.1 304 Not Modified\r\nETag: \(tag)\r\nCache-Control: \(control)\r\n\r\n")]
        }
        let vary = request.target.hasPrefix("/vary") ? ["Vary: Authorization"] : []
        let who = [request["Authorization"], request["X-API-Key"]].compactMap(\.self).joined(separator: "+")
        return [.json("{\"who\":\"\(who)\"}", ["Cache-Control: \(control)", "ETag: \"1\""] + vary)]
    }
}

private func play(_ change: @escaping (inout CredentialRules) -> Void) throws -> ProxyPlay {
    try ProxyPlay(origin()) { change(&$0.otherRoute.credentials) }
}

private let ann = [("Authorization", "Bearer ann")]
private let bob = [("Authorization", "Bearer bob")]

@Suite("Ignored credentials", .play, .clientProtocols)
struct IgnoredCredentialPlays {
    @Test("with ignored credentials every client shares the stored response")
    func ignored() throws {
        let play = try play { $0.areIgnored = true }
        #expect(try play.get("/a/max-age=60", ann).text == "{\"who\":\"Bearer ann\"}")
        for fields in [bob, [], [("Cookie", "SID=1")], [("X-API-Key", "k")]] {
            #expect(try play.get("/a/max-age=60", fields).text == "{\"who\":\"Bearer ann\"}")
        }
        #expect(play.origin.requests.count == 1)
        play.time.advance(by: .seconds(100))
        play.origin.down()
        #expect(try play.get("/a/max-age=60", bob).text == "{\"who\":\"Bearer ann\"}")
    }

    @Test(
        "a response that is private or varies by credentials is still not shared",
        arguments: ["/a/private", "/vary/max-age=60"])
    func notForAll(_ target: String) throws {
        let play = try play { $0.areIgnored = true }
        _ = try play.get(target, ann)
        #expect(try play.get(target, bob).text == "{\"who\":\"Bearer bob\"}")
        play.origin.down()
        #expect(try play.get(target, [("Authorization", "Bearer eve")]).status == 502)
    }

    @Test("a Retry-After for one user does not pause other users")
    func pause() throws {
        let play = try play { $0.areIgnored = true }
        _ = try play.get("/a/no-cache", ann)
        let before = play.origin.requests.count
        play.origin.react { request in
            request["Authorization"] == "Bearer ann" ? [.json("{}", status: "429 Slow", ["Retry-After: 60"])] : [.json("{\"new\":1}")]
        }
        _ = try play.get("/a/no-cache", ann)
        #expect(try play.get("/a/no-cache", bob).text == "{\"new\":1}")
        #expect(play.origin.requests.count == before + 2)
    }

    @Test("other routes keep their partitions")
    func otherRoutes() throws {
        let play = try ProxyPlay(origin()) { settings in
            var route = Route()
            (route.name, route.pattern, route.credentials.areIgnored) = ("open", RoutePattern("/open/**"), true)
            settings.routes = [route]
        }
        for target in ["/open/max-age=60", "/own/max-age=60"] { _ = try play.get(target, ann) }
        #expect(try play.get("/open/max-age=60", bob).text == "{\"who\":\"Bearer ann\"}")
        #expect(try play.get("/own/max-age=60", bob).text == "{\"who\":\"Bearer bob\"}")
    }
}

@Suite("Sharing responses to requests with Authorization", .play, .clientProtocols)
struct SharedAuthorizedPlays {
    @Test(
        "responses with public, s-maxage or must-revalidate are shared among requests with Authorization",
        arguments: ["public,max-age=60", "s-maxage=60", "must-revalidate,max-age=60"])
    func shared(_ control: String) throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get("/a/\(control)", ann)
        #expect(try play.get("/a/\(control)", bob).text == "{\"who\":\"Bearer ann\"}")
        #expect(try play.get("/a/\(control)", ann).text == "{\"who\":\"Bearer ann\"}")
        #expect(play.origin.requests.count == 1)
        // Requests with other credentials, or with none, do not share the response.
        #expect(try play.get("/a/\(control)", bob + [("X-API-Key", "k")]).text == "{\"who\":\"Bearer bob+k\"}")
        #expect(try play.get("/a/\(control)").text == "{\"who\":\"\"}")
        #expect(try play.get("/a/\(control)", bob).text == "{\"who\":\"Bearer ann\"}")
    }

    @Test(
        "other responses are not shared",
        arguments: ["/a/max-age=60", "/a/private,max-age=60", "/a/public,private,max-age=60", "/vary/public,max-age=60"])
    func own(_ target: String) throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get(target, ann)
        #expect(try play.get(target, bob).text == "{\"who\":\"Bearer bob\"}")
        play.origin.down()
        #expect(try play.get(target, ann).text == "{\"who\":\"Bearer ann\"}")
        #expect(try play.get(target, [("Authorization", "Bearer eve")]).status == 502)
    }

    @Test("an ignored must-revalidate does not permit sharing")
    func ignored() throws {
        let play = try ProxyPlay(origin()) { settings in
            settings.otherRoute.credentials.sharesPublic = true
            settings.otherRoute.freshness.ignored = [.mustRevalidate]
        }
        _ = try play.get("/a/must-revalidate,max-age=60", ann)
        #expect(try play.get("/a/must-revalidate,max-age=60", bob).text == "{\"who\":\"Bearer bob\"}")
    }

    @Test("without the setting responses are not shared")
    func off() throws {
        let play = try play { _ in }
        _ = try play.get("/a/public,max-age=60", ann)
        #expect(try play.get("/a/public,max-age=60", bob).text == "{\"who\":\"Bearer bob\"}")
    }

    @Test(
        "with only s-maxage or must-revalidate, a stale response is served only to the user whose request fetched it",
        arguments: [("s-maxage=60", 502), ("must-revalidate,max-age=60", 502), ("public,max-age=60", 200)])
    func staleRescue(_ control: String, _ others: Int) throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get("/a/\(control)", ann)
        #expect(try play.get("/a/\(control)", bob).status == 200)
        play.time.advance(by: .seconds(61))
        play.origin.down()
        #expect(try play.get("/a/\(control)", ann).text == "{\"who\":\"Bearer ann\"}")
        #expect(try play.get("/a/\(control)", bob).status == others)
        #expect(try play.get("/a/\(control)", bob + [("Cache-Control", "max-stale")]).status == others)
    }

    @Test("a stale shared response is validated with the user's own credentials and is then fresh for all")
    func validated() throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get("/a/must-revalidate,max-age=60", ann)
        play.time.advance(by: .seconds(61))
        #expect(try play.get("/a/must-revalidate,max-age=60", bob).text == "{\"who\":\"Bearer ann\"}")
        #expect(play.origin.requests.last?["Authorization"] == "Bearer bob" && play.origin.requests.last?["If-None-Match"] == "\"1\"")
        #expect(try play.get("/a/must-revalidate,max-age=60", [("Authorization", "Bearer eve")]).status == 200)
        #expect(play.origin.requests.count == 2)
    }

    @Test("a validation response that is private, different or 410 applies only to that user")
    func othersResponses() throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get("/a/public,max-age=60", ann)
        play.time.advance(by: .seconds(61))
        play.origin.react { request in
            switch request["Authorization"] {
            case "Bearer bob": [.json("{\"secret\":\"bob\"}", ["Cache-Control: private"])]
            case "Bearer eve": [.json("{\"secret\":\"eve\"}", status: "410 Gone")]
            default:
                [
                    .send(
                        "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: private, max-age=60\r\nX-Secret: \(request["Authorization"] ?? "")\r\n\r\n"
                    )
                ]
            }
        }
        #expect(try play.get("/a/public,max-age=60", bob).text == "{\"secret\":\"bob\"}")
        #expect(try play.get("/a/public,max-age=60", [("Authorization", "Bearer eve")]).status == 410)
        #expect(try play.get("/a/public,max-age=60", [("Authorization", "Bearer sue")])["X-Secret"] == "Bearer sue")
        play.origin.down()
        let response = try play.get("/a/public,max-age=60", [("Authorization", "Bearer zoe")])
        #expect(response.text == "{\"who\":\"Bearer ann\"}" && response["X-Secret"] == nil)
        #expect(try play.get("/a/public,max-age=60", bob).text == "{\"secret\":\"bob\"}")
    }

    @Test("a write invalidates the shared response for all")
    func invalidated() throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get("/a/public,max-age=60", ann)
        #expect(try play.request("PUT", "/a/public,max-age=60", bob, content: "{}").status == 200)
        play.time.advance(by: .seconds(1))
        #expect(try play.get("/a/public,max-age=60", bob).text == "{\"who\":\"Bearer bob\"}")
        #expect(try play.get("/a/public,max-age=60", ann).text == "{\"who\":\"Bearer bob\"}")
    }

    @Test("concurrent requests for a stale shared response never receive each other's response")
    func atOnce() throws {
        let play = try play { $0.sharesPublic = true }
        _ = try play.get("/a/s-maxage=1", ann)
        play.time.advance(by: .seconds(2))
        let gate = Gate()
        play.origin.react { request in
            let who = request["Authorization"] ?? ""
            return (who == "Bearer bob" ? [.pass(gate)] : []) + [.json("{\"secret\":\"\(who)\"}", ["Cache-Control: private"])]
        }
        let client = try play.client(sending: "GET /a/s-maxage=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer bob\r\n\r\n")
        #expect(play.origin.waitForRequests(2))
        #expect(try play.get("/a/s-maxage=1", [("Authorization", "Bearer eve")]).text == "{\"secret\":\"Bearer eve\"}")
        gate.open()
        #expect(client.readResponse()?.text == "{\"secret\":\"Bearer bob\"}")
    }
}

@Suite("Signed requests", .play, .clientProtocols)
struct SignedRequestPlays {
    @Test(
        "conditions that a signature covers are forwarded unchanged, and the upstream's 304 confirms nothing",
        arguments: [
            ("Authorization", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;if-none-match, Signature=c"),
            ("Signature-Input", "sig=(\"if-none-match\");keyid=\"a\""),
        ])
    func unchanged(_ signature: (name: String, value: String)) throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request["If-None-Match"] == "*"
                    ? [.send("HTTP/1.1 304 Not Modified\r\n\r\n")] : [.json("{}", ["ETag: \"1\"", "Cache-Control: max-age=10, public"])]
            })
        _ = try play.get("/a")
        play.time.advance(by: .seconds(20))
        for _ in 0..<2 {
            let response = try play.get("/a", [signature, ("If-None-Match", "*")])
            #expect(response.status == 304 && response["Cache-Status"]?.contains("fwd=bypass") == true)
            #expect(play.origin.requests.last?["If-None-Match"] == "*")
        }
        // The stored response is stale as before.
        let count = play.origin.requests.count
        _ = try play.get("/a")
        #expect(play.origin.requests.count == count + 1 && play.origin.requests.last?["If-None-Match"] == "\"1\"")
    }
    @Test("a request whose signature does not cover its conditions uses the store")
    func notCovered() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] })
        let fields = [("Signature-Input", "sig=(\"@method\" \"@path\");keyid=\"a\""), ("If-None-Match", "\"9\"")]
        _ = try play.get("/a", fields)
        #expect(try play.get("/a", fields)["Cache-Status"]?.contains("hit") == true)
    }
}
