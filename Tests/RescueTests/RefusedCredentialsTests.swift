// Tests that a client cannot get stored data by a failure that it provokes itself, after the upstream has refused its credentials.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Refused credentials", .play, .clientProtocols)
struct RefusedCredentialsTests {
    private static let own = [("Authorization", "Bearer 1")]
    private static let other = [("Authorization", "Bearer 2")]

    private func status(_ status: String, _ fields: [String] = []) -> ScriptedOrigin.Script {
        { _ in [.json("{\"error\":1}", status: status, fields)] }
    }

    @Test("after a 401, a rate limit, its pause and a slow response serve no stored response, until a good response to these credentials")
    func provoked() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        for fields in [Self.own, Self.other] {
            for target in ["/a", "/b"] { #expect(try play.get(target, fields).text == "{\"id\":1}") }
        }
        play.origin.react(status("401 Unauthorized"))
        #expect(try play.get("/a", Self.own).status == 401)
        play.origin.react(status("429 Too Many Requests", ["Retry-After: 5"]))
        #expect(try play.get("/b", Self.own).status == 429)
        #expect(try play.get("/b", Self.own).status >= 429, "a pause is no reason either")
        #expect(try play.get("/b", Self.other).status == 200)
        #expect(try play.get("/b", Self.own + [("Range", "bytes=0-1")]).status >= 429)
        play.time.advance(by: .seconds(10))
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get("/b", Self.own + [("Range", "bytes=0-1")]).status == 429)
        play.origin.react(status("503 Service Unavailable"))
        #expect(try play.get("/b", Self.own).status == 200, "the client cannot provoke a failure of the upstream")
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [.json("{\"id\":2}")] }
        #expect(try play.get("/a", Self.own).text == "{\"id\":2}")
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get("/a", Self.own).text == "{\"id\":2}")
    }

    @Test("after a 401, a slow response is awaited")
    func slow() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        #expect(try play.get("/a", Self.own).status == 200)
        play.origin.react(status("401 Unauthorized"))
        #expect(try play.get("/a", Self.own).status == 401)
        let (asked, gate) = (Gate(), Gate())
        play.origin.react { _ in [.open(asked), .pass(gate), .json("{\"error\":1}", status: "401 Unauthorized")] }
        let client = try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 1\r\n\r\n")
        asked.pass()
        play.time.advance(by: .seconds(20))
        gate.open()
        #expect(client.readResponse()?.status == 401)
    }

    @Test(
        "a 401 is remembered for a target whose URL, or an unknown field, has the credentials",
        arguments: [("/a?api_key=K123456", ""), ("/a?access_token=K123456", ""), ("/a", "X-Foo")])
    func ownTarget(target: String, name: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        let fields = name.isEmpty ? [] : [(name, "K")]
        for (target, fields) in [(target, fields), ("/b", [])] { #expect(try play.get(target, fields).status == 200) }
        play.origin.react(status("401 Unauthorized"))
        #expect(try play.get(target, fields).status == 401)
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get(target, fields).status == 429)
        #expect(try play.get("/b").status == 200)
        play.origin.react(status("503 Service Unavailable"))
        #expect(try play.get(target, fields).status == 200)
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [.json("{\"id\":2}")] }
        #expect(try play.get(target, fields).text == "{\"id\":2}")
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get(target, fields).text == "{\"id\":2}")
    }

    // MARK: Redirects to a login

    static func moved(_ location: String) -> OriginStep {
        .send("HTTP/1.1 302 Found\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n")
    }

    @Test(
        "a redirect of a request with credentials to a login is passed on like a 401",
        arguments: ["/login?next=/a", "http://a/users/sign_in", "https://sso.test/auth", "/"],
        ["private", "no-cache, private", "max-age=1"])
    func login(location: String, control: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}", ["Cache-Control: \(control)"])] })
        for fields in [Self.own, Self.other] {
            for target in ["/a", "/b"] { #expect(try play.get(target, fields).status == 200) }
        }
        play.time.advance(by: .seconds(5))
        let ended: ScriptedOrigin.Script = { request in
            request["Authorization"] == "Bearer 2" ? [.json("{\"id\":2}")] : [Self.moved(location)]
        }
        play.origin.react(ended)
        #expect(try play.get("/a", Self.other).text == "{\"id\":2}")
        for _ in 0..<4 {
            let response = try play.get("/a", Self.own)
            #expect(response.status == 302 && response["Location"] == location)
        }
        #expect(try play.metric("cistern_failure_scopes{scope=\"key\"}") == 0)
        play.origin.react(status("429 Too Many Requests"))
        #expect(try play.get("/b", Self.own).status == 429)
        #expect(try play.get("/b", Self.other).status == 200)
    }

    @Test("another user's first good response distinguishes a redirect to another host's login from a failure of a gateway")
    func firstResponse() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        for fields in [Self.own, Self.other] { #expect(try play.get("/a", fields).status == 200) }
        play.origin.react { _ in [Self.moved("https://sso.test/auth")] }
        #expect(try play.get("/a", Self.own).status == 302)
    }

    @Test("a permanent redirect to a login states that the resource has moved, and refuses no credentials", arguments: [301, 308])
    func moved(status: Int) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}", ["Cache-Control: private"])] })
        for target in ["/v1/auth", "/b"] { #expect(try play.get(target, Self.own).status == 200) }
        play.origin.react { _ in [.send("HTTP/1.1 \(status) Moved\r\nLocation: /v2/auth\r\nContent-Length: 0\r\n\r\n")] }
        #expect(try play.get("/v1/auth", Self.own).status == status)
        play.origin.react { _ in [.json("{}", status: "429 Too Many Requests")] }
        #expect(try play.get("/b", Self.own).status == 200)
    }

    @Test("a redirect to another host's login is a failure of a gateway if no other user has a good response, as one to an error page")
    func gateway() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        for fields in [Self.own, Self.other] { #expect(try play.get("/a", fields).status == 200) }
        play.time.advance(by: .seconds(11))
        play.origin.react { $0["Authorization"] == nil ? [.json("{\"id\":3}")] : [Self.moved("https://sso.test/auth")] }
        // Public data are available without the gateway that checks credentials.
        #expect(try play.get("/public").status == 200)
        for fields in [Self.own, Self.other, Self.own, Self.other] { #expect(try play.get("/a", fields).status == 200) }
        play.time.advance(by: .seconds(60))
        play.origin.react { $0["Authorization"] == "Bearer 2" ? [.json("{\"id\":2}")] : [Self.moved("/maintenance")] }
        _ = try play.get("/a", Self.other)
        #expect(try play.get("/a", Self.own).status == 200)
    }

    @Test("without credentials, a redirect to a login is a failure")
    func anonymous() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}")] })
        for target in ["/a", "/b"] { #expect(try play.get(target).status == 200) }
        play.origin.react { $0.target == "/b" ? [.json("{\"id\":2}")] : [Self.moved("/login")] }
        #expect(try play.get("/b").status == 200 && play.get("/a").status == 200)
    }
}

/// Random schedules: one user's session ends and begins again, another user stays logged in, and the upstream has failures.
private struct LoginWalk {
    private static let targets = ["/a", "/b", "/c"]
    private static let own = [("Authorization", "Bearer 1")]
    private static let other = [("Authorization", "Bearer 2")]

    private let play: ProxyPlay
    private let location: String
    private var hasEnded = false
    /// Whether a client has received the redirect since the session ended.
    private var hasSeenRedirect = false
    /// Number of redirects, and of other requests, that followed a redirect.
    private(set) var (redirects, others) = (0, 0)

    init(_ random: inout SeededGenerator) throws {
        location = random.pick(["/login", "/users/sign_in?next=/a", "https://sso.test/auth", "/"])
        play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}", ["Cache-Control: private"])] })
        for target in Self.targets { for fields in [Self.own, Self.other] { _ = try play.get(target, fields) } }
    }

    private func react(_ failure: String? = nil, _ more: [OriginStep] = []) {
        let (hasEnded, location) = (hasEnded, location)
        play.origin.react { request in
            if let failure { return [.json("{}", status: failure)] }
            let isOwn = request["Authorization"] == "Bearer 1"
            let step = hasEnded && isOwn ? RefusedCredentialsTests.moved(location) : .json("{\"id\":2}", ["Cache-Control: private"])
            return isOwn ? more + [step] : [step]
        }
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        let target = random.pick(Self.targets)
        react()
        // Another user's good response distinguishes the redirect from a failure of a gateway.
        _ = try play.get(random.pick(Self.targets), Self.other)
        switch random.below(10) {
        case 0: (hasEnded, hasSeenRedirect) = (true, false)
        case 1:
            (hasEnded, hasSeenRedirect) = (false, false)
            react()
            for target in Self.targets { _ = try play.get(target, Self.own) }
        case 2, 3:
            react("429 Too Many Requests")
            try get(target)
        case 4:
            react("503 Service Unavailable")
            // The client cannot provoke this failure.
            _ = try play.get(target, Self.own)
            react()
            play.time.advance(by: .seconds(60))
            _ = try play.get(target, Self.other)
        case 5:
            let gate = Gate()
            react(nil, [.pass(gate)])
            let before = play.origin.requests.count
            let client = try play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 1\r\n\r\n")
            try demand(play.origin.waitForRequests(before + 1), "\(target) was not requested")
            play.time.advance(by: .seconds(9))
            gate.open()
            guard let response = client.readResponse() else { throw ScheduleFailure("no response") }
            try check(response.status, "slow \(target)")
            react()
        default: try get(target)
        }
    }

    private mutating func get(_ target: String) throws {
        let response = try play.get(target, Self.own)
        try check(response.status, "\(target) \(response["Cache-Status"] ?? "")")
    }

    private mutating func check(_ status: Int, _ what: String) throws {
        if hasSeenRedirect {
            others += 1
            try demand(status != 200, "read after the redirect: \(what), \(location)")
        }
        guard hasEnded, status == 302 else { return }
        redirects += 1
        hasSeenRedirect = true
    }
}

@Suite("Sessions that end", .slow)
struct LoginWalkTests {
    @Test("random schedules: after a redirect to a login, the credentials read no stored response until a good response")
    func walk() {
        var (redirects, others) = (0, 0)
        let isWhole = RandomSchedules.run(12, steps: 60) {
            try LoginWalk(&$0)
        } step: {
            try $0.step(&$1)
        } end: {
            (redirects, others) = (redirects + $0.redirects, others + $0.others)
        }
        #expect(!isWhole || (redirects > 60 && others > 60), "\(redirects) redirects, \(others) other requests")
    }
}
