// Lists all stored items for the administrator. Never called on a shard's event loop; does not block look-ups.

import Reactor

/// Identifies a stored item while it is stored under its key: 32 hexadecimal digits.
public struct StoredItemID: Hashable, Sendable, Comparable, CustomStringConvertible {
    let hash: KeyHash

    init(_ hash: KeyHash) { self.hash = hash }

    public init?(_ text: some StringProtocol) {
        let half = text.index(text.startIndex, offsetBy: 16, limitedBy: text.endIndex) ?? text.endIndex
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Self.digits.contains($0) }), let high = UInt64(text[..<half], radix: 16),
            let low = UInt64(text[half...], radix: 16)
        else { return nil }
        hash = KeyHash(low: low, high: high)
    }

    private static let digits = Array("0123456789abcdef".utf8)

    public var description: String { Self.hexadecimal(hash.high) + Self.hexadecimal(hash.low) }

    private static func hexadecimal(_ value: UInt64) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    public static func < (left: StoredItemID, right: StoredItemID) -> Bool {
        (left.hash.high, left.hash.low) < (right.hash.high, right.hash.low)
    }
}

/// A stored item with its key.
public struct ListedItem {
    public let id: StoredItemID
    public let key: UnsafeRawBufferPointer
    public let item: StoredItem
}

extension ResponseStore {
    /// Calls `body` with each item, in no particular order. Items that are inserted or removed meanwhile may be missed. Content is not
    /// read, so damaged content is detected at look-up only. The caller must handle damaged keys and heads.
    public func visitAll(_ body: (ListedItem) -> Void) {
        for part in 0..<IndexTable.partCount {
            // Both are read under one lock, so that an item that moves from pending to written is not missed.
            let (pending, slots, segments) = state.withLock { state in
                (state.pending.items(ofPart: part), state.index.slots(ofPart: part), state.segments)
            }
            for item in pending { body(ListedItem(id: StoredItemID(item.hash), key: item.key, item: item.stored)) }
            let waiting = Set(pending.map(\.hash))
            for entry in slots where entry.isOccupied && !waiting.contains(entry.hash) {
                guard let segment = segments[entry.segment], let record = parts(entry, in: segment) else { continue }
                body(ListedItem(id: StoredItemID(entry.hash), key: record.key, item: record.item))
            }
        }
    }

    /// Returns an item after verifying its checksum; nil if it does not exist or is damaged.
    public func item(_ id: StoredItemID) -> ListedItem? {
        let found = state.withLock { state -> (pending: PendingItem?, segment: Segment?, entry: IndexEntry) in
            if let pending = state.pending[id.hash] { return (pending, nil, IndexEntry()) }
            guard let entry = state.index.find(id.hash) else { return (nil, nil, IndexEntry()) }
            return (nil, state.segments[entry.segment], entry)
        }
        if let pending = found.pending { return ListedItem(id: id, key: pending.key, item: pending.stored) }
        guard let segment = found.segment, let (key, item) = read(found.entry, in: segment) else { return nil }
        return ListedItem(id: id, key: key, item: item)
    }

    /// Returns the identifier of an item with this key.
    public func id(of key: [UInt8]) -> StoredItemID { StoredItemID(key.withUnsafeBytes { KeyHash($0, seed: seed) }) }

    /// Removes an item, durable across restarts. Returns whether it existed.
    public func remove(_ id: StoredItemID) -> Bool { remove(id.hash) }

    /// Marks an item as stale, durable across restarts. Returns whether it existed.
    public func markStale(_ id: StoredItemID) -> Bool { markStale(id.hash) }
}
