// Plays of JSON that the upstream sends slowly: clients receive it at latest a second after its head, unless a stored response could
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
    enum Framing: CaseIterable { case chunks, length, close }

    let play: ProxyPlay
    let framing: Framing
    private let gates: [Gate]
    private let pieces: [String]
    private var opened = 0
    /// Bytes of content from the upstream when the response began.
    private let bytesBefore: Double
    /// The content that has arrived.
    private(set) var arrived = ""

    init(_ play: ProxyPlay, _ pieces: [String], _ framing: Framing = .chunks, _ fields: [String] = [], isCut: Bool = false) throws {
        (self.play, self.pieces, self.framing) = (play, pieces, framing)
        let gates = (0...pieces.count).map { _ in Gate() }
        self.gates = gates
        bytesBefore = try play.metric(Self.bytes) ?? 0
        let line =
            switch framing {
            case .chunks: "Transfer-Encoding: chunked"
            case .length: "Content-Length: \(pieces.joined().utf8.count + (isCut ? 1 : 0))"
            case .close: "Connection: close"
            }
        let head = (["HTTP/1.1 200 OK", "Content-Type: application/json", line] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        var steps: [OriginStep] = [.send(head)]
        for (piece, gate) in zip(pieces, gates) {
            let isChunked = framing == .chunks
            steps.append(.pass(gate))
            // An empty chunk would be the end.
            guard !piece.isEmpty else { continue }
            steps += [.send(isChunked ? "\(String(piece.utf8.count, radix: 16))\r\n\(piece)\r\n" : piece)]
        }
        steps.append(.pass(gates[pieces.count]))
        if isCut { steps.append(.cut) } else if framing == .chunks { steps.append(.send("0\r\n\r\n")) }
        if framing == .close, !isCut { steps.append(.close) }
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

    @Test("concurrent requests do not wait for the end of a stream", arguments: [[event, event, ""], [event, ""]])
    func followers(pieces: [String]) throws {
        let play = try play()
        let slow = try SlowResponse(play, pieces)
        let reader = try SlowReader(play)
        #expect(play.origin.waitForRequests(1))
        let follower = try play.client(getting: "/a")
        #expect(try play.waitFor("cistern_collapsed_waiting", 1))
        play.origin.react { _ in [.json("1")] }
        for _ in pieces.dropLast() { try slow.send() }
        if pieces.count == 2 { play.time.advance(by: .milliseconds(1_100)) }
        #expect(follower.readResponse()?.text == "1")
        slow.end()
        #expect(reader.readEnd() && reader.text == slow.arrived)
    }

    @Test(
        "a response that takes longer than a second is forwarded, without a total limit, and stored at its end",
        arguments: [["[1", ",2", ",3", ",4]"], [" ", " ", "\n", "{\"a\":1}"]], SlowResponse.Framing.allCases)
    fileprivate func slow(pieces: [String], framing: SlowResponse.Framing) throws {
        // HTTP/2 always has an end.
        if framing == .close, ProxyPlay.upstream == .http2 { return }
        for pause in [Duration.seconds(1), .seconds(14)] {
            let play = try play { $0.upstream.totalTimeout = .seconds(30) }
            let slow = try SlowResponse(play, pieces, framing, ["Cache-Control: max-age=600"])
            let reader = try SlowReader(play)
            #expect(play.origin.waitForRequests(1))
            for _ in pieces.dropLast() {
                try slow.send()
                play.time.advance(by: pause + .milliseconds(100))
                #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
            }
            try slow.send()
            slow.end()
            #expect(reader.readEnd() && reader.text == pieces.joined())
            #expect(reader.head?["Content-Length"] == (framing == .length ? "\(reader.text.utf8.count)" : nil))
            // Between values, it counts as a stream, and is stored only within the total limit.
            let isStored = pause == .seconds(1) || pieces[0] == "[1" || framing == .length
            play.origin.down()
            #expect(try play.get("/a").status == (isStored ? 200 : 502), "\(pieces) \(framing) \(pause)")
        }
    }

    @Test("a response that is silent after its head or after a value is forwarded, and only timeouts.stream limits its pauses")
    func silent() throws {
        for pieces in [["", Self.event], [Self.event, ""]] {
            let play = try play { $0.upstream.failure.threshold = 1 }
            let slow = try SlowResponse(play, pieces)
            let reader = try SlowReader(play)
            #expect(play.origin.waitForRequests(1))
            try slow.send()
            play.time.advance(by: .milliseconds(1_100))
            #expect(try play.waitFor("cistern_streams", 1))
            #expect(reader.read(slow.arrived.utf8.count) == slow.arrived && reader.head?.status == 200)
            play.time.advance(by: .seconds(250))
            try slow.send()
            #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
            play.time.advance(by: .seconds(301))
            #expect(!reader.readEnd())
            #expect(try play.waitFor("cistern_streams", 0))
            let upstream = JSONValue(try play.admin("GET", "/-/upstream").content)
            #expect(upstream?["scopes"]?.array?.isEmpty ?? true, "\(upstream as Any)")
            slow.end()
        }
    }

    @Test("if the client leaves a stream, its request ends")
    func abandoned() throws {
        let play = try play()
        let slow = try SlowResponse(play, [Self.event, ""])
        do {
            let reader = try SlowReader(play)
            try slow.send()
            play.time.advance(by: .milliseconds(1_100))
            #expect(reader.read(Self.event.utf8.count) == Self.event)
            reader.client.endsWithReset()
        }
        #expect(try play.waitFor("cistern_upstream_active_requests", 0))
        slow.end()
    }

    @Test("where a stored response may be served, a slow one is held; but a second value shows a stream")
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
            if pieces.count == 3 {
                #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
                slow.end()
                #expect(reader.readEnd())
            } else {
                #expect(reader.hasNothing)
                play.time.advance(by: .milliseconds(500))
                #expect(reader.readEnd() && reader.text == "1")
                slow.end()
            }
        }
    }
}

extension StreamedJSONPlays {
    @Test("beside a stored response, a stream whose second value comes late is replaced once, and then no more")
    func lateSecondValue() throws {
        let play = try play()
        play.origin.react { _ in [.json("1")] }
        #expect(try play.get("/a").text == "1")
        for number in 2...4 {
            let slow = try SlowResponse(play, [Self.event, Self.event, ""])
            let reader = try SlowReader(play)
            #expect(play.origin.waitForRequests(number))
            try slow.send()
            play.time.advance(by: .milliseconds(1_600))
            if number == 2 {
                #expect(reader.readEnd() && reader.text == "1")
                try slow.send()
                #expect(try play.waitFor("cistern_upstream_active_requests", 0))
            } else {
                #expect(reader.hasNothing)
                try slow.send()
                #expect(reader.read(slow.arrived.utf8.count) == slow.arrived)
            }
            slow.end()
        }
    }
}

private struct SlowWalk {
    private static let pieces = [
        "{\"a\":1}", "{\"a\":1}\n", "{\"b\":", "[1,2]}", "[", "1", ",", "2", "]", " ", "\n", "\"x\"", "NaN", "<html>",
    ]

    private static func texts(_ random: inout SeededGenerator) -> [String] {
        (0..<(1 + random.below(6))).map { _ in random.pick(pieces) }
    }

    private static func parts(of text: String, _ random: inout SeededGenerator) -> [String] {
        var (rest, parts) = (text[...], [String]())
        while !rest.isEmpty {
            let part = rest.prefix(1 + random.below(rest.count))
            parts.append(String(part))
            rest = rest.dropFirst(part.count)
        }
        return parts
    }

    /// A response with random pieces and pauses.
    static func run(_ random: inout SeededGenerator) throws -> (isForwarded: Bool, isStored: Bool) {
        let play = try ProxyPlay(ScriptedOrigin { _ in [] })
        let framing = random.pick(SlowResponse.Framing.allCases)
        let pieces = random.isTrue() ? parts(of: "{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}\n", &random) : texts(&random)
        let isCut = framing != .close && random.isTrue(oneIn: 4)
        let slow = try SlowResponse(play, pieces, framing, isCut: isCut)
        let reader = try SlowReader(play)
        try demand(play.origin.waitForRequests(1))
        // The head has arrived with the first piece at latest.
        var (elapsed, isStream, isForwarded) = (0, false, false)
        for (index, piece) in pieces.enumerated() {
            try slow.send()
            isStream = isStream || framing != .length && hasSecondValue(slow.arrived)
            let isWhole = framing == .length && !isCut && index == pieces.count - 1
            if isStream || isForwarded, !isWhole { try receive(reader, slow, "at once, after \(piece)") }
            isForwarded = isForwarded || isStream
            let pause = random.pick([0, 0, 300, 900, 2_000])
            guard pause > 0 else { continue }
            play.time.advance(by: .milliseconds(pause))
            elapsed += pause
            if isWhole { continue }
            if elapsed >= 1_100 {
                try receive(reader, slow, "\(elapsed) ms after the head")
                isForwarded = true
            } else if elapsed < 1_000, !isForwarded {
                try demand(reader.hasNothing, "forwarded early: \(slow.arrived)")
            }
        }
        slow.end()
        let isEnded = reader.readEnd()
        let bytes = Array(slow.arrived.utf8)
        let verdict = JSONTextChecker.check(bytes.span, .otherBytes)
        // Without framing, only the JSON shows that content is cut off.
        let seemsCut = framing == .close ? verdict == .incomplete && !isStream : isCut
        try demand(reader.head?.status == (isCut && !isForwarded ? 502 : 200), "\(reader.head as Any)")
        try demand(isEnded == !(seemsCut && isForwarded), "an end of \(pieces), \(framing), cut: \(isCut)")
        if !isCut { try demand(reader.text == slow.arrived, "\(reader.text) instead of \(slow.arrived)") }
        let isStored = !isCut && (verdict == .valid || verdict == .validScalar && framing != .close)
        play.origin.down()
        let later = try play.get("/a")
        try demand(later.status == (isStored ? 200 : 502) && (!isStored || later.text == slow.arrived), "\(pieces): later \(later)")
        return (isForwarded, isStored)
    }

    private static func receive(_ reader: SlowReader, _ slow: SlowResponse, _ when: String) throws {
        try demand(reader.read(slow.arrived.utf8.count) == slow.arrived, "\(when): \(reader.text) instead of \(slow.arrived)")
    }

    /// Whether an object or array follows a complete value.
    private static func hasSecondValue(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.indices.contains { index in
            guard index > 0, [0x7b, 0x5b].contains(bytes[index]) else { return false }
            let verdict = JSONTextChecker.check(bytes.span.extracting(first: index))
            return verdict == .valid || verdict == .validScalar && !(0x31...0x32).contains(bytes[index - 1])
        }
    }
}

@Suite("JSON that arrives slowly, at random", .play)
struct StreamedJSONWalk {
    @Test("no client waits longer than a second for what has arrived, no break is a clean end, and good responses are stored")
    func walk() {
        let counts = Mutex((forwarded: 0, stored: 0))
        let isWhole = RandomSchedules.run(300) { random in
            let result = try SlowWalk.run(&random)
            counts.withLock { $0 = ($0.forwarded + (result.isForwarded ? 1 : 0), $0.stored + (result.isStored ? 1 : 0)) }
        }
        if isWhole { #expect(counts.withLock { $0.forwarded > 50 && $0.stored > 30 }) }
    }
}
