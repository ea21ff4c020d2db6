// Tests of response fields that give a session, a token or a nonce to one client. No other client receives them, nor the data of the
// session that they begin.

import CachePolicy
import ReverseProxy
import TestSupport
import Testing

@Suite("Credentials in response fields", .play, .clientProtocols)
struct ResponseCredentialTests {
    /// Returns a new credential with each response, and 304 to every condition.
    private func origin(_ name: String, _ lines: [String], _ content: String? = nil) -> ScriptedOrigin {
        let count = Counter()
        return ScriptedOrigin { request in
            let number = count.next()
            let fields = lines + ["\(name): secret-\(number)", "X-Next-Page-Token: next", "X-Continuation-Token: more", "Sync-Token: sync"]
            if request["If-None-Match"] != nil {
                return [.send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
            }
            return [.json(content ?? "{\"session\":\(number)}", fields)]
        }
    }

    @Test("a credential reaches only the client that caused it, not hits, confirmations or rescues; pagination tokens reach all")
    func stored() throws {
        for name in ["X-Auth-Token", "Authorization", "Nonce", "x_csrf_token"] {
            let origin = origin(name, ["Cache-Control: max-age=60", "ETag: \"a\""], "1")
            let play = try ProxyPlay(origin)
            #expect(try play.get("/a")[name] == "secret-1")
            func expectNone(_ sentence: Comment) throws {
                let response = try play.get("/a")
                #expect(response.status == 200 && response[name] == nil, sentence)
                for kept in ["X-Next-Page-Token", "X-Continuation-Token", "Sync-Token"] { #expect(response[kept] != nil, sentence) }
            }
            try expectNone("a hit")
            for number in 2...4 {
                play.time.advance(by: .seconds(61))
                let confirmed = try play.get("/a")
                #expect(confirmed["Cache-Status"]?.contains("fwd-status=304") == true)
                #expect(confirmed.all(name) == ["secret-\(number)"])
                try expectNone("a hit after a 304")
            }
            origin.down()
            play.time.advance(by: .seconds(61))
            try expectNone("a rescue")
        }
    }

    @Test("a request for a token gets one from the upstream, and in an outage the stored data without a token")
    func fetched() throws {
        let origin = origin("X-CSRF-Token", ["Cache-Control: max-age=60", "ETag: \"a\""])
        let play = try ProxyPlay(origin)
        for number in 1...3 { #expect(try play.get("/a", [("X-CSRF-Token", "Fetch")])["X-CSRF-Token"] == "secret-\(number)") }
        origin.down()
        let rescue = try play.get("/a", [("X-CSRF-Token", "Fetch")])
        #expect(rescue.status == 200 && rescue["X-CSRF-Token"] == nil)
    }

    @Test("a 304 that repeats the credential of an earlier one gives it again")
    func repeated() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let fields = ["ETag: \"a\"", "Cache-Control: no-cache", "X-Session-Id: s"]
                guard request["If-None-Match"] != nil else { return [.json("1", fields)] }
                return [.send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
            })
        for _ in 0..<5 { #expect(try play.get("/a").all("X-Session-Id") == ["s"]) }
    }

    @Test("cache.set_cookie: keep stores credentials")
    func kept() throws {
        let play = try ProxyPlay(origin("X-Auth-Token", ["Cache-Control: max-age=60"])) { $0.policy.setCookie = .keep }
        for _ in 0..<2 { #expect(try play.get("/a")["X-Auth-Token"] == "secret-1") }
    }

    @Test(
        "followers do not share a response that gives a credential, and never the credential",
        arguments: [
            ("no-cache", false), ("max-age=0, must-revalidate", false), ("public, max-age=0", true), ("max-age=60", true),
        ], ["X-Auth-Token", "Cart-Token", "Mcp-Session-Id", "Replay-Nonce", "X-CSRF-Token"])
    func collapsed(control: (String, Bool), name: String) throws {
        let gate = Gate()
        let count = Counter()
        let origin = ScriptedOrigin { _ in
            let number = count.next()
            return [.pass(gate), .json("\(number)", ["\(name): secret-\(number)", "Cache-Control: \(control.0)"])]
        }
        let play = try ProxyPlay(origin)
        let clients = try (0..<3).map { _ in try play.client(getting: "/cart") }
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        for _ in 0..<3 { gate.open() }
        let responses = clients.compactMap { $0.readResponse() }
        #expect(responses.map(\.text).sorted() == (control.1 ? ["1", "1", "1"] : ["1", "2", "3"]))
        let secrets = responses.compactMap { $0[name] }
        #expect(Set(secrets).count == secrets.count && secrets.count == (control.1 ? 1 : 3))
    }

    @Test("while the upstream is only slow, no other client gets a response that gave a credential, unless two in a row had equal data")
    func slowSessions() throws {
        for isEqual in [false, true] {
            let origin = origin("X-Auth-Token", [], isEqual ? "0" : nil)
            let play = try ProxyPlay(origin)
            for _ in 1...2 { _ = try play.get("/a") }
            let gate = Gate()
            origin.react { _ in [.pass(gate), .json("9", ["X-Auth-Token: secret-9"])] }
            let client = try play.client(getting: "/a")
            #expect(origin.waitForRequests(3))
            play.time.advance(by: .milliseconds(1_600))
            #expect(client.hasInput(within: 20) == isEqual)
            gate.open()
            let response = try #require(client.readResponse())
            #expect(response.text == (isEqual ? "0" : "9") && response["X-Auth-Token"] == (isEqual ? nil : "secret-9"))
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            origin.down()
            let rescued = try play.get("/a")
            #expect(rescued.text == "9" && rescued["X-Auth-Token"] == nil)
        }
    }

    @Test("a user's own rescue has the data without the token that the upstream had renewed with them")
    func renewed() throws {
        let origin = origin("Authorization", ["Cache-Control: private, no-cache"])
        let play = try ProxyPlay(origin)
        let user = [("X-API-Key", "0123456789abcdef")]
        #expect(try play.get("/x", user)["Authorization"] == "secret-1")
        let gate = Gate()
        origin.react { _ in [.pass(gate), .json("9", ["Authorization: secret-9"])] }
        let client = try play.client(sending: "GET /x HTTP/1.1\r\nHost: a\r\nX-API-Key: 0123456789abcdef\r\n\r\n")
        #expect(origin.waitForRequests(2))
        play.time.advance(by: .milliseconds(1_600))
        let rescued = try #require(client.readResponse())
        #expect(rescued.text == "{\"session\":1}" && rescued["Authorization"] == nil)
        gate.open()
    }

    @Test("random schedules: no credential reaches two clients", .serialized, arguments: 1...4)
    func walk(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let names = ["X-Auth-Token", "authorization", "Nonce", "X-Session-ID", "X_XSRF_Token"]
        let controls = ["no-cache", "max-age=1", "public, max-age=0", "private", "max-age=0, must-revalidate"]
        let count = Counter()
        let play = try ProxyPlay(ScriptedOrigin { _ in [] })
        var seen: Set<String> = []
        for _ in 0..<25 {
            let (name, control) = (names[random.below(names.count)], controls[random.below(controls.count)])
            let (hasTag, data) = (random.isTrue(), random.below(3))
            let gate = Gate()
            play.origin.react { request in
                let fields = ["\(name): secret-\(count.next())", "Cache-Control: \(control)"] + (hasTag ? ["ETag: \"\(data)\""] : [])
                guard hasTag, request["If-None-Match"] == "\"\(data)\"" else { return [.pass(gate), .json("\(data)", fields)] }
                return [.pass(gate), .send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
            }
            let isDown = random.isTrue(oneIn: 5)
            if isDown { play.origin.down() }
            let target = "/\(random.below(2))"
            let clients = try (0..<3).map { _ in try play.client(getting: target) }
            // Sometimes the upstream is slow.
            if !isDown, random.isTrue(oneIn: 3) { play.time.advance(by: .milliseconds(1_600)) }
            for _ in clients { gate.open() }
            for client in clients {
                let response = try #require(client.readResponse())
                for name in names {
                    for secret in response.all(name) { #expect(seen.insert(secret).inserted, "\(secret) in \(name), \(control)") }
                }
            }
            if isDown { play.origin.up() }
            play.time.advance(by: .seconds(random.below(3)))
        }
    }
}
