// Plays of Cistern-Stale: every stale or rescued response has the field with its current age, and no other response has it.

import CachePolicy
import Forwarding
import ReverseProxy
import TestSupport
import Testing
import Upstream

@Suite("Stale responses say so in Cistern-Stale", .play, .clientProtocols)
struct StaleFieldPlays {
    private static let app = [("Origin", "https://app.test")]

    private func origin(_ control: String, _ more: [String] = []) -> ScriptedOrigin {
        ScriptedOrigin { request in
            let fields = ["Cache-Control: \(control)", "ETag: \"a\""] + more
            guard request["If-None-Match"] != nil else { return [.json("{\"id\":1}", fields)] }
            return [.send((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")]
        }
    }

    /// Requests a stored response several times at several ages, so that the memo of repeated hits is used.
    private func expect(_ reason: String?, _ play: ProxyPlay, _ fields: [(String, String)] = []) throws {
        if play.origin.requests.isEmpty { _ = try play.get("/a", fields) }
        for second in 0..<4 {
            if second > 0 { play.time.advance(by: .seconds(1)) }
            for _ in 0..<4 {
                let response = try play.get("/a", fields)
                let age = try #require(response["Age"])
                #expect(response["Cistern-Stale"] == reason.map { "\(age); reason=\($0)" })
            }
        }
    }

    @Test("a rescue has its age and cause, for GET, HEAD, a precondition and a range; a good response has none", .upstreams)
    func rescued() throws {
        let play = try ProxyPlay(origin("no-cache"))
        for _ in 0..<2 { #expect(try play.get("/a")["Cistern-Stale"] == nil) }
        play.time.advance(by: .seconds(100))
        play.origin.react { _ in [.json("{}", status: "503 Service Unavailable")] }
        let requests: [(method: String, fields: [(String, String)], status: Int)] = [
            ("GET", [], 200), ("HEAD", [], 200), ("GET", [("If-None-Match", "\"a\"")], 304), ("GET", [("Range", "bytes=0-1")], 206),
        ]
        for (method, fields, status) in requests {
            let response = try play.request(method, "/a", fields)
            let value = response["Cistern-Stale"] ?? ""
            // A request that the failure memory stops is not sent.
            let isExpected = ["100; reason=server_error", "100; reason=key_failing"].contains(value)
            #expect(response.status == status && isExpected, "\(method) \(fields) \(value)")
        }
        play.time.advance(by: .seconds(12))
        play.origin.down()
        #expect(try play.get("/a")["Cistern-Stale"]?.hasPrefix("112; reason=") == true)
        #expect(try play.get("/other")["Cistern-Stale"] == nil)
    }

    @Test("repeated rescues have the current age and cause")
    func notFrozen() throws {
        let play = try ProxyPlay(origin("max-age=1"))
        _ = try play.get("/a")
        play.origin.down()
        play.time.advance(by: .seconds(60))
        var seen: Set<String> = []
        for second in 60..<80 {
            let value = try #require(try play.get("/a")["Cistern-Stale"])
            #expect(value.hasPrefix("\(second); reason="))
            seen.insert(String(value.split(separator: "=")[1]))
            play.time.advance(by: .seconds(1))
        }
        #expect(seen.isSuperset(of: ["connection_refused", "destination_unavailable"]))
    }

    @Test("stale-while-revalidate and max-stale are reasons; fresh hits and accepted fresh responses have no field")
    func withoutFailure() throws {
        let revalidating = try ProxyPlay(origin("max-age=60, stale-while-revalidate=600"))
        try expect(nil, revalidating)
        let gate = Gate()
        revalidating.origin.react { _ in [.pass(gate), .close] }
        revalidating.time.advance(by: .seconds(60))
        try expect("stale_while_revalidate", revalidating)
        gate.open()

        let accepting = try ProxyPlay(origin("max-age=60"))
        let accepts = [("Cache-Control", "max-stale=600")]
        try expect(nil, accepting, accepts)
        accepting.time.advance(by: .seconds(60))
        try expect("max_stale", accepting, accepts)
        #expect(accepting.origin.requests.count == 1)
    }

    @Test("in the modes offline and replay, only stale responses have the field", arguments: ["offline", "replay"])
    func modes(_ mode: String) throws {
        let play = try ProxyPlay(origin("max-age=60"))
        _ = try play.get("/a")
        #expect(try play.admin("PUT", "/-/mode?mode=\(mode)").status == 200)
        try expect(nil, play)
        play.time.advance(by: .seconds(60))
        try expect(mode, play)
    }

    @Test("an upstream cannot forge the field, in no kind of response", .upstreams)
    func forged() throws {
        let forged = ["Cistern-Stale: 5; reason=slow", "cistern-stale: 5"]
        let play = try ProxyPlay(origin("max-age=60", forged))
        func expectNone(_ response: TestResponse) { #expect(response["Cistern-Stale"] == nil) }
        for _ in 0..<4 { expectNone(try play.get("/a")) }
        play.time.advance(by: .seconds(61))
        let confirmed = try play.get("/a")
        #expect(confirmed["Cache-Status"]?.contains("fwd-status=304") == true)
        expectNone(confirmed)
        expectNone(try play.request("POST", "/c", content: "{}"))
        play.origin.react { _ in [.json("{}", status: "404 Not Found", ["Cache-Control: no-store"] + forged)] }
        expectNone(try play.get("/b"))
        play.origin.down()
        play.time.advance(by: .seconds(61))
        let rescue = try play.get("/a").all("Cistern-Stale")
        #expect(rescue.count == 1 && rescue[0].hasPrefix("61; reason=") && rescue[0] != "61; reason=slow")
    }

    @Test("a Cistern in front passes on what the one behind it rescued, for as long as it asks that one")
    func chain() throws {
        let behind = try ProxyPlay(origin("no-cache"))
        let front = try ProxyPlay(ScriptedOrigin { _ in [.close] }) { $0.upstream = UpstreamSettings(host: "127.0.0.1", port: behind.port) }
        let isPlain = ProxyPlay.clientProtocol == .clear
        guard isPlain else { return }
        #expect(try front.get("/a")["Cistern-Stale"] == nil)
        behind.time.advance(by: .seconds(100))
        front.time.advance(by: .seconds(100))
        behind.origin.down()
        // The first one is a 304 for the stored response, the second one a response that the front has not stored.
        let confirmed = try front.get("/a")
        #expect(confirmed.all("Cache-Status").joined().contains("fwd-status=304"))
        #expect(confirmed.all("Cistern-Stale").count == 1 && confirmed["Cistern-Stale"]?.hasPrefix("100; reason=connection_") == true)
        #expect(confirmed["Age"] == "100")
        #expect(try front.request("HEAD", "/a", [("Cache-Control", "no-store")])["Cistern-Stale"]?.hasPrefix("100; reason=") == true)
        behind.stop()
        let own = try front.get("/a").all("Cistern-Stale")
        #expect(own.count == 1 && own[0].hasPrefix("100; reason="))
    }

    @Test("scripts of permitted origins may read the field, by the upstream's permission and by the operator's rules")
    func exposed() throws {
        for isByOperator in [false, true] {
            let leave = ["Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: X-Total"]
            let play = try ProxyPlay(origin("no-cache", leave)) {
                if isByOperator { $0.otherRoute.crossOrigin.origins = [Array("https://app.test".utf8)] }
            }
            #expect(try play.get("/a", Self.app).all("Access-Control-Expose-Headers") == ["X-Total"])
            play.origin.down()
            let rescue = try play.get("/a", Self.app)
            #expect(rescue["Access-Control-Allow-Origin"] == (isByOperator ? "https://app.test" : "*"))
            #expect(rescue.all("Access-Control-Expose-Headers").sorted() == ["Cistern-Stale", "X-Total"])
            let notModified = try play.get("/a", Self.app + [("If-None-Match", "\"a\"")])
            #expect(notModified.status == 304 && notModified.all("Access-Control-Expose-Headers").contains("Cistern-Stale"))
            #expect(try play.get("/a").all("Access-Control-Expose-Headers") == ["X-Total"])
        }
    }

    @Test("the setting removes the field")
    func off() throws {
        let play = try ProxyPlay(origin("no-cache")) { $0.forwarding.staleField = false }
        _ = try play.get("/a")
        play.origin.down()
        let rescue = try play.get("/a", Self.app)
        #expect(rescue.status == 200 && rescue["Cistern-Stale"] == nil && rescue["Access-Control-Expose-Headers"] == nil)
    }
}
