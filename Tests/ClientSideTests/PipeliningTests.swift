// Tests of many pipelined requests in one read, which a connection handles in several turns of its event loop.

import TestSupport
import Testing

@Suite("Many pipelined requests", .play, .http1Protocols)
struct PipeliningTests {
    private static let targets = (0..<1_000).map { "/\($0 % 10)" }

    private static func text(of targets: [String]) -> String {
        targets.map { "GET \($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined()
    }

    private func play() throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { [.json("\"\($0.target)\"", ["Cache-Control: max-age=60"])] })
    }

    @Test("all are answered in order, also after the client has closed its sending side")
    func hits() throws {
        let play = try play()
        for target in Self.targets.prefix(10) { _ = try play.get(target) }
        let client = try play.client(sending: Self.text(of: Self.targets))
        client.finishSending()
        #expect(Self.targets.allSatisfy { client.readResponse()?.text == "\"\($0)\"" })
        #expect(client.isClosedByServer())
        #expect(play.origin.requests.count == 10)
    }

    @Test("hits, uploads and misses in one read are answered in order")
    func mixed() throws {
        let play = try play()
        for target in Self.targets.prefix(10) { _ = try play.get(target) }
        let chunks = String(repeating: "1\r\nx\r\n", count: 500) + "0\r\n\r\n"
        let upload = "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
        let client = try play.client()
        for number in 0..<3 {
            client.send(Self.text(of: Array(Self.targets.prefix(200))) + upload + Self.text(of: ["/miss/\(number)"]))
        }
        for number in 0..<3 {
            let expected = Self.targets.prefix(200) + ["/up", "/miss/\(number)"]
            #expect(expected.allSatisfy { client.readResponse()?.text == "\"\($0)\"" })
        }
        #expect(play.origin.requests.filter { $0.target == "/up" }.map(\.content.count) == [500, 500, 500])
    }
}
