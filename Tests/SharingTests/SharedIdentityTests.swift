// Tests that a login at one node ends the look-up results of its session at all nodes, and what the log contains of it.

import Identity
import Reactor
import ReverseProxy
import TestSupport
import Testing

@testable import Sharing

@Suite(
    "Logins on all nodes", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct SharedIdentityTests {
    private static let tokens = ["moving0123456789abcdef", "staying0123456789abcdef"]
    private static let (moving, staying) = (fields(tokens[0]), fields(tokens[1]))

    private static func fields(_ token: String) -> [(String, String)] { [("Cookie", "sid=\(token)")] }

    /// Two sessions of Ann. `POST /login/NAME` gives a session another user without changing its cookie.
    private static func origin() -> ScriptedOrigin {
        let users = Mutex(Dictionary(uniqueKeysWithValues: tokens.map { ($0, "ann") }))
        return ScriptedOrigin { request in
            let token = request["Cookie"].map { String($0.dropFirst(4)) } ?? ""
            if request.method == "POST" {
                let words = request.target.split(separator: "/").map(String.init)
                if words[0] == "login" || words[0] == "lose" { users.withLock { $0[token] = words[1] } }
                return words[0] == "lose" ? [.close] : [.json("{}", status: words[0] == "reject" ? "422 No" : "200 OK")]
            }
            guard let user = users.withLock({ $0[token] }) else { return [.json("{}", status: "401 No")] }
            if request.target == "/me" { return [.json("{\"id\":\"\(user)\"}")] }
            return [.json("\"\(user)\"", ["Cache-Control: private, max-age=600"])]
        }
    }

    private static func lookUp(_ settings: inout ProxySettings) {
        (settings.otherRoute.lookUp.path, settings.otherRoute.lookUp.pointers) = ("/me", ["/id"])
    }

    /// Both nodes know the user of both sessions, and have stored the response.
    private func introduce(_ nodes: [FleetMember]) throws {
        for node in nodes {
            for (index, fields) in [Self.moving, Self.staying].enumerated() {
                _ = try node.get("/hello", fields)
                #expect(try node.reaches(Self.told, Double(index + 1)))
                #expect(try node.get("/a", fields).text == "\"ann\"")
                #expect(try node.get("/a", fields)["Cache-Status"]?.contains("; hit") == true)
            }
        }
    }

    private static let told = "cistern_identity_lookups_total{result=\"told\"}"

    private func login(_ node: FleetMember, _ target: String = "/login/bob") throws -> TestResponse {
        try node.play.request("POST", target, Self.moving, content: "{}")
    }

    /// Number of entries about tokens.
    private func announced(_ fleet: FleetPlay) -> Int {
        fleet.redis.direct.ask("XRANGE cistern:play:{log} - +").split(separator: "\r\n").count { $0 == "u" }
    }

    @Test(
        "after a login at one node, no node serves the former user's responses, fresh or as a rescue; other sessions are not affected",
        arguments: [[], ["one", "other"]])
    func login(secrets: [String]) throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let keys = secrets.map { $0 + String(repeating: "-secret", count: 5) }
            let files: [String?] = keys.isEmpty ? [nil, nil] : [keys, keys.reversed()].map { $0.joined(separator: "\n") }
            let nodes = try files.map { try fleet.join(secret: $0, proxy: Self.lookUp) }
            #expect(try nodes[0].sees() && nodes[1].sees())
            try introduce(nodes)
            let written = try login(nodes[0])
            // The entry is in the log before the response arrives.
            #expect(announced(fleet) == 1)
            #expect(written.status == 200 && written["Cache-Status"]?.contains("nodes_not_told") == false)
            #expect(try nodes[1].hasObeyed(fleet))
            #expect(try nodes[1].get("/a", Self.staying)["Cache-Status"]?.contains("; hit") == true)
            fleet.origin.down()
            for node in nodes { #expect(try node.get("/a", Self.moving).status == 502, "no rescue with the former user's response") }
            #expect(try nodes[1].get("/a", Self.staying).text == "\"ann\"")
            fleet.origin.up()
            for node in nodes {
                // A failed look-up is repeated after 30 s.
                node.time.shift(by: .seconds(31))
                #expect(try node.sees())
                #expect(try eventually { try node.get("/b", Self.moving).text == "\"bob\"" })
                #expect(try eventually { try node.get("/a", Self.moving).text == "\"bob\"" })
                #expect(try node.reaches(Self.told, 3))
                #expect(try node.get("/a", Self.moving).text == "\"bob\"")
                #expect(try node.get("/a", Self.staying).text == "\"ann\"")
            }
            let log = fleet.redis.direct.ask("XRANGE cistern:play:{log} - +")
            for token in Self.tokens { #expect(!log.contains(token.prefix(8))) }
        }
    }

    @Test("a login whose response is lost is announced as well; other nodes do not use its user until the upstream must have processed it")
    func lost() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair(proxy: Self.lookUp)
            try introduce([one, other])
            #expect(try login(one, "/lose/bob").status == 502)
            #expect(announced(fleet) == 1)
            #expect(try other.hasObeyed(fleet))
            for _ in 0..<3 { #expect(try other.get("/a", Self.moving).text == "\"bob\"") }
            #expect(try other.metric(Self.told) == 2)
            #expect(try other.get("/a", Self.staying).text == "\"ann\"")
        }
    }

    @Test("a node that was restarted since such a login does not use its user either")
    func lostBeforeRestart() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair(proxy: Self.lookUp)
            try introduce([one, other])
            #expect(try login(one, "/lose/bob").status == 502)
            #expect(announced(fleet) == 1)
            #expect(try other.hasObeyed(fleet))
            try other.play.restart()
            #expect(try other.sees())
            for _ in 0..<3 { #expect(try other.get("/a", Self.moving).text == "\"bob\"") }
            _ = try other.get("/hello", Self.staying)
            #expect(try other.reaches(Self.told, 1))
            #expect(try other.metric(Self.told) == 1)
        }
    }

    @Test("rejected writes and those without a token are not announced, and none is without lookups")
    func unannounced() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair(proxy: Self.lookUp)
            let unaware = try fleet.join()
            #expect(try unaware.sees())
            try introduce([one, other])
            #expect(try login(one, "/reject/bob").status == 422)
            #expect(try one.play.request("POST", "/other/bob", content: "{}").status == 200)
            #expect(try login(unaware, "/other/bob").status == 200)
            #expect(announced(fleet) == 0)
            #expect(try login(one).status == 200)
            #expect(announced(fleet) == 1)
        }
    }

    @Test("without the log, a node uses lookup results for share.blind_limit at most, and learns of the login afterwards")
    func blind() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair({ $0.timeout = 20 }, proxy: Self.lookUp)
            try introduce([one, other])
            fleet.redis.freeze()
            let write = try login(one)
            #expect(write.status == 200 && write["Cache-Status"]?.hasSuffix("; detail=nodes_not_told") == true)
            other.time.shift(by: .seconds(32))
            // Responses are validated first, so the text would be Bob's in any case. A rescue shows the partition.
            fleet.origin.down()
            #expect(try other.get("/a", Self.moving).status == 502)
            fleet.origin.up()
            fleet.redis.thaw()
            #expect(try other.sees())
            #expect(try eventually { try other.get("/a", Self.moving).text == "\"bob\"" })
        }
    }

    @Test("after the log has lost its data, all sessions are looked up again")
    func gap() throws {
        try FleetPlay.run(Self.origin()) { fleet in
            let (one, other) = try fleet.pair(proxy: Self.lookUp)
            try introduce([one, other])
            fleet.redis.direct.ask("FLUSHALL")
            #expect(try other.reaches("cistern_share_gaps_total{cause=\"epoch\"}", 1))
            #expect(try other.sees())
            fleet.origin.down()
            #expect(try other.get("/a", Self.moving).status == 502)
        }
    }
}
