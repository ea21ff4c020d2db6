// Writes changed notes: all together once in an interval, so that a note that changes with every request costs one small write in it. A
// crash loses the changes of that interval.

import Dispatch
import Reactor

extension StoreWriter {
    /// Number of notes that are written before other work of the queue, because removals and marks must not wait for all.
    private static let notesAtOnce = 16 * WrittenNote.countLimit

    /// Schedules `writeNotes` if it is not scheduled. Called with the store's state locked.
    func writeNotesLater(_ store: ResponseStore, _ state: inout ResponseStore.State) {
        guard !state.writesNotesLater else { return }
        state.writesNotesLater = true
        serial.asyncAfter(deadline: .now() + .milliseconds(settings.noteMilliseconds)) { [weak self, weak store] in
            guard let self, let store else { return }
            writeNotes(store, inTurn: true)
        }
    }

    /// Maximum number of traversals of the index in `writeNotesNow`. A traversal misses notes that move or change meanwhile.
    private static let traversalLimit = 8

    /// Writes all changed notes, and waits for it.
    func writeNotesNow(_ store: ResponseStore) {
        serial.sync {
            for _ in 0..<Self.traversalLimit {
                writeNotes(store)
                guard mayWriteNotes, store.state.withLock({ $0.index.unwrittenNotes }) > 0 else { return }
            }
        }
    }

    /// Writes all changed notes. Must be called on the writer's queue. Locks the index for a limited number of slots at a time.
    /// - Parameters:
    ///   - first: the slot of the index to begin with.
    ///   - inTurn: whether other work of the queue may come between, and the next call is scheduled at the end.
    func writeNotes(_ store: ResponseStore, from first: IndexTable.SlotPosition = .init(), inTurn: Bool = false) {
        var due: [WrittenNote] = []
        var count = 0
        var next: IndexTable.SlotPosition? = first
        while let position = next, mayWriteNotes {
            let taken = store.state.withLock { $0.index.takeUnwrittenNotes(from: position) }
            (due, next) = (due + taken.notes, taken.next)
            while due.count >= WrittenNote.countLimit {
                write(Array(due.suffix(WrittenNote.countLimit)), store)
                due.removeLast(WrittenNote.countLimit)
                count += WrittenNote.countLimit
            }
            if inTurn, count >= Self.notesAtOnce, let next {
                write(due, store)
                writeBuffer(store)
                return writeNotesAfterOtherWork(store, from: next)
            }
        }
        write(due, store)
        writeBuffer(store)
        if inTurn { scheduleNext(store) }
    }

    /// Whether this process owns the files and the disk accepts writes.
    private var mayWriteNotes: Bool { directory.isWritable && refusing.trouble == nil && waiting.withLock { $0.isOurs } }

    private func write(_ notes: [WrittenNote], _ store: ResponseStore) {
        guard !notes.isEmpty else { return }
        append(.notes(notes), nil, isNeeded: false, store)
        if buffer.count >= Self.batchBytes { writeBuffer(store) }
    }

    private func writeNotesAfterOtherWork(_ store: ResponseStore, from next: IndexTable.SlotPosition) {
        serial.async { [weak self, weak store] in
            guard let self, let store else { return }
            writeNotes(store, from: next, inTurn: true)
        }
    }

    private func scheduleNext(_ store: ResponseStore) {
        store.state.withLock { state in
            state.writesNotesLater = false
            if state.index.unwrittenNotes > 0 { writeNotesLater(store, &state) }
        }
    }

    /// Marks notes as unwritten again, because the disk refused them.
    func putBack(_ notes: [WrittenNote], _ store: ResponseStore) {
        store.state.withLock { state in
            for note in notes { state.index.putBack(note) }
            writeNotesLater(store, &state)
        }
    }
}
