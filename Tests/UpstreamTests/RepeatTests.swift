// Tests how often a request is sent if its connection fails (RFC 9110 §9.2.2): safe requests at most twice, all others once.

import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("Retries of upstream requests", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct RepeatTests {
    /// A point at which the connection fails.
    private struct Failure: Sendable {
        let name: String
        let steps: [OriginStep]
        var isBeforeResponse = true
        /// Whether the failure is within a head, which HTTP/2 does not split.
        var isOfHTTP1 = false
    }

    private static let failures = [
        Failure(name: "closed", steps: [.close]), Failure(name: "cut", steps: [.cut]), Failure(name: "reset", steps: [.reset]),
        Failure(name: "within the status line", steps: [.send("HTTP/1.1 2"), .close], isBeforeResponse: false, isOfHTTP1: true),
        Failure(name: "within the head", steps: [.send("HTTP/1.1 200 OK\r\nX: "), .cut], isBeforeResponse: false, isOfHTTP1: true),
        Failure(name: "after 103", steps: [.send("HTTP/1.1 103 Early Hints\r\n\r\n"), .close], isBeforeResponse: false),
        Failure(
            name: "within the content", steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1"), .close], isBeforeResponse: false),
        Failure(
            name: "by bytes that are not a response", steps: [.send("SSH-2.0-x\r\n"), .close], isBeforeResponse: false, isOfHTTP1: true),
    ]

    private static let contents: [ContentFraming] = [.none, .length(0), .length(3), .chunked]

    /// Sends a request with this content, and waits for its end.
    private func ask(_ asking: Asking, _ method: String, _ target: String, _ content: ContentFraming) -> Result<Bool, UpstreamError.Kind>? {
        asking.ask(method, target, content: content) { transfer in
            if content == .length(3) || content == .chunked { _ = transfer?.write(Array("abc".utf8).span) }
            if content != .none { transfer?.endContent() }
        }.end()
    }

    @Test(
        "each method, with each content, reaches the upstream the expected number of times at each point of failure", .slow,
        arguments: ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "POST", "PUT", "DELETE", "PATCH", "MOVE"], Way.allCases)
    func arrivals(method: String, way: Way) {
        let isSafe = ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"].contains(method)
        // A response to HEAD is complete with its head.
        for failure in Self.failures.filter({ !way.isHTTP2 || !$0.isOfHTTP1 })
        where method != "HEAD" || failure.name != "within the content" {
            let origin = way.origin { request in
                request.target == "/warm" ? [.json("1")] : failure.steps
            }
            for (content, isKept) in Self.contents.flatMap({ [($0, false), ($0, true)] }) {
                let asking = Asking(origin, way)
                defer { asking.end() }
                if isKept { #expect(ask(asking, "GET", "/warm", .none) == .success(true)) }
                let target = "/\(content)/\(isKept)"
                guard case .failure = ask(asking, method, target, content) else {
                    Issue.record("\(failure.name), \(target): no failure")
                    continue
                }
                let hasContent = content == .length(3) || content == .chunked
                let wanted = isSafe && failure.isBeforeResponse && !hasContent ? 2 : 1
                #expect(origin.requests.count { $0.target == target } == wanted, "\(failure.name), \(target)")
                #expect(asking.counters[.upstreamRetries] == wanted - 1)
            }
        }
    }

    @Test("a request marked as repeatable is retried, whatever its method")
    func marked() {
        let origin = ScriptedOrigin { _ in [.close] }
        let asking = Asking(origin)
        defer { asking.end() }
        var request = Asking.request("POST", "/read")
        request.isRepeatable = true
        #expect(asking.ask(request).end() == .failure(.connectionTerminated))
        #expect(origin.requests.count == 2)
    }

    @Test("a safe request whose content is buffered is retried with it, and a write is not", arguments: Way.allCases)
    func bufferedContent(way: Way) {
        let origin = way.origin { $0.target == "/warm" ? [.json("1")] : [.close] }
        let asking = Asking(origin, way)
        defer { asking.end() }
        #expect(ask(asking, "GET", "/warm", .none) == .success(true))
        for (method, count) in [("QUERY", 2), ("POST", 1)] {
            let recorder = asking.ask(method, "/\(method)", content: .length(3)) { $0?.write(whole: Array("abc".utf8)) }
            #expect(recorder.end() == .failure(.connectionTerminated))
            let sent = origin.requests.filter { $0.method == method }
            #expect(sent.count == count && sent.allSatisfy { $0.content == Array("abc".utf8) })
        }
    }

    @Test("without a retry budget, a request that failed on a new connection is not retried")
    func budget() {
        let origin = ScriptedOrigin { _ in [.close] }
        let asking = Asking(origin) { $0.retryBudget = 0 }
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .failure(.connectionTerminated))
        #expect(origin.requests.count == 1)
    }

    @Test(
        "a write uses only a recently used connection, by our limit and Keep-Alive; a read uses any",
        arguments: [
            (nil, 4_000, true), (nil, 4_001, false), ("timeout=3", 2_000, true), ("timeout=3, max=100", 2_001, false),
            ("timeout=60", 4_001, false), ("max=5", 4_000, true), ("timeout=x", 4_000, true), ("timeout=99999999999999999999", 4_000, true),
            ("timeout=0", 1, false),
        ] as [(String?, Int64, Bool)])
    func idleForWrites(keepAlive: String?, unused: Int64, isUsed: Bool) {
        let origin = ScriptedOrigin { _ in [.json("1", keepAlive.map { ["Keep-Alive: \($0)"] } ?? [])] }
        let asking = Asking(origin)
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        asking.time.advance(by: .milliseconds(unused))
        #expect(asking.ask("GET", "/b").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 1)
        asking.time.advance(by: .milliseconds(unused))
        #expect(asking.ask("POST", "/c").end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == (isUsed ? 1 : 2))
    }
}
