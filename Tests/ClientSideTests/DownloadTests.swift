// Tests of clients that read slowly or pause: their use of upstream connections and memory.

import TestSupport
import Testing
import Upstream

@testable import Downstream
@testable import ReverseProxy

@Suite("Downloads", .play, .clientProtocols)
struct DownloadTests {
    private static let content = String(repeating: "0123456789abcdef", count: 1 << 18)  // 4 MiB

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let fields: [String]
        let type: String
        var method = "GET"
        var isChunked = false

        init(_ name: String, _ fields: [String] = [], type: String = "application/json", method: String = "GET", isChunked: Bool = false) {
            (testDescription, self.fields, self.type, self.method, self.isChunked) = (name, fields, type, method, isChunked)
        }

        var steps: [OriginStep] {
            guard isChunked else { return [.answer(DownloadTests.content, type: type, fields)] }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nTransfer-Encoding: chunked\r\n\r\n"
            let count = String(DownloadTests.content.utf8.count, radix: 16)
            return [.send(head + count + "\r\n" + DownloadTests.content + "\r\n0\r\n\r\n")]
        }
    }

    @Test(
        "the upstream connection is released at the end of the response, even if the client reads slowly",
        arguments: [
            Row("not to be stored", ["Cache-Control: no-store"]), Row("not JSON", type: "text/plain"), Row("bypassed", method: "POST"),
            Row("of unknown length", type: "text/plain", isChunked: true),
        ])
    func slowReader(_ row: Row) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in row.steps }) { $0.upstream.maximumConnections = 1 }
        let slow = try play.client(sending: "\(row.method) /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(slow.hasInput(within: 10_000))
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        // Meanwhile the only upstream connection serves another request.
        let other = try play.client()
        #expect(other.request(row.method, "/b")?.content.count == Self.content.utf8.count)
        let response = slow.readResponse()
        #expect(response?.isComplete == true && response?.text == Self.content)
        #expect(try play.waitFor("cistern_unsent_bytes", 0))
        #expect(try play.metric("cistern_connections_cut_total") == 0)
    }

    @Test("slow readers occupy at most half of the upstream connections while others wait", .slow, arguments: [(4, 4), (10, 8)])
    func slowReaders(connections: Int, readers: Int) throws {
        let length = 16 * Self.content.utf8.count
        let head = OriginStep.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: \(length)\r\n\r\n")
        let long: [OriginStep] = [head] + Array(repeating: OriginStep.send(Self.content), count: 16)
        let origin = ScriptedOrigin { $0.target.hasSuffix("/long") ? long : [.json("1")] }
        let play = try ProxyPlay(origin) { ($0.upstream.maximumConnections, $0.content.bufferLimitBytes) = (connections, 1 << 20) }
        let slow = try (0..<readers).map { number in
            let client = try play.client(sending: "GET /\(number)/long HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(client.hasInput(within: 10_000))
            return client
        }
        // The clock stands still, so no timeout releases memory.
        for target in ["/c/1", "/d/1"] { #expect(try play.get(target).status == 200) }
        #expect(try play.request("POST", "/e/1", content: "1").status == 200)
        let whole = slow.compactMap { $0.readResponse() }.count { $0.isComplete && $0.content.count == length }
        #expect(whole == readers - 1)
    }

    @Test("beyond the buffer limits the upstream is read only as fast as the client reads", .slow, arguments: ["longer", "no memory"])
    func backpressure(_ why: String) throws {
        // Exceeds the kernel's buffers on both sides.
        let length = 16 * Self.content.utf8.count
        let head = OriginStep.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: \(length)\r\n\r\n")
        let long: [OriginStep] = [head] + Array(repeating: OriginStep.send(Self.content), count: 16)
        let origin = ScriptedOrigin { $0.target == "/a" ? long : [.json("1")] }
        let play = try ProxyPlay(origin) {
            $0.content.bufferLimitBytes = why == "longer" ? 1 << 20 : 1 << 30
            $0.downstream.unsentLimitBytes = why == "longer" ? 512 << 20 : 4 << 20
        }
        let slow = try play.client(getting: "/a")
        #expect(slow.hasInput(within: 10_000))
        // The download is paused: all other requests are served, and no connection is cut, regardless of the budget.
        for _ in 0..<100 { #expect(try play.get("/b").status == 200) }
        #expect(try play.metric("cistern_upstream_active_requests") == 1)
        #expect(try (play.metric("cistern_unsent_bytes") ?? .infinity) <= 2_097_152)
        let response = slow.readResponse()
        #expect(response?.isComplete == true && response?.content.count == length)
        #expect(try play.waitFor("cistern_unsent_bytes", 0))
        #expect(try play.metric("cistern_connections_cut_total") == 0)
    }
}
