// Tests of compression: one stored response serves every coding. Uncompressed text is compressed for clients, except where that would
// expose secrets (BREACH).

import CachePolicy
import CacheStore
import ContentCodings
import Downstream
import Figures
import HTTPCore
import Reactor
import Sending
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Compression")
struct CompressionTests {
    private static let text = "[" + (0..<200).map { "{\"number\":\($0),\"text\":\"some more of the same\"}" }.joined(separator: ",") + "]"
    private static let gzip = [("Accept-Encoding", "gzip")]

    private func play(_ lines: [String] = ["Cache-Control: max-age=60"], _ configure: @escaping (inout ProxySettings) -> Void = { _ in })
        throws
        -> ProxyPlay
    {
        try ProxyPlay(ScriptedOrigin { _ in [.json(Self.text, lines + ["ETag: \"x\""])] }, configure)
    }

    private func isHit(_ response: TestResponse) -> Bool { response["Cache-Status"]?.contains("; hit") == true }

    private func plain(_ response: TestResponse) throws -> String {
        let name = Array((response["Content-Encoding"] ?? "identity").utf8)
        let coding = try #require(ContentCoding(named: name[...]))
        return String(decoding: try ContentDecoder.decode(response.content, coding, limit: 1 << 20), as: UTF8.self)
    }

    @Test(
        "a compressed stored response is served compressed or decoded; conditions and ranges match the form served",
        arguments: [Compression.gzip, .zstd, .br])
    func stored(compression: Compression) throws {
        let play = try play { $0.otherRoute.compression = compression }
        let name = compression.coding.name.description
        #expect(try self.plain(try play.get("/a", [("Accept-Encoding", name)])) == Self.text)
        play.flushStore()
        #expect(try play.metric("cistern_store_encoded_total") == 1)
        #expect(try play.metric("cistern_store_encoded_bytes_total{form=\"before\"}") == Double(Self.text.utf8.count))
        #expect(try #require(try play.metric("cistern_store_encoded_bytes_total{form=\"after\"}")) < Double(Self.text.utf8.count / 4))
        for _ in 0..<3 {
            let coded = try play.get("/a", [("Accept-Encoding", name)])
            #expect(coded["Content-Encoding"] == name && coded["Content-Length"] == String(coded.content.count))
            #expect(coded["ETag"] == "W/\"x~cistern\"" && coded["Vary"] == "Accept-Encoding" && isHit(coded))
            #expect(try self.plain(coded) == Self.text)
            let plain = try play.get("/a")
            #expect(
                plain["Content-Encoding"] == nil && plain["ETag"] == "\"x\"" && plain.text == Self.text
                    && plain["Vary"] == "Accept-Encoding")
            let other = try play.get("/a", Self.gzip)
            #expect(other["Content-Encoding"] == "gzip" && isHit(other))
            #expect(try self.plain(other) == Self.text)
            let part = try play.get("/a", Self.gzip + [("Range", "bytes=100-199")])
            #expect(part.status == 206 && part.text == Self.text.dropFirst(100).prefix(100) && part["Content-Encoding"] == nil)
            #expect(part["Content-Range"] == "bytes 100-199/\(Self.text.utf8.count)" && part["ETag"] == "\"x\"")
            #expect(try play.get("/a", [("If-None-Match", "\"x\"")]).status == 304)
            let same = try play.get("/a", [("Accept-Encoding", name), ("If-None-Match", "W/\"x~cistern\"")])
            #expect(same.status == 304 && same["Vary"] == "Accept-Encoding")
            let asked = try play.request("HEAD", "/a", [("Accept-Encoding", name)])
            #expect(asked["Content-Encoding"] == name && asked["Content-Length"] == String(coded.content.count) && asked.content.isEmpty)
            #expect(try play.request("HEAD", "/a")["Content-Length"] == String(Self.text.utf8.count))
        }
        // Encoded once, decoded twice, and kept for later hits.
        #expect(try play.metric("cistern_recoded_contents_total{from=\"made\"}") == (compression == .gzip ? 2 : 3))
    }

    @Test("content compressed by the upstream is stored and served unchanged")
    func compressedByUpstream() throws {
        let coded = try #require(Array(Self.text.utf8).withUnsafeBytes { GzipEncoder(.thorough).encode($0) })
        let origin = ScriptedOrigin { _ in
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nETag: \"x\"\r\nContent-Length: \(coded.count)\r\n"
            return [.send(head + "Cache-Control: max-age=60\r\n\r\n"), .sendBytes(coded)]
        }
        let play = try ProxyPlay(origin)
        // Also for requests with credentials: the upstream chose the coding.
        for fields in [[], [("Authorization", "Bearer x")]] {
            #expect(try play.get("/a", Self.gzip + fields).content == coded)
            play.flushStore()
            let hit = try play.get("/a", Self.gzip + fields)
            #expect(hit.content == coded && hit["ETag"] == "W/\"x~cistern\"" && isHit(hit))
            #expect(try play.get("/a", fields).text == Self.text)
        }
        #expect(try play.metric("cistern_store_encoded_total") == 0)
    }

    @Test("content that may hold secrets is stored compressed, but sent compressed only with permission (BREACH)")
    func secrets() throws {
        let user = [("Authorization", "Bearer x")]
        for always in [false, true] {
            let play = try play { if always { $0.otherRoute.compression = .always } }
            for _ in 0..<2 {
                let response = try play.get("/a", Self.gzip + user)
                #expect(response["Content-Encoding"] == (always ? "gzip" : nil))
                #expect(try self.plain(response) == Self.text)
                play.flushStore()
            }
            #expect(try play.metric("cistern_store_encoded_total") == 1)
        }
        let play = try play(["Cache-Control: max-age=60", "Set-Cookie: a=b"]) { $0.policy.setCookie = .keep }
        for _ in 0..<2 { #expect(try play.get("/a", Self.gzip)["Content-Encoding"] == nil) }
        // Also for responses that are not stored, and without configured credential fields.
        let letter = try self.play(["Cache-Control: no-store"]) { $0.policy.credentials.fields = [] }
        for method in ["GET", "POST"] {
            #expect(try letter.request(method, "/a", Self.gzip + user)["Content-Encoding"] == nil, "\(method)")
            #expect(try letter.request(method, "/a", Self.gzip)["Content-Encoding"] == "gzip", "\(method)")
        }
        for credential in ["Set-Cookie: a=b", "X-Auth-Token: a"] {
            #expect(try self.play(["Cache-Control: no-store", credential]).get("/a", Self.gzip)["Content-Encoding"] == nil)
            let hits = try self.play(["Cache-Control: max-age=60", credential])
            for _ in 0..<2 { #expect(try hits.get("/a", Self.gzip)["Content-Encoding"] == nil) }
        }
    }

    @Test("misses and passed responses are compressed, except with no-transform or when the operator disables it")
    func passed() throws {
        for (lines, encoded) in [
            (["Cache-Control: max-age=60"], true), (["Cache-Control: no-store"], true), (["Cache-Control: no-store, no-transform"], false),
        ] {
            let play = try play(lines)
            let response = try play.get("/a", Self.gzip)
            #expect(response["Content-Encoding"] == (encoded ? "gzip" : nil) && response["ETag"] == (encoded ? "W/\"x~cistern\"" : "\"x\""))
            #expect(response["Vary"] == (encoded ? "Accept-Encoding" : nil))
            #expect(try plain(response) == Self.text)
            #expect(try play.get("/b")["Content-Encoding"] == nil)
            #expect(try play.get("/b", Self.gzip + [("Cache-Control", "no-transform")])["Content-Encoding"] == nil)
            #expect(try play.get("/c", Self.gzip + [("Authorization", "x")])["Content-Encoding"] == nil)
            #expect(try play.request("POST", "/c", Self.gzip + [("Cookie", "a=b")], content: "1")["Content-Encoding"] == nil)
        }
        let off = try play { $0.otherRoute.compression = .off }
        for _ in 0..<2 { #expect(try off.get("/a", Self.gzip)["Content-Encoding"] == nil) }
    }

    @Test("a large miss is compressed off the event loop while it is sent")
    func longMiss() throws {
        let text = "[" + (0..<40_000).map { "{\"n\":\($0)}" }.joined(separator: ",") + "]"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(text)] })
        let client = try play.client()
        for _ in 0..<2 {
            let response = try #require(client.get("/a", Self.gzip))
            #expect(response["Content-Encoding"] == "gzip" && response["Transfer-Encoding"] == "chunked")
            #expect(try ContentDecoder.decode(response.content, .gzip, limit: 1 << 20) == Array(text.utf8))
        }
        #expect(try play.metric("cistern_compressed_responses_total{how=\"whole\"}") == 2)
    }

    @Test(
        "event streams and responses that nginx would not buffer are not compressed",
        arguments: ["text/event-stream", "text/plain\r\nX-Accel-Buffering: no"])
    func events(_ type: String) throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nTransfer-Encoding: chunked\r\n\r\n"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.send(head + "7\r\ndata: 1\r\n0\r\n\r\n")] })
        let response = try play.get("/events", Self.gzip)
        #expect(response["Content-Encoding"] == nil && response.text == "data: 1")
    }

    @Test("each line of a compressed stream can be decoded as soon as it arrives")
    func streams() throws {
        let gate = Gate()
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [
                    .send("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n"),
                    .pass(gate), .send("7\r\ndata: 2\r\n0\r\n\r\n"),
                ]
            })
        let client = try play.client(sending: "GET /events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
        let head = try #require(client.readResponse(toHead: true))
        #expect(head["Content-Encoding"] == "gzip" && head["Vary"] == "Accept-Encoding")
        let first = try #require(client.readChunk())
        let decoder = try #require(PieceDecoder(.gzip))
        var space = [UInt8](repeating: 0, count: 7)
        #expect(try first.withUnsafeBytes { content in try space.withUnsafeMutableBytes { try decoder.decode(content, into: $0) } } == 7)
        #expect(String(decoding: space, as: UTF8.self) == "data: 1")
        #expect(try play.metric("cistern_compressing") == 1)
        gate.open()
        var all = first
        while let chunk = client.readChunk(), !chunk.isEmpty { all += chunk }
        #expect(try String(decoding: ContentDecoder.decode(all, .gzip, limit: 100), as: UTF8.self) == "data: 1data: 2")
        #expect(try play.waitFor("cistern_compressing", 0))
    }

    @Test("identity is not combined with another coding; a date in If-Range does not match a different coding")
    func joining() throws {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let play = try ProxyPlay(
            ScriptedOrigin { _ in [.json(Self.text, ["Content-Encoding: identity", "Cache-Control: max-age=60", "Last-Modified: \(date)"])]
            })
        for _ in 0..<2 {
            let coded = try play.get("/a", Self.gzip)
            #expect(coded.all("Content-Encoding") == ["gzip"])
            #expect(try plain(coded) == Self.text)
            play.flushStore()
        }
        let range = [("Range", "bytes=100-")]
        #expect(try play.get("/a", Self.gzip + range).status == 206)
        let joined = try play.get("/a", Self.gzip + range + [("If-Range", date)])
        #expect(joined.status == 200)
        #expect(try plain(joined) == Self.text)
    }

    @Test("HEAD and 304 carry the fields of the corresponding GET response, also before anything is stored")
    func heads() throws {
        let play = try play(["Cache-Control: no-store"])
        let head = try play.request("HEAD", "/a", Self.gzip)
        #expect(
            head["Content-Encoding"] == "gzip" && head["ETag"] == "W/\"x~cistern\"" && head["Content-Length"] == nil
                && head["Vary"] == "Accept-Encoding")
        #expect(try play.request("HEAD", "/a")["Content-Length"] == String(Self.text.utf8.count))
        let own = try ProxyPlay(ScriptedOrigin { _ in [.json(Self.text)] })
        let tag = try #require(try own.get("/a")["ETag"])
        let same = try own.get("/a", Self.gzip + [("If-None-Match", tag), ("Cache-Control", "no-cache")])
        #expect(same.status == 304 && same["Vary"] == "Accept-Encoding")
    }

    @Test("content being compressed for a slow client counts as held memory")
    func held() throws {
        let worker = LoopWorker(loop: EventLoop(label: "test"))
        let text = Array(Self.text.utf8)
        let content = try #require(ProducedContent(.bytes(text), .identity, text.indices, isCoded: true, worker))
        #expect(content.heldBytes == text.count + GzipEncoder.heldBytes)
    }

    @Test("beyond the limit on concurrent compressions, passed responses are sent uncompressed")
    func bounded() throws {
        let codings = PassedCodings()
        let text = Array(String(repeating: "{\"a\":1}", count: 1_000).utf8)
        var running = (0..<64).map { _ in codings.begin() }
        #expect(running.allSatisfy { $0 != nil } && codings.begin() == nil)
        running.removeLast()
        var figures = Figures()
        codings.addFigures(to: &figures)
        #expect(figures[.compressing] == 63 && figures[.compressedPassed] == 64 && figures[.compressionRefused] == 1)
        // Compression of a long download ends after some MiB.
        let coding = try #require(codings.begin())
        var (coded, sent, lengths): ([UInt8], Int, [Int]) = ([], 0, [])
        while sent < 9 << 20 {
            let piece = coding.code(text.span)
            (coded, sent) = (coded + piece, sent + text.count)
            lengths.append(piece.count)
        }
        coded += coding.end()
        #expect(lengths[0] < 200 && lengths[lengths.count - 1] > text.count)
        #expect(try ContentDecoder.decode(coded, .gzip, limit: 16 << 20).count == sent)
    }

    @Test("a confirmation keeps the stored coding; an older uncompressed stored response is still sent compressed")
    func confirmed() throws {
        let play = try play(["Cache-Control: max-age=10"])
        _ = try play.get("/a")
        play.flushStore()
        play.origin.react { _ in [.send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nCache-Control: max-age=20\r\n\r\n")] }
        play.time.advance(by: .seconds(15))
        let confirmed = try play.get("/a", Self.gzip)
        #expect(confirmed["Content-Encoding"] == "gzip" && confirmed["Cache-Status"]?.contains("fwd=stale") == true)
        play.flushStore()
        play.origin.down()
        for fields in [[], Self.gzip] { #expect(try plain(try play.get("/a", fields)) == Self.text) }
        #expect(try play.metric("cistern_store_encoded_total") == 1)
    }

    @Test("a stored response confirmed before the store's writer handles it is still compressed")
    func confirmedEarly() throws {
        let play = try play(["Cache-Control: max-age=10"]) { $0.otherRoute.compression = .off }
        _ = try play.get("/a")
        play.flushStore()
        play.stop()
        let later = try ProxyPlay(play.origin) { $0.store?.directory = play.directory }
        play.origin.react { _ in [.send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nCache-Control: max-age=20\r\n\r\n")] }
        later.time.advance(by: .seconds(15))
        #expect(try later.get("/a").text == Self.text)
        later.flushStore()
        #expect(try later.metric("cistern_store_encoded_total") == 1)
        #expect(try plain(try later.get("/a", Self.gzip)) == Self.text)
    }
}
