// Tests of content codings: each of the three codings is decoded before storing, and damaged content is rejected.

import CachePolicy
import ContentCodings
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Content codings (RFC 9110 §8.4)", .play, .clientProtocols)
struct CodingTests {
    private static let text = "{\"id\":1,\"text\":\"abcabcabcabcabcabcabc\"}"

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8).compactMap(\.hexValue)
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    static let coded: [(ContentCoding, [UInt8])] = [
        (.brotli, bytes("a13001c0ef3cb063d24398954127ac4562c6f656585ae9f4258b18594aa2cb3c45400abd13073404")),
        (.zstd, bytes("28b52ffd2427dd0000a87b226964223a312c2274657874223a22616263227d0100f55c18a6727b96")),
    ]

    @Test("complete content is decoded; truncated, corrupt or trailing data is rejected", arguments: coded)
    func decoding(coding: ContentCoding, content: [UInt8]) throws {
        #expect(try ContentDecoder.decode(content, coding, limit: 1_000) == Array(Self.text.utf8))
        for count in content.indices {
            #expect(throws: ContentDecoder.Failure.damaged, "\(count)") {
                try ContentDecoder.decode(Array(content[..<count]), coding, limit: 1_000)
            }
        }
        #expect(throws: ContentDecoder.Failure.damaged) { try ContentDecoder.decode(content + [0, 1, 2, 3], coding, limit: 1_000) }
        #expect(throws: ContentDecoder.Failure.tooLarge) { try ContentDecoder.decode(content, coding, limit: 10) }
        RandomSchedules.run(500, steps: 1) { _ in
        } step: { _, random in
            var bent = content
            bent[random.below(bent.count)] ^= UInt8(1 + random.below(255))
            // Any result is fine, as long as the decoder neither traps nor exceeds the limit.
            if let out = try? ContentDecoder.decode(bent, coding, limit: 1_000) { try demand(out.count <= 1_000) }
        }
    }

    @Test("long content that clients request without its coding is kept decoded, and served whole and in part")
    func keptDecoded() throws {
        let text = "[" + (0..<40_000).map { "{\"n\":\($0)}" }.joined(separator: ",") + "]"
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json(text, ["Cache-Control: max-age=60"])] })
        _ = try play.get("/a")
        play.flushStore()
        for _ in 0..<2 { #expect(try play.get("/a").text == text) }
        #expect(try play.waitFor("cistern_recoded_memory_bytes", atLeast: Double(text.utf8.count)))
        let before = try play.metric("cistern_recoded_contents_total{from=\"beside\"}")
        #expect(try play.get("/a").text == text)
        #expect(try play.get("/a", [("Range", "bytes=100000-199999")]).text == text.dropFirst(100_000).prefix(100_000))
        #expect(try play.metric("cistern_recoded_contents_total{from=\"beside\"}") == before)
        #expect(try play.metric("cistern_recoded_contents_total{from=\"memory\"}") == 2)
    }

    @Test("one stored response serves all clients: encoded if accepted, decoded otherwise, also in a rescue", arguments: coded)
    func plays(coding: ContentCoding, content: [UInt8]) throws {
        let name = coding.name.description
        let origin = ScriptedOrigin { _ in
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: \(name)\r\nContent-Length: \(content.count)\r\n\r\n"
            return [.send(head), .sendBytes(content)]
        }
        let play = try ProxyPlay(origin)
        let asked = try play.get("/a", [("Accept-Encoding", "\(name), compress")])
        #expect(asked["Content-Encoding"] == name && asked.content == content)
        #expect(origin.requests.last?["Accept-Encoding"] == name)
        let plain = try play.get("/a")
        #expect(plain["Content-Encoding"] == nil && plain.text == Self.text)
        origin.down()
        let rescued = try play.get("/a", [("Accept-Encoding", "gzip")])
        #expect(rescued["Content-Encoding"] == nil && rescued.text == Self.text)
    }

    @Test("concatenated gzip members decode as one content; a damaged member fails (RFC 1952 §2.2)")
    func members() throws {
        let member = try #require(Array(String(repeating: "[1]", count: 20).utf8).withUnsafeBytes { GzipEncoder().encode($0) })
        let many = Array((0..<10_000).map { _ in member }.joined())
        #expect(try ContentDecoder.decode(many, .gzip, limit: 1 << 20).count == 600_000)
        #expect(throws: ContentDecoder.Failure.tooLarge) { try ContentDecoder.decode(many, .gzip, limit: 599_999) }
        let bent = member.dropLast() + [member[member.count - 1] ^ 1]
        // Zero padding after the last member is permitted.
        for count in [1, 512] {
            #expect(try ContentDecoder.decode(member + [UInt8](repeating: 0, count: count), .gzip, limit: 1_000).count == 60)
        }
        for tail in [[1], [0] + member, Array(member.dropLast()), Array(bent)] as [[UInt8]] {
            #expect(throws: ContentDecoder.Failure.damaged) { try ContentDecoder.decode(member + tail, .gzip, limit: 1_000) }
        }
    }

    @Test("a stored single gzip member is decoded without verifying the checksum again")
    func stored() throws {
        let decoder = try #require(StoredGzipDecoder())
        let text = Array(String(repeating: "{\"a\":[1,2,3]}", count: 300).utf8)
        let coded = try #require(text.withUnsafeBytes { GzipEncoder(.thorough).encode($0) })
        func decode(_ content: [UInt8], count: Int) -> [UInt8]? {
            var space = [UInt8](repeating: 0, count: count)
            let isDone = content.withUnsafeBytes { content in space.withUnsafeMutableBytes { decoder.decode(content, filling: $0) } }
            return isDone ? space : nil
        }
        for _ in 0..<2 {
            #expect(decode(coded, count: text.count) == text)
            for count in [0, 1, text.count - 1, text.count + 1] { #expect(decode(coded, count: count) == nil) }
            #expect(decode(coded + coded, count: text.count * 2) == nil && decode(coded + coded, count: text.count) == nil)
            var named = coded
            named[3] = 8
            named.insert(contentsOf: [0x61, 0], at: 10)
            #expect(decode(named, count: text.count) == nil)
            #expect(try ContentDecoder.decode(named, .gzip, limit: text.count) == text)
            for length in 0..<coded.count { #expect(decode(Array(coded[..<length]), count: text.count) == nil) }
        }
    }

    @Test("small content is compressed with little memory, up to and beyond the size limit")
    func sizes() throws {
        let encoder = GzipEncoder(.thorough)
        for count in [30, 1_000, 4_095, 4_096, 4_097, 9_000, 64] {
            let content = Array(String(repeating: "{\"number\":1,\"text\":\"abc\"}", count: count / 20).utf8.prefix(count))
            let coded = try #require(content.withUnsafeBytes { encoder.encode($0) } ?? (count < 100 ? [] : nil))
            guard !coded.isEmpty else { continue }
            #expect(coded.count < content.count)
            #expect(try ContentDecoder.decode(coded, .gzip, limit: content.count) == content)
        }
    }

    @Test("the encoder starts afresh for each content, also after content that does not shrink")
    func encoding() throws {
        let encoder = GzipEncoder()
        var generator = SeededGenerator(seed: 1)
        let noise = (0..<5_000).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        for number in 0..<5 {
            #expect(noise.withUnsafeBytes { encoder.encode($0) } == nil)
            let content = Array(String(repeating: "{\"n\":\(number)}", count: 100 * (number + 1)).utf8)
            let coded = try #require(content.withUnsafeBytes { encoder.encode($0) })
            #expect(coded.count < content.count / 4)
            #expect(try ContentDecoder.decode(coded, .gzip, limit: content.count) == content)
        }
    }
    @Test(
        "JSON in a charset in which a character may contain a backslash is passed on, and does not replace valid JSON",
        arguments: ["Shift_JIS", "\"GBK\"; q=1", "utf-8; profile=en-gb"])
    func charsets(charset: String) throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("1")] })
        #expect(try play.get("/a").text == "1")
        play.origin.react { _ in [.answer("{\"t\":\"\\z\"}", type: "application/json; charset=\(charset)")] }
        #expect(try play.get("/a").text == (charset.hasPrefix("utf-8") ? "1" : "{\"t\":\"\\z\"}"))
        play.origin.down()
        #expect(try play.get("/a").text == "1")
    }
}
