// Tests of Expect: 100-continue (RFC 9110 §10.1.1) with content that is read whole, streamed or not read.

import CachePolicy
import Reactor
import TestSupport
import Testing

@testable import Downstream
@testable import ReverseProxy

@Suite("Expect: 100-continue", .play, .clientProtocols)
struct ContinueTests {
    private static let told = "HTTP/1.1 100 Continue\r\n\r\n"

    private func echo() -> ScriptedOrigin {
        ScriptedOrigin { [.json("{\"expect\":\"\($0["Expect"] ?? "")\",\"count\":\($0.content.count)}")] }
    }

    /// A proxy that streams content of more than ten bytes.
    private func play(_ origin: ScriptedOrigin) throws -> ProxyPlay { try ProxyPlay(origin) { $0.downstream.requestBufferBytes = 10 } }

    private func head(_ target: String, _ count: Int, _ more: String = "") -> String {
        "POST \(target) HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\(more)Content-Length: \(count)\r\n\r\n"
    }

    @Test("for buffered content the proxy sends 100 itself and does not forward the expectation")
    func whole() throws {
        let play = try play(echo())
        for (text, rest) in [
            (head("/a", 4), "1234"),
            ("PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\n1234\r\n0\r\n\r\n"),
            ("QUERY /a HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", "1234"),
        ] {
            let client = try play.client(sending: text)
            #expect(client.hasInput(within: 10_000))
            #expect(try play.metric("cistern_upstream_active_requests") == 0)
            client.send(rest)
            let response = client.readResponse()
            #expect(response?.informational == ["HTTP/1.1 100 Continue"])
            #expect(response?.text == "{\"expect\":\"\",\"count\":4}")
        }
    }

    @Test("for streamed content the expectation is forwarded, and so is the upstream's 100")
    func relayed() throws {
        let gate = Gate()
        let origin = echo()
        origin.reactToExpectation { _ in [.pass(gate), .send(Self.told)] }
        let play = try play(origin)
        let client = try play.client(sending: head("/a", 20))
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        #expect(!client.hasInput(within: 0))
        gate.open()
        #expect(client.hasInput(within: 10_000))
        client.send(String(repeating: "x", count: 20))
        let response = client.readResponse()
        #expect(response?.informational == ["HTTP/1.1 100 Continue"])
        #expect(response?.text == "{\"expect\":\"100-continue\",\"count\":20}")
    }

    @Test("after a final response the content is not read, and the client need not send it", arguments: [413, 417])
    func unwanted(_ status: Int) throws {
        let origin = echo()
        origin.reactToExpectation { _ in
            [.send("HTTP/1.1 \(status) No\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"), .close]
        }
        let play = try play(origin)
        let client = try play.client(sending: head("/a", 20))
        let response = client.readResponse()
        #expect(response?.status == status && response?.text == "no" && response?.informational == [])
        #expect(response?["Connection"] == "close")
        #expect(client.isClosedByServer())
        #expect(origin.requests.isEmpty)
        #expect(try play.metric("cistern_upstream_active_requests") == 0)
    }

    @Test("if the upstream stays silent, the client gets 100 after a second")
    func silent() throws {
        let play = try play(echo())
        let client = try play.client(sending: head("/a", 20))
        #expect(try play.waitFor("cistern_upstream_connections_total", 1))
        #expect(!client.hasInput(within: 0))
        play.time.advance(by: .milliseconds(1_100))
        #expect(client.hasInput(within: 10_000))
        client.send(String(repeating: "x", count: 20))
        let response = client.readResponse()
        #expect(response?.informational == ["HTTP/1.1 100 Continue"])
        #expect(response?.text == "{\"expect\":\"100-continue\",\"count\":20}")
    }

    @Test("a client that sends its content at once gets no 100")
    func contentSentAtOnce() throws {
        let play = try play(echo())
        let client = try play.client(sending: head("/a", 20) + String(repeating: "x", count: 20))
        let response = client.readResponse()
        #expect(response?.text == "{\"expect\":\"100-continue\",\"count\":20}" && response?.informational == [])
        play.time.advance(by: .seconds(2))
        client.send(head("/b", 20) + String(repeating: "x", count: 10))
        #expect(try play.waitFor("cistern_upstream_active_requests", 1))
        client.send(String(repeating: "x", count: 10))
        #expect(client.readResponse()?.text == "{\"expect\":\"100-continue\",\"count\":20}")
    }

    @Test("no 100 is sent for a request that the proxy refuses")
    func refused() throws {
        let play = try ProxyPlay(echo()) {
            $0.downstream.contentLimitBytes = 100
            $0.mode = .offline
        }
        for (text, status) in [
            (head("/a", 101), 413), (head("/a", 4), 504), (head("/a", 4, "Transfer-Encoding: chunked\r\n"), 400),
            ("TRACE /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", 405),
            ("POST /a HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 4\r\n\r\n", 417),
        ] {
            let client = try play.client(sending: text)
            let response = client.readResponse()
            #expect(response?.status == status && response?.informational == [])
            #expect(client.isClosedByServer())
        }
        #expect(play.origin.requests.isEmpty)
    }

    @Test("HTTP/1.0 requests get no 100, and their expectation is not forwarded", arguments: [4, 20])
    func oldClient(count: Int) throws {
        let play = try play(echo())
        let client = try play.client(sending: "POST /a HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: \(count)\r\n\r\n")
        client.send(String(repeating: "x", count: count))
        let response = client.readResponse()
        #expect(response?.text == "{\"expect\":\"\",\"count\":\(count)}" && response?.informational == [])
    }

    @Test("the admin interface also sends 100 Continue")
    func administrator() throws {
        let play = try play(echo())
        let client = try TestClient(.unix(path: play.adminSocket))
        client.send("POST /-/entries HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        #expect(client.hasInput(within: 10_000))
        client.send("{")
        let response = client.readResponse()
        #expect(response?.status == 400 && response?.informational == ["HTTP/1.1 100 Continue"])
    }
}
