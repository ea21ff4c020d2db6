// Tests which stored response matches a request with unusual fields (RFC 9111 §4.1, RFC 9110 §7.6.1).

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Selecting stored responses", .play)
struct SelectionTests {
    /// Returns the upstream's view of a request field.
    private func echoing(_ name: String, _ fields: String...) -> ScriptedOrigin {
        ScriptedOrigin { request in [.json("\"\(request[name] ?? "none")\"", ["Cache-Control: max-age=60"] + fields)] }
    }

    private func isHit(_ answer: TestResponse) -> Bool { answer["Cache-Status"]?.contains("; hit") == true }

    @Test("a request that hides a field with Connection does not store its response for requests that send it")
    func hidden() throws {
        let play = try ProxyPlay(echoing("X-F", "Vary: X-F"))
        #expect(try play.get("/a", [("X-F", "1"), ("Connection", "keep-alive, x-f")]).text == "\"none\"")
        #expect(try play.get("/a", [("X-F", "1")]).text == "\"1\"")
        #expect(isHit(try play.get("/a")))
        let keyed = try ProxyPlay(echoing("X-Edition")) { $0.policy.keyFields = ["x-edition"] }
        #expect(try keyed.get("/a", [("X-Edition", "1"), ("Connection", "X-Edition")]).text == "\"none\"")
        #expect(try keyed.get("/a", [("X-Edition", "1")]).text == "\"1\"")
        #expect(isHit(try keyed.get("/a")))
    }

    @Test("a field that the upstream may read as a selecting field counts as one (RFC 3875 §4.1.18)", arguments: ["Vary: X-Tenant", ""])
    func spelling(vary: String) throws {
        let origin = ScriptedOrigin { request in
            [
                .json(
                    "\"\(request["X-Tenant"] ?? request["X_Tenant"] ?? "none")\"",
                    ["Cache-Control: max-age=60"] + (vary.isEmpty ? [] : [vary]))
            ]
        }
        let play = try ProxyPlay(origin) { if vary.isEmpty { $0.policy.keyFields = ["x-tenant"] } }
        for fields in [[("X_Tenant", "evil")], [], [("X-Tenant", "evil")], [("x_tenant", "good")]] {
            #expect(try play.get("/a", fields).text == "\"\(fields.first?.1 ?? "none")\"")
        }
        #expect(isHit(try play.get("/a", [("x_Tenant", "evil")])) && play.origin.requests.count == 4)
    }

    @Test("a response that varies by the client's address is not stored")
    func address() throws {
        let play = try ProxyPlay(echoing("X-Forwarded-For", "Vary: X-Forwarded-For"))
        _ = try play.get("/a")
        #expect(try play.get("/a")["Cache-Status"] == "cistern; fwd=uri-miss; detail=vary_star")
    }

    @Test("a private cache applies Vary to credentials and keeps them out of its keys", arguments: ["Cookie", "Authorization"])
    func ownCredentials(name: String) throws {
        let play = try ProxyPlay(echoing(name, "Vary: \(name)")) { $0.policy.isPrivate = true }
        #expect(try play.get("/a", [(name, "secret-1")]).text == "\"secret-1\"")
        #expect(try play.get("/a", [(name, "secret-2")]).text == "\"secret-2\"")
        #expect(try play.get("/a").text == "\"none\"")
        #expect(isHit(try play.get("/a", [(name, "secret-1")])))
        #expect(try !play.admin("GET", "/-/entries").text.contains("secret"))
    }

    @Test("in strict mode requests share a response only if each may reuse it without validation (RFC 9111 §4)")
    func sharing() throws {
        for (strictness, control, count) in [
            (Strictness.strict, "no-cache", 2), (.strict, "max-age=0", 2), (.strict, "public", 2), (.strict, "max-age=60", 1),
            (.rescue, "no-cache", 1),
        ] {
            let gate = Gate()
            let origin = ScriptedOrigin { _ in [.pass(gate), .json("1", ["Cache-Control: \(control)"])] }
            let play = try ProxyPlay(origin) { $0.policy.strictness = strictness }
            let clients = try (0..<2).map { _ in
                return try play.client(getting: "/a")
            }
            #expect(try play.waitFor("cistern_collapsed_waiting", 1))
            gate.open()
            for client in clients { #expect(client.readResponse()?.text == "1") }
            #expect(origin.requests.count == count, "\(strictness) \(control)")
        }
    }

    @Test("only-if-cached also applies to unstorable QUERY requests; unsafe requests are always forwarded (RFC 9111 §4, §5.2.1.7)")
    func onlyIfCached() throws {
        let play = try ProxyPlay(echoing("X"))
        let fields = [("Cache-Control", "only-if-cached")]
        #expect(try play.request("QUERY", "/a", fields, content: "x").status == 504)
        #expect(try play.request("POST", "/a", fields, content: "x").status == 200)
        #expect(play.origin.requests.count == 1)
    }

    @Test("with gzip negotiated, 304, 206 and HEAD describe the compressed representation")
    func negotiated() throws {
        let text = "[\"" + String(repeating: "abc", count: 100) + "\"]"
        let origin = ScriptedOrigin { _ in [.json(text, ["Cache-Control: max-age=60", "ETag: \"x\""])] }
        let play = try ProxyPlay(origin) { $0.content.compressFromBytes = 100 }
        _ = try play.get("/a")
        // The store's writer compresses the content.
        play.flushStore()
        let gzip = ("Accept-Encoding", "gzip")
        for (fields, tag) in [([gzip], "W/\"x~cistern\""), ([], "\"x\"")] {
            let unchanged = try play.get("/a", fields + [("If-None-Match", tag)])
            #expect(unchanged.status == 304 && unchanged["ETag"] == tag && unchanged["Vary"] == "Accept-Encoding")
            #expect(unchanged["Content-Encoding"] == nil)
            let head = try play.request("HEAD", "/a", fields)
            #expect(head["ETag"] == tag && head["Vary"] == "Accept-Encoding")
            #expect(head["Content-Encoding"] == (fields.isEmpty ? nil : "gzip"))
            #expect(head["Content-Length"] == String(try play.get("/a", fields).content.count))
            let part = try play.get("/a", fields + [("Range", "bytes=0-1")])
            #expect(part.status == 206 && part.text == "[\"" && part["ETag"] == "\"x\"" && part["Vary"] == "Accept-Encoding")
        }
        #expect(origin.requests.count == 1)
    }
}
