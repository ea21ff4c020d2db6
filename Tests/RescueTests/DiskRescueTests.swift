// Tests of rescues with data that is on the disk only: records of gone resources, public responses, and cookies of the upstream. Loading
// from the disk does not change the outcome.

import CacheStore
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Outages with stored responses on disk only", .play, .clientProtocols)
struct DiskRescueTests {
    private let residency = ScriptedResidency()

    private func play(_ origin: ScriptedOrigin, _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(origin) { [residency] settings in
            settings.store?.residency = residency
            configure(&settings)
        }
    }

    private func takeAway(_ play: ProxyPlay, until gate: Gate? = nil) {
        play.flushStore()
        residency.takeAway(until: gate)
    }

    private static func goneOrigin() -> ScriptedOrigin { ScriptedOrigin { _ in [.json("{\"id\":1}", ["ETag: \"a\""])] } }

    private func rememberGone(_ play: ProxyPlay) throws {
        #expect(try play.get("/a").status == 200)
        play.origin.react { _ in [.json("{\"error\":\"none\"}", status: "404 Not Found")] }
        #expect(try play.get("/a").status == 404)
        #expect(try play.metric("cistern_gone_total{event=\"remembered\"}") == 1)
    }

    @Test("a resource remembered as gone stays gone", arguments: ["down", "500", "offline"])
    func gone(_ trouble: String) throws {
        let play = try play(Self.goneOrigin())
        try rememberGone(play)
        takeAway(play)
        switch trouble {
        case "down": play.origin.down()
        case "offline": #expect(try play.admin("PUT", "/-/mode?mode=offline").status == 200)
        default: play.origin.react { _ in [.json("{}", status: "500 Internal Server Error")] }
        }
        let response = try play.get("/a")
        #expect(response.status == 404 && response.text == "{\"error\":\"none\"}")
        #expect(residency.reads > 0)
        #expect(try play.metric("cistern_gone_total{event=\"served\"}") == 1)
    }

    @Test("a gone record on disk is also found when the soft deadline passes")
    func slow() throws {
        let play = try play(Self.goneOrigin()) { $0.otherRoute.rescueAfter = 500 }
        try rememberGone(play)
        let gate = Gate()
        play.origin.react { _ in [.pass(gate), .json("{\"id\":2}")] }
        let client = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        takeAway(play)
        play.time.advance(by: .seconds(1))
        #expect(client.readResponse()?.status == 404)
        gate.open()
    }

    @Test("the next 200 or 304 removes the gone record", arguments: [true, false])
    func lifted(_ isConfirmed: Bool) throws {
        let play = try play(Self.goneOrigin())
        try rememberGone(play)
        takeAway(play)
        play.origin.react { _ in
            [isConfirmed ? .send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n") : .json("{\"id\":1}", ["ETag: \"a\""])]
        }
        #expect(try play.get("/a").status == 200)
        #expect(try play.waitFor("cistern_gone_total{event=\"lifted\"}", 1))
        play.origin.down()
        #expect(try play.get("/a").text == "{\"id\":1}")
    }

    @Test("the response stored without credentials rescues its client, also if only on disk", arguments: ["down", "503"])
    func publicResponse(_ trouble: String) throws {
        let play = try play(cookieOrigin())
        var client = CookieClient()
        #expect(try client.request("/users", play, [("Sec-Give", "SID=1")]).status == 200)
        takeAway(play)
        #expect(try client.request("/posts", play, [("Sec-Give", "SID=2")]).status == 200)
        takeAway(play)
        if trouble == "down" { play.origin.down() } else { play.origin.react { _ in [.json("{}", status: "503 Service Unavailable")] } }
        let response = try client.request("/users", play)
        #expect(response.status == 200 && response["Cache-Status"]?.hasSuffix("/shared:own_cookies") == true)
        var other = CookieClient(cookies: ["SID": "3"])
        #expect(try other.request("/users", play).status >= 500)
    }

    @Test("other clients are served while the stored response is read before the upstream request")
    func others() throws {
        let play = try play(cookieOrigin())
        #expect(try play.get("/public/a").status == 200)
        let gate = Gate()
        takeAway(play, until: gate)
        let client = try play.client(sending: "GET /public/a HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n\r\n")
        #expect(try play.waitFor("cistern_store_disk_reads_total", 1))
        #expect(try play.get("/public/b").status == 200)
        #expect(play.origin.requests.count == 2)
        gate.open()
        #expect(client.readResponse()?.text.contains("|x") == true)
    }

    @Test("an unwritten confirmation counts once, however often the stored response leaves memory")
    func confirmedAge() throws {
        let play = try play(
            ScriptedOrigin { request in
                request["If-None-Match"] == nil
                    ? [.json("{\"id\":1}", ["ETag: \"a\""])] : [.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")]
            })
        #expect(try play.get("/a").status == 200)
        for _ in 0..<3 {
            takeAway(play)
            play.time.advance(by: .seconds(2))
            #expect(try play.get("/a")["Age"] == "0")
        }
        takeAway(play)
        play.origin.down()
        play.time.advance(by: .seconds(1))
        #expect(try play.get("/a")["Age"] == "1")
        #expect(residency.reads >= 4)
    }
}
