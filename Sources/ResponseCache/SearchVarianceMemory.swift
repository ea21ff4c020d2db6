// What the upstream last said of each path's arguments (No-Vary-Search): a small record beside the path's key. As long as nobody ever said
// anything, nothing is looked up.

import CachePolicy
import CacheStore
import HTTPCore
import Synchronization

/// What was said, and since when it is so: what lay there under the same words before others were said is not found again. In the meantime
/// an unsafe request may have passed it by.
struct RememberedVariance {
    let variance: SearchVariance
    let generation: UInt64

    /// As part of keys.
    var encoded: [UInt8] { variance.encoded + [0x0a] + Array(String(generation).utf8) }

    /// Whether a part of a key is such a one, and no request's content: that begins with a length or is a digest.
    static func isEncoded(_ part: [UInt8]) -> Bool {
        guard let end = part.lastIndex(of: 0x0a), end >= 2, end + 1 < part.count else { return false }
        return (part[0] | 0x20) == UInt8(ascii: "k") && (part[1] == UInt8(ascii: "E") || part[1] == UInt8(ascii: "P"))
            && part[(end + 1)...].allSatisfy(\.isASCIIDigit)
    }
}

/// Whether anything was ever said in a store, of any path of any API.
final class SearchVarianceSign: Sendable {
    /// Set by the shard that first stores a response with the field, read by all with each request.
    private let isUsed: Atomic<Bool>

    /// Under it lies whether there are such records; it is there before each of them, and evicting always keeps it. Without it a write would
    /// pass them by.
    fileprivate static let key = [UInt8(ascii: "N")]

    init(store: ResponseStore) { isUsed = Atomic(store.lookUp(Self.key.span) != nil) }

    var isSet: Bool { isUsed.load(ordering: .acquiring) }

    /// A record lies in the store.
    func set(in store: ResponseStore) { if !isUsed.exchange(true, ordering: .acquiringAndReleasing) { store.noteChange() } }
}

final class SearchVarianceMemory: Sendable {
    private let store: ResponseStore
    private let sign: SearchVarianceSign

    init(store: ResponseStore, _ sign: SearchVarianceSign) { (self.store, self.sign) = (store, sign) }

    /// Whether any path has said something.
    var isEmpty: Bool { !sign.isSet }

    /// May wait for the disk.
    /// - Parameter path: the shared key of the target without arguments.
    func variance(of path: [UInt8]) -> RememberedVariance? {
        store.lookUp(Self.key(path).span).flatMap(Self.remembered)
    }

    /// The same without counting as a use.
    func remembered(ofPath path: [UInt8]) -> RememberedVariance? { Self.remembered(store.see(Self.key(path).span).item) }

    /// What an item says; nil where it is another one.
    static func remembered(_ item: StoredItem?) -> RememberedVariance? {
        guard let item, StoredMetadata.kind(of: item.metadata) == .searchVariance,
            let variance = SearchVariance(encoded: item.head), let generation = StoredMetadata.number(in: item.metadata)
        else { return nil }
        return RememberedVariance(variance: variance, generation: generation)
    }

    /// nil where a later response said something else.
    /// - Parameter recency: that of the response that says so.
    func remember(_ variance: SearchVariance, of path: [UInt8], at now: Timestamp, _ recency: Recency) -> RememberedVariance? {
        let key = Self.key(path)
        for _ in 0..<Self.attemptLimit {
            let seen = store.see(key.span)
            let last = seen.item.flatMap(Self.remembered)
            let isOutdated = seen.item.flatMap { StoredMetadata.recency(of: $0.metadata) }.map(recency.isOutdated) ?? false
            // What was not looked at until now, for want of the sign, may have been passed by.
            let known = isEmpty ? nil : last.flatMap { $0.variance == variance ? $0 : nil }
            if isOutdated { return known }
            // Another than the last, whatever the clock does.
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

    /// How often another may change it meanwhile.
    private static let attemptLimit = 16

    /// What was stored under what was said is not found again: nothing says it any more, and what is said next has another generation.
    static func forget(path: [UInt8], in store: ResponseStore) { store.remove(key(path).span) }

    private func insertSign(_ recency: Recency) {
        let metadata = StoredMetadata.searchVariance(generation: 0, recency)
        store.insert(NewItem(key: SearchVarianceSign.key, metadata: metadata, head: [], body: [], retention: .always))
    }

    static func key(_ path: [UInt8]) -> [UInt8] { path + [UInt8(ascii: "N")] }
}
