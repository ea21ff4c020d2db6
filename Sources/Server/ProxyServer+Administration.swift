// The server as the administrator's pages use it (`AdministeredServer`).

import Administration
import Downstream
import Explanation
import Notifying
import Reactor
import ReverseProxy

extension ProxyServer: AdministeredServer {
    public var statusURLs: [String] {
        serving.listeners.compactMap { one in
            guard one.isAdmin, one.address.port != nil else { return nil }
            var url = one.settings.url(at: one.address)
            // A client cannot connect to a wildcard address on every system; the loopback address is shown instead.
            for (all, own) in [("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")] {
                if let range = url.firstRange(of: all) { url.replaceSubrange(range, with: own) }
            }
            return url + "/-/status"
        }
    }

    /// Records samples for the status page and the notifications, if there is an admin listener or a target. Must be called on the first
    /// shard's loop.
    func watchStatus(on shard: Shard) {
        if notifier.isOn || serving.listeners.contains(where: \.isAdmin) {
            serving.interface.noteSample { [weak self] sample in
                // The process that takes over notifies from then on.
                if let self, !isTakenOver { notifier.note(sample) }
            }
        }
        shard.loop.schedule(after: .milliseconds(StatusMemory.interval)) { [weak self] in self?.watchStatus(on: shard) }
    }

    // MARK: Loops

    public func collectTargets(then: @escaping @Sendable ([TargetTally]) -> Void) {
        // Each shard adds its targets on its own loop.
        let all = Mutex<[TargetTally]>([])
        onEachShard { served in
            let own = served.shard.targets
            all.withLock { $0.append(own) }
        } then: {
            then(all.withLock { $0 })
        }
    }

    public func searchRecords(_ search: WhyRing.Search, then: @escaping @Sendable (WhyRing.Found) -> Void) {
        // Each shard adds its records on its own loop.
        let found = Mutex<(all: WhyRing.Found, left: Int)>((WhyRing.Found(shards: shardCount), shardCount))
        onEachShard { served in
            let number = served.shard.number
            served.shard.search(search) { search in
                let isLast = found.withLock { found in
                    found.all.add(search, ofShard: number)
                    found.left -= 1
                    return found.left == 0
                }
                if isLast { then(found.withLock { $0.all }) }
            }
        } then: {
        }
    }

    public var isTakenOver: Bool { process.peer.hasAll }

    /// Whether the process that took over ended before it served, so that no process serves.
    public var hasLostSuccessor: Bool { process.peer.isLost }

    public func afterPropagation(_ then: @escaping @Sendable () -> Void) { process.peer.whenKnown(then) }

    public func afterEachLoop(_ then: @escaping @Sendable () -> Void) { onEachShard({ _ in }, then: then) }
}
