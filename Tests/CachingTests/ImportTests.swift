// Tests which responses of an archive are imported, and why others are skipped.

import CachePolicy
import HTTPCore
import JSON
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Importing archived responses", .play)
struct ImportTests {
    private static func entry(
        _ target: String, origin: String = "https://api.test/v1", method: String = "GET", status: Int = 200,
        _ request: [(String, String)] = [],
        _ response: [(String, String)] = [("Content-Type", "application/json")], content: String = "{\"a\":1}", partition: String? = nil,
        time: String = "2025-06-15T15:06:00Z", cookies: [JSONValue]? = nil, ofCistern: JSONValue? = nil
    ) -> JSONValue {
        let fields = { (fields: [(String, String)]) -> JSONValue in
            .array(fields.map { ["name": .string($0.0), "value": .string($0.1)] })
        }
        return [
            "startedDateTime": .string(time), "time": 20,
            "request": ["method": .string(method), "url": .string(origin + target), "headers": fields(request)],
            "response": [
                "status": .integer(status), "headers": fields(response), "cookies": cookies.map { .array($0) },
                "content": ["text": .string(content)],
            ],
            "_partition": partition.map { .string($0) }, "_cistern": ofCistern,
        ]
    }

    private func bring(_ entry: JSONValue, into play: ProxyPlay, _ more: String = "") throws -> String? {
        let content = String(decoding: entry.serialized(), as: UTF8.self)
        let answer = try play.admin("POST", "/-/entries?origin=" + PercentCoding.encode("https://api.test/v1") + more, content: content)
        let value = try #require(JSONValue(answer.content))
        #expect(answer.status == 200 && value["imported"] == .bool(value["reason"] == .null))
        return value["reason"]?.string
    }

    private func offlinePlay() throws -> ProxyPlay { try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.mode = .offline } }

    @Test("per-response fields, other upstream addresses and links to the upstream are adjusted on import")
    func perResponseFields() throws {
        let play = try offlinePlay()
        let fields =
            [("Content-Type", "application/json"), ("X-Kept", "1")]
            + (StoredFieldsTests.momentary + StoredFieldsTests.neverShown).compactMap { line -> (String, String)? in
                guard let colon = line.firstIndex(of: ":") else { return nil }
                return (String(line[..<colon]), String(line[line.index(colon, offsetBy: 2)...]))
            }
        #expect(try bring(Self.entry("/a", [], fields), into: play) == nil)
        let hit = try play.get("/a")
        #expect(hit.status == 200 && hit["X-Kept"] == "1")
        for (name, _) in fields.dropFirst(2) { #expect(hit[name] == nil, "\(name)") }
    }

    @Test("an imported response is served with its age, variant and partition")
    func imported() throws {
        let play = try offlinePlay()
        let varied = [
            ("Content-Type", "application/json"), ("Vary", "Accept-Language"), ("Content-Encoding", "br"), ("Set-Cookie", "a=b"),
            ("X-Csrf-Token", "REDACTED"),
        ]
        #expect(try bring(Self.entry("/users?b=2&a=1"), into: play) == nil)
        #expect(try bring(Self.entry("/lang", [("Accept-Language", "de")], varied), into: play) == nil)
        #expect(try bring(Self.entry("/me", [("Cookie", "a=b")]), into: play) == nil)
        let answer = try play.get("/users?a=1&b=2")
        #expect(answer.text == "{\"a\":1}" && answer["Content-Type"] == "application/json")
        #expect(answer["Age"].flatMap(Int.init).map { $0 > 0 } == true)
        let german = try play.get("/lang", [("Accept-Language", "de")])
        #expect(german.status == 200 && german["Content-Encoding"] == nil && german["Set-Cookie"] == nil && german["X-Csrf-Token"] == nil)
        #expect(try play.get("/lang", [("Accept-Language", "en")]).status == 504)
        #expect(try play.get("/me").status == 504)
        #expect(try play.get("/me", [("Cookie", "a=b")]).status == 200)
        try play.restart()
        #expect(try play.get("/users?a=1&b=2").status == 200)
    }

    @Test(
        "skipped responses are reported with the reason",
        arguments: [
            (entry("/a", origin: "https://other.test"), "other_origin"), (entry("/a", origin: "https://api.test/v1.evil"), "other_origin"),
            (entry("/a", method: "POST"), "method"), (entry("/a", status: 404), "status"), (entry("/a", status: 99), "malformed"),
            (entry("/a b"), "malformed"), (entry("/a?token=REDACTED"), "redacted"), (entry("/a", [("X-Tenant", "REDACTED")]), "redacted"),
            (entry("/a", [], [("Content-Type", "application/json"), ("Link", "</b?token=REDACTED>; rel=next")]), "redacted"),
            (entry("/a", partition: "01020304"), "partition"), (entry("/a", content: ""), "no_content"),
            (entry("/a", content: "{"), "invalid_json"), (entry("/a", [], [("Content-Type", "text/html")]), "content_type"),
            (entry("/a", [], [("Content-Type", "application/json"), ("Cache-Control", "no-store")]), "no_store"),
            (entry("/a", [], [("Content-Type", "application/json"), ("Cache-Control", "private")]), "private"), (.object([]), "malformed"),
        ] as [(JSONValue, String)])
    func leftOut(entry: JSONValue, reason: String) throws {
        let play = try offlinePlay()
        #expect(try bring(entry, into: play) == reason)
        #expect(try play.get("/a").status == 504)
    }

    private static func entry(giving fields: (String, String)..., cookies: [JSONValue]? = nil, ofCistern: JSONValue? = nil) -> JSONValue {
        entry("/a", [], [("Content-Type", "application/json")] + fields, cookies: cookies, ofCistern: ofCistern)
    }

    @Test(
        "an imported response that gave a credential is stored as the start of a session, and cache.set_cookie: refuse applies",
        arguments: [
            (entry(giving: ("X", "1")), false, nil), (entry(giving: ("Set-Cookie", "sid=1; Path=/")), true, "set_cookie"),
            (entry(giving: ("Set-Cookie", "sid=REDACTED; Path=/")), true, "set_cookie"),
            (entry(giving: ("Set-Cookie", "REDACTED")), true, "set_cookie"),
            (entry(giving: ("Set-Cookie", "_ga=1")), false, "set_cookie"),
            (entry(giving: ("Set-Cookie", "sid=1"), ("Cache-Control", "max-age=60")), false, "set_cookie"),
            (entry(giving: ("X-Auth-Token", "REDACTED")), true, nil),
            (entry(giving: ("X", "1"), cookies: [["name": "sid", "value": "1"]]), true, "set_cookie"),
            (entry(giving: ("X", "1"), ofCistern: ["starts_session": true]), true, "set_cookie"),
        ] as [(JSONValue, Bool, String?)])
    func session(entry: JSONValue, startsSession: Bool, refusal: String?) throws {
        let play = try offlinePlay()
        #expect(try bring(entry, into: play) == nil)
        let listed = try #require(JSONValue(try play.admin("GET", "/-/entries").content))
        let id = try #require(listed["entries"]?.array?.first?["id"]?.string)
        let details = try #require(JSONValue(try play.admin("GET", "/-/entries/\(id)").content))
        #expect(details["starts_session"] == .bool(startsSession))
        let served = try play.get("/a")
        #expect(served.status == 200 && served["Set-Cookie"] == nil && served["X-Auth-Token"] == nil)
        let refusing = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.policy.setCookie = .refuse }
        #expect(try bring(entry, into: refusing) == refusal)
    }

    @Test(
        "an implausible time in the archive is harmless",
        arguments: ["0000-01-01T00:00:00+23:59", "0000-01-01T00:00:00+99:99", "9999-12-31T23:59:60-23:59"])
    func oddTimes(time: String) throws {
        let play = try offlinePlay()
        #expect(try bring(Self.entry("/a", time: time), into: play) == nil)
        #expect(try play.get("/a").text == "{\"a\":1}")
    }

    @Test("an older import does not replace a newer response; imports without credentials are shared")
    func order() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"new\":1}")] })
        _ = try play.get("/a")
        #expect(try bring(Self.entry("/a"), into: play) == "older_than_stored")
        #expect(try bring(Self.entry("/me", [("Authorization", "Bearer x")], partition: "0a"), into: play, "&shared=true") == nil)
        play.origin.down()
        #expect(try play.get("/me").text == "{\"a\":1}")
        #expect(try play.admin("POST", "/-/entries", content: "{").status == 400)
    }
}
