// How a store goes from one process to the next without being closed. The old one hands its index on in memory, as it was at one place of the files, and
// writes on; what it writes meanwhile, the new one reads behind that place once the directory is its own. From then on each tells the other what takes
// something back, until the old one ends.

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

    /// All goes on as before.
    /// - Returns: nil where another process cannot be given it.
    public func offer() -> HandedStore? {
        let lock = directory.copyOfLock()
        guard directory.isWritable, lock.isOpen else { return nil }
        let position = writer.positionNow(self)
        // Part by part: nobody waits for all of a large index. Whatever changes meanwhile has its record behind the position.
        let parts = (0..<IndexTable.partCount).map { part in state.withLock { $0.index.slots(ofPart: part) } }
        let index = IndexSnapshot.inMemory(parts, state.withLock { $0.segments }, end: position, seed: seed)
        return index.isOpen ? HandedStore(lock: lock, index: index) : nil
    }

    /// Writes what waits, and nothing afterwards: what takes something back goes to the other process, and nothing else is stored.
    /// - Parameter successor: called in the order of the changes, with locks held: it does no more than queue.
    /// - Returns: where the other process writes on.
    public func pass(to successor: @escaping @Sendable (PassedChange) -> Void) -> HandedPosition {
        state.withLock { $0.owner = .both }
        let position = writer.pass(self, to: successor)
        return HandedPosition(segment: position.segment, offset: UInt64(position.offset))
    }

    /// The other process has not begun: all that has waited is written.
    public func goOn() {
        let isOurs = state.withLock { state in
            if state.owner == .both { state.owner = .us }
            return state.owner == .us
        }
        if isOurs { writer.goOn(self) }
    }

    /// The directory is the other process's. What is stored counts as stale here, in memory only: that one may know better.
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

    /// The directory is ours, with all that the old process has written since it offered its index. What was put in waits no longer.
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
        writer.goOn(self, from: end, without: leftOut)
    }

    // MARK: Both

    /// From now on the other process hears of what takes something back here; nil: there is none any more.
    /// - Parameter peer: called in the order of the changes, with locks held: it does no more than queue.
    public func tell(_ peer: (@Sendable (PassedChange) -> Void)?) { writer.tell(peer) }

    /// It hears of something that no record has.
    public func tell(_ change: PassedChange) { writer.tell(change) }

    /// Does here what was done there. A mark is put in with `insert`.
    public func follow(_ change: PassedChange) {
        switch change {
        case .item, .purge: break
        case .removal(let low, let high): remove(KeyHash(low: low, high: high))
        case .staleMark(let low, let high): _ = markStale(KeyHash(low: low, high: high))
        case .clearing: removeAll()
        case .staleAll: markAllStale()
        }
    }
}
