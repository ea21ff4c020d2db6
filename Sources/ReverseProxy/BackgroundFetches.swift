// Fetches that no client waits for: validation while a stale answer is served, refreshing ahead, and looking whether an upstream is back.
// Bounded in number; what they bring passes the same checks as any answer, so a bad one never replaces a good copy.

import CachePolicy
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
    ///   - head: a GET.
    ///   - number: that of the client's exchange.
    func start(
        _ head: RequestHead, _ plan: ExchangePlan, client: UpstreamRequestFields.Client, _ cause: BackgroundCause, behind number: UInt64
    ) {
        guard let flight = plan.flightKey, running < shard.settings.backgroundLimit else {
            skipped += 1
            return
        }
        guard shard.server.collapsed.lead(flight) else { return }
        running += 1
        run(head, plan, client: client, cause, behind: number, leads: flight) { [self] in running -= 1 }
    }

    /// Asks for what a client asked for and got a copy of, to look whether what fails is well again. Nobody waits for it, not even those who
    /// ask for the same: it may take as long as the last look, which may be under way still.
    func look(_ head: RequestHead, _ plan: ExchangePlan, client: UpstreamRequestFields.Client, behind number: UInt64) {
        guard hasRoomToLook else {
            skipped += 1
            return
        }
        looking += 1
        run(head, plan, client: client, .recheck, behind: number, leads: nil) { [self] in looking -= 1 }
    }

    private func run(
        _ head: RequestHead, _ plan: ExchangePlan, client: UpstreamRequestFields.Client, _ cause: BackgroundCause, behind number: UInt64,
        leads flight: [UInt8]?, ended: @escaping () -> Void
    ) {
        var request = shard.upstreamRequest(for: head, .none, plan, client: client)
        request.isBackground = true
        let subject = Fetch.Subject(head: head, plan, mayRescue: true, scopes: shard.scopes(of: head, route: plan.route))
        var trace = ExchangeTrace(number: number, plan, partitionAt: shard.partitionOffset, now: shard.now)
        trace.mode = .live
        let began = shard.loop.batchMicroseconds
        let record = BackgroundRecord(shard: shard, head: head, trace, cause, began: began, ended: ended)
        let fetch = Fetch(shard: shard, subject: subject, request: request, body: .none, leads: flight, receiver: record)
        record.fetch = fetch
        started += 1
        fetch.start()
    }
}
