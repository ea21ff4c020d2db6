// Fetches that no client waits for: validation while a stale response is served, refreshing ahead, and looking whether an upstream is back.
// Bounded in number; what they bring passes the same checks as any response, so a bad one never replaces a good copy.

import CachePolicy
import Coordination
import Decisions
import Explanation
import Forwarding
import HTTPCore
import Reactor
import Telemetry
import Upstream

/// Touched on its shard's loop only.
final class BackgroundFetches {
    private unowned let shard: ProxyShard
    /// Those of fetches, and of look-ups of whom credentials belong to: neither can hold up the other.
    private var slots: SharedSlots
    private var lookUpSlots: SharedSlots
    /// Started since the beginning, and not started because too many were running.
    private(set) var started = 0
    private(set) var skipped = 0
    /// Looks under way, and how many there may be: what fails may take long to say so, and the connections are for clients.
    private var looking = 0
    private let lookLimit: Int

    init(shard: ProxyShard) {
        self.shard = shard
        lookLimit = max(1, shard.settings.upstream.maximumConnections / 4)
        slots = SharedSlots(count: shard.settings.background.limit)
        lookUpSlots = SharedSlots(count: shard.settings.background.limit)
    }

    /// Under way now.
    var running: Int { slots.taken + lookUpSlots.taken }

    func addUse(to limits: inout LimitUse) {
        let most = max(slots.taken, lookUpSlots.taken)
        limits.note("cache.background_limit", most, of: shard.settings.background.limit)
    }

    var hasRoomToLook: Bool { looking < lookLimit }

    /// Whether a fetch for the request could be started, or is under way.
    func mayStart(_ request: DecidedRequest) -> Bool {
        guard let flight = request.place?.flight else { return false }
        if shard.shared.collapsed.isUnderWay(flight) { return true }
        let shares = Self.shares(of: request.scopes)
        guard slots.take(shares) else { return false }
        slots.release(shares)
        return true
    }

    /// Asks for what the client asked for. Does nothing where that is under way already.
    /// - Parameters:
    ///   - request: a GET.
    ///   - number: that of the client's exchange.
    func start(_ request: DecidedRequest, client: UpstreamRequestFields.Client, _ cause: BackgroundCause, behind number: UInt64) {
        shard.loop.assertOnLoop()
        let shares = Self.shares(of: request.scopes)
        guard let flight = request.place?.flight, slots.take(shares) else { return noteSkipped() }
        let (collapsed, now) = (shard.shared.collapsed, shard.monotonicMilliseconds)
        guard let flight = collapsed.lead(flight, span: request.head.span, client: request.scopes.client, now: now)
        else { return slots.release(shares) }
        let record = record(of: request, cause, behind: number) { [self] in slots.release(shares) }
        run(request, client: client, record, cause, leads: flight)
    }

    /// A family of paths, one path and one client each have as many slots as are free.
    private static func shares(of scopes: borrowing RequestScopes) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(scopes.family), .free))
        if scopes.client != 0 { shares.append(ConnectionShare(.client(scopes.client), .free)) }
        return shares
    }

    /// None was started since too many were running.
    func noteSkipped() { skipped += 1 }

    /// Asks for what a client asked for and got a copy of, to look whether what fails is well again. Nobody waits for it, not even those who
    /// ask for the same: it may take as long as the last look, which may be under way still.
    func look(_ request: DecidedRequest, client: UpstreamRequestFields.Client, behind number: UInt64) {
        shard.loop.assertOnLoop()
        guard hasRoomToLook else { return noteSkipped() }
        looking += 1
        let record = record(of: request, .recheck, behind: number) { [self] in looking -= 1 }
        run(request, client: client, record, .recheck, leads: nil)
    }

    /// Takes a slot for a look-up of whom credentials belong to.
    /// - Returns: false if none is free, or the client has as many as it may.
    func takeLookUp(of client: UInt64) -> Bool {
        guard lookUpSlots.take(Self.lookUpShares(of: client)) else {
            skipped += 1
            return false
        }
        started += 1
        return true
    }

    func giveBackLookUp(of client: UInt64) { lookUpSlots.release(Self.lookUpShares(of: client)) }

    private static func lookUpShares(of client: UInt64) -> ConnectionShares {
        client == 0 ? [] : ConnectionShares(ConnectionShare(.client(client), .free))
    }

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
