// Stores the last response of a healthy upstream if it is a 410, a 404 in JSON, or a 403 in JSON that revokes access. It is stored next to
// the good response and served instead of it while the upstream fails. A later 200 or 304 removes it; a purge removes both. Other 404
// responses may come from a proxy and are not stored, and records of a crowd are removed (`Crowds`). Responses to HEAD are ignored,
// because they have no content.

import CachePolicy
import CacheStore
import HTTPCore
import Reactor

/// Shared by all shards; not used on the hot path of hits.
public final class GoneMemory: Sendable {
    public enum Event: Int, CaseIterable {
        case remembered, served, lifted, disbelieved
    }

    private let store: ResponseStore
    private let counted = Mutex([Int](repeating: 0, count: Event.allCases.count))

    init(store: ResponseStore) { self.store = store }

    /// Counts by name of the event.
    public var counts: [(event: String, count: Int)] {
        let counts = counted.withLock { $0 }
        return Event.allCases.map { ("\($0)", counts[$0.rawValue]) }
    }

    public func count(_ event: Event) { counted.withLock { $0[event.rawValue] += 1 } }

    // MARK: Updates

    /// Removes a record after a later response has replaced the stored response. If the record is on disk only, another thread removes it
    /// later.
    func lift(_ key: [UInt8], by recency: Recency) {
        let gone = Self.key(key)
        var basis = LookUpBasis()
        do throws(OnDisk) {
            let item = try store.find(gone.span, &basis, mayWait: false)
            if let item { lift(item, beside: key, by: recency) }
        } catch {
            store.load(error) { [self] in
                let item = store.lookUp(gone.span)
                if let item { lift(item, beside: key, by: recency) }
            }
        }
    }

    private func lift(_ item: StoredItem, beside key: [UInt8], by recency: Recency) {
        guard let gone = Self.gone(in: item, key), !gone.metadata.recency.isLater(than: recency) else { return }
        let key = gone.key
        // Other threads may remove it concurrently.
        if store.remove(key.span, ifStill: gone.written) { count(.lifted) }
    }

    /// Removes a record that turned out to belong to a crowd.
    func lift(_ item: StoredItemID) {
        if store.remove(item) { count(.lifted) }
    }

    /// - Returns: id of the record; nil if the store refused it.
    func remember(_ new: NewResponse, beside key: [UInt8]) -> StoredItemID? {
        let gone = Self.key(key)
        let item = NewItem(
            key: gone, metadata: new.metadata.encoded(as: .gone), head: new.head, body: new.body, wantedCoding: new.wantedCoding,
            retention: .mayRescue)
        guard store.insert(item) == .accepted else { return nil }
        count(.remembered)
        return store.id(of: gone)
    }

    /// Decodes a record next to a stored response; nil if it is of another kind.
    /// - Parameter key: key of the stored response.
    static func gone(in item: StoredItem?, _ key: [UInt8]) -> FoundResponse? {
        guard let item, let metadata = ResponseCache.metadata(of: item, as: .gone) else { return nil }
        return FoundResponse(item: item, metadata: metadata, key: Self.key(key))
    }

    /// Key of the record next to the complete key of the stored response: it applies to that variant and partition only.
    static func key(_ key: [UInt8]) -> [UInt8] { key.followed(by: UInt8(ascii: "X")) }
}
