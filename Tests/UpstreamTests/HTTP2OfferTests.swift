// Tests that HTTP/2 failures of an upstream cost as few requests and connections as possible.

import Figures
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite(
    "HTTP/2 failures and the fallback to HTTP/1.1", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2OfferTests {
    /// The protocols of `count` concurrent requests.
    private func spoken(_ asking: Asking, _ origin: ScriptedOrigin, _ count: Int) -> [String] {
        let gate = Gate()
        let before = origin.requests.count
        origin.react { request in [.pass(gate), .json("\"\(request.line)\"")] }
        let recorders = (0..<count).map { asking.ask("GET", "/\($0)") }
        #expect(origin.waitForRequests(before + count))
        gate.open()
        return recorders.map { recorder in
            #expect(recorder.end() == .success(true))
            return String(decoding: recorder.now.content.dropLast().suffix(8), as: UTF8.self)
        }
    }

    private static let http1 = "HTTP/1.1"

    private func breakRules(_ asking: Asking, _ origin: ScriptedOrigin, by target: String) {
        origin.react { request in
            request.line.hasSuffix("HTTP/2") ? [.frame(OriginFrame.data, 0, [0])] : [.json("\"\(request.line)\"")]
        }
        let bad = asking.ask("GET", target)
        #expect(bad.end() == .success(true))
        #expect(String(decoding: bad.now.content, as: UTF8.self) == "\"GET \(target) HTTP/1.1\"")
    }

    @Test("one violating path does not affect others; a second violation soon after causes a temporary fallback to HTTP/1.1")
    func broken() {
        let origin = Way.http2TLS.origin { _ in [] }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        breakRules(asking, origin, by: "/bad")
        // One request uses the HTTP/1.1 connection of the repeated request; the others use a new connection.
        #expect(spoken(asking, origin, 3).count { $0 != Self.http1 } == 2)
        breakRules(asking, origin, by: "/bad")
        #expect(spoken(asking, origin, 4).contains { $0 != Self.http1 })
        breakRules(asking, origin, by: "/worse")
        #expect(spoken(asking, origin, 6).allSatisfy { $0 == Self.http1 })
        asking.time.advance(by: .seconds(16))
        #expect(spoken(asking, origin, 9).contains { $0 != Self.http1 })
    }

    @Test(
        "after HTTP_1_1_REQUIRED, error responses over HTTP/1.1 are accepted", arguments: ["GET", "POST"],
        [[OriginStep.resetStream(13)], [.goAway(accepts: false, code: 13)]])
    func errorsOverHTTP1(method: String, refusal: [OriginStep]) {
        let origin = Way.http2TLS.origin { request in
            guard request.line.hasSuffix("HTTP/2") else { return [.json("1", status: "\(request.target.dropFirst()) No")] }
            return request.target == "/first" ? [.json("1")] : refusal
        }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        for status: UInt16 in [404, 401, 409, 422, 500] {
            let recorder = asking.ask(method, "/\(status)")
            #expect(recorder.end() == .success(true) && recorder.now.status == status)
        }
        #expect(asking.counters[.upstreamHTTP2Connections] == 1)
    }

    @Test("a connection that was started before HTTP/2 failed is not used for HTTP/2")
    func begunBefore() {
        let late = Gate()
        let origin = Way.http2TLS.origin { request in
            request.line.hasSuffix("HTTP/2") ? [.resetStream(13)] : [.json("\"\(request.line)\"")]
        }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        // No protocol is known yet, so each request makes a connection. The first one is delayed.
        origin.holdNext(until: late)
        let first = asking.ask("GET", "/first")
        #expect(origin.waitForConnections(1))
        let second = asking.ask("GET", "/second")
        #expect(second.end() == .success(true))
        late.open()
        for recorder in [first, asking.ask("GET", "/third")] {
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.suffix(9).elementsEqual("HTTP/1.1\"".utf8))
        }
        #expect(asking.counters[.upstreamHTTP2Connections] == 1)
    }

    @Test(
        "requests that waited for a connection attempt that failed get another connection, also unsafe requests", arguments: Way.multiplexed
    )
    func joined(way: Way) {
        let gate = Gate()
        let origin = way.origin { [.json("\"\($0.target)\"")] }
        let asking = Asking(origin, way) { if way.isTLS { $0.http2 = .priorKnowledge } }
        defer { asking.end() }
        origin.cutNext(after: gate)
        let recorders = ["GET", "GET", "POST", "GET"].enumerated().map { asking.ask($1, "/\($0)") }
        #expect(origin.waitForConnections(1))
        gate.open()
        // Without TLS, the connection is open before it is cut, and a write has been sent on it.
        let failing = way.isTLS ? [0] : [2]
        for (number, recorder) in recorders.enumerated() {
            if failing.contains(number) {
                #expect(recorder.end() == .failure(way.isTLS ? .tlsProtocolError : .connectionTerminated))
            } else {
                #expect(recorder.end() == .success(true))
            }
        }
        #expect(origin.connectionCount == 2)
    }

    @Test("if no connection can be made, any number of waiting requests causes only two attempts")
    func unreachable() {
        let origin = Way.http2.origin { _ in [.json("1")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        origin.down()
        let recorders = asking.onLoop { client in
            (0..<20).map { _ in
                let recorder = Recorder()
                _ = client.start(Asking.request("GET", "/a"), receiver: recorder)
                return recorder
            }
        }
        for recorder in recorders { #expect(recorder.end() == .failure(.connectionRefused)) }
        #expect(asking.attempts == [.connectionRefused, .connectionRefused])
    }

    @Test("an upstream that allows no streams is used with HTTP/1.1, and HTTP/2 is tried again later")
    func noStreams() {
        let origin = Way.http2TLS.origin { request in
            request.line.hasSuffix("HTTP/2") ? [.resetStream(7)] : [.json("\"\(request.line)\"")]
        }
        origin.behave { $0.settings = [(3, 0)] }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        for number in 0..<5 {
            let recorder = asking.ask(number % 2 == 0 ? "GET" : "POST", "/\(number)")
            #expect(recorder.end() == .success(true))
            #expect(recorder.now.content.suffix(9).elementsEqual("HTTP/1.1\"".utf8))
        }
        #expect(asking.counters[.upstreamConnections] == 2 && asking.counters[.upstreamHTTP2Connections] == 1)
    }

    @Test("without allowed streams, prior-knowledge requests wait, and another connection is tried only after a second")
    func noStreamsYet() {
        let origin = Way.http2.origin { request in
            request.target == "/first" ? [.connectionFrame(OriginFrame.settings, 0, [0, 3, 0, 0, 0, 0]), .json("1")] : [.json("2")]
        }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        let waiting = (0..<5).map { asking.ask("GET", "/\($0)") }
        #expect(asking.counters[.upstreamConnections] == 1)
        // The upstream stays silent, so another connection is tried after a second.
        asking.time.advance(by: .milliseconds(1_100))
        for recorder in waiting { #expect(recorder.end() == .success(true)) }
        #expect(asking.counters[.upstreamConnections] == 2)
    }
}
