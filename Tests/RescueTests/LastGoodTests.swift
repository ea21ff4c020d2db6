// Tests that a bad response does not replace the last good one, and that a good response is not treated as a failure. Over real sockets.

import CachePolicy
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Keeping the last good response, and what counts as a failure", .play, .clientProtocols)
struct LastGoodTests {
    private static let good = "{\"id\":1}"
    private static let fresh = "Cache-Control: max-age=60"

    private func moved(_ status: String, _ location: String) -> OriginStep {
        .send("HTTP/1.1 \(status)\r\nLocation: \(location)\r\nContent-Length: 0\r\n\(Self.fresh)\r\n\r\n")
    }

    /// JSON encoded with gzip.
    private static func coded(_ content: [UInt8]) -> [OriginStep] {
        let lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Encoding: gzip", "Content-Length: \(content.count)"]
        return [.send(lines.joined(separator: "\r\n") + "\r\n\r\n"), .sendBytes(content)]
    }

    private func openScopes(_ play: ProxyPlay) throws -> [String] {
        try ["key", "route", "upstream"].filter { try play.metric("cistern_failure_scopes{scope=\"\($0)\"}") != 0 }
    }

    // MARK: Content that cannot be examined

    @Test(
        "content that decodes beyond the limit is passed on, with or without a stored response, and counts as a success",
        arguments: [0, 1 << 20])
    func tooLarge(atOnce: Int) throws {
        let large = try TestContent.gzip("[\"" + String(repeating: "x", count: 3_000) + "\"]")
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] }) {
            $0.content.bufferLimitBytes = 2_000
            $0.content.examinedAtOnceBytes = min(atOnce, 2_000)
        }
        _ = try play.get("/a")
        play.origin.react { _ in Self.coded(large) }
        for target in ["/a", "/a", "/a", "/a", "/a", "/a", "/bare"] {
            let response = try play.get(target, [("Accept-Encoding", "gzip")])
            #expect(response.status == 200 && response.content == large && response["Content-Encoding"] == "gzip")
        }
        #expect(try play.metric("cistern_not_stored_total{reason=\"too_large\"}") == 7)
        #expect(try openScopes(play).isEmpty)
        play.origin.down()
        #expect(try play.get("/a").text == Self.good)
        #expect(try play.get("/bare").status == 502)
    }

    @Test("a decompression bomb is passed on unchanged and not decoded")
    func bomb() throws {
        let bomb = try TestContent.gzip("[" + String(repeating: " ", count: 8 << 20) + "]")
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        _ = try play.get("/a")
        play.origin.react { _ in Self.coded(bomb) }
        #expect(try play.get("/a", [("Accept-Encoding", "gzip")]).content == bomb)
        play.origin.down()
        #expect(try play.get("/a").text == Self.good)
    }

    @Test("JSON nested too deeply is passed on, not stored, and keeps the stored response")
    func tooDeep() throws {
        let deep = String(repeating: "[", count: 600) + String(repeating: "]", count: 600)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        _ = try play.get("/a")
        play.origin.react { _ in [.json(deep)] }
        #expect(try play.get("/a").text == deep)
        #expect(try play.metric("cistern_not_stored_total{reason=\"too_deep\"}") == 1)
        play.origin.react { _ in [.json(deep, status: "404 Not Found")] }
        #expect(try play.get("/a").status == 404)
        play.origin.react { _ in [.json(String(deep.dropLast()))] }
        #expect(try play.get("/a").text == Self.good)
    }

    // MARK: store: any

    @Test(
        "store: any: only a success replaces a stored success",
        arguments: [
            "404 Not Found", "405 Method Not Allowed", "300 Multiple Choices", "301 Moved Permanently", "308 Permanent Redirect",
            "403 Forbidden",
            "501 Not Implemented", "505 HTTP Version Not Supported", "506 Variant Also Negotiates",
        ], ["", "X-Form"])
    func storeAny(status: String, vary: String) throws {
        let lines = vary.isEmpty ? [] : ["Vary: \(vary)"]
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good, lines)] }) { $0.policy.keepsAny = true }
        _ = try play.get("/a", [("X-Form", "1")])
        for fields in [lines, []] {
            play.origin.react { _ in [.answer("<p>", type: "text/html", status: status, [Self.fresh, "Location: /login"] + fields)] }
            // Also for a request of another variant.
            for form in ["1", "2"] { #expect("\(try play.get("/a", [("X-Form", form)]).status)" == status.prefix(3)) }
        }
        play.origin.down()
        let rescued = try play.get("/a", [("X-Form", "1")])
        #expect(rescued.status == 200 && rescued.text == Self.good)
    }

    @Test("store: any: a JSON 404 is remembered as gone beside the stored response")
    func storeAnyGone() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] }) { $0.policy.keepsAny = true }
        _ = try play.get("/a")
        play.origin.react { _ in [.json("{}", status: "404 Not Found", [Self.fresh])] }
        #expect(try play.get("/a").status == 404)
        #expect(try play.metric("cistern_gone_total{event=\"remembered\"}") == 1)
        play.origin.down()
        #expect(try play.get("/a")["Cache-Status"]?.hasSuffix("/gone") == true)
    }

    @Test("store: any: an HTML page does not replace a stored image", arguments: ["max-age=60", "no-cache"])
    func picture(_ control: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.answer("png", type: "image/png")] }) { $0.policy.keepsAny = true }
        _ = try play.get("/a.png")
        play.origin.react { _ in [.answer("<form>", type: "text/html", ["Cache-Control: \(control)"])] }
        for _ in 0..<2 { #expect(try play.get("/a.png", [("Accept", "image/*, text/html")]).text == "png") }
        play.origin.react { _ in [.answer("png 2", type: "image/png")] }
        play.time.advance(by: .seconds(3))
        #expect(try play.get("/a.png").text == "png 2")
    }

    @Test("store: any: a new 204 updates a stored 204")
    func stored204() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.send("HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n")] }) { $0.policy.keepsAny = true }
        #expect(try play.get("/a")["X"] == "1")
        play.origin.react { _ in [.send("HTTP/1.1 204 No Content\r\nX: 2\r\n\r\n")] }
        #expect(try play.get("/a")["X"] == "2")
    }

    // MARK: Several media types

    @Test("a file instead of JSON is passed on while it arrives, and the JSON is kept")
    func file() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        _ = try play.get("/a")
        play.origin.react { _ in [.answer("%PDF", type: "application/pdf")] }
        for _ in 0..<2 {
            let response = try play.get("/a")
            #expect(response.text == "%PDF" && response["Cache-Status"]?.contains("fwd=stale") == true, "\(response)")
        }
        play.origin.down()
        #expect(try play.get("/a").text == Self.good)
    }

    @Test("JSON as an attachment replaces stored JSON, and invalid JSON leads to a rescue")
    func attachment() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}", ["Content-Disposition: attachment"])] })
        _ = try play.get("/a")
        play.origin.react { _ in [.json("{\"id\":2}", ["Content-Disposition: attachment"])] }
        #expect(try play.get("/a").text == "{\"id\":2}")
        play.origin.react { _ in [.json("{\"id\":", ["Content-Disposition: attachment"])] }
        #expect(try play.get("/a").text == "{\"id\":2}")
        play.origin.down()
        #expect(try play.get("/a").text == "{\"id\":2}")
    }

    @Test("a media type requested by name is passed on, and the stored response is kept", arguments: [true, false])
    func forms(keepsAny: Bool) throws {
        let play = try ProxyPlay(
            ScriptedOrigin { request in
                request["Accept"] == "text/csv" ? [.answer("id\n1", type: "text/csv")] : [.json(Self.good)]
            }
        ) { $0.policy.keepsAny = keepsAny }
        let json = [("Accept", "application/json")]
        for target in ["/f/1", "/f/2"] { #expect(try play.get(target, json).text == Self.good) }
        play.time.advance(by: .seconds(20))
        for _ in 0..<6 { #expect(try play.get("/f/1", [("Accept", "text/csv")]).text == "id\n1") }
        #expect(try openScopes(play).isEmpty)
        play.origin.down()
        #expect(try play.get("/f/1", json).text == Self.good)
    }

    @Test("invalid responses on many paths do not affect a valid path")
    func junk() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        for number in 0..<10 { _ = try play.get("/f/\(number)") }
        play.origin.react { request in
            request.target == "/f/0" ? [.json("{\"id\":2}")] : [.answer("<p>", type: "text/html")]
        }
        play.time.advance(by: .seconds(20))
        for number in 1..<10 {
            #expect(try play.get("/f/0").text == "{\"id\":2}")
            for _ in 0..<5 { #expect(try play.get("/f/\(number)").text == Self.good) }
        }
        #expect(try openScopes(play) == ["key"])
        #expect(try play.get("/f/0").text == "{\"id\":2}")
    }

    // MARK: Redirects

    @Test("a redirect to the result of a finished job is passed on")
    func job() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("\"pending\"")] })
        _ = try play.get("/jobs/1")
        let done = moved("303 See Other", "/results/1")
        play.origin.react { _ in [done] }
        let response = try play.get("/jobs/1")
        #expect(response.status == 303 && response["Location"] == "/results/1")
        #expect(try play.metric("cistern_requests_total{result=\"rescued\",method=\"GET\",status_class=\"2xx\"}") == 0)
        play.origin.down()
        #expect(try play.get("/jobs/1").text == "\"pending\"")
    }

    @Test("a redirect that persists for thirty windows is accepted as intended")
    func lasting() throws {
        let status = "302 Found"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        let other = moved(status, "https://login.test/")
        let outcome = { try play.get("/a").status }
        #expect(try outcome() == 200)
        for isAnew in [false, true] {
            play.origin.react { _ in [other] }
            for step in [100, 100, 99, 1] {
                #expect(try outcome() == 200)
                play.time.advance(by: .seconds(step))
            }
            for _ in 0..<3 { #expect("\(try outcome())" == status.prefix(3)) }
            play.origin.down()
            #expect(try outcome() == 200)
            guard !isAnew else { break }
            play.origin.up()
            play.origin.react { _ in [.json(Self.good)] }
            play.time.advance(by: .seconds(60))
            var attempts = 0
            while try play.get("/a")["Cache-Status"]?.contains("stored") != true, attempts < 100 { attempts += 1 }
        }
    }

    @Test("a redirect seen before and after an outage is not accepted as intended", arguments: [nil, "503 Service Unavailable", "200 OK"])
    func outage(status: String?) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        let other = moved("302 Found", "https://login.test/")
        #expect(try play.get("/a").status == 200)
        for isFailing in [false, false, true, false, false] {
            let step = isFailing && status != nil ? OriginStep.answer("<p>", type: "text/html", status: status ?? "") : other
            play.origin.react { _ in [step] }
            #expect(try play.get("/a").status == 200)
            play.time.advance(by: .seconds(60))
        }
        #expect(try play.get("/a").status == (status == nil ? 302 : 200))
    }

    // MARK: Changed content

    @Test(
        "other content that persists for thirty windows is accepted as intended while other targets have good responses",
        arguments: [.json("{\"a\":NaN}"), .json(""), .answer("a,b", type: "text/csv"), .answer("<p>", type: "text/html")] as [OriginStep],
        [true, false])
    func lastingContent(_ step: OriginStep, areOthersGood: Bool) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        let isGood = { (target: String) in try play.get(target).text == Self.good }
        for target in ["/a", "/b"] { #expect(try isGood(target)) }
        play.time.advance(by: .seconds(20))
        play.origin.react { [$0.target == "/a" || !areOthersGood ? step : .json(Self.good)] }
        for _ in 0..<30 {
            #expect(try isGood("/b") && isGood("/a"))
            play.time.advance(by: .seconds(10))
        }
        #expect(try isGood("/b"))
        for _ in 0..<3 { #expect(try isGood("/a") == !areOthersGood) }
        // During an outage of the whole upstream, the stored response is served again.
        play.origin.react { _ in [step] }
        play.time.advance(by: .seconds(20))
        for _ in 0..<2 { #expect(try isGood("/a")) }
        play.origin.down()
        #expect(try isGood("/a"))
    }

    @Test("a failure or a good response begins a new period of other content", arguments: ["503 Service Unavailable", "200 OK"])
    func interrupted(status: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.good)] })
        for target in ["/a", "/b"] { _ = try play.get(target) }
        for step in 0..<40 {
            let isInterrupted = step == 20
            play.origin.react { request in
                guard request.target == "/a" else { return [.json(Self.good)] }
                return [isInterrupted ? .json(Self.good, status: status) : .answer("<p>", type: "text/html")]
            }
            #expect(try play.get("/b").status == 200 && play.get("/a").text == Self.good)
            play.time.advance(by: .seconds(10))
        }
    }
}
