// An upstream ends HTTP/2 connections because of some requests. Requests of other clients on these connections are not affected more than
// once.

import Figures
import HTTP2
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("HTTP/2 connections that the upstream ends", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2EndTests {
    /// How the upstream ends the connection of a harmful request.
    struct Ending: Sendable, CustomTestStringConvertible {
        let name: String
        let steps: [OriginStep]

        var testDescription: String { name }
    }

    private static let endings = [
        Ending(name: "closed", steps: [.close]), Ending(name: "cut", steps: [.cut]), Ending(name: "reset", steps: [.reset]),
        Ending(name: "GOAWAY with PROTOCOL_ERROR", steps: [.goAway(accepts: true, code: 1), .close]),
        Ending(name: "GOAWAY with ENHANCE_YOUR_CALM", steps: [.goAway(accepts: true, code: 11), .close]),
        Ending(name: "GOAWAY that does not accept the request", steps: [.goAway(accepts: false, code: 2), .close]),
        Ending(name: "GOAWAY without error, then closed", steps: [.goAway(accepts: true, code: 0), .close]),
        Ending(name: "closed after the head", steps: [.fields([(":status", "200")]), .close]),
        Ending(name: "data before the head", steps: [.frame(OriginFrame.data, 0, [0])]),
    ]

    /// Requests of three clients: two of them send requests that take a while, and one sends a harmful request meanwhile.
    private final class Play {
        let asking: Asking
        let origin: ScriptedOrigin
        private let gate = Mutex(Gate())
        private var round = 0
        /// Number of rounds in which an unsafe request failed.
        var lost = 0

        init(_ ending: Ending) throws {
            let gate = gate
            origin = Way.http2TLS.origin { request in
                guard request.line.hasSuffix("HTTP/2") else { return [.json("0", status: "403 Forbidden")] }
                if request.target.hasPrefix("/harmful") { return ending.steps }
                return request.target.hasPrefix("/warm") ? [.json("1")] : [.pass(gate.withLock { $0 }), .json("2")]
            }
            asking = Asking(origin, .http2TLS)
            try demand(asking.ask("GET", "/warm").end() == .success(true))
        }

        deinit { asking.end() }

        func ask(_ method: String, _ target: String, client: UInt64) -> Recorder {
            var request = Asking.request(method, target)
            request.client = client
            return asking.ask(request)
        }

        /// - Parameter harmful: the harmful request.
        func step(_ harmful: (method: String, target: String), reads: Int, writes: Int) throws {
            round += 1
            let gate = Gate()
            self.gate.withLock { $0 = gate }
            let before = origin.requests.count
            let safe = (0..<reads).map { ask("GET", "/read/\(round)/\($0)", client: 1) }
            let unsafe = (0..<writes).map { ask("POST", "/write/\(round)/\($0)", client: 2) }
            try demand(origin.waitForRequests(before + reads + writes))
            if case .success = ask(harmful.method, harmful.target, client: 3).end() { try demand(false, "the harmful request succeeds") }
            gate.open()
            for recorder in safe {
                let end = recorder.end()
                try demand(end == .success(true) && recorder.now.status == 200, "\(String(describing: end))")
            }
            let ends = unsafe.map { $0.end() }
            if ends.contains(where: { $0 != .success(true) }) { lost += 1 }
        }
    }

    @Test("a path that ends connections fails only unsafe requests of others, and only once", arguments: endings, ["GET", "POST"])
    func path(ending: Ending, method: String) throws {
        let play = try Play(ending)
        for round in 0..<6 { try play.step((method, "/harmful?\(round)"), reads: 4, writes: 3) }
        #expect(play.lost == 1)
    }

    @Test("a client with many paths that end connections fails unsafe requests of others at most three times", arguments: endings)
    func client(ending: Ending) throws {
        let play = try Play(ending)
        for round in 0..<8 { try play.step(("POST", "/harmful/\(round)"), reads: 4, writes: 3) }
        #expect(play.lost <= 3)
    }

    @Test("random schedules: safe requests of others always succeed")
    func walk() {
        RandomSchedules.run(8, steps: 8) { random in
            try Play(Self.endings[random.below(Self.endings.count)])
        } step: { play, random in
            let harmful = (random.isTrue(oneIn: 2) ? "GET" : "DELETE", "/harmful?\(random.below(100))")
            try play.step(harmful, reads: 1 + random.below(6), writes: random.below(4))
            try demand(play.lost <= 1)
        }
    }

    @Test("a single request on a connection that ends is repeated, and its path stays on shared connections")
    func alone() {
        let origin = Way.http2TLS.origin { $0.connection == 1 && $0.target == "/a" ? [.close] : [.json("1")] }
        let asking = Asking(origin, .http2TLS)
        defer { asking.end() }
        for target in ["/warm", "/a", "/b", "/a", "/b"] { #expect(asking.ask("GET", target).end() == .success(true)) }
        // The second connection carries only the repeated request.
        #expect(asking.counters[.upstreamConnections] == 3)
        #expect(Set(origin.requests.suffix(3).map(\.connection)) == [3])
    }

    @Test("the error of an ended connection names how the upstream ended it")
    func causes() {
        for (steps, cause) in [
            ([.close], .noResponse), ([.goAway(accepts: true, code: 0), .close], .noResponse),
            ([.goAway(accepts: true, code: 11), .close], .goAway(.enhanceYourCalm)),
        ] as [([OriginStep], UpstreamCause)] {
            let asking = Asking(Way.http2TLS.origin { _ in steps }, .http2TLS)
            defer { asking.end() }
            let recorder = asking.ask("POST", "/a")
            #expect(recorder.end() == .failure(.connectionTerminated))
            #expect(recorder.now.error?.cause == cause)
        }
        let begun = Asking(Way.http2TLS.origin { _ in [.fields([(":status", "200")]), .close] }, .http2TLS)
        defer { begun.end() }
        let recorder = begun.ask("GET", "/a")
        #expect(recorder.end() == .failure(.responseIncomplete))
        #expect(recorder.now.error?.cause == nil)
    }

    // MARK: Which requests are suspected

    @Test("a path is suspected for 15 s, then twice as long each time, and at most for ten minutes")
    func suspicion() {
        var requests = SeparatedRequests()
        var now: Int64 = 0
        for duration: Int64 in [15_000, 30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000] {
            #expect(requests.evidence(path: 1, client: 7, at: now) == nil && !requests.isActive(at: now))
            requests.suspect(paths: [1], clients: [], at: now)
            now += duration
            #expect(requests.evidence(path: 1, client: 8, at: now - 1) == .suspicion && requests.isActive(at: now - 1))
        }
        // Ten minutes later it is forgotten.
        now += 600_000
        requests.suspect(paths: [1], clients: [], at: now)
        #expect(requests.evidence(path: 1, client: 8, at: now + 14_999) == .suspicion)
        #expect(requests.evidence(path: 1, client: 8, at: now + 15_000) == nil)
    }

    @Test("a suspected path that ends its separate connections stays suspected, without a longer duration")
    func confirmed() {
        var requests = SeparatedRequests()
        requests.confirm(path: 1, client: 7, at: 0)
        #expect(requests.evidence(path: 1, client: 7, at: 0) == nil && !requests.isActive(at: 0))
        requests.suspect(paths: [1], clients: [7], at: 0)
        for now in stride(from: Int64(10_000), to: 100_000, by: 10_000) { requests.confirm(path: 1, client: 7, at: now) }
        #expect(requests.evidence(path: 1, client: 8, at: 104_999) == .suspicion && requests.isActive(at: 104_999))
        #expect(requests.evidence(path: 1, client: 7, at: 105_000) == nil)
    }

    @Test("a client is suspected from the third ended connection on, and the oldest of 512 is evicted")
    func suspectedClients() {
        var requests = SeparatedRequests()
        for now in 0..<2 { requests.suspect(paths: [], clients: [7], at: Int64(now)) }
        #expect(requests.evidence(path: 1, client: 7, at: 2) == nil)
        requests.suspect(paths: [], clients: [7], at: 2)
        #expect(requests.evidence(path: 1, client: 7, at: 15_001) == .suspicion && requests.evidence(path: 1, client: 8, at: 3) == nil)
        #expect(requests.evidence(path: 1, client: 7, at: 15_002) == nil)
        for path in 0..<513 { requests.suspect(paths: [UInt64(path)], clients: [], at: 20_000 + Int64(path)) }
        #expect(requests.evidence(path: 0, client: nil, at: 21_000) == nil)
        #expect(requests.evidence(path: 1, client: nil, at: 21_000) == .suspicion)
    }
}
