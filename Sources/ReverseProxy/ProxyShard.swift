// One API on one shard. Assembles what its requests use: `RequestEntry` receives them, and `UpstreamClient` connects to the upstream.

import CachePolicy
import Downstream
import Figures
import Reactor
import ResponseCache
import Sending
import Upstream

/// Used on its loop only. `@unchecked Sendable` because other threads only queue work on that loop.
public final class ProxyShard: @unchecked Sendable {
    public let apiState: APIState
    let shard: Shard
    let loop: EventLoop
    let coordination: Coordination
    let reporting: Reporting
    let upstream: UpstreamClient
    let messages: ShardMessages
    /// nil if nothing is stored.
    private let memo: HitMemo?
    private let requests: UpstreamRequests
    let background: BackgroundWork
    /// Also referenced by listeners and suspended requests. A variable, because `isUnused` checks its reference count.
    public private(set) var entry: RequestEntry

    public init(_ apiState: APIState, on shard: Shard, _ own: OwnSources) {
        (self.apiState, self.shard, loop) = (apiState, shard, shard.loop)
        upstream = UpstreamClient(loop: loop, settings: apiState.settings.upstream)
        let cache = apiState.cache.map { [loop] in ResponseCache($0) { loop.cacheTime } }
        cache?.level = shard.level
        coordination = Coordination(apiState, on: shard, ShardKeys(cache?.keyMaker ?? RequestKeyMaker(apiState.cacheSettings)))
        reporting = Reporting(apiState, on: shard)
        messages = ShardMessages(apiState, on: shard)
        memo = apiState.cache.map(HitMemo.init)
        let connections = ClientOwnedConnections(apiState, at: upstream, on: loop)
        let fetches = FetchContext(apiState, on: shard, cache, upstream, coordination, reporting)
        requests = UpstreamRequests(apiState, messages.requestFields, connections, coordination, shard.records, fetches)
        background = BackgroundWork(
            BackgroundContext(loop: loop, upstream: upstream, coordination: coordination, reporting: reporting, requests: requests),
            apiState.settings, apiState.routes)
        fetches.healthChecks = background.healthChecks
        let context = EntryContext(
            loop: loop, api: apiState, cache: cache, memo: memo, messages: messages, coordination: coordination, reporting: reporting,
            background: background)
        entry = RequestEntry(context, connections, own, examiner: shard.workers.content)
    }

    /// Whether this is the only API.
    public var isAlone: Bool { apiState.name.isEmpty }

    /// Must be called on the shard's event loop before the first request.
    public func start() {
        loop.assertOnLoop()
        reporting.start()
        if let cache = apiState.cache { shard.connections.contentMemory = cache }
        modes = apiState.modes
        use(apiState.process.faults)
        followConnectionAttempts()
        if shard.number == 0 { background.probe?.start() }
    }

    /// Discards remembered hits when the set of served APIs changes, because equal requests may now belong to another API. Must be called
    /// on the shard's event loop.
    public func forgetRepeated() { memo?.forget() }

    /// Called when another instance replaces this one and no further requests arrive. Active requests are completed. Must be called on the
    /// shard's event loop.
    public func retire() {
        loop.assertOnLoop()
        background.end()
        // Stops storing: under the new settings, an equal request may belong to another user.
        apiState.cache?.replace()
    }

    /// Whether no request and no fetch uses this instance any longer. Must be called on the shard's event loop.
    public func isUnused() -> Bool { isKnownUniquelyReferenced(&entry) && entry.isUnused() && requests.isUnused() }

    /// Must be called on the shard's event loop when no request is active.
    public func close() {
        loop.assertOnLoop()
        upstream.close()
        leaveCounts()
    }

    /// Reports each connection attempt to the failure memory.
    private func followConnectionAttempts() {
        let (health, loop) = (apiState.health, loop)
        upstream.onConnectionAttempt = { [unowned upstream, weak background] error, began in
            let now = loop.time.monotonicMilliseconds
            guard let error else {
                health.reach(now: now)
                background?.healthChecks.checkIfDue()
                return
            }
            // Errors of Cistern itself are no evidence about the upstream.
            guard error.isFailureToReach else { return }
            let certificate = if case .certificate = error.cause { upstream.refusedCertificate } else { String?.none }
            health.failToReach(error, certificate: certificate, began: began, now: now)
            background?.rechecks.watchAddress()
            background?.healthChecks.checkIfDue()
        }
        let addresses = apiState.settings.upstream.atEachAddress.map { $0.origin + $0.basePath }
        upstream.onNameChange = { name, hasFailed in health.noteName(name, hasFailed: hasFailed) }
        upstream.onTLSFilesChange = { settings, areUsable in health.noteTLSFiles(of: settings, areUsable: areUsable) }
        upstream.onConnectionMade = { [reporting] times in reporting.countConnection(times) }
        upstream.mayCheck = { [coordination] in !coordination.modes.isOffline }
        upstream.onAddressChange = { index, error in
            health.noteAddress(addresses, index, error, now: loop.time.monotonicMilliseconds)
        }
    }

    /// Copy of the modes in `apiState`.
    public var modes: ModeTable {
        get { coordination.modes.table }
        set {
            coordination.modes.table = newValue
            memo?.forget()
        }
    }

    /// Applies the fault rules. Faults for upstream requests are chosen only if there are rules.
    public func use(_ faults: FaultTable) {
        guard !faults.rules.isEmpty else {
            upstream.chooseFault = nil
            return
        }
        upstream.chooseFault = { [loop, stripped = apiState.settings.strippedPath] target in
            // Fault rules contain the paths of clients.
            let target = stripped.isEmpty ? target : (stripped + target)[...]
            return faults.fault(for: target, now: loop.time.monotonicMilliseconds) { Int.random(in: 0..<100) }
        }
    }
}

extension EventLoop {
    /// Current time in the form that the caching rules use.
    var now: Timestamp { Timestamp(milliseconds: batchWallMilliseconds) }

    /// Current wall-clock and monotonic time in the form that the cache uses.
    var cacheTime: CacheTime { CacheTime(wall: now, monotonic: time.monotonicMilliseconds) }
}
