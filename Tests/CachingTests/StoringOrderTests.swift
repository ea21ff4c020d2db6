// Tests of concurrent fetches for one key: the fetch that was sent later wins, whichever ends first. Over real sockets.

import CachePolicy
import CacheStore
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Overlapping fetches", .play)
struct StoringOrderTests {
    private static let fresh = "Cache-Control: max-age=60"

    /// An origin that delays one request until the gate opens: the first after `count` others.
    private static func origin(
        after count: Int = 0, _ gate: Gate, late: @escaping @Sendable (OriginRequest) -> [OriginStep],
        others: @escaping @Sendable (OriginRequest, Int) -> OriginStep
    ) -> ScriptedOrigin {
        let counter = Counter()
        return ScriptedOrigin { request in
            let number = counter.next()
            return number == count + 1 ? [.pass(gate)] + late(request) : [others(request, number)]
        }
    }

    /// Returns when the origin has received the request.
    private func send(_ play: ProxyPlay, _ method: String = "GET", _ target: String = "/a", _ fields: String = "") throws -> TestClient {
        let client = try play.client()
        let before = play.origin.requests.count
        client.send("\(method) \(target) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
        #expect(play.origin.waitForRequests(before + 1))
        return client
    }

    /// Sends a request that does not join a running fetch.
    private func getAnew(_ play: ProxyPlay) throws -> TestResponse { try play.get("/a", [("Cache-Control", "no-cache")]) }

    private static func notModified(_ tag: String) -> OriginStep {
        .send("HTTP/1.1 304 Not Modified\r\nETag: \"\(tag)\"\r\n\(fresh)\r\n\r\n")
    }

    @Test("a slow older response reaches its own client and does not replace a newer one", arguments: ["", "Vary: X-A"])
    func older(vary: String) throws {
        let gate = Gate()
        let varied = [Self.fresh] + (vary.isEmpty ? [] : [vary])
        let origin = Self.origin(gate, late: { _ in [.json("1", varied)] }, others: { _, _ in .json("2", [Self.fresh]) })
        let play = try ProxyPlay(origin)
        let slow = try send(play)
        #expect(try getAnew(play).text == "2")
        // The older response has the later Date, which does not matter.
        play.time.advance(by: .seconds(3))
        gate.open()
        let own = try #require(slow.readResponse())
        #expect(own.text == "1" && own["Cache-Status"] == "cistern; fwd=uri-miss; detail=outdated")
        let hit = try play.get("/a")
        #expect(hit.text == "2" && hit["Cache-Status"]?.contains("; hit") == true)
        #expect(try play.metric("cistern_not_stored_total{reason=\"outdated\"}") == 1)
        try play.restart()
        #expect(try play.get("/a").text == "2")
        #expect(origin.requests.count == 2)
    }

    @Test("a changed Vary does not let an older response replace a newer one")
    func emptyVariant() throws {
        let gate = Gate()
        let varied = [Self.fresh, "Vary: X-A"]
        let origin = Self.origin(
            gate, late: { _ in [.json("1", varied)] }, others: { _, number in .json("\(number)", number == 2 ? [Self.fresh] : varied) })
        let play = try ProxyPlay(origin)
        let slow = try send(play, "GET", "/a", "X-A: 2\r\n")
        #expect(try getAnew(play).text == "2")
        #expect(try play.get("/a", [("X-A", "2")]).text == "2")
        #expect(try play.get("/a", [("X-A", "1"), ("Cache-Control", "no-cache")]).text == "3")
        gate.open()
        #expect(slow.readResponse()?.text == "1")
        #expect(try play.get("/a", [("X-A", "2")]).text == "4")
        #expect(try play.get("/a", [("X-A", "1")]).text == "3")
    }

    @Test("a response requested after the stored one arrived replaces it, whatever its Date")
    func dates() throws {
        let counter = Counter()
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                counter.next() == 1
                    ? [.json("1", ["Date: Sun, 06 Nov 2044 08:49:37 GMT"])]
                    : [.json("2", [Self.fresh, "Date: Sun, 06 Nov 1994 08:49:37 GMT"])]
            })
        _ = try play.get("/a")
        #expect(try play.get("/a").text == "2")
        play.origin.down()
        #expect(try play.get("/a").text == "2")
    }

    @Test("a late 304 neither restores a replaced response nor freshens its replacement")
    func confirmation() throws {
        let gate = Gate()
        let origin = Self.origin(
            after: 1, gate, late: { _ in [Self.notModified("a")] },
            others: { _, number in .json("\(number)", ["Cache-Control: max-age=10", "ETag: \"\(number == 1 ? "a" : "b")\""]) })
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        play.time.advance(by: .seconds(20))
        let slow = try send(play)
        #expect(try getAnew(play).text == "3")
        gate.open()
        #expect(slow.readResponse()?.text == "1")
        let hit = try play.get("/a")
        #expect(hit.text == "3" && hit["Cache-Status"] == "cistern; hit; ttl=10")
    }

    @Test("after a 304 for a response other than the stored one, the next request is forwarded")
    func contradiction() throws {
        let gate = Gate()
        let counter = Counter()
        let later = Gate()
        let origin = ScriptedOrigin { _ in
            switch counter.next() {
            case 1: [.json("1", ["Cache-Control: max-age=10", "ETag: \"a\""])]
            case 2: [.pass(gate), .json("2", [Self.fresh, "ETag: \"b\""])]
            case 3: [.pass(later), Self.notModified("a")]
            default: [.json("4", [Self.fresh])]
            }
        }
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        play.time.advance(by: .seconds(20))
        let first = try send(play)
        let second = try send(play, "GET", "/a", "Cache-Control: no-cache\r\n")
        gate.open()
        #expect(first.readResponse()?.text == "2")
        later.open()
        #expect(second.readResponse()?.text == "1")
        #expect(try play.get("/a").text == "4")
        #expect(origin.requests.last?["If-None-Match"] == "\"b\"")
    }

    @Test("a late HEAD response does not invalidate a newer stored response")
    func head() throws {
        let gate = Gate()
        let origin = Self.origin(
            after: 1, gate, late: { _ in [.send("HTTP/1.1 200 OK\r\nETag: \"c\"\r\nContent-Length: 1\r\n\r\n")] },
            others: { _, number in .json("\(number)", [Self.fresh, "ETag: \"\(number)\""]) })
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        play.time.advance(by: .seconds(70))
        let slow = try send(play, "HEAD")
        #expect(try getAnew(play).text == "3")
        gate.open()
        #expect(slow.readResponse(toHead: true)?.status == 200)
        #expect(try play.get("/a")["Cache-Status"] == "cistern; hit; ttl=60")
    }

    @Test("followers of an outdated response receive the newer one")
    func followers() throws {
        let gate = Gate()
        let origin = Self.origin(gate, late: { _ in [.json("1", [Self.fresh])] }, others: { _, number in .json("\(number)", [Self.fresh]) })
        let play = try ProxyPlay(origin)
        let leader = try send(play)
        let follower = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        #expect(try getAnew(play).text == "2")
        gate.open()
        #expect(leader.readResponse()?.text == "1")
        #expect(follower.readResponse()?.text == "2")
        #expect(origin.requests.count == 2)
    }

    @Test("a follower that must validate sends its own request after a newer response was stored")
    func laterFollower() throws {
        let gate = Gate()
        let origin = Self.origin(gate, late: { _ in [.json("1")] }, others: { _, number in .json("\(number)") })
        let play = try ProxyPlay(origin)
        let leader = try send(play)
        #expect(try getAnew(play).text == "2")
        let follower = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        gate.open()
        #expect(leader.readResponse()?.text == "1")
        #expect(follower.readResponse()?.text == "3")
    }

    @Test("a rescue serves the current stored response, not the one found when the request arrived")
    func rescue() throws {
        let gate = Gate()
        let origin = Self.origin(
            after: 1, gate, late: { _ in [.send("HTTP/1.1 200 OK\r\nContent-"), .close] }, others: { _, number in .json("\(number)") })
        let play = try ProxyPlay(origin)
        _ = try play.get("/a")
        let slow = try send(play)
        #expect(try getAnew(play).text == "3")
        gate.open()
        #expect(slow.readResponse()?.text == "3")
    }

    @Test("with No-Vary-Search an older response does not hide a newer one under another key")
    func searchVariance() throws {
        let varied = [Self.fresh, "No-Vary-Search: params=(\"x\")"]
        for isLateVaried in [true, false] {
            let gate = Gate()
            let origin = ScriptedOrigin { request in
                let isLate = request.target == "/a?x=1" && request["Cache-Control"] == nil
                let isVaried = isLate == isLateVaried
                return (isLate ? [.pass(gate)] : []) + [.json(isLate ? "\"old\"" : "\"new\"", isVaried ? varied : [Self.fresh])]
            }
            let play = try ProxyPlay(origin)
            let slow = try send(play, "GET", "/a?x=1")
            #expect(try play.get("/a?x=1", [("Cache-Control", "no-cache")]).text == "\"new\"")
            gate.open()
            #expect(slow.readResponse()?.text == "\"old\"")
            #expect(try play.get("/a?x=1", [("Accept", "*/*")]).text == "\"new\"")
            #expect(origin.requests.count == 2)
        }
    }

    @Test(
        "recency decides which of two responses is outdated",
        arguments: [
            // Order, request time, response time, whether archived: of the stored response, then of the new one.
            ((5, 0, 9, false), (6, 0, 0, false), false), ((6, 0, 0, false), (5, 0, 9, false), true),
            ((5, 0, 0, false), (5, 0, 0, false), false),
            // A response of another process.
            ((1 << 40, 50, 60, false), (5, 0, 1, false), false), ((0, 50, 60, false), (5, 0, 1, false), false),
            // The new or the stored response is archived.
            ((5, 10, 20, false), (9, 11, 21, true), false), ((5, 10, 20, false), (9, 11, 20, true), true),
            ((5, 10, 20, false), (9, 10, 30, true), true), ((9, 11, 12, true), (5, 10, 20, false), true),
            ((9, 9, 12, true), (5, 10, 20, false), false), ((9, 11, 12, true), (10, 10, 20, false), false),
            // An archived response that is imported again.
            ((9, 11, 12, true), (9, 11, 12, true), false),
        ] as [((UInt64, Int64, Int64, Bool), (UInt64, Int64, Int64, Bool), Bool)])
    func recency(stored: (UInt64, Int64, Int64, Bool), new: (UInt64, Int64, Int64, Bool), isOutdated: Bool) {
        func recency(_ parts: (UInt64, Int64, Int64, Bool)) -> Recency {
            Recency(
                order: SentOrder(number: parts.0), isImported: parts.3, requestTime: Timestamp(seconds: parts.1),
                responseTime: Timestamp(seconds: parts.2))
        }
        #expect(recency(new).isOutdated(by: recency(stored)) == isOutdated)
    }
}
