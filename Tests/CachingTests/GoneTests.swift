// Tests of resources that were removed: in an outage, the last definite response counts. Also tests the age of confirmed responses.

import Addresses
import CachePolicy
import Downstream
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@Suite("Resources reported as gone", .play, .clientProtocols)
struct GoneTests {
    private static let notFound = OriginStep.json("{\"error\":\"none\"}", status: "404 Not Found")

    private func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [.json("{\"id\":1}", ["ETag: \"a\""])] }, configure)
    }

    private func count(_ event: String, _ play: ProxyPlay) throws -> Double? { try play.metric("cistern_gone_total{event=\"\(event)\"}") }

    @Test(
        "after a JSON 404 an outage serves the 404, also after a restart, until a 200 or 304", arguments: ["200 OK", "304 Not Modified"])
    func remembered(_ status: String) throws {
        let play = try play()
        let origin = play.origin
        #expect(try play.get("/users/1").status == 200)
        origin.react { _ in [Self.notFound] }
        #expect(try play.get("/users/1").status == 404)
        #expect(try count("remembered", play) == 1)
        origin.down()
        play.time.advance(by: .seconds(3))
        let answer = try play.get("/users/1", [("If-None-Match", "\"a\""), ("Range", "bytes=0-1")])
        #expect(answer.status == 404 && answer.text == "{\"error\":\"none\"}")
        #expect(answer["Age"] == "3")
        #expect(answer["Cache-Status"] == "cistern; hit; ttl=-3; detail=connection_refused/gone")
        #expect(try count("served", play) == 1)
        let why = String(decoding: try play.admin("GET", "/-/why?path=/users/1&last=1").content, as: UTF8.self)
        #expect(why.contains("that it is gone") && why.contains("cache.gone"))
        try play.restart()
        #expect(try play.get("/users/1").status == 404)

        origin.up()
        origin.react { _ in
            [status.hasPrefix("304") ? .send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n") : .json("{\"id\":1}", ["ETag: \"a\""])]
        }
        play.time.advance(by: .seconds(60))
        var attempts = 0
        while try play.get("/users/1").status != 200, attempts < 100 { attempts += 1 }
        origin.down()
        #expect(try play.get("/users/1").text == "{\"id\":1}")
        try play.restart()
        #expect(try play.get("/users/1").text == "{\"id\":1}")
    }

    @Test(
        "a 404 that an intermediary may have sent is not remembered as gone",
        arguments: [
            [.answer("<html>404</html>", type: "text/html", status: "404 Not Found")],
            [.answer("not found", type: "text/plain", status: "404 Not Found")],
            [.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")],
            [.json("", status: "404 Not Found")], [.json("{\"error\":", status: "404 Not Found")],
            [.json("{}", status: "404 Not Found", ["Cache-Control: no-store"])],
            [.json("{}", status: "404 Not Found", ["Cache-Control: private"])],
            [.send("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{}"), .close],
            [.json("{}", status: "403 Forbidden")],
        ] as [[OriginStep]])
    func unreliableNotFound(_ steps: [OriginStep]) throws {
        let play = try play()
        #expect(try play.get("/a").status == 200)
        play.origin.react { _ in steps }
        _ = try play.get("/a")
        play.origin.down()
        #expect(try play.get("/a").text == "{\"id\":1}")
        #expect(try count("remembered", play) == 0)
    }

    @Test("a 410 is remembered as gone, whatever its content", arguments: ["", "<html>"])
    func gone(_ content: String) throws {
        let play = try play()
        #expect(try play.get("/a").status == 200)
        play.origin.react { _ in [.answer(content, type: "text/html", status: "410 Gone")] }
        #expect(try play.get("/a").status == 410)
        play.origin.down()
        let answer = try play.get("/a")
        #expect(answer.status == 410 && answer.text == content && answer["Content-Type"] == "text/html")
    }

    @Test("any number of resources can be remembered as gone at once", .slow)
    func many() throws {
        let play = try play()
        let targets = (0..<1_100).map { "/\($0)" }
        for target in targets { #expect(try play.get(target).status == 200) }
        play.origin.react { _ in [.json("{}", status: "410 Gone")] }
        for target in targets { #expect(try play.get(target).status == 410) }
        play.origin.down()
        #expect(try play.get("/0").status == 410)
        #expect(try play.get("/1099").status == 410)
    }

    @Test("a 404 to HEAD has no content, so it is not remembered as gone")
    func head() throws {
        let play = try play()
        #expect(try play.get("/a").status == 200)
        play.origin.react { _ in [.send("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n")] }
        #expect(try play.request("HEAD", "/a").status == 404)
        play.origin.down()
        #expect(try play.get("/a").status == 200)
    }

    @Test("a gone record applies only to its partition and variant")
    func partitionsAndVariants() throws {
        let origin = ScriptedOrigin { request in
            [.json("{\"for\":\"\(request["Accept-Language"] ?? "")\(request["Authorization"] ?? "")\"}", ["Vary: Accept-Language"])]
        }
        let play = try ProxyPlay(origin)
        let requests = [("en", "a"), ("de", "a"), ("en", "b")].map { [("Accept-Language", $0.0), ("Authorization", $0.1)] }
        for fields in requests { #expect(try play.get("/x", fields).status == 200) }
        origin.react { _ in [Self.notFound] }
        #expect(try play.get("/x", requests[0]).status == 404)
        origin.down()
        #expect(try requests.map { try play.get("/x", $0).status } == [404, 200, 200])
    }

    @Test("a hard purge removes the stored response and its gone record; a soft purge keeps both", arguments: [false, true])
    func purged(_ isSoft: Bool) throws {
        let play = try play()
        #expect(try play.get("/a").status == 200)
        play.origin.react { _ in [Self.notFound] }
        #expect(try play.get("/a").status == 404)
        #expect(try play.admin("POST", "/-/purge?target=/a\(isSoft ? "&soft=true" : "")").status == 200)
        play.origin.down()
        #expect(try play.get("/a").status == (isSoft ? 404 : 502))
    }

    @Test("remembering gone resources can be disabled")
    func ignored() throws {
        let play = try play { $0.remembersGone = false }
        for target in 0..<12 { #expect(try play.get("/\(target)").status == 200) }
        play.origin.react { _ in [Self.notFound] }
        for target in 0..<12 { #expect(try play.get("/\(target)").status == 404) }
        play.origin.down()
        #expect(try play.get("/0").status == 200)
    }

    @Test("when many targets return 404 at once, stored responses are served and no 404 is remembered as gone")
    func routesLost() throws {
        let play = try play()
        for target in 0..<20 { #expect(try play.get("/\(target)").status == 200) }
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [Self.notFound] }
        let statuses = try (0..<20).map { try play.get("/\($0)").status }
        #expect(statuses == Array(repeating: 404, count: 9) + Array(repeating: 200, count: 11))
        #expect(try play.get("/0").status == 200)
        #expect(try play.metric("cistern_rescued_requests_total{cause=\"crowd\"}") == 12)
        #expect(try count("lifted", play) == 9 && count("disbelieved", play) == 12)
        // A target without a stored response is not affected.
        #expect(try play.get("/new").status == 404)
        play.origin.down()
        for target in 0..<20 { #expect(try play.get("/\(target)").status == 200) }
    }

    @Test("deletions by one client do not discredit another client's 404")
    func oneClient() throws {
        let trusted = try NetworkList.local()
        let play = try play { $0.downstream.trustedProxies = trusted }
        let mallory = [("Authorization", "mallory"), ("X-Forwarded-For", "192.0.2.1")]
        for target in 0..<20 {
            #expect(try play.get("/\(target)").status == 200)
            #expect(try play.get("/\(target)", mallory).status == 200)
        }
        play.time.advance(by: .seconds(60))
        play.origin.react { request in request["Authorization"] != nil || request.target == "/3" ? [Self.notFound] : [.json("1")] }
        for target in 4..<6 { _ = try play.get("/\(target)") }
        for target in 0..<20 { #expect(try play.get("/\(target)", mallory).status == 404) }
        #expect(try play.get("/3").status == 404)
        play.origin.down()
        #expect(try play.get("/3").status == 404)
        #expect(try play.get("/4").status == 200)
    }

    @Test("in strict mode every 404 is passed on, however many there are")
    func strict() throws {
        let play = try play { $0.policy.strictness = .strict }
        for target in 0..<12 { #expect(try play.get("/\(target)").status == 200) }
        play.time.advance(by: .seconds(60))
        play.origin.react { _ in [Self.notFound] }
        for target in 0..<12 { #expect(try play.get("/\(target)").status == 404) }
    }
}

@Suite("The age of confirmed responses (RFC 9111 §4.2.3)", .play, .clientProtocols)
struct ConfirmedAgeTests {
    @Test("a confirmation that was not written to disk still sets the age for every client", arguments: [true, false])
    func confirmed(_ isFlushed: Bool) throws {
        let time = Mutex(Int64(0))
        let origin = ScriptedOrigin { request in
            let date = "Date: " + String(decoding: HTTPDate.format(time.withLock { $0 }), as: UTF8.self)
            if request["If-None-Match"] != nil { return [.send("HTTP/1.1 304 Not Modified\r\n\(date)\r\nETag: \"a\"\r\n\r\n")] }
            return [.json("{\"id\":1}", ["ETag: \"a\"", date])]
        }
        let play = try ProxyPlay(origin)
        func pass(_ seconds: Int64) {
            if seconds > 0 { play.time.advance(by: .seconds(seconds)) }
            time.withLock { $0 = play.time.wallMilliseconds / 1000 }
        }
        pass(0)
        #expect(try play.get("/a").status == 200)
        if isFlushed { play.flushStore() }
        pass(8)
        let confirmedAt = String(decoding: HTTPDate.format(time.withLock { $0 }), as: UTF8.self)
        #expect(try play.get("/a")["Age"] == "0")
        origin.down()
        pass(1)
        for method in ["GET", "HEAD"] {
            let answer = try play.request(method, "/a")
            #expect(answer.status == 200 && answer["Age"] == "1" && answer["Date"] == confirmedAt)
        }
        let notModified = try play.get("/a", [("If-None-Match", "\"a\"")])
        #expect(notModified.status == 304 && notModified["Age"] == "1" && notModified["Date"] == confirmedAt)
        let listed = JSONValue(try play.admin("GET", "/-/entries").content)?["entries"]?.array?.first
        #expect(listed?["age"]?.integer == 1)
        try play.restart()
        #expect(try play.get("/a")["Age"] == "1")
    }

    @Test("confirmations do not rewrite the response, and survive a stop", arguments: ["", "ETag: \"a\""])
    func written(_ validator: String) throws {
        let origin = ScriptedOrigin { request in
            request["If-None-Match"] == nil
                ? [.json("{\"id\":1}", [validator].filter { !$0.isEmpty })] : [.send("HTTP/1.1 304 Not Modified\r\n\(validator)\r\n\r\n")]
        }
        let play = try ProxyPlay(origin)
        for _ in 0..<40 {
            #expect(try play.get("/a")["Age"].map { $0 == "0" } ?? true)
            play.flushStore()
            play.time.advance(by: .seconds(20))
        }
        #expect(try play.metric("cistern_store_removals_total{cause=\"replaced\"}") == 0)
        #expect(try play.metric("cistern_store_confirmations_pending") == 1)
        #expect(try play.metric("cistern_store_confirmations_written_total") == 0)
        origin.down()
        #expect(try play.get("/a")["Age"] == "20")
        try play.restart()
        #expect(try play.get("/a")["Age"] == "20")
        #expect(try play.metric("cistern_store_confirmations_pending") == 0)
    }
}
