// This process replaces another one (`Predecessor`): it takes over the store, sockets and counts, and applies the old process's changes
// until that has ended.

import Dispatch
import Figures
import Logging
import Reactor
import ResponseCache
import ReverseProxy
import Sharing
import TakeOver
import Upstream

extension ProxyServer {
    /// Whether the old process is still completing its active requests.
    var isFollowing: Bool { following.withLock { $0 } }

    /// Reports that this process is prepared. Returns once this process may begin.
    /// - Throws: `TakeOverError`: the old process continues, and this one has written nothing.
    public func waitToTakeOver() throws(TakeOverError) {
        guard let predecessor else { return }
        following.withLock { $0 = true }
        try predecessor.waitForCommit(serving.listeners, self)
        takeOvers.withLock { $0.done += 1 }
    }

    /// Takes ownership of the store's directory.
    /// - Parameter end: position at which the old process stopped writing.
    func own(upTo end: HandedPosition) {
        anyCache?.own(upTo: end)
        for listener in serving.listeners { listener.restrict() }
    }

    /// Applies the old process's changes on a separate thread. Called once this process has begun.
    func followPredecessor() {
        guard let predecessor else { return }
        PeerProcess.makeFollowingQueue().async { [self] in
            predecessor.followToEnd(self)
            anyCache?.setPeer(nil)
            process.peer.end()
            fleet?.log.takeLeftPurges()
            following.withLock { $0 = false }
            purgeExcluded()
            logger.info("the former process has ended; the take-over is complete")
        }
    }

    /// Sends this process's changes to the old process until that has ended.
    func sendToPredecessor(_ socket: TakeOverSocket, on sending: DispatchQueue) {
        beginSending(socket, isSuccessor: false, on: sending)
        let peer = process.peer
        anyCache?.setPeer { change in
            if case .identities = change { return }
            peer.send(.change(change))
        }
    }

    /// Applies a change that the other process has made.
    func follow(_ message: TakeOverMessage, _ counts: InheritedCounts) {
        switch message {
        case .change(.identities(let tokens, let isLost)): process.followWrite(with: tokens, isLost: isLost)
        case .change(let change):
            anyCache?.follow(change)
            if case .item = change { for api in serving.apis { api.state.collapsed.noteWriteElsewhere() } }
        case .counts(let page):
            counts.take(page)
            let reports = UpstreamReport.down(on: page, unixOffset: wallMilliseconds - monotonicMilliseconds)
            for api in serving.apis { reports[api.name].map(api.state.health.inherit) }
        case .modes(let modes):
            guard let api = serving.apis.first(where: { $0.name == modes.api }) else { return }
            api.state.keep(modes)
            useModes(of: api.state) {}
        case .faults(let faults):
            changeFaults {
                $0 = FaultTable(faults)
            } then: { _ in
            }
        default: break
        }
    }

    // MARK: Counts

    /// Number of processes that failed to take over from this one.
    public var failedTakeOvers: Int { takeOvers.withLock { $0.failed } }

    public func noteFailedTakeOver() { takeOvers.withLock { $0.failed += 1 } }

    /// The metrics page that the other process reads.
    func countsPage(_ snapshot: MetricsSnapshot) -> [UInt8] {
        let figures = cacheFigures
        return MetricsPage.render(snapshot, format: .prometheus) { figures.write(to: &$0) }
    }
}

extension ProcessState {
    var passedFaults: [PassedFault] {
        faults.rules.map { rule in
            PassedFault(
                number: UInt32(clamping: rule.number), path: rule.path, percent: UInt32(clamping: rule.percent), end: rule.end,
                leastDelay: rule.fault.delay.lowerBound, longestDelay: rule.fault.delay.upperBound,
                kind: InjectedFault.kinds[rule.fault.kind], argument: rule.fault.argument)
        }
    }
}

extension FaultTable {
    fileprivate init(_ passed: [PassedFault]) {
        self.init()
        for fault in passed where fault.leastDelay >= 0 && fault.leastDelay <= fault.longestDelay {
            guard
                let injected = InjectedFault(
                    kind: fault.kind, argument: fault.argument, delay: fault.leastDelay...fault.longestDelay)
            else { continue }
            add(number: Int(fault.number), path: fault.path, injected, percent: Int(fault.percent), end: fault.end)
        }
    }
}
