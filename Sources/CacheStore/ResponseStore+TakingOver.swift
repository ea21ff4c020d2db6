// How a store goes from one process to the next without being closed: the old one holds its writer, so the files stay as they are, and hands its index on in
// memory; the new one opens the directory with that and holds its own writer, until the directory is its own. What changes meanwhile changes in the old
// one's memory, and is passed on in its order. Nothing of it is on the disk before one of both goes on: if that is the old one, as if nothing had been.

import CSystem
import Descriptors
import Glibc
import Locking
import TakeOver

/// What another process hands over of its store.
public final class HandedStore: Sendable {
    let index: Descriptor
    private let lock: Descriptor

    public init(lock: consuming Descriptor, index: consuming Descriptor) {
        self.lock = lock
        self.index = index
    }

    func directory(_ path: String) throws(StoreError) -> StoreDirectory {
        try StoreDirectory(path, handed: Descriptor(csystem_duplicate(lock.number)))
    }

    /// For a message.
    public var descriptors: [Int32] { [lock.number, index.number] }
}

extension ResponseStore {
    /// Of records, segments and the index. Another number is another format.
    public static let format: UInt32 = 1

    // MARK: The old process

    /// Writes what waits, and then nothing until `goOn`. Look-ups go on, and what is put in waits.
    /// - Returns: nil where another process cannot be given it: then all is as before.
    public func hold() -> HandedStore? {
        let lock = directory.copyOfLock()
        guard directory.isWritable, lock.isOpen else { return nil }
        let position = writer.hold(self)
        // Part by part: nobody waits for all of a large index. What is removed meanwhile is passed on.
        let parts = (0..<IndexTable.partCount).map { part in state.withLock { $0.index.slots(ofPart: part) } }
        let index = IndexSnapshot.inMemory(parts, state.withLock { $0.segments }, end: position, seed: seed)
        guard index.isOpen else {
            goOn()
            return nil
        }
        return HandedStore(lock: lock, index: index)
    }

    /// The other process has not come to it: all that has waited is written.
    public func goOn() {
        state.withLock { $0.isPassedOn = false }
        writer.goOn(self)
    }

    /// What has changed since `hold`, and changes from now on, goes to the other process too. Only marks are taken here.
    /// - Parameter successor: called in the order of the changes, with locks held: it does no more than queue.
    public func pass(to successor: @escaping @Sendable (PassedChange) -> Void) {
        state.withLock { $0.isPassedOn = true }
        writer.pass(to: successor)
    }

    /// The directory is the other process's. What is stored counts as stale here, in memory only: that one may know better.
    public func leave() {
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

    /// The directory is ours: what was put in waits no longer.
    public func own() {
        directory.take()
        var leftovers = state.withLock { state in
            defer { state.leftovers = StoreLeftovers() }
            return state.leftovers
        }
        leftovers.remove()
        IndexSnapshot.remove(directory: directory.path)
        writer.goOn(self)
    }

    /// Does here what was done there.
    public func follow(_ change: PassedChange) {
        switch change {
        case .item(let key, let metadata, let head, let body, let retention):
            insert(NewItem(key: key, metadata: metadata, head: head, body: body, retention: Retention(rawValue: retention) ?? .outlives))
        case .removal(let low, let high): remove(KeyHash(low: low, high: high))
        case .staleMark(let low, let high): _ = markStale(KeyHash(low: low, high: high))
        case .clearing: removeAll()
        case .staleAll: markAllStale()
        }
    }
}
