// Tests that the response to a write waits briefly until the invalidation is in the store's files. A process that is killed afterwards must
// not restore invalidated responses.

import CSystem
import Glibc
import Reactor
import ReverseProxy
import TestSupport
import Testing

@testable import CacheStore

@Suite("Writes and invalidation marks on disk", .play, .clientProtocols, .upstreams)
struct WrittenMarksTests {
    /// A store's disk that allocates no blocks for new files before the gate opens.
    private final class Disk: Sendable {
        let gate = Gate()
        let isFull = Mutex(false)

        func hold(_ settings: inout ProxySettings) {
            settings.store?.allocate = { [gate, isFull] descriptor, bytes in
                gate.pass()
                return isFull.withLock { $0 } ? ENOSPC : csystem_allocate(descriptor, bytes)
            }
        }
    }

    private static func origin(_ status: String = "200 OK", _ content: String = "{\"written\":true}") -> ScriptedOrigin {
        ScriptedOrigin { request in
            request.method == "GET" ? [.json("{}", ["Cache-Control: max-age=600"])] : [.json(content, status: status)]
        }
    }

    private let responses = "cistern_upstream_responses_total{status_class=\"2xx\"}"
    private let early = "cistern_writes_before_marks_total"

    /// Sends a write and waits until the upstream has responded.
    private func write(_ target: String, _ play: ProxyPlay) throws -> TestClient {
        let client = try TestClient(port: play.port)
        if ProxyPlay.clientProtocol.isSecured { try client.secure() }
        let before = try #require(try play.metric(responses))
        client.send("PUT \(target) HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        #expect(try play.waitFor(responses, before + 1))
        return client
    }

    @Test("the response to a write is sent once its invalidation mark is on disk", .enabled(if: !ProxyPlay.clientProtocol.speaksHTTP2))
    func waits() throws {
        let disk = Disk()
        let play = try ProxyPlay(Self.origin()) { disk.hold(&$0) }
        #expect(try play.get("/a").status == 200)
        let client = try write("/a", play)
        #expect(!client.hasInput(within: 0))
        // The upstream has responded. Only the writing client still waits.
        #expect(try play.get("/b").status == 200)
        #expect(!client.hasInput(within: 0))
        disk.gate.open()
        let response = try #require(client.readResponse())
        #expect(response.text == "{\"written\":true}" && response["Cache-Status"]?.contains("detail") == false)
        #expect(try play.metric(early) == 0)
    }

    @Test(
        "a hanging disk delays the response by 50 ms, which Cache-Status and a metric report",
        .enabled(if: !ProxyPlay.clientProtocol.speaksHTTP2))
    func hangs() throws {
        let disk = Disk()
        let play = try ProxyPlay(Self.origin()) { disk.hold(&$0) }
        defer { disk.gate.open() }
        #expect(try play.get("/a").status == 200)
        for number in 1...2 {
            let client = try write("/a", play)
            play.time.advance(by: .milliseconds(49))
            #expect(try play.get("/b").status == 200)
            #expect(!client.hasInput(within: 0))
            play.time.advance(by: .milliseconds(1))
            let response = try #require(client.readResponse())
            #expect(response.status == 200 && response.text == "{\"written\":true}")
            #expect(response["Cache-Status"]?.hasSuffix("; detail=marks_not_written") == true)
            #expect(try play.metric(early) == Double(number))
        }
    }

    @Test("a full disk delays no response and is reported at once")
    func full() throws {
        let disk = Disk()
        disk.gate.open()
        let play = try ProxyPlay(Self.origin()) { disk.hold(&$0) }
        disk.isFull.withLock { $0 = true }
        #expect(try play.get("/a").status == 200)
        let response = try play.request("PUT", "/a", content: "{}")
        #expect(response.status == 200 && response["Cache-Status"]?.contains("detail=marks_not_written") == true)
        disk.isFull.withLock { $0 = false }
        #expect(try play.request("PUT", "/a", content: "{}")["Cache-Status"]?.contains("detail") == false)
        #expect(try play.metric(early) == 1)
    }

    @Test("a rejected write invalidates nothing and does not wait for the disk", arguments: ["404 Not Found", "501 Not Implemented"])
    func unchanged(status: String) throws {
        let disk = Disk()
        let play = try ProxyPlay(Self.origin(status)) { disk.hold(&$0) }
        defer { disk.gate.open() }
        let response = try play.request("PUT", "/a", content: "{}")
        #expect(response.status / 100 == (status.hasPrefix("4") ? 4 : 5) && response["Cache-Status"]?.contains("detail") == false)
    }
}
