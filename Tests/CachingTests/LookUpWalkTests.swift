// Random tests of user look-ups with tenants and sessions that change their user. A request gets data of its own tenant and user only: as a
// hit, from a collapsed fetch and in a rescue.

import HTTPCore
import Identity
import Reactor
import ReverseProxy
import TestSupport
import Testing

/// An upstream with sessions that can change their user.
private final class Sessions: Sendable {
    private let users: Mutex<[String: String]>
    /// Whether /me gives all requests the identity of a guest, and whether it gave one and was not asked without a token since.
    private let guests = Mutex((all: false, last: false))

    init(_ users: [String: String]) { self.users = Mutex(users) }

    subscript(token: String) -> String? { users.withLock { $0[token] } }

    func change(_ token: String, to user: String) { users.withLock { $0[token] = user } }

    /// The token of a request, from any field that carries it.
    static func token(of request: OriginRequest) -> String {
        if let bearer = request["Authorization"]?.split(separator: " ").last { return String(bearer) }
        if let session = request["X-Session"] { return session }
        return cookies(of: request)["sid"] ?? ""
    }

    static func tenant(of request: OriginRequest) -> String { request["X-Tenant"] ?? cookies(of: request)["tenant"] ?? "none" }

    private static func cookies(of request: OriginRequest) -> [String: String] {
        var cookies: [String: String] = [:]
        for (name, value) in request.fields where name.lowercased() == "cookie" {
            for pair in value.filter({ $0 != " " }).split(separator: ";") {
                let parts = pair.split(separator: "=")
                if parts.count == 2 { cookies[String(parts[0])] = String(parts[1]) }
            }
        }
        return cookies
    }

    func answer(_ request: OriginRequest) -> [OriginStep] {
        let token = Self.token(of: request)
        if request.target == "/me", isGuest(token) { return [.json("{\"id\":\"guest\"}")] }
        guard let user = self[token] else { return [.json("{}", status: "401 No")] }
        if request.target == "/reject" { return [.json("{}", status: "422 No")] }
        if request.method == "POST" {
            change(token, to: String(request.target.split(separator: "/").last ?? ""))
            return [.json("{}")]
        }
        if request.target == "/me" { return [.json("{\"id\":\"\(user)\"}")] }
        return [.json("\"\(user) \(Self.tenant(of: request))\"", ["Cache-Control: private, max-age=30"])]
    }

    func toggleGuests() { guests.withLock { $0.all.toggle() } }

    private func isGuest(_ token: String) -> Bool {
        guests.withLock { guests in
            // The end of the trouble is not between a look-up and the same request without the token.
            defer { guests.last = guests.all && !token.isEmpty }
            return guests.all || guests.last && token.isEmpty
        }
    }

    static func settings(_ settings: inout ProxySettings) {
        settings.otherRoute.lookUp.path = "/me"
        settings.otherRoute.lookUp.pointers = ["/id"]
        settings.otherRoute.lookUp.keep = 120_000
    }
}

/// Random credentials, tenants and logins.
private struct Walk {
    private enum Carrier: CaseIterable {
        case bearer, field, cookie

        /// A token as frameworks make them, different for each carrier.
        func token(_ name: String) -> String { "\(name)x\(self)x0123456789abcdef" }

        func lines(_ token: String, tenant: String?, inCookie: Bool) -> [(String, String)] {
            let ofTenant = tenant.map { inCookie ? ("Cookie", "tenant=\($0)") : ("X-Tenant", $0) }
            switch self {
            case .bearer: return [("Authorization", "Bearer \(token)")] + (ofTenant.map { [$0] } ?? [])
            case .field: return [("X-Session", token)] + (ofTenant.map { [$0] } ?? [])
            case .cookie:
                guard let ofTenant else { return [("Cookie", "sid=\(token)")] }
                return inCookie ? [("Cookie", "\(ofTenant.1); sid=\(token)")] : [("Cookie", "sid=\(token)"), ofTenant]
            }
        }
    }

    private let sessions: Sessions
    private let play: ProxyPlay
    private var isDown = false
    private(set) var (shared, rescued, kept) = (0, 0, 0)

    /// `stay` tokens never change their user; `move` tokens do.
    init() throws {
        var users: [String: String] = [:]
        for carrier in Carrier.allCases {
            for (name, user) in [("stay1", "ann"), ("stay2", "ann"), ("stay3", "bob"), ("move", "ann")] {
                users[carrier.token(name)] = user
            }
        }
        let sessions = Sessions(users)
        self.sessions = sessions
        play = try ProxyPlay(ScriptedOrigin { sessions.answer($0) }, Sessions.settings)
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        let (name, tenant) = (random.pick(["stay1", "stay2", "stay3", "move"]), random.pick([nil, "red", "blue"]))
        let carrier = random.pick(Carrier.allCases)
        switch random.below(15) {
        case 0 where !isDown:
            let (user, token) = (random.pick(["ann", "bob"]), carrier.token("move"))
            _ = try play.request("POST", "/login/\(user)", carrier.lines(token, tenant: nil, inCookie: false))
        case 1:
            isDown.toggle()
            if isDown { play.origin.down() } else { play.origin.up() }
            play.time.advance(by: .seconds(16))
        case 2: play.time.advance(by: .seconds(1 + random.below(39)))
        case 3: try write(withoutEffectBy: carrier.lines(carrier.token(name), tenant: tenant, inCookie: random.isTrue()), &random)
        case 4: if random.isTrue(oneIn: 4) { try play.restart() }
        case 5: if random.isTrue(oneIn: 3) { sessions.toggleGuests() }
        default:
            let token = carrier.token(name)
            let lines = carrier.lines(token, tenant: tenant, inCookie: random.isTrue())
            let response = try play.get("/\(random.below(3))", lines)
            guard response.status == 200 else { return }
            let isHit = response["Cache-Status"]?.contains("hit") == true
            if isHit, !isDown { shared += 1 }
            if isHit, isDown { rescued += 1 }
            let parts = response.text.filter { $0 != "\"" }.split(separator: " ").map(String.init)
            try demand(parts.last == tenant ?? "none", "\(lines) got \(response.text)")
            try demand(parts.first == sessions[token], "\(lines) of \(sessions[token] ?? "") got \(response.text)")
        }
    }

    /// A write that the upstream rejects or never receives changes nothing: a client that got a stored response gets it again.
    private mutating func write(withoutEffectBy lines: [(String, String)], _ random: inout SeededGenerator) throws {
        let target = "/\(random.below(3))"
        let before = try play.get(target, lines)
        let status = try play.request("POST", isDown ? "/login/bob" : "/reject", lines).status
        try demand(isDown ? status >= 500 : status == 422 || status >= 500, "status \(status)")
        guard before.status == 200, before["Cache-Status"]?.contains("hit") == true else { return }
        kept += 1
        let after = try play.get(target, lines)
        try demand(after.text == before.text, "\(lines) got \(before.text), and \(after.status) after a write without effect")
    }
}

@Suite("Users identified by an upstream lookup, with tenants and logins", .play, .clientProtocols)
struct LookUpWalk {
    @Test("random credentials, tenants and logins never mix users")
    func walk() {
        var (shared, rescued, kept) = (0, 0, 0)
        let isWhole = RandomSchedules.run(3, steps: 300) { _ in
            try Walk()
        } step: {
            try $0.step(&$1)
        } end: {
            (shared, rescued, kept) = (shared + $0.shared, rescued + $0.rescued, kept + $0.kept)
        }
        #expect(!isWhole || (shared > 0 && rescued > 0 && kept > 0), "\(shared) shared, \(rescued) rescued, \(kept) kept")
    }

    private static let moved = "movedx0123456789abcdef"
    private static let other = "otherx0123456789abcdef"

    private func introduce(_ play: ProxyPlay, _ lines: [(String, String)], count: Double) throws {
        _ = try play.get("/hello", lines)
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", count))
    }

    @Test("requests collapse across tokens of one user, but not across tenants")
    func collapsed() throws {
        let sessions = Sessions(["a": "ann", "b": "ann"])
        let origin = ScriptedOrigin { sessions.answer($0) }
        let play = try ProxyPlay(origin, Sessions.settings)
        var count = 0.0
        for token in ["a", "b"] {
            for tenant in ["red", "blue"] {
                count += 1
                try introduce(play, [("Authorization", "Bearer \(token)"), ("X-Tenant", tenant)], count: count)
            }
        }
        let gate = Gate()
        origin.react { [.pass(gate)] + sessions.answer($0) }
        let clients = try [("a", "red"), ("b", "red"), ("a", "blue"), ("b", "blue")].map { token, tenant in
            let client = try play.client()
            client.send("GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(token)\r\nX-Tenant: \(tenant)\r\n\r\n")
            return client
        }
        #expect(try play.waitFor("cistern_collapsed_waiting", 2))
        gate.open()
        #expect(clients.map { $0.readResponse()?.text } == ["\"ann red\"", "\"ann red\"", "\"ann blue\"", "\"ann blue\""])
    }

    /// Requests or upstream responses that invalidate the user learned for a session.
    @Test(
        "after a session changes its user, the former user's other devices see none of the new user's responses",
        arguments: ["POST /login/bob", "GET /callback", "GET /expired", "POST /login/bob X-Tenant"])
    func login(_ change: String) throws {
        let sessions = Sessions([Self.moved: "ann", Self.other: "ann"])
        let origin = ScriptedOrigin { request in
            switch request.target {
            case "/callback":
                sessions.change(Sessions.token(of: request), to: "bob")
                return [.json("{}", ["Set-Cookie: sid=\(Self.moved); Path=/"])]
            case "/expired":
                sessions.change(Sessions.token(of: request), to: "bob")
                return [.json("{}", status: "401 No")]
            default: return sessions.answer(request)
            }
        }
        let play = try ProxyPlay(origin, Sessions.settings)
        let (moved, other) = ([("Cookie", "sid=\(Self.moved)")], [("Cookie", "sid=\(Self.other)")])
        try introduce(play, moved, count: 1)
        try introduce(play, other, count: 2)
        #expect(try play.get("/before", moved).text == "\"ann none\"")
        #expect(try play.get("/before", other)["Cache-Status"]?.contains("hit") == true)
        let words = change.split(separator: " ").map(String.init)
        _ = try play.request(words[0], words[1], words.count > 2 ? moved + [(words[2], "red")] : moved)
        #expect(try play.get("/after", moved).text == "\"bob none\"")
        #expect(try play.get("/after", other).text == "\"ann none\"")
        origin.down()
        #expect(try play.get("/after", other).text == "\"ann none\"")
    }

    @Test("a response in flight while the session changes its user is not stored for the former user")
    func inFlight() throws {
        let sessions = Sessions([Self.moved: "ann", Self.other: "ann"])
        let origin = ScriptedOrigin { sessions.answer($0) }
        let play = try ProxyPlay(origin, Sessions.settings)
        let other = [("Cookie", "sid=\(Self.other)")]
        try introduce(play, [("Cookie", "sid=\(Self.moved)")], count: 1)
        try introduce(play, other, count: 2)
        let (asked, gate) = (Gate(), Gate())
        origin.react { request in
            guard request.target == "/late" else { return sessions.answer(request) }
            // The upstream determines the user when it finishes the response.
            asked.open()
            gate.pass()
            return sessions.answer(request)
        }
        let reader = try play.client(sending: "GET /late HTTP/1.1\r\nHost: a\r\nCookie: sid=\(Self.moved)\r\n\r\n")
        asked.pass()
        let writer = try play.client()
        writer.send("POST /login/bob HTTP/1.1\r\nHost: a\r\nCookie: sid=\(Self.moved)\r\nContent-Length: 0\r\n\r\n")
        #expect(writer.readResponse()?.status == 200)
        gate.open()
        #expect(reader.readResponse()?.text == "\"bob none\"")
        #expect(try play.get("/late", other).text == "\"ann none\"")
    }
}
