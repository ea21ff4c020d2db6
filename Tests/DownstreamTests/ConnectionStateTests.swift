// Tests of the state machine of a client connection: events and expected actions. Without connections.

import HTTPCore
import Testing

@testable import Downstream

/// Events of a connection.
enum ConnectionEvent: Sendable, CustomTestStringConvertible {
    case headCame
    case request(String, fields: [String] = [], ContentFraming = .none, ends: Bool = false)
    case content(String)
    case pause, resume
    case wholeResponse
    case beginResponse(ResponseFraming, readAhead: Int = 0)
    /// `isFull`: the send queue exceeds its limit. `hasMemory`: the queued bytes may stay.
    case write(Int, isFull: Bool = false, hasMemory: Bool = false)
    case drained
    case offerOutput, takeBack
    case endResponse
    /// All written bytes have been sent. `hasInput`: more bytes of the client have arrived.
    case sent(hasInput: Bool = false)
    case inputEnded, peerEnded, timedOut, drain
    case discard(Int)

    var testDescription: String { "\(self)" }

    /// Passes the event to the machine. Returns the machine's actions as text.
    func happen(to state: inout ConnectionState) -> String {
        switch self {
        case .headCame: state.headCame() ? "clock" : "nothing"
        case .request(let line, let fields, let framing, let ends): begin(line, fields, framing, ends, &state)
        case .content(let text): take(text, &state)
        case .pause: say(state.pauseContent())
        case .resume: state.resumeContent() ? "resumed" : "nothing"
        case .wholeResponse: state.respondWhole().map { $0.endsConnection ? "last" : "response" } ?? "nobody"
        case .beginResponse(let framing, let readAhead):
            state.beginResponse(framing, readAhead: readAhead, isFirstOutput: true).map { $0.endsConnection ? "last" : "response" }
                ?? "nobody"
        case .write(let count, let isFull, let hasMemory):
            state.write(count, isOverfull: isFull, mayReadAhead: hasMemory) ? "more" : "wait"
        case .drained: state.resumeResponse() ? "call" : "nothing"
        case .offerOutput: say(state.offerOutput())
        case .takeBack: state.takeBackResponse() ? "taken back" : "too late"
        case .endResponse:
            switch state.endResponse() {
            case (false, _): "nothing"
            case (true, let isChunked): isChunked ? "last chunk" : "end"
            }
        case .sent(let hasInput): word(state.responseSent(hasInput: hasInput))
        case .inputEnded: word(state.inputEnded())
        case .peerEnded: word(state.peerEnded())
        case .timedOut: word(state.readTimeoutPassed())
        case .drain: state.drain() ? "wait" : "nothing"
        case .discard(let count): word(state.discard(count, limit: 1 << 20))
        }
    }

    private func say(_: Void) -> String { "nothing" }

    private func begin(_ line: String, _ lines: [String], _ framing: ContentFraming, _ ends: Bool, _ state: inout ConnectionState) -> String
    {
        var fields = Fields()
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1)
            fields.append(name: Array(parts[0].utf8).span, value: Array(parts[1].utf8).span)
        }
        let parts = line.split(separator: " ")
        let head = RequestHead(
            method: Method(Array(parts[0].utf8).span), target: Array("/".utf8)[...], version: parts[1] == "1.0" ? .http10 : .http11,
            fields: fields)
        return word(state.begin(head, framing, endsConnection: ends, contentLimit: 10))
    }

    private func take(_ text: String, _ state: inout ConnectionState) -> String {
        let bytes = Array(text.utf8)
        var position = 0
        var found = ""
        while position < bytes.count {
            switch state.takeContent(bytes.span, &position, limit: 10) {
            case .piece(let range, let isLast): found += String(decoding: bytes[range], as: UTF8.self) + (isLast ? "|" : "")
            case .ended: return found + "|"
            case .needsMore: return found
            case .failed(let action): return word(action)
            }
            if state.current?.content.isWhole != false { break }
        }
        return found
    }

    private func word(_ action: ConnectionState.Action) -> String {
        switch action {
        case .nothing: "nothing"
        case .close: "close"
        case .notifyEnd: "tell end"
        case .linger: "linger"
        case .abandon: "abandon"
        case .refuse(let rejection): "refuse \(rejection.status.rawValue)"
        case .abort(let rejection): "abort \(rejection.status.rawValue)"
        case .awaitRequest: "next"
        case .endContent: "end content"
        }
    }
}

/// Events, each with the expected actions.
struct ConnectionRow: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let steps: [(ConnectionEvent, String)]

    init(_ sentence: String, _ steps: [(ConnectionEvent, String)]) { (testDescription, self.steps) = (sentence, steps) }
}

@Suite("The state of a connection")
struct ConnectionStateTests {
    static let get = ConnectionEvent.request("GET 1.1")

    static let requests: [ConnectionRow] = [
        ConnectionRow(
            "sequential requests", [(get, "nothing"), (.wholeResponse, "response"), (.sent(), "next"), (get, "nothing")]),
        ConnectionRow("the first bytes of a head start its timeout, later bytes do not", [(.headCame, "clock"), (.headCame, "nothing")]),
        ConnectionRow(
            "each request has its own timeout",
            [(.headCame, "clock"), (get, "nothing"), (.wholeResponse, "response"), (.sent(), "next"), (.headCame, "clock")]),
        ConnectionRow(
            "the connection ends after the response to the last request",
            [(.request("GET 1.1", ends: true), "nothing"), (.wholeResponse, "last"), (.sent(), "linger"), (.inputEnded, "close")]),
        ConnectionRow(
            "content with Content-Length, in pieces",
            [(.request("POST 1.1", .length(5)), "nothing"), (.content("abc"), "abc"), (.content("deXX"), "de|")]),
        ConnectionRow(
            "content in chunks",
            [(.request("POST 1.1", .chunked), "nothing"), (.content("3\r\nabc\r\n"), "abc"), (.content("0\r\n\r\n"), "|")]),
        ConnectionRow(
            "content with a Content-Length above the limit is rejected at once", [(.request("POST 1.1", .length(11)), "refuse 413")]),
        ConnectionRow(
            "chunked content above the limit is rejected",
            [(.request("POST 1.1", .chunked), "nothing"), (.content("b\r\n01234567890"), "refuse 413")]),
        ConnectionRow(
            "chunked content above the limit aborts a response that has begun",
            [
                (.request("POST 1.1", .chunked), "nothing"), (.beginResponse(.chunked), "last"),
                (.content("b\r\n01234567890"), "abort 413"),
            ]),
        ConnectionRow("invalid chunks are rejected", [(.request("POST 1.1", .chunked), "nothing"), (.content("x"), "refuse 400")]),
        ConnectionRow(
            "paused content resumes at its position",
            [
                (.request("POST 1.1", .length(3)), "nothing"), (.content("a"), "a"), (.pause, "nothing"), (.resume, "resumed"),
                (.resume, "nothing"), (.content("bc"), "bc|"),
            ]),
        ConnectionRow(
            "an unknown expectation", [(.request("POST 1.1", fields: ["Expect:a-miracle"], .length(3)), "refuse 417")]),
        ConnectionRow(
            "HTTP/1.0 has no expectations", [(.request("POST 1.0", fields: ["Expect:a-miracle"], .length(3)), "nothing")]),
    ]

    static let responses: [ConnectionRow] = [
        ConnectionRow(
            "a response with Content-Length, in pieces",
            [
                (get, "nothing"), (.beginResponse(.length(3)), "response"), (.endResponse, "end"), (.endResponse, "nothing"),
                (.sent(), "next"),
            ]),
        ConnectionRow(
            "a chunked response",
            [(get, "nothing"), (.beginResponse(.chunked), "response"), (.endResponse, "last chunk"), (.sent(), "next")]),
        ConnectionRow(
            "a response to HEAD has no chunks",
            [(.request("HEAD 1.1"), "nothing"), (.beginResponse(.chunked), "response"), (.endResponse, "end"), (.sent(), "next")]),
        ConnectionRow(
            "HTTP/1.0 has no chunks: the connection's end delimits the content",
            [(.request("GET 1.0"), "nothing"), (.beginResponse(.chunked), "last"), (.endResponse, "end"), (.sent(), "linger")]),
        ConnectionRow(
            "a response before the end of the request content is the last one",
            [(.request("POST 1.1", .length(5)), "nothing"), (.wholeResponse, "last"), (.content("ab"), "ab"), (.sent(), "linger")]),
        ConnectionRow(
            "flushed output is not the end of an incomplete response",
            [(get, "nothing"), (.beginResponse(.chunked), "response"), (.sent(), "nothing")]),
        ConnectionRow(
            "a response is replaced before it is sent",
            [(get, "nothing"), (.beginResponse(.length(3)), "response"), (.takeBack, "taken back"), (.wholeResponse, "response")]),
        ConnectionRow(
            "a response cannot be replaced once it was offered to the kernel",
            [(get, "nothing"), (.beginResponse(.length(3)), "response"), (.offerOutput, "nothing"), (.takeBack, "too late")]),
        ConnectionRow(
            "a response cannot be replaced once it has ended",
            [(get, "nothing"), (.beginResponse(.length(3)), "response"), (.endResponse, "end"), (.takeBack, "too late")]),
        ConnectionRow(
            "backpressure applies while the buffer is full, and ends with one call",
            [
                (get, "nothing"), (.beginResponse(.chunked), "response"), (.write(5), "more"), (.write(5, isFull: true), "wait"),
                (.write(5), "wait"), (.drained, "call"), (.drained, "nothing"), (.write(5), "more"),
            ]),
        ConnectionRow(
            "read-ahead content causes no backpressure while memory is available",
            [
                (get, "nothing"), (.beginResponse(.chunked, readAhead: 10), "response"), (.write(5, isFull: true, hasMemory: true), "more"),
                (.write(5, isFull: true, hasMemory: true), "wait"),
            ]),
        ConnectionRow(
            "read-ahead content causes backpressure without memory",
            [(get, "nothing"), (.beginResponse(.chunked, readAhead: 10), "response"), (.write(5, isFull: true), "wait")]),
        ConnectionRow(
            "a response without a request", [(.wholeResponse, "nobody"), (.beginResponse(.none), "nobody"), (.endResponse, "nothing")]),
    ]

    static let ends: [ConnectionRow] = [
        ConnectionRow("the client closes between two requests", [(.inputEnded, "close")]),
        ConnectionRow("the client closes within a head", [(.headCame, "clock"), (.inputEnded, "close")]),
        ConnectionRow(
            "the client closes within its content", [(.request("POST 1.1", .length(5)), "nothing"), (.inputEnded, "abandon")]),
        ConnectionRow(
            "a client that half-closes gets its pending response and no other",
            [(get, "nothing"), (.inputEnded, "tell end"), (.wholeResponse, "response"), (.sent(), "close")]),
        ConnectionRow(
            "requests received before a half-close are answered",
            [(get, "nothing"), (.inputEnded, "tell end"), (.wholeResponse, "response"), (.sent(hasInput: true), "next"), (get, "nothing")]),
        ConnectionRow("a half-close is reported once", [(get, "nothing"), (.peerEnded, "tell end"), (.inputEnded, "nothing")]),
        ConnectionRow("timeout: no request", [(.timedOut, "abandon")]),
        ConnectionRow("timeout: an incomplete head", [(.headCame, "clock"), (.timedOut, "refuse 408")]),
        ConnectionRow("timeout: incomplete content", [(.request("POST 1.1", .length(5)), "nothing"), (.timedOut, "refuse 408")]),
        ConnectionRow(
            "timeout: incomplete content after the response has begun",
            [(.request("POST 1.1", .length(5)), "nothing"), (.beginResponse(.chunked), "last"), (.timedOut, "abandon")]),
        ConnectionRow("draining between two requests waits for the next request", [(.drain, "wait"), (.timedOut, "abandon")]),
        ConnectionRow(
            "draining after a response head that keeps the connection open",
            [
                (get, "nothing"), (.beginResponse(.length(2)), "response"), (.drain, "nothing"), (.endResponse, "end"),
                (.sent(), "next"), (.drain, "wait"),
            ]),
        ConnectionRow(
            "draining during a request", [(get, "nothing"), (.drain, "nothing"), (.wholeResponse, "last"), (.sent(), "linger")]),
        ConnectionRow(
            "input after the last response is discarded up to a limit",
            [
                (.request("GET 1.1", ends: true), "nothing"), (.wholeResponse, "last"), (.sent(), "linger"), (.discard(1 << 20), "nothing"),
                (.discard(1), "close"),
            ]),
        ConnectionRow(
            "a client that does not close is disconnected",
            [(.request("GET 1.1", ends: true), "nothing"), (.wholeResponse, "last"), (.sent(), "linger"), (.timedOut, "abandon")]),
    ]

    @Test("each event leads to the expected action", arguments: requests + responses + ends)
    func row(_ row: ConnectionRow) {
        var state = ConnectionState()
        for (event, expected) in row.steps {
            #expect(event.happen(to: &state) == expected, "\(event)")
        }
    }

    @Test("a refusal answers a complete or incomplete request and ends the connection")
    func refusal() {
        for first in [nil, ConnectionEvent.headCame, .request("HEAD 1.1", .length(5))] {
            var state = ConnectionState()
            _ = first?.happen(to: &state)
            state.refuse()
            let progress = state.respondWhole()
            #expect(progress?.endsConnection == true && progress?.content.isWhole == true)
            let end = state.responseSent(hasInput: true)
            #expect(end == .linger)
        }
    }

    @Test("the state determines whether the connection reads or only watches for its end")
    func interest() {
        var state = ConnectionState()
        #expect(state.mayRead && !state.watchesForEnd)
        _ = ConnectionEvent.request("POST 1.1", .length(1)).happen(to: &state)
        #expect(state.mayRead && !state.watchesForEnd)
        state.pauseContent()
        #expect(!state.mayRead)
        _ = state.resumeContent()
        _ = ConnectionEvent.content("a").happen(to: &state)
        #expect(!state.mayRead && state.watchesForEnd)
        _ = state.peerEnded()
        #expect(!state.watchesForEnd)
        state.close()
        #expect(!state.mayRead)
    }
}
