// One shard: an event loop with the state that all APIs share on it: client connections, workers for long content, and records.
// `ProxyShard` is one API on it.

import Downstream
import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Sending

/// Used on its loop only. `@unchecked Sendable` because other threads only queue work on that loop.
public final class Shard: @unchecked Sendable {
    public let number: Int
    public let loop: EventLoop
    public let connections: ClientConnections
    let workers: ShardWorkers
    let records: ShardRecords
    let level: any FleetStorage

    /// - Parameter level: the shared level of the fleet. It belongs to the process and changes only with a restart.
    public init(_ process: ProcessState, number: Int, on loop: EventLoop, level: any FleetStorage) {
        (self.number, self.loop, self.level) = (number, loop, level)
        let settings = process.settings
        workers = ShardWorkers(loop, recodedBytes: Self.recodedBytes(settings))
        connections = ClientConnections(loop: loop, settings: settings.downstream, budget: process.connections)
        records = ShardRecords(why: WhyRing(shard: number, capacity: settings.records))
        records.use(process)
    }

    private static func recodedBytes(_ settings: ProxySettings) -> Int { settings.content.recodedBytes / max(1, settings.shards) }

    /// Applies new settings to all work that begins from now on. Must be called on the shard's event loop.
    public func use(_ process: ProcessState) {
        loop.assertOnLoop()
        connections.use(process.settings.downstream)
        workers.recoded.limitBytes = Self.recodedBytes(process.settings)
        records.use(process)
    }

    /// Searches the records in steps, a bounded number in each turn of the loop.
    public func search(_ search: WhyRing.Search, then: @escaping @Sendable (WhyRing.Search) -> Void) {
        loop.assertOnLoop()
        resume(RecordSearch(search), then: then)
    }

    private func resume(_ search: RecordSearch, then: @escaping @Sendable (WhyRing.Search) -> Void) {
        guard records.why.searchMore(&search.state) else { return then(search.state) }
        loop.inNextRound { [self] in resume(search, then: then) }
    }

    // MARK: Figures

    /// Counts of targets that often fail, are rescued, or are not stored.
    public var targets: TargetTally {
        loop.assertOnLoop()
        return records.targets
    }

    /// Adds this shard's counters to the sum.
    public func addFigures(to snapshot: inout MetricsSnapshot) {
        loop.assertOnLoop()
        records.past.add(to: &snapshot)
        for (index, counts) in records.apis.enumerated() { snapshot.add(counts, ofAPI: index) }
        for (index, figures) in records.routes.enumerated() { figures.add(to: &snapshot, at: index) }
        snapshot.add(records.oldestAges, now: loop.batchWallMilliseconds)
        snapshot.loops.append(
            MetricsSnapshot.LoopLine(
                shard: number, longestWait: loop.waits.longestLately(now: loop.batchMicroseconds), waits: Histogram(loop.waits),
                workers: [("content", workers.content), ("gzip", workers.gzip)].map { ($0, $1.queue.count, $1.queue.bytes) }))
        workers.recoded.addFigures(to: &snapshot.figures)
        snapshot.figures.add(records.figures)
        snapshot.figures.add(connections.counters)
        guard let tls = connections.tls else { return }
        snapshot.clientTLS.isSpoken = true
        snapshot.clientTLS.running += tls.running
        snapshot.figures.labelled.add(tls.figures)
        snapshot.limits.note("handshakes", tls.running, of: tls.handshakeLimit)
    }
}

/// State of a search between turns of the loop. A class, so that it is not copied.
private final class RecordSearch {
    var state: WhyRing.Search

    init(_ state: WhyRing.Search) { self.state = state }
}

extension Histogram {
    /// Creates a histogram of the loop's wait times in microseconds; the bounds are powers of two.
    fileprivate init(_ waits: LoopWaits) {
        let last = LoopWaits.buckets - 1
        self.init(bounds: (0..<last).map { Int64(1) << Int64($0) }, counts: (0...last).map { waits.counts[$0] }, sum: waits.sum)
    }
}
