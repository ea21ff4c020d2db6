// Puts codings on the contents of items before the writer writes them, on a queue of its own: gzip of a long text takes longer than the disk, and no
// removal or mark may wait for it.

import Dispatch
import Locking

import struct Synchronization.Atomic

/// `@unchecked Sendable` because `batches` and `lastBatch` are touched on the writer's queue only, and `waitingBytes` is atomic.
final class ItemEncoder: @unchecked Sendable {
    private let settings: StoreSettings
    private let serial = DispatchQueue(label: "cistern.store.coding", qos: .utility)
    /// Items whose contents get their coding, until they are handed back.
    private var batches: [Int: [PendingItem]] = [:]
    private var lastBatch = 0
    /// Bytes of the items that wait here. Changed by the writer's queue and by this one.
    private let waitingBytes = Atomic(0)

    /// Share of `StoreSettings.pendingLimitBytes` that may wait for codings. Beyond it items stay as they came: what finds no room would be lost.
    private static let waitingShare = 16

    init(_ settings: StoreSettings) { self.settings = settings }

    /// Whether there are codings at all.
    var isUsed: Bool { settings.encode != nil }

    /// Must be called on the writer's queue.
    /// - Parameters:
    ///   - writer: the writer's queue.
    ///   - then: called once on it with the items in their order and their coded contents, nil where nothing is won; never after `takeBack`.
    func encode(
        _ items: [PendingItem], of store: ResponseStore, for writer: DispatchQueue,
        then: @escaping @Sendable ([(item: PendingItem, content: [UInt8]?)]) -> Void
    ) {
        lastBatch += 1
        batches[lastBatch] = items
        waitingBytes.add(items.reduce(0) { $0 + $1.bytes }, ordering: .relaxed)
        serial.async { [weak store, batch = lastBatch] in
            let encoded = items.map { (item: $0, content: self.content(of: $0, store)) }
            writer.async { if self.batches.removeValue(forKey: batch) != nil { then(encoded) } }
        }
    }

    /// Must be called on the writer's queue.
    /// - Returns: all items that wait, in their order. They are not handed back.
    func takeBack() -> [PendingItem] {
        defer { batches = [:] }
        return batches.sorted { $0.key < $1.key }.flatMap(\.value)
    }

    private func content(of item: PendingItem, _ store: ResponseStore?) -> [UInt8]? {
        let behind = waitingBytes.subtract(item.bytes, ordering: .relaxed).newValue
        guard let store, behind <= settings.pendingLimitBytes / Self.waitingShare,
            store.state.withLock({ $0.pending[item.hash] === item })
        else { return nil }
        return item.encoded(by: settings)
    }

    func waitUntilIdle() { serial.sync {} }
}
