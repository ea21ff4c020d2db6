// One cache alone, gone through as the administrator does.

@testable import ResponseCache

extension ResponseCache {
    private var group: CacheGroup { CacheGroup([self], meaning: [0]) }

    func list(_ selection: EntrySelection, after: EntryPlace? = nil, limit: Int) -> (entries: [StoredEntry], next: EntryPlace?) {
        let page = group.list([selection], after: after, limit: limit)
        return (page.entries.map(\.entry), page.next)
    }

    func purge(_ wanted: PurgeSelection, isSoft: Bool) -> Int {
        if case .all = wanted { return group.purgeStore(isSoft: isSoft) }
        return group.purge([wanted], isSoft: isSoft)
    }
}
