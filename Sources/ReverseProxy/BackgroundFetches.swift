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
    /// - Parameter head: a GET.
    func start(_ head: RequestHead, _ plan: ExchangePlan, client: UpstreamRequestFields.Client) {
        guard let flight = plan.flightKey, running < shard.settings.backgroundLimit else {
            skipped += 1
            return
        }
        guard shard.server.collapsed.lead(flight) else { return }
        let request = shard.upstreamRequest(for: head, framing: .none, plan, client: client)
        let subject = Fetch.Subject(head: head, plan, mayRescue: true)
        let fetch = Fetch(shard: shard, subject: subject, request: request, leads: flight, receiver: Waiting(self))
        running += 1
        started += 1
        fetch.start()
    }

    fileprivate func ended() { running -= 1 }

    /// Takes the client's place in one fetch.
    private final class Waiting: FetchReceiver {
        private let fetches: BackgroundFetches

        init(_ fetches: BackgroundFetches) { self.fetches = fetches }

        func fetchAnswered(_ answer: WholeAnswer) { fetches.ended() }
        func fetchConfirmed(_ confirmation: Confirmation) { fetches.ended() }
        func fetchFailed(_ failure: FetchFailure) { fetches.ended() }
        /// Nothing that can be kept.
        func streamBegan(_ head: ResponseHead, length: Int?, notStored: NotStoredReason) -> Bool {
            fetches.ended()
            return false
        }
        func fetchInformed(_ head: ResponseHead) {}
        func streamBrought(_ bytes: Span<UInt8>) {}
        func streamEnded() {}
        func streamBroke(_ error: UpstreamError) {}
        func fetchDrained() {}
    }
}
