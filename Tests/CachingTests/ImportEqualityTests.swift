// Tests that an imported response is stored as a fetched one is: with an equal key, head and rules.

import CachePolicy
import CacheStore
import HTTPCore
import JSON
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Imported responses equal fetched ones", .play)
struct ImportEqualityTests {
    private static let date = "Sun, 15 Jun 2025 15:06:00 GMT"

    private func records(of play: ProxyPlay) throws -> [StoredRecord] {
        play.stop()
        return try StoredRecord.all(in: play.directory)
    }

    private static func archive(
        _ target: String, _ request: [(String, String)], _ response: [(String, String)], content: String, port: UInt16
    ) -> String {
        let fields = { (fields: [(String, String)]) -> JSONValue in
            .array(fields.map { ["name": .string($0.0), "value": .string($0.1)] })
        }
        let entry: JSONValue = [
            "startedDateTime": "2025-06-15T15:06:00Z", "time": 20,
            "request": ["method": "GET", "url": .string("http://127.0.0.1:\(port)\(target)"), "headers": fields(request)],
            "response": ["status": 200, "headers": fields(response), "content": ["text": .string(content)]],
        ]
        return String(decoding: entry.serialized(), as: UTF8.self)
    }

    /// Why a response was not imported; nil if it was.
    private static func reason(_ archive: String, _ play: ProxyPlay) throws -> String? {
        let answer = try play.admin("POST", "/-/entries", content: archive)
        let value = try #require(JSONValue(answer.content))
        #expect(answer.status == 200 && value["imported"] == .bool(value["reason"] == .null))
        return value["reason"]?.string
    }

    @Test(
        "an imported response is stored exactly like a fetched one",
        arguments: [
            ("/a?b=2&a=1", [], [("ETag", "\"x\""), ("Cache-Control", "max-age=60")]),
            // An entity tag derived from the content, a redirect within the upstream, and another media type.
            ("/a", [], [("Cache-Control", "no-cache"), ("X", "1")]),
            ("/a", [("Accept-Language", "de")], [("Vary", "Accept-Language"), ("Last-Modified", date)]),
            ("/a?x=1", [], [("No-Vary-Search", "params=(\"x\")"), ("Cache-Control", "max-age=60")]),
            ("/a", [("Authorization", "Basic x")], [("Cache-Control", "public, max-age=60")]),
            ("/a", [], [("Cache-Control", "max-age=60"), ("Cache-Groups", "\"g\"")]),
            ("/a", [], [("Via", "1.1 gateway"), ("CDN-Cache-Control", "max-age=7")]),
            // Credentials in the response.
            ("/a", [], [("Set-Cookie", "sid=1"), ("X", "1")]), ("/a", [], [("X-Session-Token", "t")]),
            ("/a", [], [("Set-Cookie", "sid=1"), ("Cache-Control", "max-age=60")]),
        ] as [(String, [(String, String)], [(String, String)])])
    func equal(target: String, request: [(String, String)], response: [(String, String)]) throws {
        let content = "{\"b\": 1, \"a\": [1,2]}"
        let lines = response.map { "\($0.0): \($0.1)" } + ["Date: \(Self.date)"]
        let origin = ScriptedOrigin { _ in [.json(content, lines)] }
        let configure: (inout ProxySettings) -> Void = { $0.policy.credentials.fields = ["x-api-key", "cookie"] }
        let fetching = try ProxyPlay(origin, configure)
        #expect(try fetching.get(target, request).status == 200)
        let importing = try ProxyPlay(origin, configure)
        let fields = [("Content-Type", "application/json")] + response + [("Date", Self.date)]
        let archive = Self.archive(target, request, fields, content: content, port: origin.port)
        #expect(try Self.reason(archive, importing) == nil)
        let (fetched, imported) = (try records(of: fetching), try records(of: importing))
        #expect(!fetched.isEmpty && fetched.contains { $0.metadata != nil })
        #expect(fetched.map(\.key) == imported.map(\.key))
        for (one, other) in zip(fetched, imported) { #expect(one == other) }
    }

    @Test("imported content that was encoded is stored like decoded content: with a weak tag and without a digest")
    func decoded() throws {
        let origin = ScriptedOrigin { _ in [] }
        let play = try ProxyPlay(origin)
        let fields = [
            ("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("ETag", "\"x\""), ("Content-Digest", "sha-256=:x:"),
            ("Via", "1.1 cistern"),
        ]
        _ = try play.admin("POST", "/-/entries", content: Self.archive("/a", [], fields, content: "{}", port: origin.port))
        let record = try #require(try records(of: play).first { $0.metadata != nil })
        #expect(record.head.contains("ETag: W/\"x~cistern\"") && !record.head.contains("Encoding") && !record.head.contains("Digest"))
        #expect(record.head.components(of: "Via: ") == 1)
        #expect(record.metadata?.flags.contains(.weakenedETag) == true)
    }

    @Test("an import is skipped after a later write or fetch, or if the route calls it bad or does not keep it")
    func leftOut() throws {
        let origin = ScriptedOrigin { _ in [.json("{\"new\":1}")] }
        let play = try ProxyPlay(origin) {
            var route = Route()
            route.name = "good"
            route.pattern = RoutePattern("/good")
            route.good.minimumBytes = 100
            var keeping = Route()
            keeping.name = "kept"
            keeping.pattern = RoutePattern("/kept")
            keeping.kept.contentTypes = ContentTypes(["text/csv"])
            $0.routes = [route, keeping]
        }
        func reason(_ target: String) throws -> String? {
            let fields = [("Content-Type", "application/json")]
            let archive = Self.archive(target, [], fields, content: "{\"old\":1}", port: origin.port)
            return try Self.reason(archive, play)
        }
        _ = try play.get("/fetched")
        _ = try play.request("POST", "/written", content: "{}")
        #expect(try reason("/fetched") == "older_than_stored")
        #expect(try reason("/written") == "invalidated")
        #expect(try reason("/good") == "not_good")
        #expect(try reason("/kept") == "keep_if")
        // A purge does not prevent a later import.
        #expect(try play.admin("POST", "/-/purge?all=true").status == 200)
        #expect(try reason("/fetched") == nil)
        play.origin.down()
        #expect(try play.get("/fetched").text == "{\"old\":1}")
    }
}

extension String {
    fileprivate func components(of word: String) -> Int { ranges(of: word).count }
}
