// Transfers an open store from one process to the next. The old process hands over a snapshot of its index at one position of the files,
// and continues to write. The new process reads the later records once it owns the directory. Then both processes send each other their
// removals and marks until the old process ends.

import CSystem
import Glibc
import Reactor
import TakeOver

/// The lock and the index of a store that another process hands over.
public final class HandedStore: Sendable {
    let index: Descriptor
    private let lock: Descriptor

    public init(lock: consuming Descriptor, index: consuming Descriptor) {
        self.lock = lock
        self.index = index
    }

    func directory(_ path: String) throws(StoreError) -> StoreDirectory {
        try StoreDirectory(path, inherited: Descriptor(csystem_duplicate(lock.number)))
    }

    /// Numbers of both descriptors, for a message to the other process.
    public var descriptors: [Int32] { [lock.number, index.number] }
}

extension ResponseStore {
    /// Version of the format of records, segments and index. Processes with different versions cannot hand over a store.
    public static let format: UInt32 = 1

    // MARK: The old process

    /// Prepares the hand-over. The store continues to work normally.
    /// - Returns: nil if the store cannot be handed over.
    public func offer() -> HandedStore? {
        let lock = directory.copyOfLock()
        guard directory.isWritable, lock.isOpen else { return nil }
        let position = writer.positionNow(self)
        // Each part is copied separately, so that a large index does not block other threads. Later changes have records after the
        // position.
        let parts = (0..<IndexTable.partCount).map { part in state.withLock { $0.index.slots(ofPart: part) } }
        let index = IndexSnapshot.inMemory(parts, state.withLock { $0.segments }, end: position, seed: seed)
        return index.isOpen ? HandedStore(lock: lock, index: index) : nil
    }

    /// Writes all waiting items and stops writing. Removals and marks then go to the other process, and new responses are not stored.
    /// - Parameter successor: called in the order of the changes with locks held; it must only queue the change.
    /// - Returns: the position at which the other process continues to write.
    public func pass(to successor: @escaping @Sendable (PassedChange) -> Void) -> HandedPosition {
        state.withLock { $0.owner = .both }
        let position = writer.pass(self, to: successor)
        return HandedPosition(segment: position.segment, offset: UInt64(position.offset))
    }

    /// Cancels `pass` because the other process has not started: writes all waiting changes. Has no effect after `leave`.
    public func resume() {
        let isOurs = state.withLock { state in
            if state.owner == .both { state.owner = .us }
            return state.owner == .us
        }
        if isOurs { writer.resume(self) }
    }

    /// Releases the directory to the other process. All stored items become stale in this process, in memory only, because the other
    /// process may have newer information.
    public func leave() {
        state.withLock { $0.owner = .other }
        writer.leave()
        directory.leave()
        for part in 0..<IndexTable.partCount {
            state.withLock { state in
                state.changes.raiseAll()
                state.index.markAllStale(ofPart: part)
            }
        }
        state.withLock { state in
            for pending in state.pending.items where !pending.isMarkedStale {
                state.pending[pending.hash] = PendingItem(markingStale: pending)
            }
            state.changes.raiseAll()
        }
    }

    // MARK: The new process

    /// Takes over the directory with all records that the old process has written since it offered its index. Waiting items are then
    /// written.
    public func own(upTo end: HandedPosition) {
        directory.take()
        let end = StoreWriter.Position(segment: end.segment, offset: Int(clamping: end.offset))
        let leftOut = state.withLock { state in
            var recovery = StoreRecovery(directory: directory, settings: settings, seed: seed)
            swap(&recovery.index, &state.index)
            swap(&recovery.segments, &state.segments)
            recovery.readOn(from: writer.position, to: end)
            swap(&recovery.index, &state.index)
            swap(&recovery.segments, &state.segments)
            state.statistics.damaged += recovery.statistics.damaged
            state.keep(recovery.leftOut.kept)
            state.changes.raiseAll()
            return recovery.leftOut
        }
        IndexSnapshot.remove(directory: directory.path)
        writer.resume(self, from: end, without: leftOut)
    }

    // MARK: Both

    /// Sends removals and marks of this process to the other process from now on; nil stops it.
    /// - Parameter peer: called in the order of the changes with locks held; it must only queue the change.
    public func setPeer(_ peer: (@Sendable (PassedChange) -> Void)?) { writer.setPeer(peer) }

    /// Sends the other process a change that has no record in the store.
    public func sendToPeer(_ change: PassedChange) { writer.sendToPeer(change) }

    /// Applies a removal or a mark of the other process. Ignores other changes; the caller inserts marks with `insert`.
    public func follow(_ change: PassedChange) {
        switch change {
        case .item, .purge, .identities: break
        case .removal(let low, let high): remove(KeyHash(low: low, high: high))
        case .staleMark(let low, let high): _ = markStale(KeyHash(low: low, high: high))
        case .clearing: removeAll()
        case .staleAll: markAllStale()
        }
    }
}
