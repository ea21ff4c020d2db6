// The request's content of an exchange where it streams: it goes to the upstream as it comes, no faster than the upstream takes it, and not
// before the upstream wants it where the client waits for that.

import Downstream
import HTTPCore
import Reactor
import Upstream

/// What is still to come of the request's content.
enum Upload {
    case nothing
    /// The client waits to be told to send it; the timer tells it where the upstream does not.
    case awaitingContinue(LoopTimer?)
    /// It comes if the upstream changes to another protocol.
    case awaitingTunnel
    /// It comes, and counts as held until the upstream has taken what was held of it before it streamed.
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
    /// An upstream that has never heard of 100 (Continue) is given this long (RFC 9110 §10.1.1); clients themselves mostly wait a second.
    private static let continueWait = Duration.seconds(1)

    func requestContent(_ bytes: Span<UInt8>) {
        shard.loop.assertOnLoop()
        shard.countRequestBytes(bytes.count)
        recording?.addRequest(bytes)
        guard let fetch else { return }
        if case .awaitingContinue = upload { goOnStreaming() }
        if fetch.write(bytes) { goOnStreaming() } else { stream.pauseContent() }
    }

    func requestEnded() {
        shard.loop.assertOnLoop()
        switch upload {
        // Of the request itself; what comes through a tunnel has not begun.
        case .nothing, .awaitingTunnel: return
        case .awaitingContinue, .streaming: break
        }
        stopAwaitingContinue()
        upload = .nothing
        fetch?.endContent()
    }

    /// The upstream has changed to another protocol: from now on what the client says is its content.
    func beginTunnel() { upload = .streaming(nil) }

    func fetchDrained() {
        goOnStreaming()
        stream.resumeContent()
    }

    func fetchInformed(_ head: ResponseHead) {
        if head.status == 100 {
            if case .awaitingContinue = upload { letContinue() }
            return
        }
        var head = head
        // It has no content; who counts some by this would take it from the final response (RFC 9110 §8.6).
        head.fields.remove(.contentLength)
        stream.sendInformational(head)
    }

    /// The request has gone to the upstream, which says whether it wants the content.
    func awaitContinue() {
        guard case .awaitingContinue = upload else { return }
        upload = .awaitingContinue(
            shard.loop.schedule(after: Self.continueWait) { [self] in
                // It may still wait for a connection.
                guard let fetch, fetch.times.sent >= 0 else { return awaitContinue() }
                letContinue()
            })
    }

    private func letContinue() {
        goOnStreaming()
        stream.sendContinue()
    }

    private func goOnStreaming() {
        switch upload {
        case .nothing, .awaitingTunnel: return
        case .awaitingContinue: stopAwaitingContinue()
        case .streaming(let hold): hold?.giveBack()
        }
        upload = .streaming(nil)
    }

    /// The timer holds the exchange: so it must end with it.
    func stopAwaitingContinue() {
        guard case .awaitingContinue(let timer) = upload else { return }
        timer?.cancel()
        upload = .awaitingContinue(nil)
    }
}
