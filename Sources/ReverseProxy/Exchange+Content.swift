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
    /// It comes. What was held of it before it streamed counts in the budget until the upstream has taken it.
    case streaming(ContentHold?)

    init(_ body: RequestBody) {
        self =
            switch body {
            case .none, .whole: .nothing
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
        shard.countRequestBytes(bytes.count)
        guard let fetch else { return }
        guard fetch.write(bytes) else { return connection.pauseContent() }
        stopAwaitingContinue()
        upload = .streaming(nil)
    }

    func requestEnded() {
        stopAwaitingContinue()
        upload = .nothing
        fetch?.endContent()
    }

    func fetchDrained() {
        if case .streaming = upload { upload = .streaming(nil) }
        connection.resumeContent()
    }

    func fetchInformed(_ head: ResponseHead) {
        guard head.status == 100 else { return connection.sendInformational(head) }
        if case .awaitingContinue = upload { letContinue() }
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
        stopAwaitingContinue()
        upload = .streaming(nil)
        connection.sendContinue()
    }

    /// The timer holds the exchange: so it must end with it.
    func stopAwaitingContinue() {
        guard case .awaitingContinue(let timer) = upload else { return }
        timer?.cancel()
        upload = .awaitingContinue(nil)
    }
}
