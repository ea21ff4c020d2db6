// Streams an exchange's request content to the upstream, at the upstream's pace. If the client waits for 100 (Continue), the content is
// sent only once the upstream wants it.

import Downstream
import Figures
import HTTPCore
import Reactor
import Upstream

/// The part of the request content that is still to come.
enum Upload {
    case nothing
    /// The client waits for 100 (Continue). The timer sends it if the upstream does not.
    case awaitingContinue(LoopTimer?)
    /// Content follows if the upstream switches to another protocol.
    case awaitingTunnel
    /// Content is arriving. The parameter is the reserved memory of the bytes collected before streaming, until the upstream has accepted
    /// them.
    case streaming(ContentHold?)

    init(_ body: RequestBody) {
        self =
            switch body {
            case .none, .whole: .nothing
            case .streamed(let content) where content.framing == .tunnel: .awaitingTunnel
            case .streamed(let content) where content.awaitsContinue: .awaitingContinue(nil)
            case .streamed(let content): .streaming(content.hold)
            }
    }

    var isWhole: Bool { if case .nothing = self { true } else { false } }
}

extension Exchange {
    /// Time after which a 100 (Continue) is sent without one from the upstream (RFC 9110 §10.1.1). Most clients wait for a second.
    private static let continueWait = Duration.seconds(1)

    func requestContent(_ bytes: Span<UInt8>) {
        context.loop.assertOnLoop()
        context.reporting.count(.requestBytes, by: bytes.count)
        recording?.addRequest(bytes)
        guard let fetch else { return }
        if case .awaitingContinue = upload { resumeStreaming() }
        if fetch.write(bytes) { resumeStreaming() } else { stream.pauseContent() }
    }

    func requestEnded() {
        context.loop.assertOnLoop()
        switch upload {
        // This is the end of the request itself; the tunnel's data has not begun.
        case .nothing, .awaitingTunnel: return
        case .awaitingContinue, .streaming: break
        }
        stopAwaitingContinue()
        upload = .nothing
        fetch?.endContent()
    }

    func fetchDrained() {
        resumeStreaming()
        stream.resumeContent()
    }

    func fetchInformed(_ head: ResponseHead) {
        if head.status == 100 {
            if case .awaitingContinue = upload { letContinue() }
            return
        }
        var head = head
        // An informational response has no content. A client might take this length for that of the final response (RFC 9110 §8.6).
        head.fields.remove(allOf: [.contentLength, .cisternStale])
        stream.sendInformational(head)
    }

    /// Starts the timer for 100 (Continue). Called when the request has been sent to the upstream.
    func awaitContinue() {
        guard case .awaitingContinue = upload else { return }
        upload = .awaitingContinue(
            context.loop.schedule(after: Self.continueWait) { [self] in
                // The request may still wait for a connection.
                guard let fetch, fetch.times.sent >= 0 else { return awaitContinue() }
                letContinue()
            })
    }

    private func letContinue() {
        resumeStreaming()
        stream.sendContinue()
    }

    private func resumeStreaming() {
        switch upload {
        case .nothing, .awaitingTunnel: return
        case .awaitingContinue: stopAwaitingContinue()
        case .streaming(let hold): hold?.giveBack()
        }
        upload = .streaming(nil)
    }

    /// Cancels the timer, which retains the exchange.
    func stopAwaitingContinue() {
        guard case .awaitingContinue(let timer) = upload else { return }
        timer?.cancel()
        upload = .awaitingContinue(nil)
    }
}
