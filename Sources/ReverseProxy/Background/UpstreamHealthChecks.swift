// Health checks that determine the reported state of an upstream. They are sent if an upstream that is down has received no request for a
// minute, or if all recent requests fail. A check requests the probe's path, or repeats a safe request without credentials.
// `UpstreamState` decides when a check is due.

import CachePolicy
import Forwarding
import HTTPCore
import Reactor
import Upstream

/// Must be used on its shard's event loop.
final class UpstreamHealthChecks {
    private let context: BackgroundContext
    private let fetches: BackgroundFetches
    /// Requests the path of `failure.probe`; nil if that setting is empty.
    private let probe: ActiveProbe?
    private var requests: [Known] = []
    private var keptAt = Int64.min
    /// Index of the request that the next check repeats.
    private var turn = 0
    /// The client of the request that the last check repeated.
    private var lastClient: UInt64?
    private var timer: LoopTimer?
    private var isEnded = false

    /// Maximum number of remembered requests.
    private static let limit = 4
    /// Minimum milliseconds before a remembered request is replaced, and between two polls of the state.
    private static let interval: Int64 = 10_000

    private struct Known {
        let request: DecidedRequest
        let client: UInt64
        /// Whether the last attempt of any client failed.
        var fails: Bool
    }

    init(_ context: BackgroundContext, _ fetches: BackgroundFetches, probe: ActiveProbe?) {
        (self.context, self.fetches, self.probe) = (context, fetches, probe)
    }

    func end() {
        timer?.cancel()
        isEnded = true
    }

    private var now: Int64 { context.loop.batchMilliseconds }

    func note(_ request: DecidedRequest, fails: Bool) {
        if let index = requests.firstIndex(where: { $0.request.scopes.key == request.scopes.key }) {
            requests[index].fails = fails
        } else if fails ? requests.isEmpty : requests.count < Self.limit || now - keptAt >= Self.interval, request.isAnonymousCheck {
            // A failed request is remembered only if no other request is.
            makeSpace(for: request, fails: fails)
            requests.append(Known(request: DecidedRequest(unnamed: request, keepsCopy: false), client: request.client, fails: fails))
            keptAt = now
            wake(after: Self.interval)
        }
        if fails { checkIfDue() }
    }

    /// Removes a remembered request to make space. A client's own request is removed first, so that one client cannot determine all
    /// repeated requests.
    private func makeSpace(for request: DecidedRequest, fails: Bool) {
        if requests.first?.fails == true, !fails {
            requests.removeFirst()
        } else if requests.count == Self.limit {
            requests.remove(at: requests.firstIndex { $0.client == request.client } ?? 0)
        }
    }

    private func wake(after milliseconds: Int64) {
        guard !isEnded, timer == nil else { return }
        timer = context.loop.schedule(after: .milliseconds(milliseconds)) { [weak self] in
            self?.timer = nil
            self?.checkIfDue()
        }
    }

    func checkIfDue() {
        guard !isEnded, context.coordination.health.wantsCheck else { return requests.isEmpty ? () : wake(after: Self.interval) }
        let isOffline = context.coordination.modes.isOffline
        let mayCheck = !isOffline && (probe != nil || !requests.isEmpty)
        let mayCompare = !isOffline && (probe != nil || requests.contains { !$0.fails })
        switch context.coordination.health.checkUpstream(mayCheck: mayCheck, mayCompare: mayCompare, now: now) {
        case .over: wake(after: Self.interval)
        case .notYet(let wait): wake(after: min(wait, Self.interval))
        case .due:
            sendCheck()
            wake(after: Self.interval / 2)
        }
    }

    private func sendCheck() {
        if let probe { return probe.sendCheck() }
        turn += 1
        let order = requests.indices.map { ($0 + turn) % requests.count }
        let good = order.filter { !requests[$0].fails }
        guard let index = good.first(where: { requests[$0].client != lastClient }) ?? good.first ?? order.first else { return }
        let request = requests[index].request
        lastClient = requests[index].client
        let client = UpstreamRequestFields.Client(address: [], isIPv6: false, host: request.head.host)
        fetches.sendCheck(request, client: client, behind: 0)
    }
}

extension DecidedRequest {
    /// Whether Cistern may repeat the request at any time: it is safe, has no credentials, and its response may be stored.
    fileprivate var isAnonymousCheck: Bool { isRepeatable && isSafe && scopes.user == 0 && owned == nil }
}
