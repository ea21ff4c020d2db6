// Tests of what is recorded of an exchange, and why parts are omitted, as lists of events.

import HTTPCore
import Reactor
import Testing

@testable import ReverseProxy

/// Holds at most `usableBytes` bytes.
private final class ScriptedRecorder: ExchangeRecorder {
    private struct State {
        var held = 0
        var taken: [RecordedExchange] = []
        var leftOut: [NotRecordedReason] = []
    }

    /// The test reads this state.
    private let state = Mutex(State())
    private let usableBytes: Int
    let requestContentLimitBytes = 8

    init(usableBytes: Int) { self.usableBytes = usableBytes }

    var held: Int { state.withLock { $0.held } }
    var taken: [RecordedExchange] { state.withLock { $0.taken } }
    var leftOut: [NotRecordedReason] { state.withLock { $0.leftOut } }
    var counts: [(result: String, count: UInt64)] { [] }

    func begin(_ request: RequestHead) -> Int? { 7 }

    func hold(_ bytes: Int) -> Bool {
        state.withLock { state in
            guard state.held + bytes <= usableBytes else { return false }
            state.held += bytes
            return true
        }
    }

    func take(_ exchange: RecordedExchange) { state.withLock { $0.taken.append(exchange) } }

    func leaveOut(_ reason: NotRecordedReason, held: Int) {
        state.withLock { state in
            state.held -= held
            state.leftOut.append(reason)
        }
    }
}

@Suite("Recording an exchange")
struct ExchangeRecordingTests {
    enum Event: Sendable {
        case sent(String)
        case began
        case came(String)
        case ended, finished
    }

    private static func perform(_ events: [Event], content: String, usableBytes: Int) -> ScriptedRecorder {
        let recorder = ScriptedRecorder(usableBytes: usableBytes)
        let head = RequestHead(method: .post, target: Array("/a".utf8)[...], version: .http11, fields: Fields())
        let recording = ExchangeRecording(recorder, head, content: Array(content.utf8), started: 1_000, began: 20)
        for event in events {
            switch event {
            case .sent(let text): recording?.addRequest(Array(text.utf8).span)
            case .began: recording?.begin(ResponseHead(status: 201))
            case .came(let text): recording?.add(Array(text.utf8).span)
            case .ended: recording?.end(at: 25)
            case .finished: recording?.finish()
            }
        }
        return recorder
    }

    @Test("a complete exchange is recorded, including content sent during the response")
    func whole() throws {
        let recorder = Self.perform(
            [.sent("b"), .began, .came("1"), .sent("c"), .came("2"), .ended, .finished], content: "a", usableBytes: 1 << 20)
        let exchange = try #require(recorder.taken.first)
        #expect(recorder.taken.count == 1 && recorder.leftOut.isEmpty && recorder.held > 0)
        #expect(exchange.number == 7 && exchange.started == 1_000 && exchange.milliseconds == 5 && exchange.response.status == 201)
        #expect(exchange.requestContent.elementsEqual("abc".utf8) && exchange.content.elementsEqual("12".utf8))
    }

    @Test(
        "an exchange left out releases its memory and is counted once",
        arguments: [
            ([.finished], "", 1 << 20, .noResponse), ([.began, .came("1"), .finished], "", 1 << 20, .brokenOff),
            ([.sent("12345678"), .began, .ended, .finished], "9", 1 << 20, .requestTooLong),
            ([.began, .came("123456789"), .ended, .finished], "", 520, .noSpace), ([.began, .ended, .finished], "", 1, .noSpace),
            ([.began, .sent("123456789"), .came("1"), .ended, .finished], "", 1 << 20, .requestTooLong),
        ] as [([Event], String, Int, NotRecordedReason)])
    func leftOut(events: [Event], content: String, usableBytes: Int, reason: NotRecordedReason) {
        let recorder = Self.perform(events, content: content, usableBytes: usableBytes)
        #expect(recorder.leftOut == [reason] && recorder.taken.isEmpty && recorder.held == 0)
    }
}
