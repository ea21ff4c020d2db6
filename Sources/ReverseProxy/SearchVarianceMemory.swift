// What the upstream last said of each path's arguments (No-Vary-Search): a small record beside the path's key. As long as nobody ever said
// anything, nothing is looked up.

import CachePolicy
import CacheStore
import Locking

final class SearchVarianceMemory: Sendable {
    private let store: ResponseStore
    /// Set by the shard that first stores an answer with the field, read by all when they find no fresh answer.
    private let isUsed: Mutex<Bool>

    /// Under it lies whether there are such records; written after each of them, so it is not evicted before.
    private static let signKey = [UInt8(ascii: "N")]

    init(store: ResponseStore) {
        self.store = store
        isUsed = Mutex(store.lookUp(Self.signKey.span) != nil)
    }

    /// Whether any path has said something.
    var isEmpty: Bool { !isUsed.withLock { $0 } }

    /// - Parameter path: the shared key of the target without arguments.
    func variance(of path: [UInt8]) -> SearchVariance? {
        guard let item = store.lookUp(Self.key(path).span), StoredMetadata.kind(of: item.metadata) == .searchVariance else { return nil }
        return SearchVariance(encoded: item.head)
    }

    func remember(_ variance: SearchVariance, of path: [UInt8]) {
        guard variance != self.variance(of: path) else { return }
        insert(Self.key(path), variance.encoded)
        insert(Self.signKey, [])
        isUsed.withLock { $0 = true }
    }

    private func insert(_ key: [UInt8], _ head: [UInt8]) {
        store.insert(NewItem(key: key, metadata: StoredMetadata.searchVariance, head: head, body: [], mayRescue: true))
    }

    private static func key(_ path: [UInt8]) -> [UInt8] { path + [UInt8(ascii: "N")] }
}
