// Tests how background fetches are limited per path family and per client. Without a free slot, a stale response is validated before it is
// served.

import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Limits on background fetches per path family and client", .play, .http1Protocols)
struct BackgroundSharesTests {
    private static let fields = ["Cache-Control: max-age=1, stale-while-revalidate=600"]

    /// Leaves every request without a response, except under `/well`.
    private static let failing: ScriptedOrigin.Script = { request in
        request.target.hasPrefix("/well") ? [.json("2", fields)] : [.hang]
    }

    private func play(_ targets: [String], _ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1", Self.fields)] }) { settings in
            settings.background.limit = 8
            configure(&settings)
        }
        for target in targets { #expect(try play.get(target).text == "1") }
        play.time.advance(by: .seconds(2))
        play.origin.react(Self.failing)
        return play
    }

    /// Sends a request that gets no background slot, so the client waits for the validation.
    private func validated(_ target: String, _ play: ProxyPlay) throws -> TestClient {
        let (client, before) = (try play.client(), play.origin.requests.count)
        client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(play.origin.waitForRequests(before + 1))
        return client
    }

    /// A client with its own address.
    private func client(_ number: Int, _ play: ProxyPlay) throws -> TestClient {
        let client = try TestClient(port: play.port, from: "127.0.0.\(number)")
        if ProxyPlay.clientProtocol.isSecured { try client.secure() }
        return client
    }

    private static let running = "cistern_background_fetches"

    @Test("hanging fetches of one path family use at most half of the slots; another path is still refreshed in the background")
    func family() throws {
        let slow = (0..<20).map { "/slow/\($0)" }
        let play = try play(slow + ["/well/a"])
        for target in slow.prefix(4) { #expect(try play.get(target).text == "1") }
        let waiting = try validated(slow[4], play)
        #expect(try play.metric(Self.running) == 4)
        let other = try client(9, play)
        #expect(other.get("/well/a")?.text == "1")
        #expect(try play.waitFor(Self.running, 4))
        #expect(other.get("/well/a")?.text == "2")
        play.time.advance(by: .seconds(2))
        #expect(waiting.readResponse()?.text == "1")
    }

    @Test("background fetches for one client use at most half of the slots")
    func client() throws {
        let slow = (0..<20).map { "/slow\($0)/a" }
        let play = try play(slow + ["/well/a"])
        for target in slow.prefix(4) { #expect(try play.get(target).text == "1") }
        let waiting = try validated(slow[4], play)
        #expect(try play.metric(Self.running) == 4)
        let other = try client(9, play)
        #expect(other.get("/well/a")?.text == "1")
        #expect(try play.waitFor(Self.running, 4))
        #expect(other.get("/well/a")?.text == "2")
        play.time.advance(by: .seconds(2))
        #expect(waiting.readResponse()?.text == "1")
    }

    @Test("without a free slot a stale response is validated first, within the soft deadline")
    func foreground() throws {
        let slow = (0..<20).map { "/slow\($0)/a" }
        let play = try play(slow + ["/well/a"])
        for (number, target) in slow.prefix(8).enumerated() {
            let own = try client(number + 10, play)
            #expect(own.get(target)?.text == "1")
        }
        #expect(try play.metric(Self.running) == 8)
        let response = try play.get("/well/a")
        #expect(response.text == "2" && response["Cache-Status"]?.contains("fwd=stale") == true)
        let hanging = try validated("/slow9/a", play)
        play.time.advance(by: .seconds(3))
        #expect(hanging.readResponse()?.text == "1")
    }

    @Test("without a soft deadline a stale response is served although no background fetch can start")
    func strict() throws {
        let play = try play(["/slow/a", "/slow/b"]) { settings in
            settings.background.limit = 1
            settings.otherRoute.rescueAfter = 0
        }
        #expect(try play.get("/slow/a").text == "1")
        #expect(try play.get("/slow/b").text == "1")
        #expect(try play.metric("cistern_background_fetches_skipped_total") == 1)
    }
}
