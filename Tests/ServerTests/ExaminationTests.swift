// Tests that short content is examined on the event loop and long content off it, with equal results.

import CachePolicy
import HTTPCore
import JSON
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Content examination", .play, .clientProtocols)
struct ExaminationTests {
    @Test("a large response is served identically whether examined on or off the event loop", .slow, arguments: [false, true])
    func plays(isCoded: Bool) throws {
        let text = TestContent.list(3_000)
        let content = isCoded ? try TestContent.gzip(text) : Array(text.utf8)
        let coding = isCoded ? "Content-Encoding: gzip\r\n" : ""
        var seen: [[String?]] = []
        for atOnce in [0, 1 << 20] {
            let origin = ScriptedOrigin { _ in
                [
                    .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\(coding)Content-Length: \(content.count)\r\n\r\n"),
                    .sendBytes(content),
                ]
            }
            let play = try ProxyPlay(origin) {
                $0.content.examinedAtOnceBytes = atOnce
                $0.otherRoute.compression = .off
                $0.otherRoute.good.mustHave = [JSONPointer("/data/2999/id")].compactMap(\.self)
            }
            let first = try play.get("/a", [("Accept-Encoding", "gzip")])
            #expect(first.content == content && first["Content-Encoding"] == (isCoded ? "gzip" : nil))
            let tag = try #require(first["ETag"])
            let second = try play.get("/a", [("If-None-Match", tag)])
            #expect(second.status == 304)
            let junk = Array(TestContent.list(2_999).utf8)
            origin.react { _ in
                [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(junk.count)\r\n\r\n"), .sendBytes(junk)]
            }
            let rescued = try play.get("/a")
            #expect(rescued.text == text)
            #expect(try play.metric("cistern_content_examined_beside_total") == (atOnce == 0 ? 3 : 0))
            seen.append([tag, first["Cache-Status"], second["Cache-Status"], rescued["Cache-Status"]])
        }
        #expect(seen[0] == seen[1])
    }

    @Test("followers of a large response wait for its end and receive the stored response")
    func followers() throws {
        let text = TestContent.list(3_000)
        let gate = Gate()
        let origin = ScriptedOrigin { _ in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(text.utf8.count)\r\n\r\n"), .pass(gate),
                .send(text),
            ]
        }
        let play = try ProxyPlay(origin) { $0.content.examinedAtOnceBytes = 0 }
        let clients = try (0..<4).map { _ in try play.client() }
        for client in clients { client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n") }
        #expect(try play.waitFor("cistern_collapsed_waiting", 3))
        gate.open()
        for client in clients { #expect(client.readResponse()?.text == text) }
        #expect(origin.requests.count == 1)
    }

    @Test("a client disconnect during examination is harmless, and the response is stored", .slow)
    func leaves() throws {
        let text = TestContent.list(10_000)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(text, ["Cache-Control: max-age=60"])] })
        do {
            let client = try play.client()
            client.endsWithReset()
            client.send("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
            #expect(try play.waitFor("cistern_content_examined_beside_total", 1))
        }
        #expect(try play.waitFor("cistern_stored_total", 1))
        #expect(try play.get("/a").text == text)
        #expect(play.origin.requests.count == 1)
        #expect(try play.waitFor("cistern_worker_queue{shard=\"0\",worker=\"content\"}", 0))
        #expect(try play.metric("cistern_worker_queue_bytes{shard=\"0\",worker=\"content\"}") == 0)
    }

    @Test("shutdown does not wait for examination or compression, and the next start succeeds", .slow)
    func end() throws {
        let text = TestContent.list(10_000)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(text, ["Cache-Control: max-age=60"])] }) { $0.content.compressFromBytes = 1 }
        let client = try play.client()
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try play.waitFor("cistern_content_examined_beside_total", 1))
        play.stop()
        try play.start()
        #expect(try play.get("/a").text == text)
        let coded = try (0..<4).map { _ in try play.client() }
        for client in coded { client.send("GET /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n") }
        try play.restart()
        #expect(try play.get("/a").text == text)
    }

    @Test("large request content has one key in any JSON spelling; a small difference gives another", .slow)
    func requests() throws {
        let content = { (more: String) in TestContent.list(3_000, more) }
        let origin = ScriptedOrigin { request in [.json("[\(request.content.count)]", ["Cache-Control: max-age=60"])] }
        let play = try ProxyPlay(origin) {
            $0.otherRoute.methods = [.post]
            $0.otherRoute.contentLimitBytes = 1 << 20
        }
        let fields = [("Content-Type", "application/json")]
        let first = try play.request("POST", "/search", fields, content: content(",\"x\":1,\"y\":2"))
        let same = try play.request("POST", "/search", fields, content: content(", \"y\" :2 , \"x\":1 "))
        #expect(same.text == first.text && same["Cache-Status"]?.contains("hit") == true)
        let other = try play.request("POST", "/search", fields, content: content(",\"x\":1,\"y\":3"))
        #expect(other["Cache-Status"]?.contains("hit") == false)
        let change = try play.request("POST", "/search", fields, content: content(",\"query\":\"mutation { a }\""))
        #expect(change["Cache-Status"]?.contains("hit") == false)
        #expect(origin.requests.count == 3)
        #expect(try play.metric("cistern_content_examined_beside_total") == 4)
    }
}
