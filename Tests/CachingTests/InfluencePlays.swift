// Tests that the response to an odd request of one client does not reach other clients: another spelling of the path, an Accept field, an
// invalid key, or a redirect that the client has chosen.

import CachePolicy
import ReverseProxy
import TestSupport
import Testing

@Suite("One client's requests do not determine what others receive", .play, .clientProtocols)
struct InfluencePlays {
    /// An origin that compares paths byte by byte, as many routers do. Other spellings lead to another resource, or to none.
    private func literal(_ fields: String...) -> ScriptedOrigin {
        ScriptedOrigin { request in
            if request.target == "/items/1" { return [.json("{\"id\":1}", fields)] }
            if request.target.hasPrefix("/posts/") { return [.json("\"\(request.target)\"", fields)] }
            return [.json("{\"none\":\"\(request.target)\"}", status: "404 Not Found", fields)]
        }
    }

    private static let spellings = ["/%69tems/1", "/items/%31", "/%69%74ems/1"]

    @Test("a 404 for another spelling of the path is neither remembered as gone nor replaces the response", arguments: spellings)
    func gone(spelling: String) throws {
        let play = try ProxyPlay(literal())
        #expect(try play.get("/items/1").status == 200)
        #expect(try play.get(spelling).status == 404)
        play.origin.down()
        #expect(try play.get("/items/1").text == "{\"id\":1}")
    }

    @Test("a stored 404 for another spelling is not served for the plain one", arguments: spellings)
    func negative(spelling: String) throws {
        let play = try ProxyPlay(literal()) { $0.otherRoute.freshness.negative = 60 }
        for _ in 0..<2 {
            #expect(try play.get(spelling).status == 404)
            #expect(try play.get("/items/1").text == "{\"id\":1}")
        }
        #expect(play.origin.requests.count == 3)
    }

    @Test(
        "a response for another spelling is served to that spelling only, fresh or as a rescue",
        arguments: ["/posts/%6Catest", "/posts/caf%c3%a9"], [["Cache-Control: max-age=60"], ["Cache-Control: public, max-age=60"], []])
    func good(spelling: String, fields: [String]) throws {
        let plain = spelling.replacing("%6C", with: "l").replacing("%c3%a9", with: "%C3%A9")
        let play = try ProxyPlay(ScriptedOrigin { [.json("\"\($0.target)\"", fields)] })
        #expect(try play.get(spelling).text == "\"\(spelling)\"")
        #expect(try play.get(plain).text == "\"\(plain)\"")
        #expect(try play.get(plain).text == "\"\(plain)\"")
        play.origin.down()
        play.time.advance(by: .seconds(100))
        #expect(try play.get(plain).text == "\"\(plain)\"")
        #expect([spelling, plain].contains(try play.get(spelling).text.filter { $0 != "\"" }))
    }

    @Test(
        "404 responses to requests unlike the one that fetched the response open no crowd",
        arguments: [("/%69tems/", "Accept: */*"), ("/items/", "Accept: text/odd"), ("/items/", "CF-IPCountry: KP")])
    func crowd(path: String, field: String) throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        let (plain, parts) = ([("Accept", "*/*")], field.split(separator: ": ").map(String.init))
        for number in 0..<20 { #expect(try play.get("/items/\(number)", plain).status == 200) }
        origin.react { _ in [.json("{}", status: "404 Not Found")] }
        for number in 0..<20 { #expect(try play.get("\(path)\(number)", [(parts[0], parts[1])]).status == 404) }
        // Without a crowd, a 404 for the plain request is forwarded.
        #expect(try play.get("/items/5", plain).status == 404)
    }

    @Test("a redirect to a maintenance page is replaced for clients with other Accept fields, too")
    func maintenance() throws {
        let origin = ScriptedOrigin { _ in [.json("1")] }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a", [("Accept-Language", "de")]).text == "1")
        origin.react { _ in [.send("HTTP/1.1 302 Found\r\nLocation: /maintenance\r\nContent-Length: 0\r\n\r\n")] }
        #expect(try play.get("/a", [("Accept-Language", "en")]).text == "1")
    }

    @Test("a write to the plain spelling invalidates responses for other ones")
    func write() throws {
        let play = try ProxyPlay(ScriptedOrigin { [.json("\"\($0.method)\"", ["Cache-Control: max-age=60"])] })
        #expect(try play.get("/%61").status == 200)
        #expect(try play.request("PUT", "/a", content: "1").status == 200)
        play.origin.down()
        #expect(try play.get("/%61").status >= 502)
    }

    @Test("a stored 404 is served only to requests with equal Accept fields")
    func accept() throws {
        let origin = ScriptedOrigin { request in
            request["Accept"] == "application/odd" ? [.json("0", status: "404 Not Found")] : [.json("1")]
        }
        let play = try ProxyPlay(origin) { $0.otherRoute.freshness.negative = 60 }
        let odd = [("Accept", "application/odd")]
        // Enough requests for the memo of hits.
        for _ in 0..<8 { #expect(try play.get("/a", odd).status == 404) }
        #expect(origin.requests.count == 1)
        #expect(try play.get("/a", [("Accept", "application/json")]).text == "1")
    }

    @Test("with ignored credentials, the 404 for an invalid key counts for nobody else", arguments: [nil, 60])
    func invalidKey(negative: Int64?) throws {
        let origin = ScriptedOrigin { $0["X-Api-Key"] == "bad" ? [.json("0", status: "404 Not Found")] : [.json("1")] }
        let play = try ProxyPlay(origin) {
            $0.otherRoute.credentials.areIgnored = true
            if let negative { $0.otherRoute.freshness.negative = negative }
        }
        let bad = [("X-Api-Key", "bad"), ("Cache-Control", "no-cache")]
        #expect(try play.get("/b", bad).status == 404)
        for path in ["/a", "/b"] { #expect(try play.get(path).text == "1") }
        #expect(try play.get("/a", bad).status == 404)
        #expect(try play.get("/a").text == "1")
        origin.down()
        #expect(try play.get("/a").text == "1")
    }

    @Test("a redirect after a write makes the responses where it leads stale; they still serve as rescues")
    func redirect() throws {
        let origin = ScriptedOrigin { request in
            request.method == "POST"
                ? [.send("HTTP/1.1 303 See Other\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n")]
                : [.json("1", ["Cache-Control: max-age=60"])]
        }
        let play = try ProxyPlay(origin)
        #expect(try play.get("/a").text == "1")
        #expect(try play.request("POST", "/forward?next=/a", content: "x").status == 303)
        #expect(try play.get("/a").text == "1")
        #expect(origin.requests.count == 3)
        #expect(try play.request("POST", "/forward?next=/a", content: "x").status == 303)
        origin.down()
        #expect(try play.get("/a").text == "1")
    }

    @Test("methods that are registered as safe invalidate nothing", arguments: ["PROPFIND", "REPORT", "SEARCH"])
    func safe(method: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=60"])] })
        #expect(try play.get("/a").text == "1")
        #expect(try play.request(method, "/a", content: "x").status == 200)
        #expect(try play.get("/a").text == "1")
        #expect(play.origin.requests.count == 2)
    }
}
