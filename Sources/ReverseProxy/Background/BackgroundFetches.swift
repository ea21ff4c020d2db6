// Fetches without a waiting client: background validation, refresh-ahead, and health checks of a failing upstream. Their number is
// bounded. Responses pass the usual checks, so a bad one never replaces a good stored response.

import CachePolicy
import Decisions
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import Upstream

/// Used on its shard's loop only.
final class BackgroundFetches {
    private let context: BackgroundContext
    private let limit: Int
    /// Separate slots for fetches and for identity lookups, so that neither can block the other.
    private var slots: ConnectionSlots
    private var lookUpSlots: ConnectionSlots
    /// Number of fetches started, and of fetches skipped because too many were active.
    private(set) var started = 0
    private(set) var skipped = 0
    /// Number of active health checks, and its limit. A check of a failing upstream may take long and would occupy connections that
    /// clients need.
    private var checking = 0
    private let checkLimit: Int

    init(_ context: BackgroundContext, _ settings: ProxySettings) {
        (self.context, limit) = (context, settings.background.limit)
        checkLimit = max(1, settings.upstream.maximumConnections / 4)
        slots = ConnectionSlots(count: limit)
        lookUpSlots = ConnectionSlots(count: limit)
    }

    /// Number of active fetches and lookups.
    var running: Int { slots.taken + lookUpSlots.taken }

    func addUse(to limits: inout LimitUse) {
        let most = max(slots.taken, lookUpSlots.taken)
        limits.note("background_fetches", most, of: limit)
    }

    var mayCheck: Bool { checking < checkLimit }

    /// Whether a fetch for the request could be started, or is active already.
    func mayStart(_ request: DecidedRequest) -> Bool {
        guard let flight = request.fetchTarget?.flight else { return false }
        return context.coordination.collapsed.isUnderWay(flight) || slots.hasCapacity(for: Self.shares(of: request.scopes))
    }

    /// Starts a background fetch for a client's request, unless one is active.
    /// - Parameters:
    ///   - request: a GET request.
    ///   - number: number of the client's exchange.
    func start(_ request: DecidedRequest, client: UpstreamRequestFields.Client, _ cause: BackgroundCause, behind number: UInt64) {
        context.loop.assertOnLoop()
        let shares = Self.shares(of: request.scopes)
        guard let flight = request.fetchTarget?.flight else { return }
        guard slots.take(shares) else { return noteSkipped() }
        let (collapsed, now) = (context.coordination.collapsed, context.loop.time.monotonicMilliseconds)
        guard let flight = collapsed.lead(flight, span: request.head.span, client: request.scopes.client, now: now)
        else { return slots.release(shares) }
        let record = record(of: request, cause, behind: number) { [self] in slots.release(shares) }
        run(request, client: client, record, cause, leads: flight)
    }

    /// A path family and a client may each use only a part of the free slots.
    private static func shares(of scopes: borrowing RequestScopes) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(scopes.family), .free))
        if scopes.client != 0 { shares.append(ConnectionShare(.client(scopes.client), .free)) }
        return shares
    }

    /// Counts a fetch that was not started because too many were active.
    func noteSkipped() { skipped += 1 }

    /// Repeats a request that was answered with a stored response, to check whether a failing upstream has recovered. No client waits for
    /// the check, and several checks may be active at once.
    func sendCheck(_ request: DecidedRequest, client: UpstreamRequestFields.Client, behind number: UInt64) {
        context.loop.assertOnLoop()
        guard mayCheck else { return noteSkipped() }
        checking += 1
        let record = record(of: request, .recheck, behind: number) { [self] in checking -= 1 }
        run(request, client: client, record, .recheck, leads: nil)
    }

    /// Reserves a slot for an identity lookup.
    /// - Returns: false if no slot is free, or the client has reached its limit.
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
        var record = request.record
        record.number = number
        record.mode = .live
        return BackgroundRecord(context.reporting, head: request.head, record, cause, began: context.loop.batchMicroseconds, ended: ended)
    }

    private func run(
        _ request: DecidedRequest, client: UpstreamRequestFields.Client, _ record: BackgroundRecord, _ cause: BackgroundCause,
        leads flight: Flight?
    ) {
        var sent = context.requests.make(for: request, .none, client: client)
        sent.isBackground = true
        let fetch = context.requests.makeFetch(request, .none, record)
        record.fetch = fetch
        started += 1
        fetch.start(sent, leads: flight, because: cause)
    }
}
