// Contents of a store for comparison, without data that differs between equal stores: times, order and generations.

import CachePolicy
import CacheStore

package struct StoredRecord: Equatable {
    package let key: [UInt8]
    package let kind: StoredKind?
    package let head: String
    package let body: String
    package let metadata: StoredMetadata?
    package let isMarkedStale: Bool

    /// Records in the store of a stopped play.
    /// - Parameter kinds: kinds to include.
    package static func all(in directory: String, _ kinds: [StoredKind] = [.response, .varyMarker, .searchVariance, .gone]) throws
        -> [StoredRecord]
    {
        let store = try ResponseStore(StoreSettings(directory: directory, capacityBytes: 16 << 20))
        defer { store.close() }
        var records: [StoredRecord] = []
        store.visitAll { listed in
            let record = StoredRecord(listed)
            if record.kind.map(kinds.contains) == true { records.append(record) }
        }
        return records.sorted { $0.key.lexicographicallyPrecedes($1.key) }
    }

    private init(_ listed: ListedItem) {
        let item = listed.item
        kind = StoredMetadata.kind(of: item.metadata.span)
        var metadata = kind.flatMap { StoredMetadata(item.metadata.span, as: $0) }
        metadata?.requestTime = Timestamp(seconds: 0)
        metadata?.responseTime = Timestamp(seconds: 0)
        metadata?.order = .unknown
        metadata?.flags.remove(.imported)
        self.metadata = metadata
        head = String(decoding: item.head, as: UTF8.self)
        body = String(decoding: item.body, as: UTF8.self)
        isMarkedStale = item.isMarkedStale
        key = Self.withoutGenerations(Array(listed.key))
    }

    /// The key without generations of markers and argument rules, which each store creates anew.
    private static func withoutGenerations(_ key: [UInt8]) -> [UInt8] {
        guard let stored = StoredKey(key) else { return key }
        let selecting = (stored.variant?.selecting ?? []).flatMap { Array("\($0.name)=\($0.value ?? "-")".utf8) }
        let said = stored.extra.prefix { $0 != 0x0a }
        return stored.authority + stored.partition + said + stored.target + selecting
    }
}
