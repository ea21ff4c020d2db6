// What other nodes have purged and changed is done here too: by the cache's own verbs, on a queue of its own, one after the other.

import CachePolicy
import Dispatch
import Locking
import ResponseCache
import ReverseProxy
import Sharing

final class FleetObedience: FleetFollowing {
    private unowned let server: ProxyServer
    private let queue = DispatchQueue(label: "cistern.fleet.orders", qos: .userInitiated)
    /// Waits for the disk, so that what comes next need not.
    private let disk = DispatchQueue(label: "cistern.fleet.disk", qos: .userInitiated)
    /// Who waits for it: what was obeyed meanwhile is waited for together. Shared by both queues.
    private let waiting = Mutex<[@Sendable () -> Void]>([])

    init(_ server: ProxyServer) { self.server = server }

    var hasStored: Bool { caches.first?.hasStored == true }

    var mayKeepPosition: Bool { !server.process.peer.hasAll }

    func obey(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void, kept: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            goOn(orders[...]) { [self] shared in
                if let shared { keep(in: shared, then: kept) } else { kept() }
                done()
            }
        }
    }

    /// The loops have ended by then: what waits for a turn of theirs will not come.
    func finish() {
        queue.sync {}
        disk.sync {}
    }

    private func keep(in shared: SharedCacheState, then: @escaping @Sendable () -> Void) {
        waiting.withLock { $0.append(then) }
        disk.async { [self] in
            let kept = waiting.withLock { waiting in
                defer { waiting = [] }
                return waiting
            }
            guard !kept.isEmpty else { return }
            shared.synchronize()
            for one in kept { one() }
        }
    }

    /// - Parameter then: given where it is stored; nil: nowhere.
    private func goOn(_ orders: ArraySlice<FleetOrder>, then: @escaping @Sendable (SharedCacheState?) -> Void) {
        guard let any = caches.first else { return then(nil) }
        var orders = orders
        // Some hundred thousand may follow each other: none goes deeper into the stack than the one before it.
        while case .mark(let key, let isSoft)? = orders.first {
            any.follow(mark: key, isDoubtful: isSoft, at: now)
            orders = orders.dropFirst()
        }
        guard !orders.isEmpty else { return then(any.shared) }
        // A loop that has looked at the clock before may be storing: after a turn of each it has, and what it stored is found.
        let purges = orders.prefix { if case .mark = $0 { false } else { true } }
        any.beginPurge(at: now)
        server.afterEachLoop { [self, orders] in
            queue.async { [self] in
                for order in purges { purge(order) }
                goOn(orders.dropFirst(purges.count), then: then)
            }
        }
    }

    private func purge(_ order: FleetOrder) {
        let caches = caches
        switch order {
        case .mark: break
        case .everything(let isSoft): _ = CacheGroup(caches, meaning: Array(caches.indices)).purgeStore(isSoft: isSoft)
        case .purge(let selection, let isSoft):
            // Also what is stored for APIs that are not served here just now.
            guard selection.kind != .nothing, !caches.isEmpty else { return }
            let meant = caches.indices.filter { selection.isMeant(caches[$0].shared.settings) }
            let wanted = caches.map { selection.purge($0.shared.settings.arguments) }
            _ = CacheGroup(caches, meaning: meant, named: selection.apis).purge(wanted, isSoft: isSoft)
        }
    }

    private var now: Timestamp { Timestamp(milliseconds: server.wallMilliseconds) }

    /// Of this queue, as they are served now.
    private var caches: [ResponseCache] {
        server.serving.apis.compactMap { api in
            api.state.cache.map { shared in
                ResponseCache(shared, mayWait: true) { [server] in server.cacheTime }
            }
        }
    }
}
