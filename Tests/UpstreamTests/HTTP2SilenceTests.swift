// Tests an HTTP/2 connection on which the upstream becomes silent, while new connections work.

import Figures
import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("Silent HTTP/2 connections", .play, .enabled(if: WebServer.isInstalled, "openssl is missing: make test installs it"))
struct HTTP2SilenceTests {
    @Test("requests leave a silent connection: new ones after a second, safe ones without a response after the connect timeout")
    func silent() {
        let origin = Way.http2.origin { request in
            guard request.connection == 1, request.target != "/a" else { return [.json("\"\(request.connection)\"")] }
            return request.target == "/begun" ? [.fields([(":status", "200")])] : [.hang]
        }
        origin.behave { $0.acknowledgesPings = false }
        let asking = Asking(origin, .http2) { $0.idleForWrites = .seconds(3_600) }
        defer { asking.end() }
        #expect(asking.ask("GET", "/a").end() == .success(true))
        origin.behave { $0.acknowledgesPings = true }
        let begun = asking.ask("GET", "/begun")
        #expect(origin.waitForRequests(2))
        while begun.now.status == nil {}
        asking.time.advance(by: .seconds(2))
        let safe = (0..<20).map { asking.ask("GET", "/\($0)") }
        let unsafe = asking.ask("POST", "/unsafe")
        #expect(origin.waitForRequests(23))
        asking.time.advance(by: .milliseconds(1_500))
        for method in ["GET", "POST"] {
            let new = asking.ask(method, "/new")
            #expect(new.end() == .success(true) && new.now.content.elementsEqual("\"2\"".utf8))
        }
        #expect(origin.requests.count == 25)
        asking.time.advance(by: .seconds(4))
        for recorder in safe { #expect(recorder.end() == .success(true)) }
        // The requests that left the connection share a new one.
        #expect(asking.counters[.upstreamConnections] <= 3 && asking.counters[.upstreamRetries] == 20)
        for recorder in [unsafe, begun] { #expect(asking.wait(for: recorder).0 == .failure(.connectionReadTimeout)) }
        #expect(origin.requests.count == 45 && asking.ended(.unresponsive) == 1)
    }
}
