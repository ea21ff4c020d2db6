// Taking stored answers out, or marking them as stale, by id, target, prefix, tag, or all. Answered once it is on the disk: what was purged
// stays purged, whatever happens to the process afterwards.

import CachePolicy
import CacheStore
import HTTPCore
import JSON

enum Purging {
    private static let kinds = ["id", "target", "prefix", "tag", "all"]

    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(kinds + ["soft"])
        let store = try task.store
        guard kinds.filter({ task.request[$0] != nil }).count == 1 else {
            throw .badRequest("Say what is to be purged by exactly one of \(kinds.joined(separator: ", ")).")
        }
        guard store.statistics.isWritable else {
            throw .unavailable("The cache directory cannot be written to, so a purge would not last.")
        }
        let isSoft = try task.request.flag("soft")
        let wanted = try selection(task.request, task.interface.server.routes)
        task.interface.server.purges.purged(at: task.interface.now)
        // A shard that has looked at the clock before may be storing: after a turn of each loop it has, and is found.
        task.interface.server.onEachShard { _ in
        } then: {
            task.interface.later {
                let count = purge(wanted, in: store, isSoft: isSoft)
                store.synchronize()
                task.reply(AdminAnswer(["purged": .integer(count), "soft": .bool(isSoft)]))
            }
        }
    }

    private enum Wanted {
        case id(StoredItemID)
        case all
        case selection(EntrySelection)
    }

    private static func selection(_ request: AdminRequest, _ routes: Routes) throws(AdminProblem) -> Wanted {
        if let text = request["id"] {
            guard let id = StoredItemID(text) else { throw .badRequest("An entry's id has 32 hexadecimal digits.") }
            return .id(id)
        }
        if let target = request["target"] {
            guard target.hasPrefix("/") else { throw .badRequest("target must be a path, with its arguments where it has any.") }
            return .selection(EntrySelection(target: .init(target, routes: routes)))
        }
        if let tag = request["tag"] { return .selection(EntrySelection(tag: tag)) }
        if let prefix = request["prefix"] {
            guard prefix.hasPrefix("/") else { throw .badRequest("prefix must begin with a slash.") }
            return .selection(EntrySelection(prefix: .init(prefix)))
        }
        guard try request.flag("all") else { throw .badRequest("all must be true.") }
        return .all
    }

    /// Returns how many answers there were.
    private static func purge(_ wanted: Wanted, in store: ResponseStore, isSoft: Bool) -> Int {
        switch wanted {
        case .id(let id):
            guard let listed = store.item(id), StoredMetadata.kind(of: listed.item.metadata) == .response else { return 0 }
            if !isSoft { _ = store.remove(store.id(of: GoneMemory.key(Array(listed.key)))) }
            return (isSoft ? store.markStale(id) : store.remove(id)) ? 1 : 0
        case .all:
            var count = 0
            store.visitAll { if StoredEntry($0, in: store) != nil { count += 1 } }
            if isSoft { store.markAllStale() } else { store.removeAll() }
            return count
        case .selection(let selection):
            var found: [(id: StoredItemID, isAnswer: Bool)] = []
            store.visitAll { listed in
                guard let isAnswer = fits(listed, selection, store, isSoft: isSoft) else { return }
                found.append((listed.id, isAnswer))
                if !isSoft { found.append((store.id(of: GoneMemory.key(Array(listed.key))), false)) }
            }
            for (id, _) in found { _ = isSoft ? store.markStale(id) : store.remove(id) }
            return found.count { $0.isAnswer }
        }
    }

    /// Whether an item goes, and whether it is an answer that clients could get; nil where it stays. Markers and what cannot be reached
    /// any more go with the rest, but are not counted.
    private static func fits(_ listed: ListedItem, _ selection: EntrySelection, _ store: ResponseStore, isSoft: Bool) -> Bool? {
        switch StoredMetadata.kind(of: listed.item.metadata) {
        case .response: break
        case .varyMarker where selection.tag == nil && !isSoft: break
        case .varyMarker, .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return nil
        }
        guard let key = StoredKey(Array(listed.key)), selection.mayContain(key) else { return nil }
        guard let entry = StoredEntry(listed, in: store) else { return selection.contains(key) ? false : nil }
        return selection.contains(entry) ? true : nil
    }
}
