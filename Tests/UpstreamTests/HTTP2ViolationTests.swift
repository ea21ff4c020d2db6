// An upstream that speaks only HTTP/2 sends invalid responses for one path. Requests for other paths are not affected.

import Figures
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("A path that violates HTTP/2", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2ViolationTests {
    /// Violates HTTP/2 under `/bad`. Refuses requests over HTTP/1.1, as HTTP/2-only servers do.
    private static let script: ScriptedOrigin.Script = { request in
        guard request.line.hasSuffix("HTTP/2") else { return [.json("\"expected h2\"", status: "403 Forbidden")] }
        return request.target.hasPrefix("/bad") ? [.frame(OriginFrame.data, 0, [0])] : [.json("\"\(request.line)\"")]
    }

    private func asking() -> Asking {
        let origin = Way.http2TLS.origin(Self.script)
        return Asking(origin, .http2TLS)
    }

    private func expectWell(_ recorder: Recorder) { expectWell(recorder, recorder.end()) }

    private func expectWell(_ recorder: Recorder, _ end: Result<Bool, UpstreamError.Kind>?) {
        #expect(Self.isWell(recorder, end), "\(recorder.now)")
    }

    @Test("repeated requests for the violating path leave other paths on HTTP/2 without failed requests")
    func repeatedRequests() {
        let asking = asking()
        defer { asking.end() }
        expectWell(asking.ask("GET", "/a"))
        for number in 0..<5 {
            #expect(asking.ask("GET", "/bad?\(number)").end() == .failure(.protocolError))
            expectWell(asking.ask("GET", "/a"))
            expectWell(asking.ask("POST", "/a"))
        }
        asking.time.advance(by: .seconds(1))
        for method in ["GET", "POST"] { expectWell(asking.ask(method, "/b")) }
        // Once the path is known, it breaks no connection of other requests.
        #expect(!asking.attempts.contains { $0 != nil })
    }

    private static func isWell(_ recorder: Recorder, _ end: Result<Bool, UpstreamError.Kind>?) -> Bool {
        end == .success(true) && recorder.now.status == 200 && recorder.now.content.suffix(7).elementsEqual("HTTP/2\"".utf8)
    }

    private final class Walk {
        let asking: Asking
        /// Number of rounds in which requests for working paths were lost.
        var lost = 0

        init(_ asking: Asking) throws {
            self.asking = asking
            let warm = asking.ask("GET", "/warm")
            try demand(HTTP2ViolationTests.isWell(warm, warm.end()))
        }

        deinit { asking.end() }

        func step(_ random: inout SeededGenerator) throws {
            let requests = (0..<1 + random.below(8)).map { number in
                let isBad = random.isTrue(oneIn: 4)
                let method = !isBad && random.isTrue(oneIn: 4) ? "POST" : "GET"
                return (isBad, method, asking.ask(method, isBad ? "/bad?\(number)" : "/well/\(number)"))
            }
            var isLost = false
            for (isBad, method, recorder) in requests {
                let end = recorder.end()
                if isBad {
                    try demand(end == .failure(.protocolError), "\(String(describing: end))")
                } else if method == "POST" || recorder.now.status != nil, end != .success(true) {
                    // A response that has begun cannot be requested again.
                    isLost = true
                } else {
                    try demand(HTTP2ViolationTests.isWell(recorder, end), "\(String(describing: end))")
                }
            }
            if isLost { lost += 1 }
            try demand(lost <= 1)
        }
    }

    @Test("random schedules: a violation fails only writes and started responses in flight, and only once")
    func walk() {
        RandomSchedules.run(10, steps: 12) { _ in
            try Walk(asking())
        } step: {
            try $0.step(&$1)
        }
    }

    @Test("a client that requests many violating paths terminates at most three connections of other clients")
    func manyPaths() {
        let asking = asking()
        defer { asking.end() }
        expectWell(asking.ask("GET", "/a"))
        for number in 0..<12 {
            var request = Asking.request("GET", "/bad\(number)")
            request.client = 7
            #expect(asking.ask(request).end() == .failure(.protocolError))
            expectWell(asking.ask("GET", "/a"))
        }
        // The first connection, one after each of three breaks, and one for each request of a known bad path.
        #expect(asking.counters[.upstreamHTTP2Connections] <= 1 + 3 + 12)
    }

    @Test("the violating path uses HTTP/1.1 if the upstream is known to support it")
    func knownHTTP1Support() {
        let origin = Way.http2TLS.origin { request in
            request.line.hasSuffix("HTTP/2") && request.target.hasPrefix("/bad")
                ? [.frame(OriginFrame.data, 0, [0])] : [.json("\"\(request.line)\"")]
        }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        expectWell(asking.ask("GET", "/a"))
        for number in 0..<5 {
            let bad = asking.ask("GET", "/bad?\(number)")
            #expect(bad.end() == .success(true))
            #expect(bad.now.content.suffix(9).elementsEqual("HTTP/1.1\"".utf8))
            #expect(asking.ask("GET", "/a").end() == .success(true))
        }
        #expect(asking.counters[.upstreamHTTP2Connections] <= 2)
    }

    @Test("an upstream configured for HTTP/2 only that does not negotiate it in TLS is unreachable")
    func notNegotiated() {
        let asking = Asking(Way.tls.origin { _ in [.json("1")] }, .http2TLS) { $0.http2 = .priorKnowledge }
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .failure(.tlsProtocolError))
        #expect(asking.attempts == [.tlsProtocolError])
    }

    @Test("a violating path, and a client with three of them, is isolated for ten minutes; the oldest of 64 is evicted")
    func isolatedPaths() {
        var kept = SeparatedRequests()
        kept.note(path: 1, client: 7, at: 0)
        kept.note(path: 1, client: 7, at: 1)
        kept.note(path: 2, client: 7, at: 2)
        let isProven = { (path: UInt64, client: UInt64?, now: Int64) in kept.evidence(path: path, client: client, at: now) == .proof }
        #expect(isProven(1, nil, 3) && isProven(2, 9, 3) && !isProven(3, 7, 3))
        kept.note(path: 3, client: 7, at: 4)
        #expect(isProven(4, 7, 5) && !isProven(4, 8, 5))
        #expect(isProven(3, nil, 600_003) && !isProven(1, nil, 600_003) && kept.isActive(at: 600_003))
        #expect(!isProven(3, 7, 600_004) && !kept.isActive(at: 600_004))
        for path in UInt64(10)..<80 { kept.note(path: path, client: nil, at: 700_000) }
        #expect(!isProven(10, nil, 700_000) && isProven(79, nil, 700_000))
    }
}
