// The caches of all APIs in one store, as the administrator goes through them: the store once, and each item is the matter of the API whose it is.

import CachePolicy
import CacheStore
import HTTPCore

public struct CacheGroup: Sendable {
    /// One at least, in the order of their APIs.
    private let caches: [ResponseCache]
    /// Where those that are meant stand, by what their APIs are called in keys.
    private let places: [[UInt8]: Int]

    /// - Parameters:
    ///   - caches: of one store.
    ///   - places: of those that are meant.
    public init(_ caches: [ResponseCache], meaning places: [Int]) {
        self.caches = caches
        self.places = Dictionary(places.map { (caches[$0].keyMaker.authority, $0) }) { first, _ in first }
    }

    private var store: ResponseStore { caches[0].store }

    /// The place of the cache that an item is the matter of; nil where none that is meant. All is the only one's, also what it was called before.
    private func place(of key: StoredKey) -> Int? { caches[0].settings.isOneOfSeveral ? places[key.authority] : 0 }

    // MARK: Listing

    /// A page of what is stored, sorted by target, behind a place, whether what stood there is still stored or not. Goes through all of the index.
    /// - Parameter selections: of each API, at its place.
    /// - Returns: the entries with the places of their APIs, and the last one's place where there are more.
    public func list(
        _ selections: [EntrySelection], after: EntryPlace? = nil, limit: Int
    ) -> (entries: [(api: Int, entry: StoredEntry)], next: EntryPlace?) {
        var page = SortedPage(limit: limit + 1)
        store.visitAll { listed in
            let bytes = Array(listed.key)
            guard let key = StoredKey(bytes), let api = place(of: key), selections[api].mayContain(key) else { return }
            let place = EntryPlace(target: key.readableTarget, id: EntryID(listed.id))
            guard after.map({ $0 < place }) ?? true, page.takes(place), let entry = caches[api].entry(listed, bytes, key),
                selections[api].contains(entry)
            else { return }
            page.insert(place, of: api)
        }
        let shown = page.places.prefix(limit)
        // Read again one by one: the page may be older than what has been stored since.
        let entries = shown.compactMap { place, api in caches[api].entry(place.id).map { (api, $0) } }
        return (entries, page.places.count > limit ? shown.last?.place : nil)
    }

    /// How many responses there are that clients could get: as many as a purge would find. Counts no further than `limit`.
    public func count(_ selections: [EntrySelection], limit: Int) -> Int {
        var count = 0
        store.visitAll { listed in
            guard count < limit else { return }
            let bytes = Array(listed.key)
            guard let key = StoredKey(bytes), let api = place(of: key), selections[api].mayContain(key),
                let entry = caches[api].entry(listed, bytes, key), selections[api].contains(entry)
            else { return }
            count += 1
        }
        return count
    }

    // MARK: Purging

    /// Returns, once it is on the disk, how many responses there were that clients could get.
    /// - Parameters:
    ///   - wanted: of each API, at its place; an id, or all, is the same of each.
    ///   - isSoft: they stay, and count as stale.
    public func purge(_ wanted: [PurgeSelection], isSoft: Bool) -> Int {
        defer { store.synchronize() }
        if case .id(let id) = wanted[0] { return purge(id, isSoft: isSoft) }
        return purge(selections: wanted.map(\.entries), isSoft: isSoft)
    }

    /// All that the store has, also of APIs that are there no more.
    public func purgeStore(isSoft: Bool) -> Int {
        defer { store.synchronize() }
        var count = 0
        store.visitAll { listed in
            let bytes = Array(listed.key)
            guard let key = StoredKey(bytes), let api = place(of: key) else { return }
            if caches[api].entry(listed, bytes, key) != nil { count += 1 }
        }
        if isSoft { store.markAllStale() } else { store.removeAll() }
        return count
    }

    /// Of a response; nil where none is stored by this id.
    public func key(of id: EntryID) -> StoredKey? {
        guard let listed = store.item(id.item), StoredMetadata.kind(of: listed.item.metadata) == .response else { return nil }
        return StoredKey(Array(listed.key))
    }

    private func purge(_ id: EntryID, isSoft: Bool) -> Int {
        guard let listed = store.item(id.item), StoredMetadata.kind(of: listed.item.metadata) == .response else { return 0 }
        let bytes = Array(listed.key)
        guard let key = StoredKey(bytes), place(of: key) != nil else { return 0 }
        if !isSoft { _ = store.remove(store.id(of: GoneMemory.key(bytes))) }
        return (isSoft ? store.markStale(id.item) : store.remove(id.item)) ? 1 : 0
    }

    private func purge(selections: [EntrySelection], isSoft: Bool) -> Int {
        var found: [(id: StoredItemID, isServed: Bool)] = []
        store.visitAll { listed in
            guard let isServed = fits(listed, selections, isSoft: isSoft) else { return }
            found.append((listed.id, isServed))
            if !isSoft { found.append((store.id(of: GoneMemory.key(Array(listed.key))), false)) }
        }
        for (id, _) in found { _ = isSoft ? store.markStale(id) : store.remove(id) }
        return found.count { $0.isServed }
    }

    /// Whether an item goes, and whether it is a response that clients could get; nil where it stays. Markers and what cannot be reached any more
    /// go with the rest, but are not counted.
    private func fits(_ listed: ListedItem, _ selections: [EntrySelection], isSoft: Bool) -> Bool? {
        let isMarker: Bool
        switch StoredMetadata.kind(of: listed.item.metadata) {
        case .response: isMarker = false
        case .varyMarker: isMarker = true
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return nil
        }
        let bytes = Array(listed.key)
        guard let key = StoredKey(bytes), let api = place(of: key), selections[api].mayContain(key) else { return nil }
        if isMarker, selections[api].tag != nil || isSoft { return nil }
        guard let entry = caches[api].entry(listed, bytes, key) else { return selections[api].contains(key) ? false : nil }
        return selections[api].contains(entry) ? true : nil
    }
}

/// The first few places, in order, and whose they are.
private struct SortedPage {
    let limit: Int
    private(set) var places: [(place: EntryPlace, api: Int)] = []

    init(limit: Int) { self.limit = limit }

    func takes(_ place: EntryPlace) -> Bool { places.count < limit || place < places[limit - 1].place }

    mutating func insert(_ place: EntryPlace, of api: Int) {
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if places[middle].place < place { low = middle + 1 } else { high = middle }
        }
        places.insert((place, api), at: low)
        if places.count > limit { places.removeLast() }
    }
}
