// Tests of request content over HTTP/2: which requests share a connection and its flow-control window.

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
}
