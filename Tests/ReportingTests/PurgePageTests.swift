// Tests of purges through the admin interface: conditions, users, dry runs, erasing, and the method PURGE.

import Addresses
import Administration
import Downstream
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("Purges through the admin interface", .play)
struct PurgePageTests {
    private static let targets = ["/a", "/orders/1/items", "/orders/2/items", "/orders/2"]

    private static func origin() -> ScriptedOrigin {
        ScriptedOrigin { [.json("{\"secret\":\"\($0.target) \($0["Authorization"] ?? "")\"}", ["Cache-Control: private, max-age=600"])] }
    }

    /// Stores each target for two users.
    private static func filled(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let play = try ProxyPlay(origin(), configure)
        for target in targets {
            for user in ["t1", "t2"] { _ = try play.get(target, [("Authorization", "Bearer \(user)")]) }
            play.time.advance(by: .seconds(10))
        }
        return play
    }

    private func purge(_ play: ProxyPlay, _ arguments: String, _ content: String? = nil) throws -> JSONValue {
        let answer = try play.admin("POST", "/-/purge?" + arguments, content: content)
        #expect(answer.status == 200, "\(answer.text)")
        return try #require(JSONValue(answer.content))
    }

    private func left(_ play: ProxyPlay) throws -> [String] {
        let list = try #require(JSONValue(try play.admin("GET", "/-/entries").content))
        return list["entries"]?.array?.compactMap { $0["target"]?.string } ?? []
    }

    @Test(
        "a response must meet all conditions; a dry run counts and changes nothing",
        arguments: [
            ("matching=/orders/*/items", nil, 4), ("matching=/orders/**", nil, 6),
            ("matching=/orders/*/items&target=/orders/1/items", nil, 2),
            ("older_than=25", nil, 4), ("older_than=25&prefix=/orders", nil, 2), ("older_than=3600", nil, 0), ("user=true", "t1", 4),
            ("user=1&matching=/orders/*", "Authorization: Bearer t2", 1), ("user=true", "Bearer t3", 0),
        ] as [(String, String?, Int)])
    func conditions(_ row: (arguments: String, content: String?, count: Int)) throws {
        let play = try Self.filled()
        #expect(try purge(play, row.arguments + "&dry_run=1", row.content)["purged"] == .integer(row.count))
        #expect(try left(play).count == 8)
        #expect(try purge(play, row.arguments, row.content)["purged"] == .integer(row.count))
        #expect(try left(play).count == 8 - row.count)
    }

    @Test("a purge by partition removes what the list shows under this ID, and nothing else")
    func partition() throws {
        let play = try Self.filled()
        let list = try #require(JSONValue(try play.admin("GET", "/-/entries").content))
        let id = try #require(list["entries"]?.array?.first?["partition"]?.string)
        #expect(try purge(play, "partition=\(id)")["purged"] == 4)
        let now = try #require(JSONValue(try play.admin("GET", "/-/entries").content))
        #expect(now["entries"]?.array?.count == 4 && now["entries"]?.array?.allSatisfy { $0["partition"]?.string != id } == true)
    }

    @Test("erased responses are on no file of the cache directory")
    func erased() throws {
        let play = try Self.filled()
        play.flushStore()
        func isOnDisk(_ text: String) throws -> Bool {
            try TestTools.index(of: text, in: TestTools.readBytes(play.directory + "/segment-0000000000000001")) != nil
        }
        #expect(try isOnDisk("/a Bearer t1") && isOnDisk("/a Bearer t2"))
        let answer = try purge(play, "user=true&erase=true", "t1")
        #expect(answer["purged"] == 4 && answer["erased"]?["files"] == 1 && answer["erased"]?["in_use"]?.integer != nil)
        #expect(try !isOnDisk("/a Bearer t1") && isOnDisk("/a Bearer t2"))
        #expect(try left(play) == Self.targets.sorted())
        #expect(try play.get("/a", [("Authorization", "Bearer t2")])["Cache-Status"]?.contains("; hit") == true)
        try play.restart()
        #expect(try left(play) == Self.targets.sorted())
    }

    @Test(
        "mistakes are rejected and purge nothing",
        arguments: [
            ("", nil, "Give id, or all, or one or more of"), ("all=true&prefix=/a", nil, "Give id, or all, or one or more of"),
            ("soft=1&erase=1&all=1", nil, "soft and erase exclude each other"), ("matching=a", nil, "the path must begin with /"),
            ("matching=/a*", nil, "* must be a whole segment"), ("matching=/**/a", nil, "** can only be the last segment"),
            ("partition=12", nil, "partition must have 8 to 32"), ("partition=1234567g", nil, "partition must have 8 to 32"),
            ("older_than=7d", nil, "older_than must be a number"), ("user=1", nil, "the credential is empty"),
            ("user=1", "X-Other: a", "No rule recognizes this credential"), ("user=secret", nil, "user must be true or false"),
            ("prefix=/a", "t1", "needs the argument user"), ("user=1", "a\nb", "a line that is not of the form"),
        ] as [(String, String?, String)])
    func mistakes(_ row: (arguments: String, content: String?, text: String)) throws {
        let play = try Self.filled()
        let answer = try play.admin("POST", "/-/purge?" + row.arguments, content: row.content)
        #expect(answer.status == 400 && answer.text.contains(row.text), "\(answer.text)")
        #expect(try left(play).count == 8)
    }

    // MARK: PURGE

    private static func withAdminPort(_ settings: inout ProxySettings) {
        settings.listening.adminListeners = [ListenerSettings(.ipv4(host: "127.0.0.1", port: 0))]
        settings.admin.token = Array("a-token-of-the-admin".utf8)
    }

    @Test("PURGE on the admin address purges its target in every partition, needs the token, and is never answered with 404")
    func method() throws {
        let play = try Self.filled(Self.withAdminPort)
        let client = try TestClient(port: play.adminPort)
        #expect(client.request("PURGE", "/a")?.status == 401)
        #expect(try left(play).count == 8)
        let token = [("Authorization", "Bearer a-token-of-the-admin")]
        for count in [2, 0] {
            let answer = try #require(client.request("PURGE", "/%61", token))
            #expect(answer.status == 200 && JSONValue(answer.content)?["purged"] == .integer(count), "\(answer.text)")
        }
        #expect(client.request("PURGE", "http://api.test/orders/2", token + [("Host", "api.test")])?.status == 200)
        #expect(try left(play).count == 4)
        #expect(client.request("PURGE", "/-/purge", token)?.status == 405)
    }

    @Test("with several APIs, the host selects the API; another host selects all")
    func host() throws {
        let play = try ProxyPlay(Self.origin()) { settings in
            Self.withAdminPort(&settings)
            settings.apis = ["one", "two"].map { [settings] name in
                var api = settings
                api.apiName = name
                api.scope.names = ServedNames(["\(name).test"])
                return api
            }
        }
        func fill() throws {
            for host in ["one.test", "two.test"] { _ = try play.get("/a", [("Host", host), ("Authorization", "Bearer t1")]) }
        }
        let client = try TestClient(port: play.adminPort)
        for (host, count) in [("one.test", 1), ("localhost", 2)] {
            try fill()
            let fields = [("Authorization", "Bearer a-token-of-the-admin"), ("Host", host)]
            #expect(JSONValue(client.request("PURGE", "/a", fields)?.content ?? [])?["purged"] == .integer(count), "\(host)")
        }
    }
}
