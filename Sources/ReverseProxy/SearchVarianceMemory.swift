// What the upstream last said of each path's arguments (No-Vary-Search): a small record beside the path's key. As long as nobody ever said
// anything, nothing is looked up.

import CachePolicy
import CacheStore
import Synchronization

/// What was said, and since when it is so: what lay there under the same words before others were said is not found again. In the meantime
/// an unsafe request may have passed it by.
struct RememberedVariance {
    let variance: SearchVariance
    let generation: UInt64

    /// As part of keys.
    var encoded: [UInt8] { variance.encoded + [0x0a] + Array(String(generation).utf8) }
}

final class SearchVarianceMemory: Sendable {
    private let store: ResponseStore
    /// Set by the shard that first stores an answer with the field, read by all with each request.
    private let isUsed: Atomic<Bool>

    /// Under it lies whether there are such records; it is there before each of them, and evicting always keeps it. Without it a write would
    /// pass them by.
    private static let signKey = [UInt8(ascii: "N")]

    init(store: ResponseStore) {
        self.store = store
        isUsed = Atomic(store.lookUp(Self.signKey.span) != nil)
    }

    /// Whether any path has said something.
    var isEmpty: Bool { !isUsed.load(ordering: .acquiring) }

    /// - Parameter path: the shared key of the target without arguments.
    func variance(of path: [UInt8]) -> RememberedVariance? {
        guard let item = store.lookUp(Self.key(path).span), StoredMetadata.kind(of: item.metadata) == .searchVariance,
            let variance = SearchVariance(encoded: item.head), let generation = StoredMetadata.number(in: item.metadata)
        else { return nil }
        return RememberedVariance(variance: variance, generation: generation)
    }

    func remember(_ variance: SearchVariance, of path: [UInt8], at now: Timestamp) -> RememberedVariance {
        let last = self.variance(of: path)
        // What was not looked at until now, for want of the sign, may have been passed by.
        if let last, last.variance == variance, !isEmpty { return last }
        // Another than the last, whatever the clock does.
        let generation = max(UInt64(clamping: now.milliseconds), (last?.generation ?? 0) + 1)
        insert(Self.signKey, [], 0, .always)
        insert(Self.key(path), variance.encoded, generation, .mayRescue)
        isUsed.store(true, ordering: .releasing)
        return RememberedVariance(variance: variance, generation: generation)
    }

    private func insert(_ key: [UInt8], _ head: [UInt8], _ generation: UInt64, _ retention: Retention) {
        let metadata = StoredMetadata.searchVariance(generation: generation)
        store.insert(NewItem(key: key, metadata: metadata, head: head, body: [], retention: retention))
    }

    private static func key(_ path: [UInt8]) -> [UInt8] { path + [UInt8(ascii: "N")] }
}
