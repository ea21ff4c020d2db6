// The caches of all APIs in one store, as the administrator goes through them: the store once, and each item is the matter of the API whose it is.

import CachePolicy
import CacheStore
import HTTPCore

public struct CacheGroup: Sendable {
    /// One at least, in the order of their APIs.
    private let caches: [ResponseCache]
    /// Where those that are meant stand, by what their APIs are called in keys.
    private let places: [[UInt8]: Int]
    /// What all are called that are served.
    private let served: Set<[UInt8]>
    /// Those that are not served, and are meant all the same; nil: whichever there are.
    private let unserved: Set<[UInt8]>?

    /// - Parameters:
    ///   - caches: of one store.
    ///   - places: of those that are meant. Where they are all, what is stored of APIs that are not served is meant too, when something is purged.
    ///   - names: of APIs that are meant, where not all are: those that are not served have no place.
    public init(_ caches: [ResponseCache], meaning places: [Int], named names: [String] = []) {
        self.caches = caches
        self.places = Dictionary(places.map { (caches[$0].keyMaker.authority, $0) }) { first, _ in first }
        served = Set(caches.map(\.keyMaker.authority))
        unserved = names.isEmpty && places.count == caches.count ? nil : Set(names.map { StoredKey.name(ofAPI: $0) })
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
        if isSoft { store.markAllStale() } else { caches[0].shared.removeAll() }
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

    /// What a purge makes of an item.
    private enum Fit {
        /// A response that clients could get.
        case counts
        /// Markers, what cannot be reached any more, and what no API has that is served: they go with the rest.
        case goes
        /// Whether it is meant, only its own API could tell: it is stale.
        case isDoubtful
    }

    private func purge(selections: [EntrySelection], isSoft: Bool) -> Int {
        var found: [(id: StoredItemID, fit: Fit)] = []
        store.visitAll { listed in
            guard let fit = fits(listed, selections, isSoft: isSoft) else { return }
            found.append((listed.id, fit))
            if !isSoft, fit != .isDoubtful { found.append((store.id(of: GoneMemory.key(Array(listed.key))), .goes)) }
        }
        for (id, fit) in found { _ = isSoft || fit == .isDoubtful ? store.markStale(id) : store.remove(id) }
        return found.count { $0.fit == .counts }
    }

    /// nil where it stays.
    private func fits(_ listed: ListedItem, _ selections: [EntrySelection], isSoft: Bool) -> Fit? {
        let isMarker: Bool
        switch StoredMetadata.kind(of: listed.item.metadata) {
        case .response: isMarker = false
        case .varyMarker: isMarker = true
        case .invalidation, .searchVariance, .cookieOrigins, .gone, nil: return nil
        }
        let bytes = Array(listed.key)
        guard let key = StoredKey(bytes) else { return nil }
        if !served.contains(key.authority) {
            guard unserved?.contains(key.authority) ?? true, !isMarker || !isSoft else { return nil }
            if selections[0].contains(key) { return .goes }
            return isMarker ? nil : fits(listed, bytes, unserved: key, selections[0])
        }
        guard let api = place(of: key), selections[api].mayContain(key) else { return nil }
        if isMarker, selections[api].tag != nil || isSoft { return nil }
        if let entry = caches[api].entry(listed, bytes, key) { return selections[api].contains(entry) ? .counts : nil }
        if selections[api].contains(key) { return .goes }
        // Whatever carries the tag goes, also what no look-up finds under the present settings: others may find it again.
        guard selections[api].tag != nil, let entry = StoredEntry(listed, bytes, key) else { return nil }
        return selections[api].contains(entry) ? .goes : nil
    }

    /// Of an API that may be served again: here later, or by a process that takes over. A prefix and a tag mean the same for all; of targets, only the API
    /// itself knows all spellings.
    private func fits(_ listed: ListedItem, _ bytes: [UInt8], unserved key: StoredKey, _ selection: EntrySelection) -> Fit? {
        guard selection.mayContainElsewhere(key) else { return nil }
        guard !selection.hasTarget, let entry = StoredEntry(listed, bytes, key) else { return .isDoubtful }
        return selection.contains(entry) ? .goes : nil
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
