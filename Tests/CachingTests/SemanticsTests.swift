// Tests of RFC 9111 and related RFCs that need more than a table.

import CachePolicy
import ContentCodings
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Semantics", .play, .clientProtocols)
struct SemanticsTests {
    /// Numbers its responses and sends these fields.
    private func counting(_ fields: String...) -> ScriptedOrigin {
        let counter = Counter()
        return ScriptedOrigin { _ in [.json("{\"n\":\(counter.next())}", fields)] }
    }

    private func isHit(_ answer: TestResponse) -> Bool { answer["Cache-Status"]?.contains("; hit") == true }

    // MARK: Ranges

    @Test(
        "a range of a stored response is served (RFC 9110 §14.2)",
        arguments: [
            ("bytes=0-3", "", 206, "0123", "bytes 0-3/10"), ("bytes=7-", "", 206, "789", "bytes 7-9/10"),
            ("bytes=-2", "", 206, "89", "bytes 8-9/10"), ("bytes=5-99", "", 206, "56789", "bytes 5-9/10"),
            ("bytes=10-", "", 416, "", "bytes */10"), ("bytes=-0", "", 416, "", "bytes */10"),
            ("bytes=0-1,4-5", "", 200, "0123456789", nil),
            ("bytes=4-2", "", 200, "0123456789", nil), ("lines=1-2", "", 200, "0123456789", nil),
            ("bytes=0-3", "\"x\"", 206, "0123", "bytes 0-3/10"), ("bytes=0-3", "\"y\"", 200, "0123456789", nil),
            ("bytes=0-3", "W/\"x\"", 200, "0123456789", nil), ("bytes=0-3", "W/\"x~cistern\"", 200, "0123456789", nil),
            ("bytes=0-3", "Sun, 06 Nov 1994 08:49:37 GMT", 206, "0123", "bytes 0-3/10"),
            ("bytes=0-3", "Sun, 06 Nov 1994 08:49:38 GMT", 200, "0123456789", nil),
        ] as [(String, String, Int, String, String?)])
    func parts(range: String, condition: String, status: Int, content: String, contentRange: String?) throws {
        let origin = ScriptedOrigin { _ in
            [
                .answer(
                    "0123456789", type: "text/plain",
                    ["Cache-Control: max-age=60", "ETag: \"x\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"])
            ]
        }
        let play = try ProxyPlay(origin) { $0.policy.keepsAny = true }
        _ = try play.get("/a")
        let fields = [("Range", range)] + (condition.isEmpty ? [] : [("If-Range", condition)])
        let answer = try play.get("/a", fields)
        #expect(answer.status == status)
        #expect(answer.text == content)
        #expect(answer["Content-Range"] == contentRange)
        #expect(isHit(answer))
        #expect(origin.requests.count == 1)
    }

    @Test("a range of a fresh response is a hit, also with refresh_ahead")
    func partOfFresh() throws {
        let origin = ScriptedOrigin { _ in [.json("[1,2,3]", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) { $0.otherRoute.refreshAhead = 10 }
        _ = try play.get("/a")
        let part = try play.get("/a", [("Range", "bytes=0-1")])
        #expect(part.status == 206 && part.text == "[1")
        #expect(isHit(part))
        #expect(origin.requests.count == 1)
    }

    @Test("a range of a stale response is fetched and not stored; the stored response serves it when the upstream fails")
    func partOfStale() throws {
        let origin = ScriptedOrigin { request in
            request["Range"] == nil
                ? [.json("[1,2,3]")]
                : [
                    .send(
                        "HTTP/1.1 206 Partial Content\r\nContent-Type: application/json\r\nContent-Range: bytes 0-1/7\r\nContent-Length: 2\r\n\r\n[1"
                    )
                ]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        let part = try play.get("/a", [("Range", "bytes=0-1")])
        #expect(part.status == 206 && part.text == "[1")
        #expect(part["Cache-Status"] == "cistern; fwd=bypass")
        origin.down()
        #expect(try play.get("/a").text == "[1,2,3]")
        let rescued = try play.get("/a", [("Range", "bytes=1-2")])
        #expect(rescued.status == 206 && rescued.text == "1,")
    }

    // MARK: Storing

    @Test("with store: any other types and statuses are stored; with store: json they are passed on")
    func storeAny() throws {
        let script: ScriptedOrigin.Script = { request in
            switch request.target {
            case "/page": [.answer("<p>", type: "text/html", ["Cache-Control: max-age=60"])]
            case "/gone": [.json("{}", status: "410 Gone", ["Cache-Control: max-age=60"])]
            case "/unknown": [.json("{}", status: "299 Fine", ["Cache-Control: max-age=60"])]
            case "/empty": [.send("HTTP/1.1 204 No Content\r\nCache-Control: max-age=60\r\n\r\n")]
            case "/moved": [.send("HTTP/1.1 301 Moved\r\nLocation: /x\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n")]
            default: [.json("{}", status: "403 No")]
            }
        }
        for keepsAny in [true, false] {
            let play = try ProxyPlay(ScriptedOrigin(script)) { $0.policy.keepsAny = keepsAny }
            for (target, status) in [("/page", 200), ("/gone", 410), ("/empty", 204), ("/moved", 301)] {
                _ = try play.get(target)
                let again = try play.get(target)
                #expect(isHit(again) == keepsAny, "\(target)")
                #expect(again.status == status)
            }
            _ = try play.get("/unknown")
            #expect(isHit(try play.get("/unknown")))
            _ = try play.get("/403")
            #expect(!isHit(try play.get("/403")))
        }
    }

    @Test("fields named by private and no-cache are not stored; other fields are")
    func namedFields() throws {
        let play = try ProxyPlay(
            counting("Cache-Control: max-age=60, private=\"X-User\", no-cache=\"X-Once\"", "X-User: 7", "X-Once: 1", "X: 2"))
        let first = try play.get("/a")
        #expect(first["X-User"] == "7")
        let hit = try play.get("/a")
        #expect(isHit(hit) && hit["X-User"] == nil && hit["X-Once"] == nil && hit["X"] == "2")
    }

    @Test("trailers are dropped and never merged into the header fields")
    func trailers() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [
                    .send(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nTrailer: X-Sum\r\n"
                            + "Transfer-Encoding: chunked\r\n\r\n1\r\n7\r\n0\r\nX-Sum: 1\r\nCache-Control: no-store\r\n\r\n")
                ]
            })
        #expect(try play.get("/a")["X-Sum"] == nil)
        let hit = try play.get("/a")
        #expect(isHit(hit) && hit.text == "7" && hit["X-Sum"] == nil && hit["Trailer"] == nil)
    }

    @Test("a private cache stores private responses and has no partitions")
    func privateRole() throws {
        let play = try ProxyPlay(counting("Cache-Control: private, max-age=60")) { $0.policy.isPrivate = true }
        _ = try play.get("/a", [("Cookie", "s=1")])
        #expect(isHit(try play.get("/a", [("Cookie", "s=2")])))
    }

    @Test("a targeted field overrides Cache-Control and Expires (RFC 9213)")
    func targeted() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let fields =
                    switch request.target {
                    case "/fresh": ["Cache-Control: no-store", "CDN-Cache-Control: max-age=60"]
                    case "/own": ["CDN-Cache-Control: no-store", "Cistern-Cache-Control: max-age=60"]
                    case "/stale": ["CDN-Cache-Control: max-age=0", "Expires: Fri, 31 Dec 2100 00:00:00 GMT", "Cache-Control: max-age=60"]
                    default: ["CDN-Cache-Control: max-age=60;;", "Cache-Control: no-store"]
                    }
                return [.json("1", fields)]
            })
        for (target, hits) in [("/fresh", true), ("/own", true), ("/stale", false), ("/broken", false)] {
            _ = try play.get(target)
            #expect(isHit(try play.get(target)) == hits, "\(target)")
        }
    }

    @Test("heuristic freshness applies only if configured (§4.2.2)")
    func heuristics() throws {
        for percent in [0, 10] as [Int64] {
            let play = try ProxyPlay(counting("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT")) { $0.policy.heuristicPercent = percent }
            _ = try play.get("/a")
            #expect(isHit(try play.get("/a")) == (percent > 0))
            play.time.advance(by: .seconds(86_400))
            #expect(!isHit(try play.get("/a")))
        }
    }

    // MARK: Other methods

    @Test("a HEAD response that differs from the stored response makes it stale (§4.3.5)")
    func head() throws {
        let origin = counting("Cache-Control: max-age=60", "ETag: \"1\"")
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        #expect(isHit(try play.request("HEAD", "/a")))
        origin.react { _ in [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"2\"\r\nContent-Length: 7\r\n\r\n")] }
        _ = try play.request("HEAD", "/a", [("Cache-Control", "no-cache")])
        origin.react { _ in [.json("{\"n\":9}", ["ETag: \"2\""])] }
        #expect(try play.get("/a").text == "{\"n\":9}")
    }

    @Test("a POST response whose Content-Location is the target serves later GETs (RFC 9110 §9.3.3)")
    func post() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request.method == "POST"
                    ? [
                        .json(
                            "{\"by\":\"POST\"}",
                            ["Cache-Control: max-age=60", "Content-Location: \(request.target == "/a" ? "/a" : "/other")"])
                    ]
                    : [.json("{\"by\":\"GET\"}", ["Cache-Control: max-age=60"])]
            })
        _ = try play.get("/a")
        _ = try play.request("POST", "/a", content: "x")
        #expect(try play.get("/a").text == "{\"by\":\"POST\"}")
        _ = try play.request("POST", "/b", content: "x")
        #expect(try play.get("/b").text == "{\"by\":\"GET\"}")
        // The stored response never answers another POST.
        #expect(!isHit(try play.request("POST", "/a", content: "x")))
    }

    @Test("a write to a member invalidates its collection with any arguments, if the route says so")
    func collection() throws {
        let play = try ProxyPlay(counting("Cache-Control: max-age=60")) {
            var members = Route()
            members.name = "members"
            members.pattern = RoutePattern("/users/*")
            members.invalidatesCollection = true
            $0.routes = [members]
        }
        for target in ["/users?page=1", "/users", "/posts"] { _ = try play.get(target) }
        play.time.advance(by: .milliseconds(5))
        _ = try play.request("PUT", "/users/1", content: "{}")
        play.time.advance(by: .milliseconds(5))
        for (target, hits) in [("/users?page=1", false), ("/users", false), ("/posts", true), ("/users", true)] {
            #expect(isHit(try play.get(target)) == hits, "\(target)")
        }
    }

    @Test("a write invalidates the groups it names, also across a restart; a GET cannot (RFC 9875)")
    func groups() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let fields =
                    switch request.target {
                    case "/write": ["Cache-Group-Invalidation: \"sca\\\"les\", \"x\""]
                    case "/scales": ["Cache-Groups: \"other\", \"sca\\\"les\";a=1", "Cache-Control: max-age=60"]
                    default: ["Cache-Groups: \"other\", \"Scales\"", "Cache-Control: max-age=60"]
                    }
                return [.json("1", fields)]
            })
        for target in ["/scales", "/others"] { _ = try play.get(target) }
        _ = try play.get("/write")
        #expect(isHit(try play.get("/scales")))
        play.time.advance(by: .milliseconds(5))
        _ = try play.request("POST", "/write", content: "")
        try play.restart()
        #expect(isHit(try play.get("/others")))
        #expect(!isHit(try play.get("/scales")))
        play.time.advance(by: .milliseconds(5))
        _ = try play.get("/scales", [("Cache-Control", "no-cache")])
        #expect(isHit(try play.get("/scales")))
    }

    @Test("QUERY is stored and rescued by its content (RFC 10008), but never without Content-Type")
    func query() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            [.json("{\"n\":\(counter.next()),\"q\":\(String(decoding: request.content, as: UTF8.self))}", ["Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin)
        let json = [("Content-Type", "application/json")]
        let first = try play.request("QUERY", "/q", json, content: "{\"a\":1,\"b\":2}")
        #expect(first.status == 200)
        // Equal JSON in another spelling. The upstream would receive it unchanged.
        let again = try play.request("QUERY", "/q", json, content: "{ \"b\": 2, \"a\": 1 }")
        #expect(isHit(again) && again.text == first.text)
        // Some upstreams refuse 2.0 where they accept 2, so each spelling of a number has its own response.
        #expect(!isHit(try play.request("QUERY", "/q", json, content: "{\"a\":1,\"b\":2.0}")))
        #expect(!isHit(try play.request("QUERY", "/q", json, content: "{\"a\":1,\"b\":3}")))
        #expect(!isHit(try play.request("QUERY", "/q", content: "{\"a\":1,\"b\":2}")))
        #expect(!isHit(try play.get("/q")))
        play.time.advance(by: .seconds(100))
        origin.down()
        #expect(try play.request("QUERY", "/q", json, content: "{\"a\":1,\"b\":2}").text == first.text)
        #expect(try play.request("QUERY", "/q", content: "{\"a\":1,\"b\":2}").status == 502)
    }

    @Test("POST is stored by content only on read-only routes, without GraphQL mutations or oversized content")
    func readingPost() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { _ in [.json("\(counter.next())", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) {
            var route = Route()
            route.name = "search"
            route.pattern = RoutePattern("/search/**")
            route.methods = [.post]
            route.contentLimitBytes = 200
            $0.routes = [route]
        }
        func hits(_ target: String, _ type: String, _ content: String, _ other: String? = nil) throws -> Bool {
            _ = try play.request("POST", target, [("Content-Type", type)], content: content)
            return isHit(try play.request("POST", target, [("Content-Type", type)], content: other ?? content))
        }
        #expect(try hits("/search/a", "application/json", "{\"x\":[1]}"))
        #expect(try hits("/search/b", "application/x-www-form-urlencoded", "b=2&a=1+1", "a=1%201&b=2"))
        #expect(try !hits("/search/c", "application/x-www-form-urlencoded", "a=1&a=2", "a=2&a=1"))
        #expect(try !hits("/search/d", "application/json", "{\"x\":[1]}", "{\"x\":[2]}"))
        let parts = { (mark: String) in "--\(mark)\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--\(mark)--\r\n" }
        _ = try play.request("POST", "/search/p", [("Content-Type", "multipart/form-data; boundary=one")], content: parts("one"))
        #expect(
            isHit(try play.request("POST", "/search/p", [("Content-Type", "multipart/form-data; boundary=two")], content: parts("two"))))
        #expect(try hits("/search/e", "application/json", "{\"query\":\"query Q { a } # mutation\"}"))
        #expect(try !hits("/search/f", "application/json", "{\"query\":\"mutation { a }\"}"))
        #expect(try !hits("/search/g", "application/graphql", "subscription { a }"))
        #expect(try !hits("/search/i", "application/json", "[{\"query\":\"{ a }\"},{\"query\":\"mutation { a }\"}]"))
        #expect(try !hits("/search/j", "application/json", "{\"query\":\"{ a }\",\"query\":\"mutation { a }\"}"))
        let quoted = { (text: String) in "query A($a: String = \"\"\"\(text)\"\"\") { a } " }
        for (place, text) in ["x \" y", "\\\"\"\" \" y", "", "\\ y"].enumerated() {
            #expect(try !hits("/search/k\(place)", "application/graphql", quoted(text) + "mutation B { b }"))
            #expect(try hits("/search/l\(place)", "application/graphql", quoted(text + " mutation") + "query B { b }"))
        }
        #expect(try !hits("/search/h", "text/plain", String(repeating: "x", count: 300)))
        #expect(try !hits("/other", "application/json", "{}"))
        origin.down()
        play.time.advance(by: .seconds(100))
        #expect(try play.request("POST", "/search/a", [("Content-Type", "application/json")], content: "{\"x\":[1]}").text == "1")
        #expect(try play.request("POST", "/other", [("Content-Type", "application/json")], content: "{}").status >= 502)
    }

    // MARK: Targeted fields

    @Test("targeted fields match in any case, are forwarded as configured, and survive a 304 without them", arguments: [true, false])
    func targeted(strips: Bool) throws {
        let fields = ["CDN-Cache-Control: max-age=60", "cistern-cache-control: max-age=90", "Cache-Control: no-cache", "ETag: \"1\""]
        let origin = ScriptedOrigin { request in
            if request["If-None-Match"] != nil { return [.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nX-Round: 2\r\n\r\n")] }
            return [request.target == "/text" ? .answer("x", type: "text/plain", fields) : .json("[1,2]", fields)]
        }
        let play = try ProxyPlay(origin) { $0.policy.stripsTargetedFields = strips }
        func check(_ answer: TestResponse, _ status: Int, _ text: String) {
            #expect(answer.status == status && answer.text == text)
            #expect((answer["CDN-Cache-Control"] == nil) == strips && (answer["Cistern-Cache-Control"] == nil) == strips)
            #expect(answer["Cache-Control"] == "no-cache" && answer["ETag"] == "\"1\"")
        }
        check(try play.get("/a"), 200, "[1,2]")
        check(try play.get("/text"), 200, "x")
        check(try play.get("/a"), 200, "[1,2]")
        check(try play.request("HEAD", "/a"), 200, "")
        check(try play.get("/a", [("Range", "bytes=1-1")]), 206, "1")
        #expect(try play.get("/a", [("If-None-Match", "\"1\"")]).status == 304)
        #expect(origin.requests.count == 2)
        play.time.advance(by: .seconds(91))
        check(try play.get("/a"), 200, "[1,2]")
        #expect(origin.requests.count == 3)
        let later = try play.get("/a")
        check(later, 200, "[1,2]")
        #expect(later["Cache-Status"] == "cistern; hit; ttl=90" && later["X-Round"] == "2")
        play.time.advance(by: .seconds(91))
        origin.down()
        check(try play.get("/a"), 200, "[1,2]")
    }

    // MARK: Keys and tags

    @Test("argument rules of a route apply to the cache key")
    func arguments() throws {
        let play = try ProxyPlay(counting("Cache-Control: max-age=60")) {
            func route(_ path: String, _ change: (inout ArgumentRules) -> Void) -> Route {
                var route = Route()
                route.name = String(path.dropFirst())
                route.pattern = RoutePattern(path)
                change(&route.arguments)
                return route
            }
            $0.routes = [
                route("/ignore") { $0.ignore = [ArgumentPattern("utm_*"), ArgumentPattern("a b")] },
                route("/only") { $0.only = [ArgumentPattern("page")] }, route("/order") { $0.sorts = false },
                route("/case") { $0.ignoresCase = true },
            ]
        }
        for (first, second, isSame) in [
            ("/ignore?x=1", "/ignore?utm_source=a&x=1&a+b=2&%75tm_x", true), ("/ignore?utm_a=1", "/ignore", true),
            ("/ignore?x=2", "/ignore?x=3", false), ("/ignore?utm=1", "/ignore?utm=2", false),
            ("/only?page=1&z=1", "/only?y=2&page=1", true),
            ("/only?page=2", "/only?page=3", false), ("/order?a=1&b=2", "/order?b=2&a=1", false), ("/case?A=B%2f", "/case?a=b%2F", true),
            ("/CASE?a=1", "/case?a=1", false), ("/other?utm_a=1", "/other?utm_a=2", false),
        ] {
            _ = try play.get(first)
            #expect(isHit(try play.get(second)) == isSame, "\(first) \(second)")
        }
    }

    @Test("stored JSON without a validator gets a tag of its data; equivalent JSON also yields 304")
    func ownTags() throws {
        let origin = ScriptedOrigin { _ in [.json("{\"a\":1,\"b\":[1,2]}")] }
        let play = try ProxyPlay(origin)
        let tag = try #require(try play.get("/a")["ETag"])
        #expect(tag.hasPrefix("W/\"cistern~"))
        origin.react { _ in [.json("{ \"b\": [1, 2], \"a\": 1.0 }")] }
        let same = try play.get("/a", [("If-None-Match", tag)])
        #expect(same.status == 304 && same["ETag"] == tag)
        #expect(origin.requests.last?["If-None-Match"] == nil)
        // The client updates its stored response with the fields of the 304.
        origin.react { _ in [.json("{\"a\":1,\"b\":[1,2]}", ["X-Total-Count: 2", "RateLimit-Remaining: 7", "Set-Cookie: a=1", "Age: 3"])] }
        let renewed = try play.get("/a", [("If-None-Match", tag)])
        #expect(renewed.status == 304 && renewed["X-Total-Count"] == "2" && renewed["RateLimit-Remaining"] == "7")
        #expect(renewed["Set-Cookie"] == "a=1" && renewed["Age"] == "3" && renewed["Content-Type"] == nil && renewed.all("ETag") == [tag])
        origin.react { _ in [.json("{\"a\":2}")] }
        let other = try play.get("/a", [("If-None-Match", tag)])
        #expect(other.status == 200 && other["ETag"] != tag)
        let off = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] }) { $0.policy.makesEntityTags = false }
        #expect(try off.get("/a")["ETag"] == nil)
        let own = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["ETag: \"mine\""])] })
        #expect(try own.get("/a")["ETag"] == "\"mine\"")
    }

    @Test("one stored response is served with gzip to clients that accept it, if the operator allows it")
    func compression() throws {
        let text = "[\"" + String(repeating: "abc", count: 700) + "\"]"
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                let fields = request.target == "/kept" ? ["Cache-Control: max-age=60, no-transform"] : ["Cache-Control: max-age=60"]
                return [.json(request.target == "/short" ? "[]" : text, fields + ["ETag: \"x\""])]
            }
        ) { $0.content.compressFromBytes = 1_000 }
        for target in ["/a", "/short", "/kept"] { _ = try play.get(target) }
        let coded = try play.get("/a", [("Accept-Encoding", "br, gzip")])
        #expect(coded["Content-Encoding"] == "gzip" && coded["ETag"] == "W/\"x~cistern\"" && coded["Vary"] == "Accept-Encoding")
        #expect(coded.content.count < 200 && coded["Content-Length"] == String(coded.content.count))
        #expect(try ContentDecoder.decode(coded.content, .gzip, limit: 10_000) == Array(text.utf8))
        for accepted in ["", "gzip;q=0", "br"] {
            let plain = try play.get("/a", accepted.isEmpty ? [] : [("Accept-Encoding", accepted)])
            #expect(plain["Content-Encoding"] == nil && plain.text == text && plain["ETag"] == "\"x\"")
            #expect(plain["Vary"] == "Accept-Encoding")
        }
        for target in ["/short", "/kept"] {
            #expect(try play.get(target, [("Accept-Encoding", "gzip")])["Content-Encoding"] == nil, "\(target)")
        }
        for tag in ["W/\"x~cistern\"", "W/\"x\"", "\"x\""] {
            #expect(try play.get("/a", [("Accept-Encoding", "gzip"), ("If-None-Match", tag)]).status == 304, "\(tag)")
        }
        #expect(try play.get("/a", [("Accept-Encoding", "gzip"), ("Range", "bytes=0-1")]).text == "[\"")
    }

    @Test(
        "a large stored response is recoded while it is sent, and the connection stays usable",
        .slow
    )
    func longCompression() throws {
        let text = "[" + (0..<40_000).map { "{\"n\":\($0)}" }.joined(separator: ",") + "]"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(text, ["Cache-Control: max-age=60"])] }) {
            $0.otherRoute.compression = .zstd
        }
        _ = try play.get("/a")
        play.flushStore()
        let client = try play.client()
        for _ in 0..<2 {
            let coded = try #require(client.get("/a", [("Accept-Encoding", "gzip")]))
            #expect(coded["Content-Encoding"] == "gzip" && coded["Transfer-Encoding"] == "chunked" && coded["Content-Length"] == nil)
            #expect(coded.content.count < text.utf8.count / 3)
            #expect(try ContentDecoder.decode(coded.content, .gzip, limit: 4 << 20) == Array(text.utf8))
            let head = try #require(client.request("HEAD", "/a", [("Accept-Encoding", "gzip")]))
            #expect(head["Content-Encoding"] == "gzip" && head["Content-Length"] == nil)
            let plain = try #require(client.get("/a"))
            #expect(plain.text == text && plain["Content-Length"] == String(text.utf8.count) && plain["Content-Encoding"] == nil)
            let part = try #require(client.get("/a", [("Accept-Encoding", "gzip"), ("Range", "bytes=100000-199999")]))
            #expect(part.status == 206 && part.text == text.dropFirst(100_000).prefix(100_000))
            #expect(try play.waitFor("cistern_recoded_memory_bytes", atLeast: Double(text.utf8.count)))
        }
        // Decoded content that was requested twice is kept in memory.
        #expect(try play.metric("cistern_recoded_contents_total{from=\"beside\"}") == 4)
        #expect(try play.metric("cistern_recoded_contents_total{from=\"memory\"}") == 2)
        // A client that disconnects early does not affect other clients.
        let leaving = try play.client(sending: "GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
        leaving.endsWithReset()
        let old = try play.client(sending: "GET /a HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n")
        let plain = try #require(old.readResponse())
        #expect(plain["Content-Encoding"] == nil && plain.text == text)
    }

    @Test("Accept-Language fields are compared by meaning (RFC 9110 §12.5.4)")
    func languages() throws {
        let play = try ProxyPlay(counting("Vary: Accept-Language", "Cache-Control: max-age=60"))
        _ = try play.get("/a", [("Accept-Language", "de, en;q=0.5")])
        #expect(isHit(try play.get("/a", [("Accept-Language", "en;q=0.50 , DE;q=1")])))
        #expect(!isHit(try play.get("/a", [("Accept-Language", "en, de;q=0.5")])))
    }
}
