// Tests that a reload or restart with another name for what identifies a user serves no response that was stored for another user: pointers
// and fields of the identity lookup, and key fields.

import Administration
import CachePolicy
import Identity
import ReverseProxy
import Server
import TestSupport
import Testing

@Suite("Renamed identities and key fields", .play)
struct RenamedIdentityTests {
    // MARK: Identity lookup

    /// Alice's organization has the number of Bob. Content and fields of /me state both.
    private static let users: [String: (id: Int, org: Int)] = ["alice": (1, 7), "bob": (7, 9)]

    private static func lookUpPlay(_ configure: @escaping (inout ProxySettings) -> Void) throws -> ProxyPlay {
        let origin = ScriptedOrigin { request in
            let name = request["Authorization"]?.split(separator: " ").last.map(String.init) ?? ""
            guard let user = users[name] else { return [.json("{}", status: "401 No")] }
            guard request.target.hasPrefix("/me") else { return [.json("\"\(name)\"", ["Cache-Control: private, max-age=3600"])] }
            return [.json("{\"id\":\(user.id),\"org\":\(user.org)}", ["X-Id: \(user.id)", "X-Org: \(user.org)"])]
        }
        return try ProxyPlay(origin) { settings in
            settings.otherRoute.lookUp.path = "/me"
            configure(&settings)
        }
    }

    private static func get(_ play: ProxyPlay, _ user: String, _ target: String = "/data") throws -> TestResponse {
        try play.get(target, [("Authorization", "Bearer \(user)")])
    }

    /// Sends a request and waits until the look-up of the token is finished.
    private static func introduce(_ play: ProxyPlay, _ user: String, count: Double) throws {
        _ = try get(play, user, "/hello/\(user)")
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", count))
    }

    private static let otherNames: [(from: @Sendable (inout ProxySettings) -> Void, to: @Sendable (inout ProxySettings) -> Void)] = [
        ({ $0.otherRoute.lookUp.pointers = ["/org"] }, { $0.otherRoute.lookUp.pointers = ["/id"] }),
        ({ $0.otherRoute.lookUp.fields = ["X-Org"] }, { $0.otherRoute.lookUp.fields = ["X-Id"] }),
        (
            { $0.otherRoute.lookUp.pointers = ["/org"] },
            {
                $0.otherRoute.lookUp.pointers = []
                $0.otherRoute.lookUp.fields = ["x-id"]
            }
        ),
        (
            { $0.otherRoute.lookUp.pointers = ["/org"] },
            {
                $0.otherRoute.lookUp.path = "/me2"
                $0.otherRoute.lookUp.pointers = ["/id"]
            }
        ),
    ]

    @Test("after a reload with other names in the lookup, a user does not get another user's responses", arguments: otherNames.indices)
    func lookUps(_ row: Int) throws {
        let play = try Self.lookUpPlay(Self.otherNames[row].from)
        try Self.introduce(play, "alice", count: 1)
        #expect(try Self.get(play, "alice").text == "\"alice\"")
        #expect(try Self.get(play, "alice")["Cache-Status"]?.contains("hit") == true)
        #expect(play.reload { Self.otherNames[row].to(&$0.settings) }?.label == "applied")
        try Self.introduce(play, "bob", count: 2)
        #expect(try Self.get(play, "bob").text == "\"bob\"")
        play.origin.down()
        #expect(try Self.get(play, "bob").text == "\"bob\"")
    }

    @Test("field names of the lookup are compared without case, so a new spelling keeps the stored responses")
    func spelling() throws {
        let play = try Self.lookUpPlay { $0.otherRoute.lookUp.fields = ["X-Org"] }
        try Self.introduce(play, "alice", count: 1)
        #expect(try Self.get(play, "alice").text == "\"alice\"")
        #expect(play.reload { $0.settings.otherRoute.lookUp.fields = ["x-org"] }?.label == "applied")
        try Self.introduce(play, "alice", count: 2)
        #expect(try Self.get(play, "alice")["Cache-Status"]?.contains("hit") == true)
    }

    // MARK: Key fields

    private static func echoing() -> ScriptedOrigin {
        ScriptedOrigin { request in
            [.json("\"\(request["X-Account"] ?? "-") \(request["X-Project"] ?? "-")\"", ["Cache-Control: max-age=600"])]
        }
    }

    @Test(
        "after a key field was renamed, added or removed, no response stored by another field is served",
        arguments: [
            (["x-account"], ["x-project"]), (["x-account", "x-project"], ["x-project", "x-account"]),
            (["x-account"], ["x-account", "x-project"]), ([], ["x-project"]),
        ])
    func keyFields(_ row: (from: [String], to: [String])) throws {
        let play = try ProxyPlay(Self.echoing()) { $0.policy.keyFields = row.from }
        _ = try play.get("/data", [("X-Account", "7")])
        let hit = try play.get("/data", [("X-Account", "7")])
        #expect(hit.text == "\"7 -\"" && hit["Cache-Status"]?.contains("hit") == true)
        #expect(play.reload { $0.settings.policy.keyFields = row.to }?.label == "applied")
        #expect(try play.get("/data", [("X-Project", "7")]).text == "\"- 7\"")
        play.origin.down()
        #expect(try play.get("/data", [("X-Project", "7")]).text == "\"- 7\"")
        #expect(try play.get("/data", [("X-Project", "8")]).status == 502)
        #expect(play.reload { $0.settings.policy.keyFields = row.from }?.label == "applied")
        #expect(try play.get("/data", [("X-Account", "7")]).text == "\"7 -\"")
    }
}
