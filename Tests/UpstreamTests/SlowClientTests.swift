// Tests of clients that do not read their responses: what they may hold, and when their responses are given up.

import Figures
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Upstream

@Suite("Responses that clients do not read", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct SlowClientTests {
    private static let long = String(repeating: "0123456789abcdef", count: 1 << 17)

    private func asking(_ way: Way, connections: Int) -> Asking {
        let origin = way.origin { $0.target.hasSuffix("/long") ? [.answer(Self.long, type: "text/plain")] : [.json("2")] }
        return Asking(origin, way) { $0.maximumConnections = connections }
    }

    /// Starts a download of a client that does not read. Returns when the response is paused.
    private func stalled(_ asking: Asking, of client: UInt64, holding count: Int) -> Recorder {
        let recorder = Recorder { transfer, event in if event == 1 { transfer.pause() } }
        let download = asking.ask("GET", "/files/long", shares: .family(1, of: client), recorder: recorder)
        for _ in 0..<10_000 where asking.onLoop({ $0.connections[0].heldBack.count }) < count {}
        return download
    }

    @Test("stalled downloads of one client keep no other client's requests for the same paths waiting", arguments: Way.allCases)
    func oneClient(way: Way) {
        let asking = asking(way, connections: 8)
        defer { asking.end() }
        let downloads = (1...4).map { stalled(asking, of: 1, holding: $0) }
        let next = asking.ask("GET", "/files/1", shares: .family(1, of: 1))
        #expect(asking.ask("GET", "/files/2", shares: .family(1, of: 2)).end() == .success(true))
        // The client's own request ends none of its downloads.
        asking.time.advance(by: .seconds(2))
        #expect(asking.onLoop { ($0.waitingCount, $0.connections[0].heldBack.count) } == (1, 4))
        #expect(downloads.allSatisfy { $0.now.end == nil } && next.now.end == nil)
    }

    @Test("stalled downloads of many clients end, the longest first, while other requests for the same paths wait", arguments: Way.allCases)
    func manyClients(way: Way) {
        let asking = asking(way, connections: 8)
        defer { asking.end() }
        let downloads = (1...6).map { stalled(asking, of: UInt64($0), holding: $0) }
        let waiting = asking.ask("GET", "/files/1", shares: .family(1, of: 9))
        // Requests for other paths are served, and a short pause ends nothing.
        #expect(asking.ask("GET", "/other/1", shares: .family(2, of: 9)).end() == .success(true))
        #expect(asking.wait(for: waiting).0 == .failure(.connectionLimitReached))
        #expect(downloads.allSatisfy { $0.now.end == nil })
        asking.time.advance(by: .seconds(10))
        #expect(asking.wait(for: asking.ask("GET", "/files/2", shares: .family(1, of: 9))).0 == .success(true))
        #expect(downloads[0].end() == .failure(.connectionLimitReached))
        #expect(downloads[1...].allSatisfy { $0.now.end == nil } && asking.counters[.upstreamSlowGivenUp] == 1)
    }
}
