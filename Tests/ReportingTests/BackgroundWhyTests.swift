// Tests that background fetches have records of their own, which explain what they did.

import Decisions
import Glibc
import JSON
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Why: background fetches", .play)
struct BackgroundWhyTests {
    /// The newest record of the target with this cause.
    private func why(_ play: ProxyPlay, _ cause: BackgroundCause) throws -> JSONValue {
        for _ in 0..<5_000 {
            let all = JSONValue(try play.admin("GET", "/-/why?path=/a").content)?["exchanges"]?.array ?? []
            if let found = all.first(where: { $0["background"]?.string == cause.rawValue }) { return found }
        }
        throw NotRemembered(cause: cause)
    }

    private struct NotRemembered: Error { let cause: BackgroundCause }

    private func sentences(_ why: JSONValue) -> [String] { why["explanation"]?.array?.compactMap(\.string) ?? [] }

    @Test("a background validation is explained: stored, confirmed or unchanged")
    func staleWhileRevalidate() throws {
        let fields = ["Cache-Control: max-age=10, stale-while-revalidate=90", "ETag: \"1\""]
        func stale(_ response: OriginStep) throws -> JSONValue {
            let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", fields)] })
            _ = try play.get("/a")
            play.time.advance(by: .seconds(15))
            play.origin.react { _ in [response] }
            _ = try play.get("/a")
            return try why(play, .staleWhileRevalidate)
        }
        let stored = try stale(.json("2", fields))
        #expect(stored["decision"] == "stored_response_of_upstream" && stored["stored"] == true && stored["behind"] == "0-2")
        #expect(stored["upstream"]?["status"] == 200)
        #expect(stored["freshness"] == ["lifetime": 10, "age": 15, "left": -5, "lifetime_source": "response"])
        let confirmed = try stale(.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"))
        #expect(confirmed["decision"] == "confirmed_stored_copy" && confirmed["status"] == 304)
        let junk = try stale(.answer("<p>", type: "text/html"))
        #expect(junk["decision"] == "left_store_as_it_was" && junk["upstream"]?["error"] == "unexpected_type")
        #expect(sentences(junk).first?.contains("in the background") == true && sentences(junk).last == "The stored response was kept.")
    }

    @Test("a refresh ahead of staleness is explained")
    func refreshAhead() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: max-age=100"])] }) {
            $0.otherRoute.refreshAhead = 20
            $0.otherRoute.refreshAheadHits = 1
        }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(90))
        _ = try play.get("/a")
        let why = try why(play, .refreshAhead)
        #expect(why["behind"] == "0-2" && why["reason"] == "refresh_ahead" && why["stored"] == true)
        #expect(try play.admin("GET", "/-/why/\(why["id"]?.string ?? "")").status == 200)
    }

    @Test("a response after the soft deadline is explained")
    func slow() throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", ["Cache-Control: no-cache"])] })
        _ = try play.get("/a")
        play.origin.react { _ in [.pass(gate), .json("2", ["Cache-Control: no-cache"])] }
        let client = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        play.time.advance(by: .seconds(2))
        #expect(client.readResponse()?.text == "1")
        gate.open()
        let why = try why(play, .slow)
        #expect(why["behind"] == "0-2" && why["stored"] == true && why["upstream"]?["error"] == .null)
    }

    @Test("a response after its client disconnected is explained")
    func clientLeft() throws {
        let gate = Gate()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.pass(gate), .json("1")] })
        var client: TestClient? = try play.client()
        client?.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        // Closing sends a reset. A FIN alone could come from a client that still reads.
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(client?.descriptor ?? -1, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        client = nil
        #expect(try play.waitFor("cistern_requests_total{result=\"error\",method=\"GET\",status_class=\"4xx\"}", 1))
        gate.open()
        let why = try why(play, .clientLeft)
        #expect(why["behind"] == "0-1" && why["stored"] == true && why["method"] == "GET")
    }

    @Test("a recheck of a failing path is explained")
    func recheck() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] })
        _ = try play.get("/a")
        play.origin.react { _ in [.json("{}", status: "503 No")] }
        for _ in 0..<2 { _ = try play.get("/a") }
        play.time.advance(by: .seconds(1))
        let why = try why(play, .recheck)
        #expect(why["status"] == 503 && why["upstream"]?["error"] == "server_error" && why["behind"] == "0-3")
        #expect(sentences(why).last == "The stored response was kept.")
    }
}
