// The caches of all APIs in one store, for the administrator. The store is traversed once, and each item is handled by the API to which its
// key belongs.

import CachePolicy
import CacheStore
import HTTPCore

public struct CacheGroup: Sendable {
    /// At least one, in the order of the APIs.
    private let caches: [ResponseCache]
    /// Indices of the selected caches, by the APIs' names in keys.
    private let indices: [[UInt8]: Int]
    /// Names of all served APIs in keys.
    private let served: Set<[UInt8]>
    /// Selected APIs that are not served; nil means all.
    private let unserved: Set<[UInt8]>?

    /// - Parameters:
    ///   - caches: caches of one store.
    ///   - cursors: indices of the selected caches. If all are selected, purges include stored responses of APIs that are not served.
    ///   - names: names of the selected APIs, if not all are selected. APIs that are not served have no index.
    public init(_ caches: [ResponseCache], meaning indices: [Int], named names: [String] = []) {
        self.caches = caches
        self.indices = Dictionary(indices.map { (caches[$0].keyMaker.authority, $0) }) { first, _ in first }
        served = Set(caches.map(\.keyMaker.authority))
        unserved = names.isEmpty && indices.count == caches.count ? nil : Set(names.map { StoredKey.name(ofAPI: $0) })
    }

    private var store: ResponseStore { caches[0].store }

    /// Returns the index of the cache for an item; nil if its API is not selected. With a single API, every item belongs to it, also under
    /// an earlier name.
    private func apiIndex(of key: StoredKey) -> Int? { caches[0].settings.isOneOfSeveral ? indices[key.authority] : 0 }

    // MARK: Listing

    /// Returns a page of stored responses, sorted by target, after a position. The response at that position need not exist any more.
    /// Traverses the whole index.
    /// - Parameter selections: selection for each API, by index.
    /// - Returns: the entries with the indices of their APIs, and the last position if there are more.
    public func list(
        _ selections: [EntrySelection], after: EntryCursor? = nil, limit: Int
    ) -> (entries: [(api: Int, entry: StoredEntry)], next: EntryCursor?) {
        var page = SortedPage(limit: limit + 1)
        store.visitAll { listed in
            let bytes = Array(listed.key)
            guard let key = StoredKey(bytes), let api = apiIndex(of: key), selections[api].mayContain(key) else { return }
            let cursor = EntryCursor(target: key.readableTarget, id: EntryID(listed.id))
            guard after.map({ $0 < cursor }) ?? true, page.takes(cursor), let entry = caches[api].entry(listed, bytes, key),
                selections[api].contains(entry)
            else { return }
            page.insert(cursor, of: api)
        }
        let shown = page.cursors.prefix(limit)
        // Entries are read again one by one: stored responses may have changed since the traversal.
        let entries = shown.compactMap { cursor, api in caches[api].entry(cursor.id).map { (api, $0) } }
        return (entries, page.cursors.count > limit ? shown.last?.cursor : nil)
    }

    /// Counts the responses that clients could receive, as a purge would find them.
    /// - Parameter wanted: as for `purge`.
    public func count(_ wanted: [PurgeSelection]) -> Int {
        if case .id(let id) = wanted[0] { return caches.contains { $0.entry(id) != nil } ? 1 : 0 }
        let selections = wanted.map(\.entries)
        var count = 0
        store.visitAll { listed in
            let bytes = Array(listed.key)
            guard let key = StoredKey(bytes), let api = apiIndex(of: key), selections[api].mayContain(key),
                let entry = caches[api].entry(listed, bytes, key), selections[api].contains(entry)
            else { return }
            count += 1
        }
        return count
    }

    // MARK: Purging

    /// Purges responses. Returns the number of responses that clients could have received. Call `synchronize` afterwards.
    /// - Parameters:
    ///   - wanted: selection for each API, by index. An id, or all, applies to every API.
    ///   - isSoft: whether responses are marked stale instead of removed.
    public func purge(_ wanted: [PurgeSelection], isSoft: Bool) -> Int {
        if case .id(let id) = wanted[0] { return purge(id, isSoft: isSoft) }
        return purge(selections: wanted.map(\.entries), isSoft: isSoft).count { $0.fit == .counts }
    }

    /// Purges the paths that each API excludes from the cache. Returns, once the purge is on disk, the number of removed records.
    public func purge(excluded selections: [EntrySelection]) -> Int {
        defer { store.synchronize() }
        return purge(selections: selections, isSoft: false).count
    }

    /// Returns when all purges are on disk.
    /// - Returns: false if the disk rejected them. After a restart, purged responses may then be served again.
    @discardableResult
    public func synchronize() -> Bool { store.synchronize() }

    /// Erases purged and replaced responses from the disk. Waits for the disk.
    /// - Parameter wanted: the purge that was performed.
    public func erase(_ wanted: [PurgeSelection]) throws(EraseFailure) -> ErasedResponses {
        do throws(EraseError) {
            return ErasedResponses(try store.erase { mayBeErased($0, wanted) })
        } catch {
            throw EraseFailure(sentence: "\(error)")
        }
    }

    private func mayBeErased(_ key: UnsafeRawBufferPointer, _ wanted: [PurgeSelection]) -> Bool {
        let keys = [Array(key), Array(key.dropLast())]
        if case .id(let id) = wanted[0] { return keys.contains { store.id(of: $0) == id.item } }
        // The key of a record that the resource is gone is that of the response, and a letter.
        guard let key = keys.lazy.compactMap({ StoredKey($0) }).first else { return false }
        let selection = wanted[served.contains(key.authority) ? apiIndex(of: key) ?? 0 : 0].entries
        return selection.mayContain(key) || selection.mayContainElsewhere(key)
    }

    /// Purges the whole store, including APIs that no longer exist. Call `synchronize` afterwards.
    public func purgeStore(isSoft: Bool) -> Int {
        var count = 0
        store.visitAll { listed in
            let bytes = Array(listed.key)
            guard let key = StoredKey(bytes), let api = apiIndex(of: key) else { return }
            if caches[api].entry(listed, bytes, key) != nil { count += 1 }
        }
        if isSoft { store.markAllStale() } else { caches[0].state.removeAll() }
        return count
    }

    /// Returns the key of a response; nil if no response with this id is stored.
    public func key(of id: EntryID) -> StoredKey? {
        guard let listed = store.item(id.item), StoredMetadata.kind(of: listed.item.metadata.span) == .response else { return nil }
        return StoredKey(Array(listed.key))
    }

    private func purge(_ id: EntryID, isSoft: Bool) -> Int {
        guard let listed = store.item(id.item), StoredMetadata.kind(of: listed.item.metadata.span) == .response else { return 0 }
        let bytes = Array(listed.key)
        guard let key = StoredKey(bytes), apiIndex(of: key) != nil else { return 0 }
        if !isSoft { _ = store.remove(store.id(of: GoneMemory.key(bytes))) }
        return (isSoft ? store.markStale(id.item) : store.remove(id.item)) ? 1 : 0
    }

    /// How a purge handles an item.
    private enum Fit {
        /// A response that clients could receive.
        case counts
        /// Markers, unreachable responses, and responses of APIs that are not served: removed without being counted.
        case goes
        /// Only the item's own API could decide whether it is affected, so it becomes stale.
        case isDoubtful
    }

    private func purge(selections: [EntrySelection], isSoft: Bool) -> [(id: StoredItemID, fit: Fit)] {
        var found: [(id: StoredItemID, fit: Fit)] = []
        store.visitAll { listed in
            guard let fit = fits(listed, selections, isSoft: isSoft) else { return }
            found.append((listed.id, fit))
            if !isSoft, fit != .isDoubtful { found.append((store.id(of: GoneMemory.key(Array(listed.key))), .goes)) }
        }
        return found.filter { id, fit in isSoft || fit == .isDoubtful ? store.markStale(id) : store.remove(id) }
    }

    /// nil if the item is not affected.
    private func fits(_ listed: ListedItem, _ selections: [EntrySelection], isSoft: Bool) -> Fit? {
        let kind = StoredMetadata.kind(of: listed.item.metadata.span)
        switch kind {
        case .response: break
        case .varyMarker, .gone: if isSoft { return nil }
        case .invalidation, .searchVariance, .cookieOrigins, nil: return nil
        }
        let isMarker = kind == .varyMarker
        // A record that the resource is gone is stored next to the response, which may be evicted.
        let bytes = kind == .gone ? Array(listed.key.dropLast()) : Array(listed.key)
        guard let key = StoredKey(bytes) else { return nil }
        if !served.contains(key.authority) {
            guard unserved?.contains(key.authority) ?? true else { return nil }
            if selections[0].contains(key) { return .goes }
            return isMarker ? nil : fits(listed, bytes, unserved: key, selections[0])
        }
        guard let api = apiIndex(of: key), selections[api].mayContain(key), !isMarker || !selections[api].readsEntries else { return nil }
        if kind == .response, let entry = caches[api].entry(listed, bytes, key) { return selections[api].contains(entry) ? .counts : nil }
        if selections[api].contains(key) { return .goes }
        // Selected items are purged even if no lookup finds them under the current settings, because other settings may find them.
        guard selections[api].readsEntries, let entry = StoredEntry(listed, bytes, key, as: kind ?? .response) else { return nil }
        return selections[api].contains(entry) ? .goes : nil
    }

    /// Handles items of an API that is not served now, but may be served later or by a successor process. Prefixes and tags have one
    /// meaning for all APIs; only the API itself knows all spellings of a target.
    private func fits(_ listed: ListedItem, _ bytes: [UInt8], unserved key: StoredKey, _ selection: EntrySelection) -> Fit? {
        guard selection.mayContainElsewhere(key) else { return nil }
        let kind = StoredMetadata.kind(of: listed.item.metadata.span) ?? .response
        guard !selection.hasTarget, let entry = StoredEntry(listed, bytes, key, as: kind) else { return .isDoubtful }
        return selection.contains(entry) ? .goes : nil
    }
}

/// The first entries in order, with the indices of their APIs.
private struct SortedPage {
    let limit: Int
    private(set) var cursors: [(cursor: EntryCursor, api: Int)] = []

    func takes(_ cursor: EntryCursor) -> Bool { cursors.count < limit || cursor < cursors[limit - 1].cursor }

    mutating func insert(_ cursor: EntryCursor, of api: Int) {
        var (low, high) = (0, cursors.count)
        while low < high {
            let middle = (low + high) / 2
            if cursors[middle].cursor < cursor { low = middle + 1 } else { high = middle }
        }
        cursors.insert((cursor, api), at: low)
        if cursors.count > limit { cursors.removeLast() }
    }
}
