// Fetches that no client waits for: validation while a stale answer is served, refreshing ahead, and looking whether an upstream is back.
// Bounded in number; what they bring passes the same checks as any answer, so a bad one never replaces a good copy.

import CachePolicy
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

    init(shard: ProxyShard) { self.shard = shard }

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
        let request = shard.upstreamRequest(for: head, .none, plan, client: client)
        let subject = Fetch.Subject(head: head, plan, mayRescue: true)
        var trace = ExchangeTrace(number: number, plan, partitionAt: shard.partitionOffset, now: shard.now)
        trace.mode = .live
        let began = shard.loop.batchMicroseconds
        let record = BackgroundRecord(shard: shard, head: head, trace, cause, began: began) { [self] in running -= 1 }
        let fetch = Fetch(shard: shard, subject: subject, request: request, body: .none, leads: flight, receiver: record)
        record.fetch = fetch
        running += 1
        started += 1
        fetch.start()
    }
}
