// Tests of the state machine of a transfer: lists of events and actions, and the timeout in each state. Without sockets.

import HTTPCore
import Testing

@testable import Upstream

@Suite("The state machine of a transfer")
struct TransferProgressTests {
    private typealias Event = TransferProgress.Event
    private typealias Action = TransferProgress.Action
    private typealias State = TransferProgress.State

    /// Plays the events, a millisecond apart, and expects their actions.
    private func play(_ events: [(Event, Action)], _ place: SourceLocation = #_sourceLocation) -> TransferProgress {
        var progress = TransferProgress(now: 0)
        for (index, (event, action)) in events.enumerated() {
            #expect(progress.handle(event, at: Int64(index + 1)) == action, "event \(index): \(event)", sourceLocation: place)
        }
        return progress
    }

    private static let asking: [(Event, Action)] = [(.connectionBegan, .nothing), (.sendingBegan, .nothing)]
    private static let receiving: [(Event, Action)] = asking + [(.bytesSent, .nothing), (.headLinesCame, .nothing)]

    @Test("a transfer connects, sends the request and receives the response")
    func way() {
        #expect(play([]).state == .queued)
        #expect(play([(.connectionBegan, .nothing)]).state == .connecting)
        #expect(play(Self.asking).state == .requesting(hasHeard: false))
        #expect(play(Self.receiving + [(.contentCame, .deliver), (.contentCame, .deliver)]).state == .receiving(.steady))
        #expect(play(Self.receiving + [(.ended, .nothing)]).hasEnded)
        // A kept connection needs no wait for a connection.
        #expect(play([(.sendingBegan, .nothing)]).state == .requesting(hasHeard: false))
    }

    @Test("after a 1xx response the transfer waits for the final response with a new timeout")
    func informational() {
        let heard = Self.receiving + [(.informationalCame, .nothing)]
        #expect(play(heard).state == .requesting(hasHeard: true))
        #expect(play(heard + [(.headLinesCame, .nothing)]).state == .receiving(.steady))
    }

    @Test("content is held back while the receiver is paused, and delivered after it resumes")
    func paused() {
        let paused = Self.receiving + [(.contentCame, .deliver), (.paused, .nothing)]
        #expect(play(paused).state == .receiving(.paused))
        #expect(play(paused + [(.resumed, .nothing), (.contentCame, .deliver)]).state == .receiving(.steady))
        let heldBack = paused + [(.contentCame, .holdBack)]
        #expect(play(heldBack + [(.paused, .nothing)]).state == .receiving(.heldBack))
        #expect(play(heldBack + [(.resumed, .readOn), (.contentCame, .deliver)]).state == .receiving(.steady))
        // It was paused again before the connection continued to read.
        #expect(play(heldBack + [(.resumed, .readOn), (.paused, .nothing), (.contentCame, .holdBack)]).state == .receiving(.heldBack))
    }

    @Test("pausing before the response begins holds nothing back")
    func pausedBefore() {
        #expect(play(Self.asking + [(.paused, .nothing), (.resumed, .nothing)]).state == .requesting(hasHeard: false))
    }

    // MARK: Repeats

    private func mayBeRepeated(_ progress: TransferProgress, _ content: PendingContent = PendingContent(isEmpty: true)) -> Bool {
        progress.mayBeRepeated(Asking.request("GET", "/"), content, onKept: true, isUnwritten: true, isRefused: true)
    }

    @Test("a write is sent again only if the upstream cannot have processed it", arguments: [false, true], [false, true])
    func write(onKept: Bool, isUnwritten: Bool) {
        let twice: [(Event, Action)] = Self.asking + [(.queuedAgain, .nothing)] + Self.asking
        for (method, isRefused) in [("GET", false), ("GET", true), ("POST", false), ("POST", true)] {
            let (request, content) = (Asking.request(method, "/"), PendingContent(isEmpty: true))
            func isRepeated(_ progress: TransferProgress) -> Bool {
                progress.mayBeRepeated(request, content, onKept: onKept, isUnwritten: isUnwritten, isRefused: isRefused)
            }
            #expect(isRepeated(play(Self.asking)) == (method == "GET" || isRefused || onKept && isUnwritten))
            #expect(!isRepeated(play(twice)) && !isRepeated(play(Self.receiving)))
        }
    }

    @Test("a request is retried once, on a new connection, and only before any line of a response arrived")
    func repeated() {
        let once = play(Self.asking)
        #expect(once.needsNewConnection && mayBeRepeated(once))
        let twice = Self.asking + [(.queuedAgain, .nothing), (.connectionBegan, .nothing), (.sendingBegan, .nothing)]
        #expect(!mayBeRepeated(play(twice)))
        #expect(!mayBeRepeated(play(Self.receiving)))
        #expect(!mayBeRepeated(play(Self.receiving + [(.informationalCame, .nothing)])))
        #expect(!play([(.connectionBegan, .nothing)]).needsNewConnection)
    }

    @Test("a request is not retried once part of its content was discarded")
    func contentGone() {
        var content = PendingContent(isEmpty: false)
        _ = content.append([1].span)
        #expect(mayBeRepeated(play(Self.asking), content))
        var output: [UInt8] = []
        _ = content.take(upTo: 1, inChunks: false, into: &output)
        #expect(!mayBeRepeated(play(Self.asking), content))
    }

    // MARK: Time-outs

    @Test("the wait for a connection is limited in total, however often the request moves back to the queue")
    func totalWait() {
        var progress = TransferProgress(now: 0)
        func error(at now: Int64) -> UpstreamError? { progress.overdue(at: now, Self.limits(), .taken, hasResolved: true) }
        // Waits for 2.5 s, connects for 5 s, and waits again.
        _ = progress.handle(.connectionBegan, at: 2_500)
        _ = progress.handle(.queuedAgain, at: 7_500)
        #expect(error(at: 7_999) == nil && error(at: 8_000) == .connectionLimitReached)
        // A request that was sent may wait once more.
        _ = progress.handle(.sendingBegan, at: 7_900)
        _ = progress.handle(.queuedAgain, at: 8_000)
        #expect(error(at: 10_999) == nil && error(at: 11_000) == .connectionLimitReached)
    }

    private static func limits(total: Duration = .zero, stream: Duration = .seconds(50)) -> TransferLimits {
        var settings = UpstreamSettings(host: "a", port: 1)
        settings.connectTimeout = .seconds(3)
        settings.firstByteTimeout = .seconds(7)
        settings.betweenBytesTimeout = .seconds(11)
        settings.totalTimeout = total
        settings.streamTimeout = stream
        return TransferLimits(settings)
    }

    /// States of a transfer, with the timeout that applies.
    private struct TimeOutRow: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let events: [TransferProgress.Event]
        /// Values of `isForwarded`, in order.
        let forwards: [Bool]
        let content: PendingContent.State
        /// nil: no timeout applies.
        let after: Int64?
        let error: UpstreamError?
        /// The error if the total timeout expires; nil if the total duration is not limited.
        let totalError: UpstreamError?

        init(
            _ description: String, _ events: [TransferProgress.Event], forwards: [Bool] = [], content: PendingContent.State = .taken,
            _ timeOut: (Int64, UpstreamError)?, total: UpstreamError? = .responseTimeout
        ) {
            testDescription = description
            (self.events, self.forwards) = (events, forwards)
            self.content = content
            (after, error) = (timeOut?.0, timeOut?.1)
            totalError = total
        }

        static let head: [TransferProgress.Event] = [.sendingBegan, .headLinesCame]
    }

    @Test(
        "each state has its timeout and its error",
        arguments: [
            TimeOutRow("waiting for a connection", [], (3_000, .connectionLimitReached), total: .connectionLimitReached),
            TimeOutRow("connecting has its own timeout", [.connectionBegan], nil, total: .connectionTimeout),
            TimeOutRow(
                "waiting for a retry", [.sendingBegan, .queuedAgain], (3_000, .connectionLimitReached),
                total: .connectionLimitReached),
            TimeOutRow("sending the request", [.sendingBegan], content: .open, (11_000, .connectionWriteTimeout), total: nil),
            TimeOutRow(
                "sending the last bytes of the request", [.sendingBegan], content: .closed, (11_000, .connectionWriteTimeout), total: nil),
            TimeOutRow("waiting for the client's content", [.sendingBegan], content: .awaited, nil, total: nil),
            TimeOutRow("waiting for the response", [.sendingBegan], content: .taken, (7_000, .connectionReadTimeout)),
            TimeOutRow("after an informational response", TimeOutRow.head + [.informationalCame], (7_000, .connectionReadTimeout)),
            TimeOutRow("receiving the head", TimeOutRow.head, (11_000, .connectionReadTimeout)),
            TimeOutRow(
                "receiving content before the request content is complete", TimeOutRow.head, content: .awaited,
                (11_000, .connectionReadTimeout)),
            TimeOutRow(
                "receiving content that the client receives", TimeOutRow.head, forwards: [true], (11_000, .connectionReadTimeout),
                total: nil),
            TimeOutRow(
                "receiving content after the client has left", TimeOutRow.head, forwards: [true, false],
                (11_000, .connectionReadTimeout)),
            TimeOutRow("paused by backpressure", TimeOutRow.head + [.paused], nil),
            TimeOutRow("paused by backpressure with pending content", TimeOutRow.head + [.paused, .contentCame], nil),
            TimeOutRow(
                "resumed after backpressure", TimeOutRow.head + [.paused, .contentCame, .resumed], (11_000, .connectionReadTimeout)),
            TimeOutRow("ended", [.ended], nil),
        ])
    private func timeOuts(_ row: TimeOutRow) {
        var progress = TransferProgress(now: 0)
        // The timeout starts again with each event.
        for event in row.events { _ = progress.handle(event, at: 500) }
        for isForwarded in row.forwards { progress.isForwarded = isForwarded }
        let began: Int64 = row.events.isEmpty ? 0 : 500
        let limits = Self.limits()
        if let after = row.after {
            #expect(progress.overdue(at: began + after - 1, limits, row.content, hasResolved: true) == nil)
            #expect(progress.overdue(at: began + after, limits, row.content, hasResolved: true) == row.error)
        } else {
            #expect(progress.overdue(at: .max, limits, row.content, hasResolved: true) == nil)
        }
        // The total timeout counts from the start, regardless of events.
        let total = Self.limits(total: .seconds(2))
        #expect(progress.overdue(at: 1_999, total, row.content, hasResolved: true) == nil)
        #expect(progress.overdue(at: 2_000, total, row.content, hasResolved: true) == row.totalError)
        // It starts again when bytes of the request are sent.
        _ = progress.handle(.bytesSent, at: 1_000)
        #expect(progress.overdue(at: 2_999, total, row.content, hasResolved: true) == nil)
        #expect(progress.overdue(at: 3_000, total, row.content, hasResolved: true) == row.totalError)
    }

    @Test("a stream is limited only by its idle timeout, which can be disabled; held-back content has no timeout")
    func streams() {
        let began = play(Self.receiving + [(.streamBegan, .nothing)])
        #expect(began.isStream)
        let limits = Self.limits(total: .seconds(2))
        #expect(began.overdue(at: 50_004, limits, .taken, hasResolved: true) == nil)
        #expect(began.overdue(at: 50_005, limits, .taken, hasResolved: true) == .connectionReadTimeout)
        #expect(began.overdue(at: .max, Self.limits(stream: .zero), .taken, hasResolved: true) == nil)
        let held = Self.receiving + [(.streamBegan, .nothing), (.paused, .nothing), (.contentCame, .holdBack)]
        #expect(play(held).state == .streaming(.heldBack))
        #expect(play(held).overdue(at: .max, limits, .taken, hasResolved: true) == nil)
        #expect(play(held + [(.resumed, .readOn), (.contentCame, .deliver)]).state == .streaming(.steady))
        // Without a response head, the transfer is not a stream.
        #expect(!play(Self.asking + [(.streamBegan, .nothing)]).isStream)
    }

    @Test("a total timeout before the name is resolved is reported as a DNS timeout")
    func resolving() {
        let progress = play([(.connectionBegan, .nothing)])
        #expect(progress.overdue(at: 2_000, Self.limits(total: .seconds(2)), .taken, hasResolved: false) == .dnsTimeout)
    }

    @Test("each progress restarts the timeout")
    func moves() {
        var progress = play(Self.receiving)
        let limits = Self.limits()
        for now in stride(from: Int64(10_000), through: 100_000, by: 10_000) {
            #expect(progress.overdue(at: now, limits, .taken, hasResolved: true) == nil)
            _ = progress.handle(.contentCame, at: now)
        }
    }
}
