// The upstream's last No-Vary-Search for each path, as a small record next to the path's key. Lookups check these records only after some
// response had the field.

import CachePolicy
import CacheStore
import HTTPCore
import Synchronization

/// A No-Vary-Search value with its generation. A value that returns after a different one gets a new generation. So older responses are
/// not found again; an invalidation may have missed them.
struct RememberedVariance {
    let variance: SearchVariance
    let generation: UInt64

    /// Encoded form for keys.
    var encoded: [UInt8] { variance.encoded + [0x0a] + Array(String(generation).utf8) }

    /// Returns whether a part of a key is such an encoded value. Content identities differ: they begin with a length, or are digests.
    static func isEncoded(_ part: [UInt8]) -> Bool {
        guard let end = part.lastIndex(of: 0x0a), end >= 2, end + 1 < part.count else { return false }
        return (part[0] | 0x20) == UInt8(ascii: "k") && (part[1] == UInt8(ascii: "E") || part[1] == UInt8(ascii: "P"))
            && part[(end + 1)...].allSatisfy(\.isASCIIDigit)
    }
}

/// Whether any path of any API in the store has a No-Vary-Search record.
final class SearchVarianceSign: Sendable {
    /// Set by the shard that first stores a response with the field; read by all shards for each request.
    private let isUsed: Atomic<Bool>

    /// Key of the record that stores this sign. It is written before the first No-Vary-Search record, and is never evicted. Without it, a
    /// write would miss responses under No-Vary-Search.
    fileprivate static let key = [UInt8(ascii: "N")]

    init(store: ResponseStore) { isUsed = Atomic(store.lookUp(Self.key.span) != nil) }

    var isSet: Bool { isUsed.load(ordering: .acquiring) }

    /// Called after a record was stored.
    func set(in store: ResponseStore) { if !isUsed.exchange(true, ordering: .acquiringAndReleasing) { store.noteChange() } }
}

final class SearchVarianceMemory: Sendable {
    private let store: ResponseStore
    private let sign: SearchVarianceSign

    init(store: ResponseStore, _ sign: SearchVarianceSign) { (self.store, self.sign) = (store, sign) }

    /// Whether no path has a record.
    var isEmpty: Bool { !sign.isSet }

    /// Returns the record of a path; nil if there is none. May wait for the disk.
    /// - Parameter path: credential-free key of the target without arguments.
    func variance(of path: [UInt8]) -> RememberedVariance? {
        store.lookUp(Self.key(path).span).flatMap(Self.remembered)
    }

    /// Returns the record of a path without counting as a use; nil if there is none.
    func remembered(ofPath path: [UInt8]) -> RememberedVariance? { Self.remembered(store.see(Self.key(path).span).item) }

    /// Decodes an item; nil if it is of another kind.
    static func remembered(_ item: StoredItem?) -> RememberedVariance? {
        guard let item, StoredMetadata.kind(of: item.metadata.span) == .searchVariance,
            let variance = SearchVariance(encoded: item.head.span), let generation = StoredMetadata.number(in: item.metadata.span)
        else { return nil }
        return RememberedVariance(variance: variance, generation: generation)
    }

    /// Stores a value. Returns nil if a more recent response had another value, or if other threads changed the record too often.
    /// - Parameter recency: recency of the response with the value.
    func remember(_ variance: SearchVariance, of path: [UInt8], at now: Timestamp, _ recency: Recency) -> RememberedVariance? {
        let key = Self.key(path)
        for _ in 0..<Self.attemptLimit {
            let seen = store.see(key.span)
            let last = seen.item.flatMap(Self.remembered)
            let isOutdated = seen.item.flatMap { StoredMetadata.recency(of: $0.metadata.span) }.map(recency.isOutdated) ?? false
            // Without the sign, responses under an existing record were not looked up; writes may have missed them.
            let known = isEmpty ? nil : last.flatMap { $0.variance == variance ? $0 : nil }
            if isOutdated { return known }
            // Differs from the last generation, even if the clock is set back.
            let generation = known?.generation ?? max(UInt64(clamping: now.milliseconds), (last?.generation ?? 0) &+ 1)
            if known == nil { insertSign(recency) }
            let metadata = StoredMetadata.searchVariance(generation: generation, recency)
            let item = NewItem(key: key, metadata: metadata, head: variance.encoded, body: [], retention: .mayRescue)
            guard store.insert(item, ifStill: seen) != .changed else { continue }
            sign.set(in: store)
            return RememberedVariance(variance: variance, generation: generation)
        }
        return nil
    }

    /// Maximum number of attempts while other threads change the record.
    private static let attemptLimit = 16

    /// Removes a path's record. Responses under it are not found again, because the next value has another generation.
    static func forget(path: [UInt8], in store: ResponseStore) { store.remove(key(path).span) }

    private func insertSign(_ recency: Recency) {
        let metadata = StoredMetadata.searchVariance(generation: 0, recency)
        store.insert(NewItem(key: SearchVarianceSign.key, metadata: metadata, head: [], body: [], retention: .always))
    }

    static func key(_ path: [UInt8]) -> [UInt8] { path + [UInt8(ascii: "N")] }
}
