// Taking stored responses out, or marking them as stale. What was asked for before a purge may be what was purged, so it is not stored
// (`PurgeClock`); and what says that a copy is gone goes with it.

import CachePolicy
import CacheStore
import HTTPCore

package enum PurgeSelection: Sendable {
    case id(EntryID)
    case all
    case selection(EntrySelection)
}

extension ResponseCache {
    /// From now on nothing is stored that was asked for until then: a fetch that is under way must not bring back what is about to be taken out.
    /// A thread that has looked at the clock before may be storing. So between this and `purge` each of them does something else once.
    package func beginPurge(at now: Timestamp) { shared.purges.purged(at: now) }

    /// Returns, once it is on the disk, how many responses there were that clients could get.
    /// - Parameter isSoft: they stay, and count as stale.
    package func purge(_ wanted: PurgeSelection, isSoft: Bool) -> Int {
        let count =
            switch wanted {
            case .id(let id): purge(id, isSoft: isSoft)
            case .all: purgeAll(isSoft: isSoft)
            case .selection(let selection): purge(selection, isSoft: isSoft)
            }
        store.synchronize()
        return count
    }

    /// All that the store has, also of APIs that are there no more.
    package func purgeStore(isSoft: Bool) {
        if isSoft { store.markAllStale() } else { store.removeAll() }
        store.synchronize()
    }

    private func purge(_ id: EntryID, isSoft: Bool) -> Int {
        guard let listed = store.item(id.item), StoredMetadata.kind(of: listed.item.metadata) == .response else { return 0 }
        if !isSoft { _ = store.remove(store.id(of: GoneMemory.key(Array(listed.key)))) }
        return (isSoft ? store.markStale(id.item) : store.remove(id.item)) ? 1 : 0
    }

    private func purgeAll(isSoft: Bool) -> Int {
        if settings.isOneOfSeveral { return purge(EntrySelection(), isSoft: isSoft) }
        var count = 0
        store.visitAll { listed in
            if entry(listed) != nil { count += 1 }
        }
        if isSoft { store.markAllStale() } else { store.removeAll() }
        return count
    }

    private func purge(_ selection: EntrySelection, isSoft: Bool) -> Int {
        var found: [(id: StoredItemID, isServed: Bool)] = []
        store.visitAll { listed in
            guard let isServed = fits(listed, selection, isSoft: isSoft) else { return }
            found.append((listed.id, isServed))
            if !isSoft { found.append((store.id(of: GoneMemory.key(Array(listed.key))), false)) }
        }
        for (id, _) in found { _ = isSoft ? store.markStale(id) : store.remove(id) }
        return found.count { $0.isServed }
    }

    /// Whether an item goes, and whether it is a response that clients could get; nil where it stays. Markers and what cannot be reached any more
    /// go with the rest, but are not counted.
    private func fits(_ listed: ListedItem, _ selection: EntrySelection, isSoft: Bool) -> Bool? {
        switch StoredMetadata.kind(of: listed.item.metadata) {
        case .response: break
        case .varyMarker where selection.tag == nil && !isSoft: break
        case .varyMarker, .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return nil
        }
        let bytes = Array(listed.key)
        guard let key = StoredKey(bytes), concerns(key), selection.mayContain(key) else { return nil }
        guard let entry = entry(listed, bytes, key) else { return selection.contains(key) ? false : nil }
        return selection.contains(entry) ? true : nil
    }
}
