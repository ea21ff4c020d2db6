// The last definite response of a healthy upstream counts, also when it is a 410, a 404 in JSON, or a 403 in JSON that takes a user's rights away. It is
// stored beside the copy, which stays, and goes out instead of the copy while the upstream fails. Any later 200 or 304 lifts it; a purge takes both. A 404
// without content, or in HTML or text, may be a proxy's and is not remembered; a crowd of them is lifted (`Crowds`). HEAD says nothing here: its response
// has no content to check, or to serve.

import CachePolicy
import CacheStore
import HTTPCore
import Locking

/// Shared by all shards; off the path of a hit.
public final class GoneMemory: Sendable {
    public enum Event: Int, CaseIterable {
        case remembered, served, lifted, disbelieved
    }

    private let store: ResponseStore
    private let counted = Mutex([Int](repeating: 0, count: Event.allCases.count))

    init(store: ResponseStore) { self.store = store }

    /// By the name of the event.
    public var counts: [(event: String, count: Int)] {
        let counts = counted.withLock { $0 }
        return Event.allCases.map { ("\($0)", counts[$0.rawValue]) }
    }

    public func count(_ event: Event) { counted.withLock { $0[event.rawValue] += 1 } }

    // MARK: What the upstream says

    /// A later response has taken the copy's place. Where what was remembered is on the disk only, a thread that may wait does it, a little later.
    func lift(_ key: [UInt8], by recency: Recency) {
        do throws(OnDisk) {
            try lift(key, by: recency) { (key) throws(OnDisk) in try store.lookUpInMemory(key.span) }
        } catch {
            store.bringIn(error) { [self] in lift(key, by: recency) { [store] in store.lookUp($0.span) } }
        }
    }

    private func lift<Failure: Error>(
        _ key: [UInt8], by recency: Recency, _ lookUp: ([UInt8]) throws(Failure) -> StoredItem?
    ) throws(Failure) {
        guard let gone = Self.gone(in: try lookUp(Self.key(key)), key), !gone.metadata.recency.isLater(than: recency) else { return }
        let key = gone.key
        // Others may have found it at the same moment.
        if store.remove(key.span, ifStill: gone.written) { count(.lifted) }
    }

    /// A crowd has proved it wrong.
    func lift(_ item: StoredItemID) {
        if store.remove(item) { count(.lifted) }
    }

    /// - Returns: the name of what was stored; nil if the store refused it.
    func remember(_ new: NewResponse, beside key: [UInt8]) -> StoredItemID? {
        let gone = Self.key(key)
        let item = NewItem(
            key: gone, metadata: new.metadata.encoded(as: .gone), head: new.head, body: new.body, wantedCoding: new.wantedCoding,
            retention: .mayRescue)
        guard store.insert(item) == .accepted else { return nil }
        count(.remembered)
        return store.id(of: gone)
    }

    /// What an item beside a copy says; nil where it is another one.
    /// - Parameter key: the copy's.
    static func gone(in item: StoredItem?, _ key: [UInt8]) -> FoundResponse? {
        guard let item, let metadata = ResponseCache.metadata(of: item, as: .gone) else { return nil }
        return FoundResponse(item: item, metadata: metadata, key: Self.key(key))
    }

    /// Beside the copy's whole key, so for its variant and its partition alone.
    static func key(_ key: [UInt8]) -> [UInt8] { key.followed(by: UInt8(ascii: "X")) }
}
