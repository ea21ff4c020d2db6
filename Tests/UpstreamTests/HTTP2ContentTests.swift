// Tests of request content over HTTP/2: which requests share a connection and its flow-control window.

import Dispatch
import Figures
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("Request content over HTTP/2", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2ContentTests {
    private func upload(_ asking: Asking, _ target: String, _ bytes: Int, ofLength isKnown: Bool = true) -> Recorder {
        asking.ask("PUT", target, content: isKnown ? .length(bytes) : .chunked) { transfer in
            transfer?.write(whole: [UInt8](repeating: 0x61, count: bytes))
        }
    }

    @Test("content that the upstream does not read stops no other request with content", arguments: Way.multiplexed, [true, false])
    func usedUpWindow(way: Way, isKnown: Bool) {
        let origin = way.origin { _ in [.json("1")] }
        origin.behave { $0.opensWindows = false }
        let asking = Asking(origin, way) { $0.betweenBytesTimeout = .seconds(3) }
        defer { asking.end() }
        #expect(asking.ask("GET", "/first").end() == .success(true))
        let stuck = upload(asking, "/stuck", 200_000, ofLength: isKnown)
        for number in 0..<3 {
            #expect(upload(asking, "/put/\(number)", 20_000).end() == .success(true))
            #expect(asking.ask("GET", "/get/\(number)").end() == .success(true))
        }
        // The three contents fit into the window of one other connection.
        #expect(asking.counters[.upstreamConnections] == 2)
        // Content that exceeds the rest of that window, which the upstream does not return, uses a third connection.
        #expect(upload(asking, "/put/3", 20_000).end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 3)
        #expect(asking.wait(for: stuck).0 == .failure(.connectionWriteTimeout))
        #expect(Set(origin.requests.filter { $0.method == "GET" }.map(\.connection)).count == 1)
    }

    @Test("requests with short content share a connection, and long contents that start together use one connection each")
    func windowsOfNewConnections() {
        let gate = Gate()
        let origin = Way.http2.origin { [.pass(gate), .json("\($0.content.count)")] }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let short = (0..<50).map { upload(asking, "/\($0)", 1_000) }
        #expect(origin.waitForRequests(50))
        #expect(asking.counters[.upstreamConnections] == 1)
        let long = (0..<3).map { upload(asking, "/long/\($0)", 60_000, ofLength: false) }
        #expect(origin.waitForRequests(53))
        gate.open()
        for recorder in short { #expect(recorder.end() == .success(true) && recorder.now.content.elementsEqual("1000".utf8)) }
        for recorder in long { #expect(recorder.end() == .success(true) && recorder.now.content.elementsEqual("60000".utf8)) }
        #expect(asking.http2Ended == [.whole: 53])
    }

    @Test(
        "an upstream that acknowledges content in small pieces, like Go's net/http2, keeps its connection",
        arguments: [(1, 4_000), (512, 1 << 20), (4_096, 4 << 20)])
    func smallAcknowledgements(pieceBytes: Int, contentBytes: Int) {
        let gate = Gate()
        let origin = Way.http2.origin { $0.target == "/other" ? [.pass(gate), .json("2")] : [.json("\($0.content.count)")] }
        origin.behave { $0.acknowledgedBytes = pieceBytes }
        let asking = Asking(origin, .http2)
        defer { asking.end() }
        let other = asking.ask("POST", "/other")
        #expect(origin.waitForRequests(1))
        let long = upload(asking, "/long", contentBytes)
        #expect(long.end() == .success(true) && long.now.content.elementsEqual("\(contentBytes)".utf8))
        gate.open()
        #expect(other.end() == .success(true))
        #expect(asking.counters[.upstreamConnections] == 1 && asking.ended(.flood) == 0)
    }

    @Test("while an open connection allows no streams, content that fits nowhere waits for the connection that is being established")
    func allowsNoStreams() {
        let (late, limit) = (Gate(), Gate())
        let noStreams = OriginStep.connectionFrame(OriginFrame.settings, 0, [0, 3, 0, 0, 0, 0])
        let origin = Way.http2TLS.origin { $0.target == "/first" ? [.pass(limit), noStreams, .json("1")] : [.json("2")] }
        origin.behave { $0.opensWindows = false }
        let asking = Asking(origin, .http2TLS) { $0.http2 = .priorKnowledge }
        let first = asking.ask("GET", "/first")
        #expect(origin.waitForRequests(1))
        // The first content uses up the window of the open connection. For the second one, another connection is established.
        #expect(upload(asking, "/a", 60_000).end() == .success(true))
        origin.holdNext(until: late)
        let second = upload(asking, "/b", 60_000)
        #expect(origin.waitForConnections(2))
        limit.open()
        #expect(first.end() == .success(true))
        // The third content fits beside the second one neither on the open connection nor on the other one.
        let third = Recorder()
        let started: Void? = asking.onLoop(until: .now() + .seconds(20)) { client in
            let request = Asking.request("PUT", "/c", content: .length(60_000))
            client.start(request, receiver: third)?.write(whole: [UInt8](repeating: 0x61, count: 60_000))
        }
        // The request is served at the end of the loop's batch of events.
        guard started != nil, asking.onLoop(until: .now() + .seconds(20), { _ in true }) == true else {
            Issue.record("the event loop offers the request a connection again and again")
            return
        }
        origin.behave { $0.opensWindows = true }
        late.open()
        for recorder in [second, third] { #expect(recorder.end() == .success(true)) }
        #expect(asking.counters[.upstreamConnections] == 2)
        asking.end()
    }
}
