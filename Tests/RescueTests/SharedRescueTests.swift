// Tests of clients with cookies in an outage. Each gets its own stored response, or the public one if the rules permit it, and never
// another client's.

import CachePolicy
import HTTPCore
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Cookies during an outage", .play)
struct SharedRescuePlays {
    @Test("load balancer and analytics cookies do not prevent a client's rescue")
    func ignoredCookies() throws {
        let play = try ProxyPlay(cookieOrigin())
        var client = CookieClient()
        #expect(try client.request("/users", play, [("Sec-Give", "AWSALB=1 _ga=2")]).status == 200)
        #expect(client.cookies.count == 2)
        play.origin.down()
        #expect(try client.request("/users", play).text == "{\"who\":\"|\",\"target\":\"/users\"}")
        client.cookies["AWSALB"] = "other"
        #expect(try client.request("/users", play).status == 200)
        #expect(try play.metric("cistern_rescued_with_shared_total{leave=\"own_cookies\"}") == 0)
    }

    @Test("cookies are forwarded unchanged")
    func cookiesForwarded() throws {
        let play = try ProxyPlay(cookieOrigin())
        _ = try play.get("/a", [("Cookie", "b=1;  _ga=2; a=\"3\"")])
        #expect(play.origin.requests.last?["Cookie"] == "b=1;  _ga=2; a=\"3\"")
    }

    @Test("a response stored before its client received cookies rescues that client only, also after a restart")
    func ownCookies() throws {
        let play = try ProxyPlay(cookieOrigin())
        var client = CookieClient()
        #expect(try client.request("/users", play, [("Sec-Give", "SID=1 lb=x")]).status == 200)
        play.origin.down()
        let response = try client.request("/users", play)
        #expect(response.status == 200)
        #expect(response["Cache-Status"] == "cistern; hit; ttl=0; detail=connection_refused/shared:own_cookies")
        #expect(try play.metric("cistern_rescued_with_shared_total{leave=\"own_cookies\"}") == 1)
        let why = String(decoding: try play.admin("GET", "/-/why?path=/users&last=1").content, as: UTF8.self)
        #expect(why.contains("the upstream set the request's cookies in this response"))

        var other = CookieClient(cookies: ["SID": "2", "lb": "x"])
        #expect(try other.request("/users", play).status == 502)
        #expect(try play.get("/users", [("Cookie", "SID=1")]).status >= 502, "a subset of the cookies does not match")
        #expect(try play.get("/users", client.fields + [("Cookie", "theme=dark")]).status >= 502)
        #expect(try play.get("/users", [("Authorization", "Bearer x")]).status >= 502)
        #expect(try client.request("/other", play).status >= 502, "only the target requested without cookies is rescued")

        try play.restart()
        #expect(try client.request("/users", play).status == 200)
        #expect(try other.request("/users", play).status >= 502)
    }

    @Test(
        "a client with cookies is never rescued with data that its session did not receive", .serialized, arguments: 1...3,
        [[], ["ETag: \"1\""], ["Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT"], ["Vary: Cookie"]])
    func sessions(seed: Int, fields: [String]) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let number = Mutex(0)
        let play = try ProxyPlay(ScriptedOrigin { _ in [] })
        var sessions: [(client: CookieClient, received: [String: Set<String>])] = []
        for _ in 0..<12 {
            let (target, data) = ("/\(random.below(2))", "{\"data\":\(random.below(3))}")
            play.origin.react { request in
                guard request["Cookie"] == nil else { return [.json(data, fields)] }
                let number = number.withLock { number in
                    number += 1
                    return number
                }
                let cookie = seed == 1 ? "visitor=\(number)" : "sid=\(number)0f3a9c27b15e4d6088"
                return [.json(data, fields + ["Set-Cookie: \(cookie); Path=/"])]
            }
            if sessions.isEmpty || random.isTrue(oneIn: 2) { sessions.append((CookieClient(), [:])) }
            let one = random.below(sessions.count)
            #expect(try sessions[one].client.request(target, play).text == data)
            sessions[one].received[target, default: []].insert(data)
        }
        for restarts in 0...1 {
            play.origin.down()
            for index in sessions.indices where !sessions[index].received.isEmpty {
                for target in ["/0", "/1"] {
                    let response = try sessions[index].client.request(target, play)
                    #expect(response.status >= 502 || sessions[index].received[target]?.contains(response.text) == true)
                }
            }
            // A client without cookies gets the last response to clients without cookies.
            let first = try #require(sessions.first?.received.keys.first)
            #expect(try play.get(first).status == 200)
            if restarts == 0 { try play.restart() }
        }
    }

    @Test("while the upstream is only slow, no client gets a response that started a session, unless two sessions began with equal data")
    func slowSessions() throws {
        for isEqual in [false, true] {
            let play = try ProxyPlay(ScriptedOrigin { _ in [] })
            for number in 1...2 {
                play.origin.react { _ in [.json(isEqual ? "0" : "\(number)", ["Set-Cookie: sid=\(number)0f3a9c27b15e4d6088"])] }
                _ = try play.get("/a")
            }
            let gate = Gate()
            play.origin.react { _ in [.pass(gate), .json("9", ["Set-Cookie: sid=90f3a9c27b15e4d6088"])] }
            let client = try play.client(getting: "/a")
            #expect(play.origin.waitForRequests(3))
            play.time.advance(by: .milliseconds(1_600))
            #expect(client.hasInput(within: 20) == isEqual)
            gate.open()
            #expect(client.readResponse()?.text == (isEqual ? "0" : "9"))
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            play.origin.down()
            #expect(try play.get("/a").text == "9")
        }
    }

    @Test("a lifetime of an earlier response does not permit a rescue with a later one of another session")
    func earlierLifetime() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [] })
        var guests = [CookieClient(), CookieClient()]
        for (index, field) in ["Cache-Control: max-age=1", "Cache-Control: no-cache"].enumerated() {
            play.origin.react { _ in [.json("\(index)", [field, "Set-Cookie: sid=\(index)0f3a9c27b15e4d6088"])] }
            #expect(try guests[index].request("/a", play).text == "\(index)")
            play.time.advance(by: .seconds(2))
        }
        play.origin.down()
        #expect(try guests[0].request("/a", play).status == 502)
        #expect(try guests[1].request("/a", play).text == "1")
    }

    @Test("a token against forged requests does not prevent a rescue", arguments: ["X-CSRF-Token", "X-XSRF-TOKEN"])
    func forgeryTokens(name: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { request in [.json("\"\(request["Cookie"] ?? "")\"")] })
        for user in 1...2 { _ = try play.get("/a", [("Cookie", "sid=\(user)"), (name, "a\(user)")]) }
        play.origin.down()
        for user in 1...2 { #expect(try play.get("/a", [("Cookie", "sid=\(user)"), (name, "b")]).text == "\"sid=\(user)\"") }
        #expect(try play.get("/a", [("Cookie", "sid=3"), (name, "a1")]).status == 502)
        #expect(try play.get("/a", [(name, "a1")]).status == 502)
    }

    @Test("a response that varies by such a token, or has one because the request asked for it, serves only equal requests")
    func forgeryTokenSelects() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let token = request["X-CSRF-Token"] ?? ""
                return [.json("\"\(token)\"", ["Cache-Control: max-age=60"] + (request.target == "/vary" ? ["Vary: X-CSRF-Token"] : []))]
            })
        for token in ["a", "b", "a"] { #expect(try play.get("/vary", [("X-CSRF-Token", token)]).text == "\"\(token)\"") }
        #expect(try play.get("/odata").text == "\"\"")
        #expect(try play.get("/odata", [("X-CSRF-Token", "Fetch")]).text == "\"Fetch\"")
        #expect(try play.get("/odata").text == "\"\"")
    }

    @Test("a session is rescued with equal data that another session received")
    func equalSessions() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [] })
        var guests = [CookieClient(), CookieClient()]
        for index in 0...1 {
            play.origin.react { _ in [.json("1", ["Set-Cookie: sid=\(index)0f3a9c27b15e4d6088"])] }
            #expect(try guests[index].request("/a", play).text == "1")
        }
        play.origin.down()
        for index in 0...1 { #expect(try guests[index].request("/a", play).text == "1") }
    }

    @Test(
        "cookies keep access to the earlier response after a write that the upstream rejects or never receives", .serialized,
        arguments: ["POST", "bearer"], [("refused", true), ("422 No", true), ("500 Trouble", false), ("200 OK", false), ("close", false)])
    func writes(_ step: String, _ end: (name: String, isKept: Bool)) throws {
        let play = try ProxyPlay(cookieOrigin())
        var client = CookieClient()
        #expect(try client.request("/users", play, [("Sec-Give", "SID=1")]).status == 200)
        if end.name == "refused" { play.origin.down() }
        if end.name == "close" { play.origin.react { _ in [.close] } }
        if Int(end.name.prefix(3)) != nil { play.origin.react { _ in [.json("{}", status: end.name)] } }
        let isWrite = step == "POST"
        _ = try client.request(isWrite ? "POST" : "GET", "/w", play, isWrite ? [] : [("Authorization", "Bearer x")])
        play.origin.down()
        #expect(try (client.request("/users", play).status == 200) == end.isKept)
    }

    @Test("changed cookies keep access to the earlier response, unless the response may be a login", arguments: ["GET", "POST", "bearer"])
    func laterCookies(_ step: String) throws {
        let play = try ProxyPlay(cookieOrigin())
        var client = CookieClient()
        #expect(try client.request("/users", play, [("Sec-Give", "SID=1")]).status == 200)
        let before = client
        switch step {
        case "GET": #expect(try client.request("/posts", play, [("Sec-Give", "SID=2")]).status == 200)
        case "POST": #expect(try client.request("POST", "/login", play, [("Sec-Give", "SID=2")], content: "name=me").status == 200)
        default: #expect(try client.request("/session", play, [("Authorization", "Bearer x"), ("Sec-Give", "SID=2")]).status == 200)
        }
        #expect(client.cookies == ["SID": "2"])
        play.origin.down()
        #expect(try (client.request("/users", play).status == 200) == (step == "GET"))
        var earlier = before
        #expect(try (earlier.request("/users", play).status == 200) == (step == "GET"))
    }

    @Test("a public stored response rescues requests with any credentials when the upstream fails", arguments: [500, 503, 520])
    func publicCopies(_ status: Int) throws {
        let play = try ProxyPlay(cookieOrigin())
        #expect(try play.get("/public/a").status == 200)
        #expect(try play.get("/plain").status == 200)
        play.origin.react { _ in [.json("{}", status: "\(status) Trouble")] }
        let response = try play.get("/public/a", [("Authorization", "Bearer x")])
        #expect(response.status == 200)
        #expect(response["Cache-Status"]?.hasSuffix("fwd=uri-miss; fwd-status=\(status); detail=server_error/shared:public") == true)
        #expect(try play.get("/plain", [("Authorization", "Bearer x")]).status == status)
        #expect(try play.metric("cistern_rescued_with_shared_total{leave=\"public\"}") == 1)
    }

    @Test("a response that may concern this user is passed on", arguments: ["401 Unauthorized", "302 Found", "429 Too Many Requests"])
    func concernsUser(_ status: String) throws {
        let play = try ProxyPlay(cookieOrigin())
        #expect(try play.get("/public/a").status == 200)
        play.origin.react { _ in [.json("{}", status: status, ["Location: /login"])] }
        #expect(try play.get("/public/a", [("Cookie", "SID=1")]).statusLine.hasSuffix(status))
    }

    @Test("a response stored with credentials never rescues requests without them or with others")
    func neverWithCredentials() throws {
        let play = try ProxyPlay(cookieOrigin()) { $0.otherRoute.sharedRescueMode = .always }
        #expect(try play.get("/public/a", [("Cookie", "SID=1")]).status == 200)
        play.origin.down()
        #expect(try play.get("/public/a").status == 502)
        #expect(try play.get("/public/a", [("Cookie", "SID=2")]).status >= 502)
    }

    @Test("the setting decides per route whether shared responses rescue", arguments: SharedRescueMode.allCases)
    func setting(_ setting: SharedRescueMode) throws {
        let play = try ProxyPlay(cookieOrigin()) { settings in
            var route = Route()
            route.name = "r"
            route.sharedRescueMode = setting
            settings.routes = [route]
            settings.otherRoute.sharedRescueMode = setting == .never ? .always : .never
        }
        var client = CookieClient()
        #expect(try client.request("/users", play, [("Sec-Give", "SID=1")]).status == 200)
        #expect(try play.get("/public/a").status == 200)
        play.origin.down()
        #expect(try (client.request("/users", play).status == 200) == [.own, .always].contains(setting))
        #expect(try (play.get("/users", [("Cookie", "SID=2")]).status == 200) == (setting == .always))
        #expect(try (play.get("/public/a", [("Cookie", "SID=2")]).status == 200) == (setting != .never))
    }

    @Test("a purged or invalidated response rescues no client")
    func purged() throws {
        let play = try ProxyPlay(cookieOrigin())
        var client = CookieClient()
        for target in ["/a", "/b"] {
            client.cookies = [:]
            #expect(try client.request(target, play, [("Sec-Give", "SID=1")]).status == 200)
        }
        #expect(try play.admin("POST", "/-/purge?target=/a").status == 200)
        #expect(try play.request("DELETE", "/b").status == 200)
        play.origin.down()
        for target in ["/a", "/b"] { #expect(try client.request(target, play).status >= 502) }
    }
}
