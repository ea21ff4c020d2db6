// Tests which responses are stored, for whom and for how long, over real sockets.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

/// An origin that numbers its responses. A repeated number came from the store.
private func countingOrigin(_ fields: String...) -> ScriptedOrigin {
    let counter = Counter()
    return ScriptedOrigin { _ in [.json("{\"n\":\(counter.next())}", fields)] }
}

@Suite("Caching", .play, .clientProtocols)
struct CachingTests {
    @Test("a fresh response is served without contacting the upstream until it is stale")
    func freshness() throws {
        let play = try ProxyPlay(countingOrigin("Cache-Control: max-age=60"))
        #expect(try play.get("/a")["Cache-Status"] == "cistern; fwd=uri-miss; stored")
        play.time.advance(by: .seconds(10))
        let hit = try play.get("/a")
        #expect(hit.text == "{\"n\":1}")
        #expect(hit["Age"] == "10")
        #expect(hit["Cache-Status"] == "cistern; hit; ttl=50")
        play.time.advance(by: .seconds(50))
        #expect(try play.get("/a").text == "{\"n\":2}")
    }

    @Test("a response without freshness information is always fetched from the upstream first")
    func networkFirst() throws {
        let play = try ProxyPlay(countingOrigin())
        for number in 1...3 { #expect(try play.get("/a").text == "{\"n\":\(number)}") }
    }

    @Test("a 304 confirms the stored response and is not forwarded to a client without conditions")
    func validation() throws {
        let origin = ScriptedOrigin { request in
            request["If-None-Match"] == "\"v1\""
                ? [.send("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nX-New: 1\r\n\r\n")] : [.json("{}", ["ETag: \"v1\""])]
        }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").status == 200)
        let second = try play.get("/a")
        #expect(second.status == 200)
        #expect(second.text == "{}")
        #expect(second["X-New"] == "1")
        #expect(second["Cache-Status"] == "cistern; fwd=stale; fwd-status=304")
        // The client's conditional request is answered from the stored response.
        #expect(try play.get("/a", [("If-None-Match", "W/\"v1\"")]).status == 304)
        #expect(try play.get("/a", [("If-None-Match", "\"other\"")]).status == 200)
        #expect(try play.metric("cistern_requests_total{result=\"revalidated\",method=\"GET\",status_class=\"2xx\"}") == 2)
    }

    @Test("equivalent spellings of a target share a cache key; different targets do not")
    func keys() throws {
        let same = [
            "/a?x=1&y=a%20b", "/a?y=a+b&x=1", "/%61?y=a%20b&x=1", "/a?x=%31&y=a+b",
        ]
        let play = try ProxyPlay(countingOrigin("Cache-Control: max-age=60"))
        for target in same { #expect(try play.get(target).text == "{\"n\":1}", "\(target)") }
        let others = [
            "/a?x=1", "/a", "/a?x", "/a?x=", "/A", "/a/", "//a", "/a%2Fb", "/a/b", "/a?v=1&v=2", "/a?v=2&v=1", "/a;x", "/a%3Bx",
            "/a?x=%26",
            "/a?x=&", "/a?x=%2B", "/a?x=+",
        ]
        for (index, target) in others.enumerated() { #expect(try play.get(target).text == "{\"n\":\(index + 2)}", "\(target)") }
        for (index, target) in others.enumerated() { #expect(try play.get(target).text == "{\"n\":\(index + 2)}", "\(target) again") }
        #expect(try play.get("/a?").text == "{\"n\":3}")
        // The upstream receives the client's spelling of the target.
        #expect(play.origin.requests[0].target == same[0])
    }

    @Test("users that differ only in an unlisted field do not share private responses")
    func choices() throws {
        let origin = ScriptedOrigin { [.json("\"\($0["X-Own"] ?? "")\"", ["Cache-Control: max-age=9, private"])] }
        let play = try ProxyPlay(origin)
        func ask(_ user: String) throws -> TestResponse { try play.get("/me", [("Cookie", "locale=en"), ("X-Own", user)]) }
        #expect(try ask("a").text == "\"a\"")
        let other = try ask("b")
        #expect(other.text == "\"b\"" && other["Cache-Status"]?.contains("user_unknown") == true)
        origin.down()
        #expect(try ask("b").status == 502)
    }

    @Test("a user never receives another user's response, fresh or rescued")
    func partitions() throws {
        let origin = ScriptedOrigin { request in
            [
                .json(
                    "{\"for\":\"\(request["Authorization"] ?? request["Cookie"] ?? request["X-API-Key"] ?? "nobody")\"}",
                    ["Cache-Control: max-age=9, private"])
            ]
        }
        let play = try ProxyPlay(origin) { $0.upstream.failure.threshold = 100 }
        let users: [(String, String)] = [
            ("Authorization", "Basic a"), ("Authorization", "Basic b"), ("Cookie", "s=0123456789abcdef"), ("X-API-Key", "k"),
        ]
        for user in users {
            let wanted = "{\"for\":\"\(user.1)\"}"
            #expect(try play.get("/me", [user]).text == wanted)
            #expect(try play.get("/me", [user])["Cache-Status"]?.contains("hit") == true)
        }
        origin.down()
        play.time.advance(by: .seconds(100))
        for user in users { #expect(try play.get("/me", [user]).text == "{\"for\":\"\(user.1)\"}") }
        #expect(try play.get("/me").status == 502)
        #expect(try play.get("/me", [("Authorization", "Basic c")]).status == 502)
    }

    @Test("responses vary by the fields that Vary names; a response with Vary: * is never stored")
    func vary() throws {
        let origin = ScriptedOrigin { request in
            [.json("{\"language\":\"\(request["Accept-Language"] ?? "-")\"}", ["Vary: Accept-Language", "Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin)
        for language in ["de", "en", "de", "en"] {
            #expect(try play.get("/a", [("Accept-Language", language)]).text == "{\"language\":\"\(language)\"}")
        }
        #expect(origin.requests.count == 2)
        origin.react { _ in [.json("{}", ["Vary: Accept, *", "Cache-Control: max-age=60"])] }
        _ = try play.get("/star")
        _ = try play.get("/star")
        #expect(origin.requests.count == 4)
    }

    @Test("a response that echoes Origin without Vary: Origin is stored per origin")
    func echoedOrigin() throws {
        let origin = ScriptedOrigin { request in
            [.json("{}", ["Access-Control-Allow-Origin: \(request["Origin"] ?? "none")", "Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a", [("Origin", "https://one")])
        #expect(try play.get("/a", [("Origin", "https://two")])["Access-Control-Allow-Origin"] == "https://two")
    }

    @Test("an unsafe request invalidates the stored responses in every partition and variant")
    func invalidation() throws {
        let counter = Counter()
        let origin = ScriptedOrigin { request in
            request.method == "GET" ? [.json("{\"n\":\(counter.next())}", ["Cache-Control: max-age=60"])] : [.json("{}")]
        }
        let play = try ProxyPlay(origin)
        let user = ("Authorization", "x")
        #expect(try play.get("/a").text == "{\"n\":1}")
        #expect(try play.get("/a", [user]).text == "{\"n\":2}")
        #expect(try play.request("PUT", "/a", content: "{}").status == 200)
        play.time.advance(by: .milliseconds(5))
        #expect(try play.get("/a").text == "{\"n\":3}")
        #expect(try play.get("/a", [user]).text == "{\"n\":4}")
        #expect(try play.get("/a").text == "{\"n\":3}")
        // A failed write invalidates nothing.
        origin.react { _ in [.json("{}", status: "500 Internal Server Error")] }
        _ = try play.request("DELETE", "/a")
        #expect(try play.get("/a").text == "{\"n\":3}")
    }

    @Test("an encoded response is stored decoded and served in a coding that each client accepts")
    func coding() throws {
        let packed: [UInt8] = [
            0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0x02, 0x03, 0xab, 0x56, 0xca, 0x4c, 0x51, 0xb2, 0x32, 0xac, 0x05, 0, 0xc5, 0xf8, 0x5d, 0x44,
            0x08, 0, 0, 0,
        ]
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nETag: \"s\"\r\nVary: Accept-Encoding\r\n"
        let origin = ScriptedOrigin { request in
            guard request["Accept-Encoding"] == "gzip, br" else { return [.json("{\"plain\":1}")] }
            return [.sendBytes(Array("\(head)Content-Length: \(packed.count)\r\n\r\n".utf8) + packed)]
        }
        let play = try ProxyPlay(origin)
        let coded = try play.get("/a", [("Accept-Encoding", "gzip, br")])
        #expect(coded["Content-Encoding"] == "gzip")
        #expect(coded.content == packed)
        origin.down()
        let rescued = try play.get("/a")
        #expect(rescued.status == 200)
        #expect(rescued["Content-Encoding"] == nil)
        #expect(rescued.text == "{\"id\":1}")
        #expect(rescued["ETag"] == "W/\"s~cistern\"")
    }

    @Test("a client that accepts no coding always receives decoded content", arguments: [nil, "identity", "br", "gzip;q=0"])
    func unaskedCoding(accepted: String?) throws {
        let packed: [UInt8] = [
            0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0x02, 0x03, 0xab, 0x56, 0xca, 0x4c, 0x51, 0xb2, 0x32, 0xac, 0x05, 0, 0xc5, 0xf8, 0x5d, 0x44,
            0x08, 0, 0, 0,
        ]
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nETag: \"s\"\r\n"
        let play = try ProxyPlay(
            ScriptedOrigin { _ in [.sendBytes(Array("\(head)Content-Length: \(packed.count)\r\n\r\n".utf8) + packed)] })
        let response = try play.get("/a", accepted.map { [("Accept-Encoding", $0)] } ?? [])
        #expect(response.text == "{\"id\":1}")
        #expect(response["Content-Encoding"] == nil)
        #expect(response["ETag"] == "W/\"s~cistern\"")
        let untouched = "\(head)Cache-Control: no-transform\r\nContent-Length: \(packed.count)\r\n\r\n"
        play.origin.react { _ in [.sendBytes(Array(untouched.utf8) + packed)] }
        #expect(try play.get("/b")["Content-Encoding"] == "gzip")
    }

    @Test("Set-Cookie reaches the client that caused it and is not served from the cache")
    func setCookie() throws {
        let play = try ProxyPlay(countingOrigin("Set-Cookie: s=1", "Cache-Control: max-age=60"))
        #expect(try play.get("/a")["Set-Cookie"] == "s=1")
        let hit = try play.get("/a")
        #expect(hit.text == "{\"n\":1}")
        #expect(hit["Set-Cookie"] == nil)
    }

    @Test("only JSON within the size limit is stored")
    func contentTypes() throws {
        let origin = ScriptedOrigin { request in
            switch request.target {
            case "/page": [.answer("<p>", type: "text/html", ["Cache-Control: max-age=60"])]
            case "/hal": [.answer("{}", type: "application/hal+json; charset=utf-8", ["Cache-Control: max-age=60"])]
            default: [.json("[\"" + String(repeating: "x", count: 3_000) + "\"]", ["Cache-Control: max-age=60"])]
            }
        }
        let play = try ProxyPlay(origin) { $0.content.bufferLimitBytes = 2_000 }
        for target in ["/page", "/hal", "/large"] {
            #expect(try play.get(target).status == 200)
            #expect(try play.get(target)["Cache-Status"]?.contains("hit") == (target == "/hal"))
        }
        #expect(try play.get("/large").content.count == 3_004)
        #expect(try play.metric("cistern_not_stored_total{reason=\"too_large\"}") == 3)
    }

    @Test("no-cache forces a fetch, only-if-cached prevents it, and no-store prevents storing")
    func requestDirectives() throws {
        let play = try ProxyPlay(countingOrigin("Cache-Control: max-age=60"))
        #expect(try play.get("/a", [("Cache-Control", "only-if-cached")]).status == 504)
        #expect(try play.get("/a").text == "{\"n\":1}")
        #expect(try play.get("/a", [("Cache-Control", "no-cache")]).text == "{\"n\":2}")
        #expect(try play.get("/a", [("Pragma", "no-cache")]).text == "{\"n\":3}")
        #expect(try play.get("/a", [("Cache-Control", "only-if-cached")]).text == "{\"n\":3}")
        #expect(try play.get("/b", [("Cache-Control", "no-store")]).text == "{\"n\":4}")
        #expect(try play.get("/b").text == "{\"n\":5}")
    }

    @Test("a GET with a precondition or content bypasses the cache")
    func bypass() throws {
        let play = try ProxyPlay(countingOrigin("Cache-Control: max-age=60"))
        _ = try play.get("/a")
        #expect(try play.get("/a", [("If-Match", "*")]).text == "{\"n\":2}")
        #expect(try play.request("GET", "/a", content: "x").text == "{\"n\":3}")
        #expect(try play.get("/a").text == "{\"n\":1}")
    }
}
