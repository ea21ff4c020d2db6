// Tests of users with opaque credentials, which a look-up at the upstream resolves.

import Forwarding
import Glibc
import HTTPCore
import Identity
import Reactor
import ReverseProxy
import TestSupport
import Testing

/// Set by a test, read by the origin's queues.
private final class Flag: Sendable {
    private let value: Mutex<Bool>

    init(_ value: Bool) { self.value = Mutex(value) }

    var isSet: Bool {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}

@Suite("Users identified by an upstream lookup", .play, .clientProtocols)
struct LookUpPlays {
    /// Tokens have the form `USER-RIGHTS-NUMBER`; /me returns the first two parts.
    private func play(log: CapturedLines? = nil, _ me: @escaping @Sendable ([String]) -> OriginStep? = { _ in nil }) throws -> ProxyPlay {
        let origin = ScriptedOrigin { request in
            let token =
                request["Authorization"]?.split(separator: " ").last.map(String.init) ?? request["Cookie"].map { String($0.dropFirst(4)) }
                ?? ""
            let parts = token.split(separator: "-").map(String.init)
            guard request.target == "/me" else { return [.json("{\"token\":\"\(token)\"}", ["Cache-Control: private, max-age=3600"])] }
            if let step = me(parts) { return [step] }
            guard parts.count == 3 else { return [.json("{}", status: "401 No")] }
            return [.json("{\"id\":\"\(parts[0])\",\"rights\":[\"\(parts[1])\"]}")]
        }
        return try ProxyPlay(origin, log: log) { settings in
            settings.otherRoute.lookUp.path = "/me"
            settings.otherRoute.lookUp.pointers = ["/id", "/rights"]
        }
    }

    private func get(_ play: ProxyPlay, _ token: String, _ target: String = "/a") throws -> TestResponse {
        try play.get(target, [("Authorization", "Bearer \(token)")])
    }

    /// Sends a request and waits until the look-up of the token is finished.
    private func introduce(_ play: ProxyPlay, _ token: String, count: Double, _ result: String = "told") throws {
        _ = try get(play, token, "/hello")
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"\(result)\"}", count))
    }

    private func text(_ token: String) -> String { "{\"token\":\"\(token)\"}" }

    @Test("tokens of one user with equal rights share responses; others do not")
    func sharedByUser() throws {
        let play = try play()
        for (index, token) in ["ann-rw-1", "ann-rw-2", "ann-r-3", "bob-rw-4"].enumerated() {
            try introduce(play, token, count: Double(index + 1))
        }
        #expect(try get(play, "ann-rw-1").text == text("ann-rw-1"))
        #expect(try get(play, "ann-rw-2").text == text("ann-rw-1"))
        for token in ["ann-r-3", "bob-rw-4", "eve"] { #expect(try get(play, token).text == text(token)) }
        #expect(play.origin.requests.filter { $0.target == "/me" && $0["Authorization"] == "Bearer ann-rw-1" }.count == 1)
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"nothing\"}", 1))
        play.origin.down()
        #expect(try get(play, "ann-rw-2").text == text("ann-rw-1"))
        #expect(try get(play, "zoe-rw-5").status == 502)
        let why = String(decoding: try play.admin("GET", "/-/why?path=/a&last=20").content, as: UTF8.self)
        #expect(why.contains(#""identity": "told""#) && why.contains(#""identity": "untold""#))
    }

    @Test("a lookup result for one host does not apply to another host")
    func hosts() throws {
        // At b, Ann's token is unknown, and another user has Ann's ID.
        let users = ["a.test": ["Bearer ann": 1], "b.test": ["Bearer bob": 1]]
        let origin = ScriptedOrigin { request in
            guard let user = users[request["Host"] ?? ""]?[request["Authorization"] ?? ""] else { return [.json("{}", status: "401 No")] }
            if request.target == "/me" { return [.json("{\"id\":\(user)}")] }
            return [.json("\"\(request["Authorization"] ?? "")\"", ["Cache-Control: private, max-age=3600"])]
        }
        let play = try ProxyPlay(origin) { settings in
            settings.forwarding.preserveHost = true
            settings.otherRoute.lookUp.path = "/me"
            settings.otherRoute.lookUp.pointers = ["/id"]
        }
        func get(_ user: String, at host: String, _ target: String = "/a") throws -> TestResponse {
            try play.get(target, [("Host", host), ("Authorization", "Bearer \(user)")])
        }
        for (index, (user, host)) in [("ann", "a.test"), ("bob", "b.test")].enumerated() {
            _ = try get(user, at: host, "/hello")
            #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", Double(index + 1)))
            #expect(try get(user, at: host).text == "\"Bearer \(user)\"")
        }
        #expect(try get("ann", at: "A.test")["Cache-Status"]?.contains("hit") == true)
        #expect(try get("ann", at: "b.test").status == 401)
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"nothing\"}", 1))
        #expect(try get("ann", at: "b.test").status == 401)
    }

    @Test("a cookie is looked up with all credentials and no other request fields")
    func cookie() throws {
        let play = try play()
        _ = try play.get(
            "/hello", [("Cookie", "sid=ann-rw-1"), ("X-API-Key", "k"), ("X-Tenant", "t"), ("X-Other", "o"), ("If-None-Match", "\"x\"")])
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", 1))
        let asked = try #require(play.origin.requests.first { $0.target == "/me" })
        #expect(asked["Cookie"] == "sid=ann-rw-1" && asked["X-API-Key"] == "k" && asked["X-Tenant"] == "t")
        #expect(asked["X-Other"] == nil && asked["If-None-Match"] == nil)
    }

    @Test("an expired lookup result is used only for a rescue; a rejection by the upstream removes it")
    func later() throws {
        let play = try play()
        for (index, token) in ["ann-rw-1", "ann-rw-2"].enumerated() { try introduce(play, token, count: Double(index + 1)) }
        _ = try get(play, "ann-rw-1")
        play.origin.down()
        play.time.advance(by: .seconds(601))
        let response = try get(play, "ann-rw-2")
        #expect(response.text == text("ann-rw-1"))
        #expect(response["Cache-Status"]?.hasSuffix("/told_before") == true)
        play.origin.react { request in
            request.target == "/me" ? [.json("{}", status: "401 No")] : [.json("{\"new\":1}", ["Cache-Control: private"])]
        }
        play.origin.up()
        play.time.advance(by: .seconds(31))
        #expect(try get(play, "ann-rw-2", "/b").text == "{\"new\":1}")
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"nothing\"}", 1))
        play.origin.down()
        #expect(try get(play, "ann-rw-2").status == 502)
    }

    /// What the upstream does with a write, and whether the user of its credentials remains known.
    @Test(
        "a write that the upstream rejects or never receives leaves the user known; after any other one nobody gets the user's responses",
        arguments: [("refused", true), ("422 No", true), ("500 Trouble", false), ("200 OK", false), ("cut", false)])
    func writes(_ end: String, _ isKnown: Bool) throws {
        let play = try play()
        for (index, token) in ["ann-rw-1", "ann-rw-2"].enumerated() { try introduce(play, token, count: Double(index + 1)) }
        _ = try get(play, "ann-rw-1")
        if end == "refused" {
            play.origin.down()
        } else {
            play.origin.react { _ in [end == "cut" ? .close : .json("{}", status: end)] }
        }
        #expect(try play.request("POST", "/w", [("Authorization", "Bearer ann-rw-2")], content: "x").status == (Int(end.prefix(3)) ?? 502))
        play.origin.down()
        #expect(try get(play, "ann-rw-2").status == (isKnown ? 200 : 502))
        let why = String(decoding: try play.admin("GET", "/-/why?path=/a&last=1").content, as: UTF8.self)
        #expect(why.contains(isKnown ? #""identity": "told""# : #""identity": "after_write""#))
        #expect(!why.contains("identity.lookup.identity"))
    }

    @Test("an incomplete lookup response identifies no user", arguments: ["{\"id\":\"x\"}", "{\"id\":\"x\",\"rights\":[]}", "junk"])
    func unclear(_ content: String) throws {
        let play = try play { _ in .json(content) }
        try introduce(play, "a-b-1", count: 1, "nothing")
        try introduce(play, "a-b-2", count: 2, "nothing")
        #expect(try get(play, "a-b-1").text == text("a-b-1"))
        #expect(try get(play, "a-b-2").text == text("a-b-2"))
    }

    @Test("a failed lookup is not retried at once")
    func trouble() throws {
        let play = try play { _ in .json("{}", status: "503 Busy") }
        try introduce(play, "a-b-1", count: 1, "failed")
        for _ in 0..<3 { _ = try get(play, "a-b-1") }
        #expect(play.origin.requests.filter { $0.target == "/me" }.count == 1)
    }

    /// Sends requests and waits until so many look-ups had this result.
    private func lookUp(_ play: ProxyPlay, _ tokens: [String], _ result: String, to count: Double) throws {
        for token in tokens { _ = try get(play, token, "/hello") }
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"\(result)\"}", count))
    }

    @Test(
        "an identity that the upstream gives without a token, too, merges no users, and ends what was believed before",
        arguments: [#"{"id":0,"rights":["x"]}"#, #"{"id":"ann","rights":["rw"]}"#])
    func common(_ guest: String) throws {
        let (log, isDegraded) = (CapturedLines(), Flag(true))
        let play = try play(log: log) { _ in isDegraded.isSet ? .json(guest) : nil }
        // From the beginning.
        try lookUp(play, ["ann-rw-1", "bob-rw-2"], "common", to: 2)
        for token in ["ann-rw-1", "bob-rw-2"] { #expect(try get(play, token).text == text(token)) }
        #expect(log.count(of: "names the same user with and without a token") == 1)
        let asked = play.origin.requests.count { $0.target == "/me" }
        // No further request without the token is needed.
        try lookUp(play, ["eve-rw-9"], "common", to: 3)
        #expect(play.origin.requests.count { $0.target == "/me" } == asked + 1)
        play.time.advance(by: .seconds(3_700))
        isDegraded.isSet = false
        try lookUp(play, ["ann-rw-1", "ann-rw-3", "bob-rw-2"], "told", to: 3)
        #expect(try get(play, "ann-rw-1", "/b").text == text("ann-rw-1"))
        #expect(try get(play, "ann-rw-3", "/b").text == text("ann-rw-1"))
        #expect(try get(play, "bob-rw-2", "/b").text == text("bob-rw-2"))
        // Later, at the renewal of results and for a new token.
        isDegraded.isSet = true
        play.time.advance(by: .seconds(400))
        try lookUp(play, ["bob-rw-2", "eve-rw-4"], "common", to: 5)
        #expect(try get(play, "bob-rw-2", "/c").text == text("bob-rw-2"))
        #expect(try get(play, "eve-rw-4", "/c").text == text("eve-rw-4"))
        #expect(try get(play, "ann-rw-3", "/c").text == text("ann-rw-3"))
        // The last good response remains available to its user.
        play.origin.down()
        #expect(try get(play, "bob-rw-2", "/b").text == text("bob-rw-2"))
        #expect(try get(play, "eve-rw-4", "/b").status == 502)
    }

    @Test("a request without the token has all other credentials; an error in its response is no evidence", arguments: [true, false])
    func withoutToken(isError: Bool) throws {
        let origin = ScriptedOrigin { request in
            guard request.target == "/me" else { return [.json("{}")] }
            if request["Cookie"]?.contains("sid=") == true { return [.json("{\"id\":1,\"rights\":[\"rw\"]}")] }
            return [.json("{}", status: isError ? "500 Trouble" : "401 No")]
        }
        let play = try ProxyPlay(origin) { settings in
            settings.otherRoute.lookUp.path = "/me"
            settings.otherRoute.lookUp.pointers = ["/id", "/rights"]
        }
        _ = try play.get("/hello", [("Cookie", "_ga=1; sid=ann0123456789; lang=x"), ("X-Tenant", "t")])
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"\(isError ? "failed" : "told")\"}", 1))
        let asked = play.origin.requests.filter { $0.target == "/me" }
        #expect(asked.map { $0["Cookie"] } == ["_ga=1; sid=ann0123456789; lang=x", "_ga=1; lang=x"])
        #expect(asked.allSatisfy { $0["X-Tenant"] == "t" && $0["Accept"] == "application/json, */*;q=0.1" })
    }

    /// What happens before the next start, and whether the user's stored responses then serve in an outage.
    @Test(
        "after a restart, a looked-up user gets rescues; not after a crash, a write with effect, or a long stop",
        arguments: [
            ("restart", true), ("crash", false), ("write", false), ("write after it", false), ("long stop", false), ("changed", false),
        ])
    func restart(_ event: String, _ isKnown: Bool) throws {
        let play = try play()
        for (index, token) in ["ann-rw-1", "ann-rw-2"].enumerated() { try introduce(play, token, count: Double(index + 1)) }
        _ = try get(play, "ann-rw-1")
        let file = play.directory + "/identities"
        let write = { try play.request("POST", "/w", [("Authorization", "Bearer ann-rw-2")], content: "x").status }
        if event == "write" { #expect(try write() == 200) }
        play.origin.down()
        play.stop()
        #expect(access(file, F_OK) == 0)
        if event == "crash" { unlink(file) }
        if event == "changed" { #expect(truncate(file, 60) == 0) }
        if event == "long stop" { play.time.advance(by: .seconds(601)) }
        try play.start()
        #expect(access(file, F_OK) != 0)
        if event == "write after it" {
            play.origin.up()
            #expect(try write() == 200)
            play.origin.down()
        }
        let response = try get(play, "ann-rw-2")
        #expect(response.status == (isKnown ? 200 : 502))
        if isKnown { #expect(response.text == text("ann-rw-1") && response["Cache-Status"]?.hasSuffix("/told_before") == true) }
        #expect(try get(play, "bob-rw-4").status == 502)
    }
}
