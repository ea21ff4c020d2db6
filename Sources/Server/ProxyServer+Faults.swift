// Faults that an administrator injects for a drill: distributes them to all shards, logs them, and ends them in time.

import Logging
import Reactor
import ReverseProxy
import TakeOver
import Upstream

extension ProxyServer {
    public var faults: FaultTable { process.faults }

    public func changeFaults<Result: Sendable>(
        _ change: (inout FaultTable) -> Result, then: @escaping @Sendable (Result) -> Void
    ) {
        let (result, before, after) = process.changeFaults(change)
        logFaults(before.rules, after.rules)
        process.peer.send(.faults(process.passedFaults))
        // Concurrent changes may reach a shard in either order, so the shard reads the current faults.
        onEachShard { [process] shard in
            shard.forEachAPI { $0.use(process.faults) }
        } then: {
            then(result)
        }
        endFaultsInTime(after)
    }

    /// Logs the start and end of each fault as a warning, so that it is not mistaken for an outage.
    private func logFaults(_ before: [FaultTable.Rule], _ after: [FaultTable.Rule]) {
        for rule in after where !before.contains(where: { $0.number == rule.number }) {
            let seconds = (rule.end - monotonicMilliseconds) / 1_000
            logger.warning(
                "fault \(rule.number) is injected for \(seconds) s into \(rule.percent) % of \(rule.path): \(rule.fault.text)")
        }
        for rule in before where !after.contains(where: { $0.number == rule.number }) {
            logger.warning("fault \(rule.number) ended: requests for \(rule.path) reach the upstream again")
        }
    }

    private func endFaultsInTime(_ faults: FaultTable) {
        guard let end = faults.rules.map(\.end).min() else { return }
        onFirstShard { [self] shard in
            shard.loop.schedule(after: .milliseconds(max(0, end - monotonicMilliseconds))) {
                guard self.process.faults.rules.contains(where: { $0.end <= self.monotonicMilliseconds }) else { return }
                self.changeFaults {
                    $0.removeEnded(now: self.monotonicMilliseconds)
                } then: { _ in
                }
            }
        }
    }
}
