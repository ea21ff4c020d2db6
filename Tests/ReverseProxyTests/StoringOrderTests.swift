// Fetches for one key that overlap: whichever ends last, what was asked for later is what stays stored.

import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("The order of overlapping fetches")
struct StoringOrderTests {
    /// The first request's response waits; the second one's is stored meanwhile.
    private func overlap(first: OriginStep, second: OriginStep, _ fields: [(String, String)] = []) throws -> (ProxyPlay, TestAnswer) {
        let gate = Gate()
        let number = Counter()
        let origin = ScriptedOrigin { _ in
            switch number.next() {
            case 1: [.json("0", ["ETag: \"0\"", "Cache-Control: no-cache"])]
            case 2: [.pass(gate), first]
            default: [second]
            }
        }
        let play = try ProxyPlay(origin) { $0.collapses = false }
        _ = try play.get("/a")
        play.time.advance(by: .seconds(1))
        let slow = try play.client()
        slow.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        play.time.advance(by: .milliseconds(10))
        #expect(try play.get("/a").text == "2")
        play.time.advance(by: .milliseconds(10))
        gate.open()
        return (play, try #require(slow.readAnswer()))
    }

    private static let newer = OriginStep.json("2", ["ETag: \"2\"", "Cache-Control: max-age=60"])

    @Test("a slow older response goes to its own client and does not replace the newer one")
    func olderResponse() throws {
        let (play, slow) = try overlap(first: .json("1", ["Cache-Control: max-age=60"]), second: Self.newer)
        #expect(slow.text == "1")
        #expect(slow["Cache-Status"]?.contains("stored") == false)
        let hit = try play.get("/a")
        #expect(hit.text == "2" && hit["Cache-Status"]?.hasPrefix("cistern; hit") == true)
    }

    @Test("a slow older response that varies does not take the newer one's place")
    func olderVariant() throws {
        let (play, _) = try overlap(first: .json("1", ["Cache-Control: max-age=60", "Vary: Accept"]), second: Self.newer)
        #expect(try play.get("/a").text == "2")
    }

    @Test("a late 304 does not bring older content back over a newer response")
    func olderConfirmation() throws {
        let (play, slow) = try overlap(
            first: .send("HTTP/1.1 304 Not Modified\r\nETag: \"0\"\r\nCache-Control: max-age=60\r\n\r\n"), second: Self.newer)
        #expect(slow.text == "0")
        #expect(try play.get("/a").text == "2")
    }
}
