// Hands over the store between processes (`ResponseStore+TakingOver`), and keeps the caches' state in memory consistent with it.

import CachePolicy
import CacheStore
import TakeOver

/// The parts of the store that another process hands over.
public typealias HandedCache = HandedStore

extension APICacheState {
    /// Offers the store to another process.
    /// - Returns: nil if the store cannot be handed over.
    public func offer() -> HandedCache? { store.offer() }

    public func pass(to successor: @escaping @Sendable (PassedChange) -> Void) -> HandedPosition {
        storeMemory.times.writeExactTime()
        return store.pass(to: successor)
    }

    public func resume() { store.resume() }

    /// Releases the store to another process. Responses stored in this process count as stale from now on.
    public func leave() { store.leave() }

    /// Takes ownership of the store.
    /// - Parameter end: position at which the other process stopped writing.
    public func own(upTo end: HandedPosition) {
        store.own(upTo: end)
        storeMemory.times.readAgain()
        storeMemory.doubts.readAgain()
        storeMemory.paths.rebuildFilter()
    }

    /// - Parameter peer: receives changes that remove or invalidate responses in this process; nil for none.
    public func setPeer(_ peer: (@Sendable (PassedChange) -> Void)?) { store.setPeer(peer) }

    /// Applies a change of the other process. Responses in flight here that were requested earlier are not stored.
    public func follow(_ change: PassedChange) {
        switch change {
        case .item(let key, let metadata, let head, let body, let retention):
            follow(NewItem(key: key, metadata: metadata, head: head, body: body, retention: Retention(rawValue: retention) ?? .outlives))
        case .purge(let milliseconds):
            let time = Timestamp(milliseconds: milliseconds)
            times.note(markAt: time)
            purges.purged(at: times.ofMark(time))
        case .clearing: removeAll()
        case .removal, .staleMark, .staleAll: store.follow(change)
        case .identities: break
        }
    }

    /// Stores an item of the other process. An existing mark with a later time is kept.
    private func follow(_ item: NewItem) {
        // Each process has its own bound of request times. If processes applied each other's bounds, they would raise them into the future,
        // and responses with request times in the future are not shared.
        guard item.key != StoredTimes.key else { return }
        var item = item
        var time = ResponseCache.timeOfMark(item.metadata.span)
        if let time, item.key == DoubtfulWrites.key {
            storeMemory.doubts.follow(time)
        } else if let markTime = time {
            times.note(markAt: markTime)
            // Requests sent by this process may have later times than the other process knows.
            let own = times.ofMark(markTime)
            item.metadata = StoredMetadata.invalidation(at: own)
            marks.note(item.key, at: own)
            time = own
        }
        if StoredMetadata.kind(of: item.metadata.span) == .searchVariance { varianceSign.set(in: store) }
        while true {
            let seen = store.see(item.key.span)
            if let time, let known = ResponseCache.time(of: seen.item), known >= time { return }
            if store.insert(item, ifStill: seen) != .changed { return }
        }
    }
}

extension ResponseCache {
    /// nil if the item is not a mark.
    static func timeOfMark(_ metadata: Span<UInt8>) -> Timestamp? {
        guard StoredMetadata.kind(of: metadata) == .invalidation else { return nil }
        return StoredMetadata.number(in: metadata).map { Timestamp(milliseconds: Int64(bitPattern: $0)) }
    }
}
