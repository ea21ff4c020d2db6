// Fetches that no client waits for: validation while a stale response is served, refreshing ahead, and looking whether an upstream is back.
// Bounded in number; what they bring passes the same checks as any response, so a bad one never replaces a good copy.

import CachePolicy
import Coordination
import Decisions
import Explanation
import Forwarding
import HTTPCore
import Reactor
import Upstream

/// Touched on its shard's loop only.
final class BackgroundFetches {
    private unowned let shard: ProxyShard
    private(set) var running = 0
    /// Started since the beginning, and not started because too many were running.
    private(set) var started = 0
    private(set) var skipped = 0
    /// Looks under way, and how many there may be: what fails may take long to say so, and the connections are for clients.
    private var looking = 0
    private let lookLimit: Int

    init(shard: ProxyShard) {
        self.shard = shard
        lookLimit = max(1, shard.settings.upstream.maximumConnections / 4)
    }

    var hasRoomToLook: Bool { looking < lookLimit }

    /// Asks for what the client asked for. Does nothing where that is under way already.
    /// - Parameters:
    ///   - request: a GET.
    ///   - number: that of the client's exchange.
    func start(_ request: DecidedRequest, client: UpstreamRequestFields.Client, _ cause: BackgroundCause, behind number: UInt64) {
        shard.loop.assertOnLoop()
        guard let flight = request.place?.flight, running < shard.settings.background.limit else {
            skipped += 1
            return
        }
        guard let flight = shard.shared.collapsed.lead(flight, span: request.head.span) else { return }
        running += 1
        let record = record(of: request, cause, behind: number) { [self] in running -= 1 }
        run(request, client: client, record, cause, leads: flight)
    }

    /// Asks for what a client asked for and got a copy of, to look whether what fails is well again. Nobody waits for it, not even those who
    /// ask for the same: it may take as long as the last look, which may be under way still.
    func look(_ request: DecidedRequest, client: UpstreamRequestFields.Client, behind number: UInt64) {
        shard.loop.assertOnLoop()
        guard hasRoomToLook else {
            skipped += 1
            return
        }
        looking += 1
        let record = record(of: request, .recheck, behind: number) { [self] in looking -= 1 }
        run(request, client: client, record, .recheck, leads: nil)
    }

    /// Takes a place among those that may run; false where there is none.
    func take() -> Bool {
        guard running < shard.settings.background.limit else {
            skipped += 1
            return false
        }
        running += 1
        started += 1
        return true
    }

    func giveBack() { running -= 1 }

    private func record(
        of request: DecidedRequest, _ cause: BackgroundCause, behind number: UInt64, ended: @escaping () -> Void
    ) -> BackgroundRecord {
        var trace = request.trace
        trace.number = number
        trace.mode = .live
        return BackgroundRecord(shard: shard, head: request.head, trace, cause, began: shard.loop.batchMicroseconds, ended: ended)
    }

    private func run(
        _ request: DecidedRequest, client: UpstreamRequestFields.Client, _ record: BackgroundRecord, _ cause: BackgroundCause,
        leads flight: Flight?
    ) {
        var sent = shard.upstreamRequest(for: request, .none, client: client)
        sent.isBackground = true
        let fetch = Fetch(shard: shard, subject: request, body: .none, receiver: record)
        record.fetch = fetch
        started += 1
        fetch.start(sent, leads: flight, because: cause)
    }
}
