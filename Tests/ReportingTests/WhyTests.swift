// Tests of explained exchanges: decisions, their reasons, and the settings that cause them.

import CachePolicy
import Decisions
import Downstream
import Explanation
import Figures
import HTTPCore
import JSON
import Settings
import TestSupport
import Testing

@testable import ReverseProxy
@testable import Upstream

@Suite("Why: explanations of exchanges", .play, .clientProtocols)
struct WhyTests {
    /// The newest exchange with its explanation.
    private func why(_ play: ProxyPlay) throws -> JSONValue {
        try #require(JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let title: String
        let response: OriginStep
        let method: String
        let fields: [(String, String)]
        let reason: String
        let notStored: String?
        let setting: String?
        var testDescription: String { title }

        init(
            _ title: String, _ response: OriginStep, _ method: String = "GET", _ fields: [(String, String)] = [],
            reason: String = "nothing_stored",
            notStored: String?, setting: String? = nil
        ) {
            (self.title, self.response, self.method, self.fields) = (title, response, method, fields)
            (self.reason, self.notStored, self.setting) = (reason, notStored, setting)
        }
    }

    @Test(
        "the reason for not storing a response and the setting that changes it are reported",
        arguments: [
            Row("stored", .json("{}"), notStored: nil),
            Row("private", .json("{}", ["Cache-Control: private"]), notStored: "private", setting: "cache.role"),
            Row(
                "private, for one of many", .json("{}", ["Cache-Control: private"]), "GET", [("Cookie", "locale=en")],
                notStored: "user_unknown",
                setting: "cache.credential_cookies"),
            Row(
                "a new signature in each request", .json("{}"), "GET", [("Authorization", "Hawk id=\"a\", mac=\"b\"")],
                notStored: "one_time_credentials", setting: "credentials.partition"),
            Row("no-store", .json("{}", ["Cache-Control: no-store"]), notStored: "no_store", setting: "routes.freshness.ignore"),
            Row("request's no-store", .json("{}"), "GET", [("Cache-Control", "no-store")], notStored: "request_no_store"),
            Row("HTML", .answer("<p>", type: "text/html"), notStored: "content_type", setting: "cache.content_types"),
            Row("404", .json("{}", status: "404 Not Found"), notStored: "status", setting: "cache.store"),
            Row("broken JSON", .json("{"), notStored: "invalid_json"),
            Row("Vary: *", .json("{}", ["Vary: *"]), notStored: "vary_star"),
            Row(
                "too many groups", .json("{}", ["Cache-Groups: " + (0..<129).map { "\"\($0)\"" }.joined(separator: ",")]),
                notStored: "too_many_members"),
            Row("POST", .json("{}"), "POST", reason: "method", notStored: "method", setting: "routes.methods"),
            Row("a failed POST", .json("{}", status: "400 Bad Request"), "POST", reason: "method", notStored: "method"),
            Row("PUT: no setting makes a write be kept", .json("{}"), "PUT", reason: "method", notStored: "method"),
        ])
    func notStored(_ row: Row) throws {
        let response = row.response
        let play = try ProxyPlay(ScriptedOrigin { _ in [response] })
        _ = try play.request(row.method, "/a", row.fields, content: row.method == "POST" ? "{}" : nil)
        let why = try why(play)
        #expect(why["reason"]?.string == row.reason)
        #expect(why["not_stored"]?.string == row.notStored)
        #expect(why["stored"] == .bool(row.notStored == nil))
        #expect(why["advice"]?.array?.compactMap { $0["setting"]?.string } == (row.setting.map { [$0] } ?? []))
        #expect(why["upstream"]?["total_seconds"]?.double != nil && why["upstream"]?["wait_seconds"]?.double != nil)
    }

    @Test("a 410 that is stored beside a good response is not explained as unstored")
    func gone() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        _ = try play.get("/a")
        play.origin.react { _ in [.json("{}", status: "410 Gone")] }
        #expect(try play.get("/a").status == 410)
        let text = try play.admin("GET", "/-/why?last=1").text
        #expect(text.contains("in addition to the older response") && !text.contains("Not stored"), "\(text)")
    }

    @Test(
        "if routes.methods allows POST but the content prevents storing, the content is named as the reason",
        arguments: [
            ("[1]", nil, []), ("[\(String(repeating: "1,", count: 60))1]", "long_content", ["routes.content_limit"]),
            ("[\(String(repeating: "1,", count: 160))1]", "long_content", ["routes.content_limit", "limits.request_buffer"]),
            ("[\(String(repeating: "1,", count: 120))1]", "unread_content", []),
            ("{\"query\":\"mutation { a }\"}", "changing_content", []), ("{", "changing_content", []),
        ] as [(String, String?, [String])])
    func content(_ content: String, _ notStored: String?, _ settings: [String]) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) {
            ($0.otherRoute.methods, $0.otherRoute.contentLimitBytes) = ([.post], 100)
            ($0.downstream.requestBufferBytes, $0.downstream.requestBuffersBytes) = (300, 230)
        }
        let response = try play.request("POST", "/a", [("Content-Type", "application/json")], content: content)
        let why = try why(play)
        #expect(why["reason"]?.string == notStored ?? "nothing_stored")
        #expect(why["not_stored"]?.string == notStored && why["stored"] == .bool(notStored == nil))
        #expect(why["advice"]?.array?.compactMap { $0["setting"]?.string } == settings)
        let token = notStored.map { $0 == "changing_content" ? "fwd=method" : "fwd=bypass" } ?? "fwd=uri-miss; stored"
        #expect(response["Cache-Status"]?.contains(token) == true)
    }

    @Test("a hit, a confirmation, a rescue and an error each explain their cause")
    func life() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request["If-None-Match"] == nil
                    ? [.json("{}", ["Cache-Control: max-age=60", "ETag: \"1\""])]
                    : [.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")]
            })
        _ = try play.get("/a?b=2&a=1")
        play.time.advance(by: .seconds(10))
        _ = try play.get("/a?a=1&b=2", [("Authorization", "Bearer secret")])
        _ = try play.get("/a?a=1&b=2")
        var last = try why(play)
        #expect(last["result"] == "hit" && last["reason"] == "fresh" && last["upstream"] == .null)
        #expect(last["freshness"] == ["lifetime": 60, "age": 10, "left": 50, "lifetime_source": "response"])
        #expect(last["key"]?["target"] == "/a?a=1&b=2" && last["key"]?["dropped"] == [])
        play.time.advance(by: .seconds(60))
        _ = try play.get("/a?b=2&a=1")
        last = try why(play)
        #expect(last["result"] == "revalidated" && last["reason"] == "stale" && last["upstream"]?["status"] == 304)
        #expect(last["key"]?["dropped"]?.array?.count == 1)
        play.time.advance(by: .seconds(70))
        play.origin.down()
        _ = try play.get("/a?b=2&a=1", [("Authorization", "Bearer secret")])
        last = try why(play)
        #expect(last["result"] == "rescued" && last["reason"] == "connection_refused" && last["upstream"]?["status"] == .null)
        #expect(last["key"]?["partition"]?.string?.utf8.count == 8)
        #expect(!String(decoding: last.serialized(), as: UTF8.self).contains("secret"))
        _ = try play.get("/b?api_key=secret")
        last = try why(play)
        #expect(last["result"] == "error" && last["status"] == 502 && last["target"] == "/b?api_key=REDACTED")
    }

    @Test("after a write with an unclear outcome, the request is explained by the write")
    func unclearWrite() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request.method == "GET"
                    ? [.json("{}", ["Cache-Control: max-age=60"])] : [.json("{}", status: "502 Bad Gateway")]
            })
        for method in ["GET", "PUT", "GET"] { _ = try play.request(method, "/a", content: method == "PUT" ? "{}" : nil) }
        let last = try why(play)
        #expect(last["reason"] == "marked_stale")
        #expect(last["explanation"]?.array?.contains { $0.string?.contains("a write with an unclear outcome") == true } == true)
    }

    @Test("the upstream's total time is never less than the sum of its phases", .slow)
    func upstreamTime() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        for number in 0..<200 { _ = try play.get("/\(number)") }
        let all = JSONValue(try play.admin("GET", "/-/why?last=200").content)?["exchanges"]?.array ?? []
        #expect(all.count == 200)
        for upstream in all.compactMap({ $0["upstream"] }) {
            let total = try #require(upstream["total_seconds"]?.double)
            let wait = try #require(upstream["wait_seconds"]?.double)
            #expect(total >= wait)
        }
    }

    @Test("a strict policy that prevents a rescue is named")
    func strict() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=1, must-revalidate"])] }) { settings in
            settings.policy.strictness = .strict
        }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(2))
        play.origin.down()
        #expect(try play.get("/a").status == 502)
        #expect(try why(play)["advice"]?.array?.contains { $0["setting"] == "cache.policy" } == true)
    }

    @Test("upstream events are explained in sentences; an upstream considered down is not reported as asked")
    func sentences() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.upstream.failure.threshold = 1 }
        func explanation(_ target: String) throws -> [String] {
            _ = try play.get(target)
            return try why(play)["explanation"]?.array?.compactMap(\.string) ?? []
        }
        _ = try play.get("/a")
        play.origin.react { _ in [.answer("<p>", type: "text/html")] }
        #expect(
            try explanation("/a") == [
                "The request was sent to the upstream: the stored response has no freshness lifetime.",
                "The upstream's response, status 200, cannot be used (unexpected type): "
                    + "its media type is not the expected one, such as a web page instead of JSON.",
                "The stored response was served instead.",
            ])
        play.origin.down()
        #expect(try explanation("/b") == ["No response is stored under this key.", "The upstream failed: connection refused."])
        #expect(
            try explanation("/a") == [
                "The request needed the upstream: the stored response has no freshness lifetime.",
                "The upstream cannot be reached (connection refused), so no request was sent.", "The stored response was served instead.",
            ])
        _ = try play.request("TRACE", "/a")
        #expect(try why(play)["explanation"] == ["Cistern refused the request itself."])
    }

    @Test("an error without a stored response explains why none exists and which setting changes that", arguments: [false, true])
    func lacking(isForgotten: Bool) throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                [
                    request.target.hasPrefix("/me")
                        ? .json("{}", ["Cache-Control: no-store"])
                        : request.target.hasPrefix("/feed") ? .answer("<p>", type: "text/html") : .json("{}", ["Cache-Control: max-age=9"])
                ]
            }
        ) { settings in
            settings.upstream.failure.threshold = 1
            if isForgotten { settings.records = 1 }
            settings.routes = ["me", "feed", "good"].map { name in
                var route = Route()
                (route.name, route.pattern) = (name, RoutePattern("/\(name)/**"))
                return route
            }
        }
        for target in ["/me/1", "/feed/1", "/good/1"] { _ = try play.get(target + "?a=1") }
        // A write that is not stored explains nothing about a GET.
        _ = try play.request("POST", "/good/3")
        play.origin.down()
        func why(_ target: String) throws -> (sentences: [String], settings: [String]) {
            _ = try play.get(target)
            let why = try self.why(play)
            let single = JSONValue(try play.admin("GET", "/-/why/" + (why["id"]?.string ?? "")).content)
            #expect(single?["explanation"] == why["explanation"])
            return (
                why["explanation"]?.array?.compactMap(\.string) ?? [], why["advice"]?.array?.compactMap { $0["setting"]?.string } ?? []
            )
        }
        _ = try play.get("/good/2")
        let before =
            isForgotten ? "Most common reason for not storing responses of this route" : "Earlier responses of this path were not stored"
        let feed = try why("/feed/1?a=2")
        #expect(
            feed.sentences.prefix(2) == [
                "No response is stored under this key.", "\(before): responses with this media type are not stored.",
            ])
        #expect(feed.settings == ["cache.content_types", "upstream.url"])
        let me = try why("/me/1?a=2")
        #expect(
            me.sentences.dropFirst().first
                == "\(before): the response has Cache-Control: no-store.")
        #expect(me.settings == ["routes.freshness.ignore", "upstream.url"])
        let good = try why("/good/3")
        // The advice concerns only the cause of the failure.
        #expect(good.sentences.count == 2 && good.settings == ["upstream.url"])
    }

    @Test("hits are explained by the rules of their own route")
    func routeOfHit() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) { settings in
            var route = Route()
            (route.name, route.pattern, route.arguments.ignore) = ("users", RoutePattern("/users/*"), [ArgumentPattern("x")])
            settings.routes = [route]
        }
        for (target, name, key) in [("/a?x=1", "", "/a?x=1"), ("/users/1?x=1", "users", "/users/1")] {
            for result in ["miss", "hit"] {
                _ = try play.get(target)
                let why = try why(play)
                #expect(why["result"]?.string == result && why["route"]?.string == name && why["key"]?["target"]?.string == key)
            }
        }
    }

    @Test("the condition that a response fails is named, with its setting")
    func demands() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"a\":1}")] }) { settings in
            settings.otherRoute.good.mustHave = [JSONPointer("/b")].compactMap(\.self)
        }
        _ = try play.get("/a")
        let why = try why(play)
        #expect(why["explanation"]?.array?.last == "Not stored: it lacks a value that the route's good responses have.")
        #expect(why["advice"]?.array?.first?["setting"] == "routes.good.must_have")
    }

    @Test("arguments that a route drops from the key are named")
    func dropped() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { settings in
            settings.otherRoute.arguments.ignore = [ArgumentPattern("utm_*")]
        }
        _ = try play.get("/a?utm_source=x&b=1")
        let key = try why(play)["key"]
        #expect(key?["target"] == "/a?b=1")
        #expect(key?["dropped"]?.array?.first?.string?.contains("utm_source") == true)
    }

    @Test("exchanges are found by path and ID, and their number is limited")
    func finding() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.records = 4 }
        for number in 0..<6 { _ = try play.get("/\(number % 2 == 0 ? "even" : "odd")/\(number)") }
        let all = JSONValue(try play.admin("GET", "/-/why").content)?["exchanges"]?.array ?? []
        #expect(all.compactMap { $0["target"]?.string } == ["/odd/5", "/even/4", "/odd/3", "/even/2"])
        let odd = JSONValue(try play.admin("GET", "/-/why?path=/odd&last=1").content)?["exchanges"]?.array ?? []
        #expect(odd.compactMap { $0["target"]?.string } == ["/odd/5"])
        let id = try #require(odd.first?["id"]?.string)
        #expect(JSONValue(try play.admin("GET", "/-/why/\(id)").content)?["target"] == "/odd/5")
        #expect(try play.admin("GET", "/-/why/0-1").status == 404)
        for wrong in ["/-/why/x", "/-/why/0-", "/-/why/1-2-3", "/-/why?last=0"] { #expect(try play.admin("GET", wrong).status == 400) }
    }

    @Test("the ring stores targets that fit completely and marks truncated ones")
    func ring() {
        let ring = WhyRing(shard: 3, capacity: 2)
        let long = Array(repeating: UInt8(ascii: "x"), count: 1_000)
        for target in [Array("/a".utf8), long, Array("/b".utf8)] {
            var record = ExchangeRecord(.miss, .get)
            record.number = ring.nextNumber()
            ring.append(&record, target: target[...])
        }
        var search = WhyRing.Search(limit: 10)
        #expect(!ring.searchMore(&search))
        let records = search.records
        #expect(records.map(\.id) == ["3-3", "3-2"])
        #expect(records.map(\.isCut) == [false, true])
        #expect(records[1].target.count == WhyRing.targetBytes)
        var unkept = ExchangeRecord(.miss, .get)
        WhyRing(shard: 0, capacity: 0).append(&unkept, target: long[...])
    }

    @Test("Cistern-Why is answered only if requested and allowed, and is not forwarded")
    func field() throws {
        for isAllowed in [true, false] {
            let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) { settings in
                settings.ownFields.allowsWhy = isAllowed
            }
            let asking = [("Cistern-Why", "?1")]
            #expect(try play.get("/a")["Cistern-Why"] == nil)
            let hit = try play.get("/a", asking)["Cistern-Why"]
            let miss = try play.get("/b", asking)["Cistern-Why"]
            #expect(play.origin.requests.allSatisfy { $0["Cistern-Why"] == nil })
            #expect((hit != nil) == isAllowed && (miss != nil) == isAllowed)
            guard isAllowed else { continue }
            #expect(hit == "served_from_store; reason=fresh; id=\"0-2\"; found=stored; lifetime=60; age=0; key=\"/a\"")
            #expect(miss == "served_response_of_upstream; reason=nothing_stored; id=\"0-3\"; found=nothing; stored; key=\"/b\"")
            play.origin.down()
            #expect(try play.get("/c", asking)["Cistern-Why"]?.hasPrefix("failed; reason=connection_refused") == true)
        }
    }

    @Test("Cache-Status contains the key only if requested and allowed (RFC 9211 §2.7), and the request field is not forwarded")
    func key() throws {
        for isAllowed in [true, false] {
            let origin = ScriptedOrigin { request in [.json("{}", request.target == "/post" ? [] : ["Cache-Control: max-age=60"])] }
            let play = try ProxyPlay(origin) { $0.ownFields.allowsKey = isAllowed }
            let asking = [("Cistern-Key", "?1")]
            func status(_ target: String, _ fields: [(String, String)]) throws -> String? { try play.get(target, fields)["Cache-Status"] }
            func shown(_ key: String) -> String { isAllowed ? "; key=\"\(key)\"" : "" }
            let key = #"/a\"?token=REDACTED&x=1%22"#
            _ = try status("/warm", [])
            let miss = try status(#"/a"?x=1%22&token=secret"#, asking)
            #expect(miss == "cistern; fwd=uri-miss; stored" + shown(key))
            #expect(try status(#"/a"?x=1%22&token=secret"#, asking) == "cistern; hit; ttl=60" + shown(key))
            #expect(try status("/warm", []) == "cistern; hit; ttl=60")
            #expect(try play.request("POST", "/post", asking, content: "{}")["Cache-Status"]?.contains("key=") == false)
            #expect(origin.requests.allSatisfy { $0["Cistern-Key"] == nil })
            play.time.advance(by: .seconds(61))
            origin.down()
            #expect(try status("/warm", asking)?.contains("; key=") == isAllowed)
        }
    }

    @Test("every setting named in advice exists")
    func settings() {
        let known = SettingsTable.current.map(\.path) + RouteTable.current.map { "routes." + $0.path }
        let stops = FailureScopeKind.allCases.flatMap { kind in
            [FailureCause.status(503), .junk].map { FetchFailure.stopped(FailureStop(scope: kind, cause: $0, since: 0, wait: 0)) }
        }
        let failures = UpstreamError.allCases.map { FetchFailure.transfer($0) } + UpstreamFault.allCases.map { .fault($0, 200) } + stops
        let advice: [WhyAdvice] =
            NotStoredReason.allCases.compactMap(\.advice) + NoRescueReason.allCases.compactMap(\.advice)
            + (failures + [.slow, .tooManyStreams]).flatMap { [$0.advice(isUnderWay: false), $0.advice(isUnderWay: true)] }.compactMap {
                $0
            }
        for setting in advice.map(\.setting) + ["cache.mode", "cache.freshness.default", "admin.records"] {
            #expect(known.contains(setting), "\(setting) is not a setting")
        }
    }
}
