// Encodes the contents of items before they are written, on a separate queue. Compressing a long text takes longer than writing it, and
// removals and marks must not wait for it.

import Dispatch
import Reactor

import struct Synchronization.Atomic

/// `@unchecked Sendable` because `batches` and `lastBatch` are used on the writer's queue only, and `waitingBytes` is atomic.
final class ItemEncoder: @unchecked Sendable {
    private let settings: StoreSettings
    private let serial = DispatchQueue(label: "cistern.store.coding", qos: .utility)
    /// Items that are being encoded, by batch, until they are returned to the writer.
    private var batches: [Int: [PendingItem]] = [:]
    private var lastBatch = 0
    /// Bytes of the items that wait here. Changed by the writer's queue and by this object's queue.
    private let waitingBytes = Atomic(0)

    /// Divisor of `StoreSettings.pendingLimitBytes`. The quotient is the maximum number of bytes that wait for encoding. Beyond it, items
    /// are written unencoded, because waiting items above the limit would be dropped.
    private static let waitingShare = 16

    init(_ settings: StoreSettings) { self.settings = settings }

    /// Whether a function that encodes is configured.
    var isUsed: Bool { settings.encode != nil }

    /// Encodes the contents of items. Must be called on the writer's queue.
    /// - Parameters:
    ///   - writer: the writer's queue.
    ///   - then: called once on `writer` with the items in their order and their encoded contents. A content is nil if the item is written
    ///     unencoded. Never called after `takeBack`.
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

    /// Cancels encoding. Must be called on the writer's queue.
    /// - Returns: all waiting items in their order. `encode` does not return them any more.
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
