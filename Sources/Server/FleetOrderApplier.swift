// Applies the marks and purges of other nodes to this node's store. Purges run in order on a separate queue.

import CachePolicy
import Dispatch
import Logging
import ResponseCache
import ReverseProxy
import Sharing

final class FleetOrderApplier: FleetOrderReceiver {
    private unowned let server: ProxyServer
    private let queue = DispatchQueue(label: "cistern.fleet.orders", qos: .userInitiated)

    init(_ server: ProxyServer) { self.server = server }

    var hasStored: Bool { caches.first?.hasStored == true }

    var mayKeepPosition: Bool { !server.process.peer.hasAll }

    func follow(_ writes: ArraySlice<FleetOrder>) {
        guard !writes.isEmpty else { return }
        let (state, process) = (store, server.process)
        for order in writes {
            switch order {
            case .mark(let key, let isSoft): state?.follow(mark: key, isDoubtful: isSoft, at: now)
            case .identities(let tokens, let isLost): process.followWrite(with: tokens, isLost: isLost)
            case .purge, .everything: break
            }
        }
    }

    func apply(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void) { queue.async { self.resume(orders[...], then: done) } }

    func synchronize() { store?.synchronize() }

    /// Waits for the queued work. The loops have ended by then, so a purge that waits for a turn of each loop is not completed.
    func finish() { queue.sync {} }

    private func resume(_ orders: ArraySlice<FleetOrder>, then: @escaping @Sendable () -> Void) {
        let writes = orders.prefix(while: \.isOfWrite)
        follow(writes)
        let purges = orders.dropFirst(writes.count).prefix { !$0.isOfWrite }
        guard !purges.isEmpty, let any = caches.first else { return then() }
        // A loop that read the clock before this time may still be storing a response. After one turn of each loop, the purge finds it.
        any.beginPurge(at: now)
        server.afterEachLoop { [self, orders] in
            queue.async { [self] in
                for order in purges { purge(order) }
                resume(orders.dropFirst(writes.count + purges.count), then: then)
            }
        }
    }

    private func purge(_ order: FleetOrder) {
        let caches = caches
        switch order {
        case .mark, .identities: break
        case .everything(let isSoft, let coversWrites):
            if coversWrites { server.process.followWrite(with: nil, isLost: false) }
            let group = CacheGroup(caches, meaning: Array(caches.indices))
            _ = group.purgeStore(isSoft: isSoft)
            group.synchronize()
        case .purge(let selection, let isSoft):
            // The selection may also name APIs that this node does not serve at present.
            guard selection.kind != .nothing, !caches.isEmpty else { return }
            let meant = caches.indices.filter { selection.isMeant(caches[$0].state.settings) }
            let wanted = caches.compactMap { selection.purge(in: $0) }
            guard wanted.count == caches.count else { return }
            if let doubt = meant.lazy.compactMap({ selection.criteria?.doubt(in: caches[$0]) }).first {
                server.logger.error("a purge of a user, from another node, may be incomplete on this node: \(doubt)")
            }
            let group = CacheGroup(caches, meaning: meant, named: selection.apis)
            _ = group.purge(wanted, isSoft: isSoft)
            group.synchronize()
            if selection.criteria?.erases == true { erase(wanted, group) }
        }
    }

    /// Erases what a purge has removed. Later orders do not wait for this.
    private func erase(_ wanted: [PurgeSelection], _ group: CacheGroup) {
        Self.eraseQueue.async { [logger = server.logger] in
            do throws(EraseFailure) {
                let erased = try group.erase(wanted)
                logger.notice("erased a purge of another node: \(erased.bytes) bytes in \(erased.files) files")
            } catch {
                logger.error(
                    "a purge of another node was not erased from the disk: \(error.sentence); run cistern purge --erase on this node")
            }
        }
    }

    private static let eraseQueue = DispatchQueue(label: "cistern.fleet.erase", qos: .utility)

    private var now: Timestamp { Timestamp(milliseconds: server.wallMilliseconds) }

    /// The store of all APIs; nil if there is none.
    private var store: APICacheState? { server.serving.apis.lazy.compactMap(\.state.cache).first }

    /// The caches of the APIs that are served now, for use on this queue.
    private var caches: [ResponseCache] {
        server.serving.apis.compactMap { api in
            api.state.cache.map { shared in
                ResponseCache(shared, mayWait: true) { [server] in server.cacheTime }
            }
        }
    }
}
