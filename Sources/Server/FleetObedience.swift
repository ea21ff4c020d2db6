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

    init(_ server: ProxyServer) { self.server = server }

    var hasStored: Bool { caches.first?.hasStored == true }

    var mayKeepPosition: Bool { !server.process.peer.hasAll }

    func follow(_ marks: ArraySlice<FleetOrder>) {
        guard !marks.isEmpty, let store else { return }
        for case .mark(let key, let isSoft) in marks { store.follow(mark: key, isDoubtful: isSoft, at: now) }
    }

    func obey(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void) { queue.async { self.goOn(orders[...], then: done) } }

    func synchronize() { store?.synchronize() }

    /// The loops have ended by then: what waits for a turn of theirs will not come.
    func finish() { queue.sync {} }

    private func goOn(_ orders: ArraySlice<FleetOrder>, then: @escaping @Sendable () -> Void) {
        let marks = orders.prefix(while: \.isMark)
        follow(marks)
        let purges = orders.dropFirst(marks.count).prefix { !$0.isMark }
        guard !purges.isEmpty, let any = caches.first else { return then() }
        // A loop that has looked at the clock before may be storing: after a turn of each it has, and what it stored is found.
        any.beginPurge(at: now)
        server.afterEachLoop { [self, orders] in
            queue.async { [self] in
                for order in purges { purge(order) }
                goOn(orders.dropFirst(marks.count + purges.count), then: then)
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

    /// All APIs have one store. nil: none.
    private var store: SharedCacheState? { server.serving.apis.lazy.compactMap(\.state.cache).first }

    /// Of this queue, as they are served now.
    private var caches: [ResponseCache] {
        server.serving.apis.compactMap { api in
            api.state.cache.map { shared in
                ResponseCache(shared, mayWait: true) { [server] in server.cacheTime }
            }
        }
    }
}
