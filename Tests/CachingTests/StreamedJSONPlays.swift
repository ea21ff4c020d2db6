// Plays of JSON that the upstream sends slowly. A second value shows a stream, which is forwarded at once unless a stored response could
// replace it.

import HTTPCore
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing
import Upstream

/// A response in pieces. The origin sends each piece when the play says so.
private final class SlowResponse {
    let play: ProxyPlay
    private let gates: [Gate]
    private let pieces: [String]
    private var opened = 0
    /// Bytes of content from the upstream when the response began.
    private let bytesBefore: Double
    /// The content that has arrived.
    private(set) var arrived = ""

    init(_ play: ProxyPlay, _ pieces: [String]) throws {
        (self.play, self.pieces) = (play, pieces)
        let gates = (0...pieces.count).map { _ in Gate() }
        self.gates = gates
        bytesBefore = try play.metric(Self.bytes) ?? 0
        var steps: [OriginStep] = [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")]
        for (piece, gate) in zip(pieces, gates) {
            steps.append(.pass(gate))
            // An empty chunk would be the end.
            if !piece.isEmpty { steps.append(.send("\(String(piece.utf8.count, radix: 16))\r\n\(piece)\r\n")) }
        }
        steps += [.pass(gates[pieces.count]), .send("0\r\n\r\n")]
        play.origin.react { [steps] _ in steps }
    }

    private static let bytes = "cistern_upstream_response_bytes_total"

    /// Sends the next piece, and waits until Cistern has it.
    func send() throws {
        gates[opened].open()
        arrived += pieces[opened]
        opened += 1
        #expect(try play.waitFor(Self.bytes, atLeast: bytesBefore + Double(arrived.utf8.count)))
    }

    func end() {
        for gate in gates[opened...] { gate.open() }
    }
}

/// A client that reads a response while it arrives.
private final class SlowReader {
    let client: TestClient
    private(set) var head: TestResponse?
    private(set) var text = ""

    init(_ play: ProxyPlay, _ target: String = "/a", _ lines: String = "") throws {
        client = try play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\(lines)\r\n")
    }

    /// Reads until the content has this many bytes, or the response ends.
    /// - Returns: the content so far.
    func read(_ count: Int) -> String {
        if head == nil { head = client.readResponseHead() }
        if head?["Transfer-Encoding"] == nil {
            text += String(decoding: client.read(count - text.utf8.count), as: UTF8.self)
        } else {
            while text.utf8.count < count, let chunk = client.readChunk(), !chunk.isEmpty { text += String(decoding: chunk, as: UTF8.self) }
        }
        return text
    }

    /// Reads to the end. Returns whether the end was complete: the announced length, or the last chunk.
    func readEnd() -> Bool {
        if head == nil { head = client.readResponseHead() }
        guard let head, head["Transfer-Encoding"] != nil else {
            let length = head?["Content-Length"].flatMap { Int($0) } ?? 0
            return read(length).utf8.count == length
        }
        while let chunk = client.readChunk() {
            if chunk.isEmpty { return true }
            text += String(decoding: chunk, as: UTF8.self)
        }
        return false
    }

    var hasNothing: Bool { !client.hasInput(within: 20) }
}

@Suite("JSON that arrives slowly", .play, .upstreams)
struct StreamedJSONPlays {
    fileprivate static let event = "{\"type\":\"ADDED\",\"object\":{\"n\":1}}\n"

    fileprivate func play(_ configure: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> ProxyPlay {
        try ProxyPlay(ScriptedOrigin { _ in [] }) {
            $0.upstream.totalTimeout = .seconds(120)
            configure(&$0)
        }
    }

    private func why(_ play: ProxyPlay) throws -> JSONValue? {
        JSONValue(try play.admin("GET", "/-/why?last=1").content)?["exchanges"]?.array?.first
    }

    @Test("after a second value, each value is forwarded at once, without the limits of other responses")
    func values() throws {
        let play = try play()
        let slow = try SlowResponse(play, [String](repeating: Self.event, count: 6))
        let reader = try SlowReader(play)
        try slow.send()
        #expect(reader.hasNothing)
        try slow.send()
        #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
        #expect(try play.metric("cistern_streams") == 1)
        for _ in 0..<4 {
            play.time.advance(by: .seconds(100))
            try slow.send()
            #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
        }
        slow.end()
        #expect(reader.readEnd() && reader.text == slow.arrived)
        #expect(try why(play)?["not_stored"]?.string == "stream")
        play.origin.down()
        #expect(try play.get("/a").status == 502)
    }

    @Test("a second value in one piece with the first is forwarded without another event")
    func valuesAtOnce() throws {
        let play = try play()
        let slow = try SlowResponse(play, [Self.event + Self.event, ""])
        let reader = try SlowReader(play)
        try slow.send()
        #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
        slow.end()
        #expect(reader.readEnd())
    }

    @Test("concurrent requests do not wait for the end of a stream")
    func followers() throws {
        let play = try play()
        let slow = try SlowResponse(play, [Self.event, Self.event, ""])
        let reader = try SlowReader(play)
        #expect(play.origin.waitForRequests(1))
        let follower = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        play.origin.react { _ in [.json("1")] }
        for _ in 0..<2 { try slow.send() }
        #expect(follower.readResponse()?.text == "1")
        slow.end()
        #expect(reader.readEnd() && reader.text == slow.arrived)
    }

    @Test("slow JSON is replaced by a stored response after rescue_after, also if it has a second value")
    func rescued() throws {
        for pieces in [["{\"a\":", "1}"], [Self.event, Self.event, ""]] {
            let play = try play()
            play.origin.react { _ in [.json("1")] }
            #expect(try play.get("/a").text == "1")
            let slow = try SlowResponse(play, pieces)
            let reader = try SlowReader(play)
            #expect(play.origin.waitForRequests(2))
            for _ in pieces.dropLast() { try slow.send() }
            play.time.advance(by: .milliseconds(1_100))
            #expect(reader.hasNothing)
            play.time.advance(by: .milliseconds(500))
            #expect(reader.readEnd() && reader.text == "1")
            slow.end()
            #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            play.origin.down()
            #expect(try play.get("/a").text == (pieces.count == 2 ? pieces.joined() : "1"))
        }
    }

    @Test("above the limit on streams, several values are collected and passed on at their end")
    func notAdmitted() throws {
        let play = try play { $0.upstream.maximumConnections = 8 }
        var streams: [(slow: SlowResponse, reader: SlowReader)] = []
        for number in 0..<5 {
            let slow = try SlowResponse(play, [Self.event, Self.event, ""])
            let reader = try SlowReader(play, "/\(number)/a")
            #expect(play.origin.waitForRequests(number + 1))
            for _ in 0..<2 { try slow.send() }
            streams.append((slow, reader))
        }
        let isForwarded = streams.map { $0.reader.client.hasInput(within: 20) }
        #expect(isForwarded.first == true && isForwarded.last == false)
        for (slow, reader) in streams.reversed() {
            slow.end()
            #expect(reader.readEnd() && reader.text == slow.arrived)
        }
    }
}
