// Tests of HTTP/2 to the upstream: many requests on one connection, and faults of one stream or of the connection. `UpstreamClientTests`
// and `RepeatTests` run over HTTP/2 too.

import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("HTTP/2 to the upstream", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2Tests {
    private func text(_ recorder: Recorder) -> String { String(decoding: recorder.now.content, as: UTF8.self) }

    @Test("many requests share one connection, and connections started before HTTP/2 was known stay unused", arguments: Way.multiplexed)
    func shared(way: Way) {
        let gate = Gate()
        let origin = way.origin { [.pass(gate), .json("\"\($0.target)\"")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        let recorders = (0..<60).map { asking.ask($0 % 2 == 0 ? "GET" : "POST", "/\($0)") }
        #expect(origin.waitForRequests(60))
        gate.open()
        for (number, recorder) in recorders.enumerated() {
            #expect(recorder.end() == .success(true))
            #expect(text(recorder) == "\"/\(number)\"")
        }
        let counters = asking.counters
        #expect(counters[.upstreamHTTP2Streams] == 0 && asking.http2Ended[.whole] == 60)
        if way == .http2 { #expect(counters[.upstreamConnections] == 1) }
        // Later requests need no further connection.
        #expect((0..<60).map { asking.ask("GET", "/\($0)") }.allSatisfy { $0.end() == .success(true) })
        #expect(asking.counters[.upstreamConnections] == counters[.upstreamConnections])
    }

    @Test("responses to two users' requests on the same connections are never mixed up", arguments: Way.multiplexed)
    func users(way: Way) {
        let origin = way.origin { request in [.json("\"\(request["Authorization"] ?? "") \(request.target)\"")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        for round in 0..<5 {
            let asked = (0..<100).map { number in
                var request = Asking.request("GET", "/\(round)/\(number)")
                request.fields.append(.authorization, "user \(number % 2)")
                return asking.ask(request)
            }
            for (number, recorder) in asked.enumerated() {
                #expect(recorder.end() == .success(true))
                #expect(text(recorder) == "\"user \(number % 2) /\(round)/\(number)\"")
            }
        }
        #expect(asking.http2Ended == [.whole: 500])
    }

    @Test("fields that may be credentials are never added to the compression table that all users share")
    func neverIndexed() throws {
        let origin = Way.http2.origin { _ in [.json("1")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let secrets = ["authorization", "cookie", "x-api-key", "x-auth-token", "x-own"]
        var request = Asking.request("GET", "/a")
        for name in secrets + ["accept", "user-agent"] { request.fields.append(name: name, value: String(repeating: "s", count: 40)) }
        #expect(asking.ask(request).end() == .success(true))
        let seen = try #require(origin.requests.first)
        #expect(seen.neverIndexed == secrets)
    }

    @Test("the upstream receives the same request over HTTP/2 as over HTTP/1.1", arguments: Way.allCases)
    func request(way: Way) throws {
        let origin = way.origin { _ in [.json("1")] }
        let asking = Asking(origin, way) { $0.basePath = "/base" }
        defer { asking.end() }
        var request = Asking.request("PUT", "/a?b=c", content: .length(3))
        request.fields.append(name: "X-Own", value: "Aa, \"b\"")
        request.fields.append(.cookie, "a=1; b=2")
        let recorder = asking.ask(request) { transfer in
            _ = transfer?.write(Array("abc".utf8).span)
            transfer?.endContent()
        }
        #expect(recorder.end() == .success(true))
        let seen = try #require(origin.requests.first)
        #expect(seen.line == "PUT /base/a?b=c \(way.isHTTP2 ? "HTTP/2" : "HTTP/1.1")")
        #expect(seen["Host"] == "a" && seen["X-Own"] == "Aa, \"b\"" && seen["Cookie"] == "a=1; b=2" && seen["Content-Length"] == "3")
        #expect(seen.content == Array("abc".utf8))
        if way.isHTTP2 { #expect(seen.fields.allSatisfy { $0.name == $0.name.lowercased() }) }
        let whole = asking.ask("OPTIONS", "*")
        #expect(whole.end() == .success(true))
        #expect(origin.requests.last?.target == "*")
    }

    // MARK: Invalid responses

    struct Bad: Sendable, CustomTestStringConvertible {
        let name: String
        let steps: [OriginStep]
        var error = UpstreamError.Kind.protocolError
        var method = "GET"

        var testDescription: String { name }
    }

    private static let end = OriginFrame.endStream
    private static let status = (":status", "200")
    private static func data(_ text: String, isLast: Bool = true) -> OriginStep {
        .frame(OriginFrame.data, isLast ? end : 0, Array(text.utf8))
    }

    private static let bad = [
        Bad(name: "status 99", steps: [.fields([(":status", "99")], isLast: true)]),
        Bad(name: "status 600", steps: [.fields([(":status", "600")], isLast: true)]),
        Bad(name: "status 999", steps: [.fields([(":status", "999")], isLast: true)]),
        Bad(name: "status 2x0", steps: [.fields([(":status", "2x0")], isLast: true)]),
        Bad(name: "no status", steps: [.fields([("a", "b")], isLast: true)]),
        Bad(name: "two statuses", steps: [.fields([status, status], isLast: true)]),
        Bad(name: "a status after a field", steps: [.fields([("a", "b"), status], isLast: true)]),
        Bad(name: "an unknown pseudo-field", steps: [.fields([status, (":x", "b")], isLast: true)]),
        Bad(name: "101", steps: [.fields([(":status", "101")]), .fields([status], isLast: true)]),
        Bad(name: "a 1xx response that ends the stream", steps: [.fields([(":status", "103")], isLast: true)]),
        Bad(
            name: "21 1xx responses",
            steps: [OriginStep](repeating: .fields([(":status", "103")]), count: 21) + [.fields([status], isLast: true)]),
        Bad(name: "connection", steps: [.fields([status, ("connection", "close")], isLast: true)]),
        Bad(name: "keep-alive", steps: [.fields([status, ("keep-alive", "timeout=5")], isLast: true)]),
        Bad(name: "transfer-encoding", steps: [.fields([status, ("transfer-encoding", "chunked")], isLast: true)]),
        Bad(name: "upgrade", steps: [.fields([status, ("upgrade", "h2c")], isLast: true)]),
        Bad(name: "an upper-case name", steps: [.fields([status, ("X-A", "b")], isLast: true)]),
        Bad(name: "a name with a space", steps: [.fields([status, ("x a", "b")], isLast: true)]),
        Bad(name: "an empty name", steps: [.fields([status, ("", "b")], isLast: true)]),
        Bad(name: "CR in a value", steps: [.fields([status, ("a", "b\rc")], isLast: true)]),
        Bad(name: "LF in a value", steps: [.fields([status, ("a", "b\nset-cookie: x")], isLast: true)]),
        Bad(name: "NUL in a value", steps: [.fields([status, ("a", "b\0c")], isLast: true)]),
        Bad(name: "less content than its length", steps: [.fields([status, ("content-length", "3")]), data("{}")]),
        Bad(name: "no content instead of its length", steps: [.fields([status, ("content-length", "3")], isLast: true)]),
        Bad(name: "more content than its length", steps: [.fields([status, ("content-length", "1")]), data("{}")]),
        Bad(name: "two lengths", steps: [.fields([status, ("content-length", "1"), ("content-length", "2")]), data("{}")]),
        Bad(name: "an invalid length", steps: [.fields([status, ("content-length", "+2")]), data("{}")]),
        Bad(name: "content after a 204 head", steps: [.fields([(":status", "204")]), data("{}")]),
        Bad(name: "content after a response to HEAD", steps: [.fields([status]), data("{}")], method: "HEAD"),
        Bad(name: "trailers with a status", steps: [.fields([status]), .fields([(":status", "200")], isLast: true)]),
        Bad(name: "trailers without END_STREAM", steps: [.fields([status]), .fields([("a", "b")])]),
        Bad(
            name: "too many fields", steps: [.fields([status] + (0..<1_001).map { ("a\($0)", "b") }, isLast: true)],
            error: .responseHeaderTooLarge),
        Bad(
            name: "a reset after the head", steps: [.fields([status]), .resetStream(2)], error: .responseIncomplete),
        Bad(
            name: "NO_ERROR reset after the content, without END_STREAM",
            steps: [.fields([status, ("content-length", "2")]), data("{}", isLast: false), .resetStream(0)], error: .responseIncomplete),
        Bad(name: "a reset after a 1xx response", steps: [.fields([(":status", "103")]), .resetStream(7)], error: .responseIncomplete),
    ]

    @Test("a malformed response fails only its own request, and other streams of the connection complete", arguments: bad)
    func refused(row: Bad) {
        let gate = Gate()
        let origin = Way.http2.origin { $0.target == "/bad" ? row.steps : [.pass(gate), .json("1")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let neighbour = asking.ask("GET", "/good")
        #expect(origin.waitForRequests(1))
        let bad = asking.ask(row.method, "/bad")
        let end = bad.end()
        let errors = row.name.contains("length") && row.error == .protocolError ? [row.error, .responseIncomplete] : [row.error]
        #expect(errors.contains { end == .failure($0) }, "\(String(describing: end))")
        gate.open()
        #expect(neighbour.end() == .success(true))
        #expect(asking.ask("POST", "/after").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 1)
        #expect(origin.requests.count { $0.target == "/bad" } == 1)
    }

    @Test("white space around a field value is removed, as in HTTP/1.1, and obs-text is kept")
    func values() {
        let origin = Way.http2.origin { _ in [.fields([(":status", "200"), ("a", " b\t"), ("c", "\u{e9}")]), Self.data("{}")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let recorder = asking.ask("GET", "/a")
        #expect(recorder.end() == .success(true))
        #expect(recorder.now.fields == ["a: b", "c: \u{e9}"])
    }

    // MARK: Unprocessed requests

    @Test(
        "a request refused with REFUSED_STREAM is retried once, also a write, and not after a second refusal", arguments: ["GET", "POST"])
    func refusedStreams(method: String) {
        let count = Counter()
        let origin = Way.http2.origin { request in
            let number = count.next()
            return number == 1 || request.target == "/always" ? [.resetStream(7)] : [.json("1")]
        }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask(method, "/once").end() == .success(true))
        #expect(asking.ask(method, "/always").end() == .failure(.connectionTerminated))
        #expect(origin.requests.map(\.target) == ["/once", "/once", "/always", "/always"])
        #expect(asking.counters[.upstreamConnections] == 1 && asking.http2Ended[.refused] == 3)
    }

    @Test("a write is not retried after a reset with another code or after content was sent")
    func resetWrites() {
        let origin = Way.http2.origin { request in [.resetStream(request.target == "/content" ? 7 : 2)] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask("POST", "/none").end() == .failure(.connectionTerminated))
        let recorder = asking.ask("POST", "/content", content: .length(3)) { transfer in
            _ = transfer?.write(Array("abc".utf8).span)
            transfer?.endContent()
        }
        #expect(recorder.end() == .failure(.connectionTerminated))
        #expect(origin.requests.map(\.target) == ["/none", "/content"])
    }

    @Test("after GOAWAY, accepted streams complete and unaccepted requests use another connection", arguments: ["GET", "POST"])
    func goAway(method: String) {
        let gate = Gate()
        let origin = Way.http2.origin { request in
            switch request.target {
            case "/slow": [.pass(gate), .json("1")]
            case "/beyond": [.goAway(accepts: false, code: 0)]
            default: [.json("2")]
            }
        }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let slow = asking.ask("GET", "/slow")
        #expect(origin.waitForRequests(1))
        let beyond = asking.ask(method, "/beyond")
        #expect(origin.waitForRequests(2))
        // The repeated request is the first stream of its connection, and GOAWAY names no processed stream. It fails without having been
        // processed.
        #expect(beyond.end() == .failure(.connectionTerminated))
        #expect(origin.requests.count { $0.target == "/beyond" } == 2)
        gate.open()
        #expect(slow.end() == .success(true))
        #expect(asking.ask(method, "/after").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 3)
    }

    @Test("a connection that was closed with GOAWAY without error is not reused")
    func closedWithGoAway() {
        let origin = Way.http2.origin { _ in [.json("1"), .goAway(accepts: true, code: 0)] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        for method in ["GET", "POST", "POST"] { #expect(asking.ask(method, "/a").end() == .success(true)) }
        #expect(origin.requests.count <= 4)
    }

    @Test("HTTP_1_1_REQUIRED makes this request and all later ones use HTTP/1.1")
    func http1Required() {
        let origin = Way.http2TLS.origin { $0.line.hasSuffix("HTTP/2") ? [.resetStream(13)] : [.json("\"\($0.line)\"")] }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        for method in ["POST", "GET"] {
            let recorder = asking.ask(method, "/a")
            #expect(recorder.end() == .success(true))
            #expect(text(recorder) == "\"\(method) /a HTTP/1.1\"")
        }
        #expect(origin.requests.count == 3)
    }

    // MARK: Streams and flow control

    @Test("requests beyond the peer's stream limit use further connections, and none is refused")
    func limits() {
        let gate = Gate()
        let origin = Way.http2.origin { $0.target == "/first" ? [.json("1")] : [.pass(gate), .json("2")] }
        origin.behave { $0.settings = [(3, 2)] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        let others = (0..<6).map { asking.ask("GET", "/\($0)") }
        #expect(origin.waitForRequests(7))
        #expect(asking.counters[.upstreamConnections] == 3)
        gate.open()
        for recorder in others { #expect(recorder.end() == .success(true)) }
        #expect(asking.http2Ended == [.whole: 7])
    }

    @Test("upstream.connections limits concurrent requests even if one HTTP/2 connection could carry more")
    func bounded() {
        let gate = Gate()
        let origin = Way.http2.origin { _ in [.pass(gate), .json("1")] }
        let asking = Asking(origin, .http2) { $0.maximumConnections = 3 }
        defer { asking.end() }
        let recorders = (0..<8).map { asking.ask("GET", "/\($0)") }
        #expect(origin.waitForRequests(3))
        #expect(asking.counters[.upstreamHTTP2Streams] == 3 && origin.requests.count == 3)
        gate.open()
        for recorder in recorders { #expect(recorder.end() == .success(true)) }
    }

    @Test(
        "a slow client buffers at most its stream's window, other streams continue, and it receives all content", arguments: Way.multiplexed
    )
    func backPressure(way: Way) {
        let long = String(repeating: "0123456789abcdef", count: 1 << 16)
        let origin = way.origin { $0.target == "/long" ? [.answer(long, type: "text/plain")] : [.json("2")] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        let held = Mutex<Transfer?>(nil)
        let slow = asking.ask(
            "GET", "/long",
            recorder: Recorder { transfer, event in
                guard event == 1 else { return }
                transfer.pause()
                held.withLock { $0 = transfer }
            })
        for number in 0..<20 { #expect(asking.ask("GET", "/\(number)").end() == .success(true)) }
        #expect(slow.now.status == 200 && slow.now.content.isEmpty)
        asking.onLoop { _ in held.withLock { $0?.resume() } }
        #expect(slow.end() == .success(true))
        #expect(slow.now.content.elementsEqual(long.utf8))
        #expect(asking.counters[.upstreamHTTP2Connections] == asking.counters[.upstreamConnections])
    }

    @Test("request content without window updates times out, and other streams are unaffected")
    func zeroWindow() {
        let origin = Way.http2.origin { _ in [.json("1")] }
        origin.behave {
            $0.opensWindows = false
            $0.settings = [(4, 10)]
        }
        let asking = Asking(origin, .http2) { $0.betweenBytesTimeout = .seconds(3) }
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        let stuck = asking.ask("PUT", "/stuck", content: .length(100)) { transfer in
            _ = transfer?.write([UInt8](repeating: 0x61, count: 100).span)
            transfer?.endContent()
        }
        #expect(asking.ask("GET", "/neighbour").end() == .success(true))
        #expect(asking.wait(for: stuck).0 == .failure(.connectionWriteTimeout))
        #expect(asking.ask("GET", "/after").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 1 && asking.http2Ended[.givenUp] == 1)
    }

    @Test("a SETTINGS frame that enlarges the window during a request resumes its content")
    func changingWindows() {
        let origin = Way.http2.origin { _ in [.json("1")] }
        origin.behave { $0.settings = [(4, 10)] }
        origin.reactToExpectation { _ in [.connectionFrame(OriginFrame.settings, 0, [0, 4, 0, 1, 0, 0])] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        var request = Asking.request("PUT", "/a", content: .length(5_000))
        request.fields.append(.expect, "100-continue")
        let recorder = asking.ask(request) { transfer in
            transfer?.write(whole: [UInt8](repeating: 0x61, count: 5_000))
        }
        #expect(recorder.end() == .success(true))
        #expect(origin.requests.last?.content.count == 5_000)
    }

    @Test("cancelling a request resets its stream and no other")
    func cancelled() {
        let gate = Gate()
        let origin = Way.http2.origin { $0.target == "/never" ? [.hang] : [.pass(gate), .json("1")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let neighbour = asking.ask("GET", "/good")
        let held = Mutex<Transfer?>(nil)
        _ = asking.ask("GET", "/never") { transfer in held.withLock { $0 = transfer } }
        #expect(origin.waitForRequests(2))
        asking.onLoop { _ in held.withLock { $0?.cancel() } }
        gate.open()
        #expect(neighbour.end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 1 && asking.http2Ended == [.whole: 1, .givenUp: 1])
    }

    @Test("a connection whose peer does not acknowledge a PING gets no more requests")
    func unresponsive() {
        let origin = Way.http2.origin { $0.target == "/hang" ? [.hang] : [.json("1")] }
        origin.behave { $0.acknowledgesPings = false }
        let asking = Asking(origin, .http2) { $0.idleForWrites = .seconds(3_600) }
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .seconds(2))
        let hanging = asking.ask("POST", "/hang")
        #expect(origin.waitForRequests(2))
        asking.time.advance(by: .seconds(6))
        while asking.hasOpenHTTP2Connection {}
        #expect(asking.ask("GET", "/b").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 2)
        #expect(asking.wait(for: hanging).0 == .failure(.connectionReadTimeout))
        #expect(asking.ended(.unresponsive) == 1)
    }

    @Test("a peer that does not speak HTTP/2 ends the connection; reads are retried once, and writes fail with the cause")
    func nonsense() {
        let origin = ScriptedOrigin(greeting: [.sendBytes([UInt8](repeating: 0x48, count: 100))]) { _ in [.json("1")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .failure(.protocolError))
        #expect(asking.ask("POST", "/a").end() == .failure(.protocolError))
        #expect(asking.counters[.upstreamConnections] == 3 && asking.ended(.error) == 3)
    }

    @Test("after a protocol violation, requests are retried on separate connections, and only the violating path fails")
    func broken() {
        let gate = Gate()
        let origin = Way.http2TLS.origin { request in
            guard request.line.hasSuffix("HTTP/2") else { return [.json("\"\(request.line)\"")] }
            return request.target == "/bad" ? [Self.data("{}")] : [.pass(gate), .json("1")]
        }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        let neighbours = (0..<3).map { asking.ask("GET", "/\($0)") }
        #expect(origin.waitForRequests(3))
        // The request shared its connection, so it is repeated over HTTP/2 on a separate one. The fault there identifies it.
        let bad = asking.ask("GET", "/bad")
        #expect(bad.end() == .failure(.protocolError))
        gate.open()
        for recorder in neighbours {
            #expect(recorder.end() == .success(true))
            #expect(text(recorder) == "1")
        }
        // The path is now known, and is requested over HTTP/1.1.
        let again = asking.ask("GET", "/bad")
        #expect(again.end() == .success(true) && text(again) == "\"GET /bad HTTP/1.1\"")
        #expect(asking.ask("POST", "/after").end() == .success(true))
    }

    private static let floods: [(name: String, step: OriginStep)] = [
        ("PING", .connectionFrame(OriginFrame.ping, 0, [UInt8](repeating: 0, count: 8))),
        ("SETTINGS", .connectionFrame(OriginFrame.settings, 0, [])),
        ("WINDOW_UPDATE", .connectionFrame(OriginFrame.windowUpdate, 0, [0, 0, 0, 1])),
        ("PRIORITY", .frame(2, 0, [0, 0, 0, 0, 1])),
        ("an unknown frame", .connectionFrame(0x20, 0, [])),
        ("empty content", .frame(OriginFrame.data, 0, [])),
    ]

    @Test("a flood of frames without content ends the connection and is counted", arguments: 0..<7)
    func flooded(number: Int) {
        let steps: [OriginStep]
        if number < Self.floods.count {
            steps = [.fields([Self.status])] + [OriginStep](repeating: Self.floods[number].step, count: 1_500)
        } else {
            steps =
                [.frame(OriginFrame.headers, 0, OriginFrame.fieldLines([Self.status]))]
                + [OriginStep](repeating: .frame(OriginFrame.continuation, 0, OriginFrame.fieldLines([("a", "b")])), count: 50)
        }
        let gate = Gate()
        let origin = Way.http2TLS.origin { request in
            guard request.line.hasSuffix("HTTP/2") else { return [.json("1")] }
            return request.target == "/flood" ? steps : [.pass(gate), .json("2")]
        }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        let neighbour = asking.ask("GET", "/neighbour")
        #expect(origin.waitForRequests(1))
        let flooded = asking.ask("POST", "/flood")
        // Requests without a response head are repeated on separate connections; a write fails.
        #expect(flooded.end() == .failure(.protocolError))
        gate.open()
        #expect(neighbour.end() == .success(true) && text(neighbour) == "2")
        #expect(asking.ended(.flood) == 1)
    }

    @Test("HTTP/1.1 is used if HTTP/2 is not negotiated, and HTTP/2 is not offered if disabled")
    func agreed() {
        for (way, http2, line) in [
            (Way.tls, HTTP2Use.auto, "HTTP/1.1"), (.http2TLS, .off, "HTTP/1.1"), (.http2TLS, .priorKnowledge, "HTTP/2"),
        ] {
            let origin = way.origin { [.json("\"\($0.line)\"")] }
            let asking = Asking(origin, way) { $0.http2 = http2 }
            defer { asking.end() }
            let recorder = asking.ask("GET", "/a")
            #expect(recorder.end() == .success(true))
            #expect(text(recorder) == "\"GET /a \(line)\"")
        }
    }
}
