// The writing side of the store: one serial queue that appends to the newest segment, creates new segments, and evicts the oldest.

import CSystem
import Dispatch
import Glibc
import Reactor
import TakeOver

/// `@unchecked Sendable` because `waiting` is behind its mutex and all other state is used on `serial` only.
final class StoreWriter: @unchecked Sendable {
    enum Work {
        case item(PendingItem)
        case removal(KeyHash)
        case clearing
        case staleMark(KeyHash)
        case staleAll
        /// Notes that changed since they were written. Never queued (`writeNotes`).
        case notes([WrittenNote])
    }

    /// The newest segment, and the offset of the next record in it.
    struct Position {
        var segment: UInt64
        var offset: Int
    }

    /// A record in the buffer.
    struct Placed {
        let work: Work
        /// Offset in the segment.
        let offset: Int
        let isNeeded: Bool
        /// The item's note in the record.
        let note: UInt32
    }

    let directory: StoreDirectory
    let settings: StoreSettings
    let seed: UInt64
    let serial = DispatchQueue(label: "cistern.store", qos: .utility)
    /// Work of all threads that change the store, consumed by the writer.
    let waiting: Mutex<WriterQueue>
    var position: Position
    var active: Segment?
    var buffer: [UInt8] = []
    /// The records in the buffer, in order.
    private var placed: [Placed] = []
    /// Removals and marks that are in no file: those that eviction kept, until they are in the next segment, and those that the disk
    /// refused to write.
    var unwritten: [Work] = []
    /// Whether `unwritten` has a removal or a mark without an item. Later work must then wait, because such a removal applies to all
    /// records before it.
    var removalsWait = false
    /// Size of `unwritten` above which replaced items are removed from it.
    private var unwrittenLimit = leastUnwritten
    /// Items that are not on disk: those that eviction kept, and those that the disk refused to write. Lookups find them in memory.
    var kept: [Work] = []
    /// Evicted segments whose files still exist. The files are deleted once the kept items are written again, so that a crash in between
    /// loses nothing.
    var evicted: [Segment] = []
    /// Whether `unwritten` and `kept` are being written to a new segment. Until that ends, only the files in `evicted` contain them.
    var isBeginning = false
    /// Number of the first segment that was written to since the last complete synchronization.
    private var firstUnsynchronized: UInt64
    var refusing = RefusingState()
    /// Counts since the statistics were last updated.
    private var encoded = EncodedCounts()
    private let encoder: ItemEncoder

    /// Maximum bytes of records that are written with one call.
    static let batchBytes = 1 << 20
    private static let leastUnwritten = 1_024
    /// The place of a header, until it is written.
    private static let noBytes = [UInt8](repeating: 0, count: RecordHeader.bytes)
    /// Maximum number of waiting removals while the disk refuses writes (3 MiB). Further removals take effect in memory only, and are lost
    /// at the next start.
    private static let removalLimit = 1 << 17

    /// - Parameter isHeld: if true, nothing is written before `resume`.
    init(directory: StoreDirectory, settings: StoreSettings, seed: UInt64, start: Position, isHeld: Bool = false) {
        waiting = Mutex(WriterQueue(isHeld: isHeld))
        encoder = ItemEncoder(settings)
        self.directory = directory
        self.settings = settings
        self.seed = seed
        position = start
        firstUnsynchronized = start.segment
    }

    /// Queues work. Called with the store's state locked, so that work is queued in the order in which it took effect.
    func queue(_ work: Work, store: ResponseStore) {
        switch waiting.withLock({ $0.append(work) }) {
        case .none: break
        case .soon:
            // Weak references, so that the timer does not retain the store, which would keep the directory locked.
            serial.asyncAfter(deadline: .now() + .milliseconds(settings.gatheringMilliseconds)) { [weak self, weak store] in
                guard let self, let store else { return }
                waiting.withLock { $0.endMoment() }
                drain(store)
            }
        case .now: serial.async { self.drain(store) }
        }
    }

    /// Writes all work that was queued before, including contents that must be encoded.
    func writeWaiting(_ store: ResponseStore) {
        serial.sync { drain(store) }
        waitUntilIdle()
    }

    /// Writes all queued work that needs no encoding, including all removals and marks.
    func writeNeededNow(_ store: ResponseStore) { serial.sync { drain(store) } }

    /// Returns when the work that needs no delay, including encoding, has been written.
    func waitUntilIdle() {
        serial.sync {}
        encoder.waitUntilIdle()
        serial.sync {}
    }

    /// Synchronizes all written segments. Waits for the disk on the caller's thread, so that the writer's queue is not blocked.
    /// - Returns: whether all removals and marks are on disk.
    @discardableResult
    func synchronize(_ store: ResponseStore) -> Bool {
        let (segments, newest) = serial.sync {
            drain(store)
            return (store.state.withLock { $0.segments }.filter { $0.number >= firstUnsynchronized }, position.segment)
        }
        var failure: Segment.WriteError?
        for segment in segments {
            do throws(Segment.WriteError) { try segment.synchronize() } catch { failure = failure ?? error }
        }
        return serial.sync {
            guard let failure else {
                firstUnsynchronized = max(firstUnsynchronized, newest)
                return waiting.withLock { $0.isWritten }
            }
            retireActive(store)
            note(.failedWrite(fault(failure)), store)
            return false
        }
    }

    // MARK: Removals and marks

    var hasPeer: Bool { waiting.withLock { $0.hasPeer } }

    /// Whether a removal or a mark is in no file.
    var hasUnwritten: Bool { waiting.withLock { $0.hasUnwritten } }

    /// Calls `then` when all removals and marks that were queued before are in a file, or when the disk has refused them. `then` is called
    /// at once or on the writer's queue.
    func whenNeededWritten(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) {
        let isWritten = waiting.withLock { waiting in waiting.wait(then) ? nil : waiting.isWritten }
        if let isWritten { then(isWritten) }
    }

    // MARK: Another process

    /// Writes all waiting work.
    /// - Returns: the position of the next record.
    func positionNow(_ store: ResponseStore) -> Position {
        serial.sync {
            drain(store)
            return position
        }
    }

    /// Writes all waiting work, and then stops writing: further changes go to another process.
    /// - Returns: the position at which the other process continues.
    func pass(_ store: ResponseStore, to successor: @escaping @Sendable (PassedChange) -> Void) -> Position {
        serial.sync {
            drain(store)
            write(encoder.takeBack().map { Work.item($0) }[...], store)
            writeNotes(store)
            for then in waiting.withLock({ $0.pass(unwritten + kept, to: successor) }) { then(true) }
            return position
        }
    }

    /// Ends this process's ownership. Queued work is dropped.
    func leave() { waiting.withLock { $0.leave() } }

    /// Resumes writing, with the waiting work first.
    /// - Parameters:
    ///   - position: where another process stopped writing; nil to continue at this process's position.
    ///   - leftOut: segments over the limit; their files are deleted.
    func resume(_ store: ResponseStore, from position: Position? = nil, without leftOut: LeftOutSegments = LeftOutSegments()) {
        serial.sync {
            if let position { (self.position, active, firstUnsynchronized) = (position, nil, 0) }
            writeAgain(leftOut, store)
            waiting.withLock { $0.write() }
            drain(store)
        }
    }

    /// Deletes segments over a lowered limit, after the kept items are written again.
    func leaveOut(_ leftOut: LeftOutSegments, _ store: ResponseStore) {
        guard !leftOut.segments.isEmpty else { return }
        serial.sync { writeAgain(leftOut, store) }
    }

    private func writeAgain(_ leftOut: LeftOutSegments, _ store: ResponseStore) {
        evicted += leftOut.segments
        for one in leftOut.kept { write(one, nil, isNeeded: true, store) }
        removeRewritten(store)
    }

    /// Sends removals and marks to another process from now on; nil stops it.
    func setPeer(_ peer: (@Sendable (PassedChange) -> Void)?) { waiting.withLock { $0.setPeer(peer) } }

    /// Sends the other process a change that has no record in this store.
    func sendToPeer(_ change: PassedChange) { waiting.withLock { $0.sendToPeer(change) } }

    private func drain(_ store: ResponseStore) {
        let all = waiting.withLock { $0.takeAll() }
        write(needed: all.needed, store)
        var items = all.rest
        var uncoded: [PendingItem] = []
        if encoder.isUsed {
            items.removeAll { one in
                guard case .item(let item) = one, item.isToBeEncoded else { return false }
                uncoded.append(item)
                return true
            }
        }
        for part in uncoded.parts(bytes: WriterQueue.gatheredBytes, \.bytes) {
            encoder.encode(Array(part), of: store, for: serial) { [weak self, weak store] encoded in
                guard let self, let store else { return }
                write(encoded.map { Work.item($0.item) }[...], contents: encoded.map(\.content), store)
            }
        }
        for part in items.parts(bytes: Self.batchBytes, \.bytes) {
            write(part, store)
            write(needed: waiting.withLock { $0.takeNeeded() }, store)
        }
    }

    /// Writes removals and marks, which precede all other waiting work.
    private func write(needed: (work: [Work], number: UInt64), _ store: ResponseStore) {
        let (work, number) = needed
        guard !work.isEmpty else { return }
        write(work[...], store)
        let isWritten = directory.isWritable && unwritten.isEmpty
        for then in waiting.withLock({ $0.settle(number, isWritten: isWritten) }) { then(isWritten) }
    }

    /// Writes work in order.
    /// - Parameter contents: encoded contents of the items; empty if nothing is encoded.
    private func write(_ all: ArraySlice<Work>, contents: [[UInt8]?] = [], _ store: ResponseStore) {
        let wasHealthy = refusing.trouble == nil
        // Work that has waited must be written before new work.
        if removalsWait, all.contains(where: \.takesBack) { tryAgain(store) }
        var isFailing = !directory.isWritable
        for (index, work) in all.enumerated() {
            let isNeeded = work.takesBack
            guard !isFailing, refusing.trouble == nil || isNeeded && !removalsWait else {
                giveUp(work, isNeeded: isNeeded, store)
                continue
            }
            let failures = refusing.failures
            write(work, contents.isEmpty ? nil : contents[index], isNeeded: isNeeded, store)
            // One attempt shows whether the disk accepts writes again.
            if refusing.failures != failures { isFailing = isNeeded || refusing.trouble?.isFailedWrite == true }
        }
        writeBuffer(store)
        // Another position on the disk may accept the write.
        if wasHealthy, refusing.trouble?.isFailedWrite == true { tryAgain(store) }
    }

    /// Handles work that could not be written. Removals and marks stay queued, and items stay in memory. An item that is too large for any
    /// segment is dropped. The older item that it replaced becomes visible again, marked as stale.
    func giveUp(_ work: Work, isNeeded: Bool, _ store: ResponseStore) {
        if case .notes(let notes) = work { return putBack(notes, store) }
        guard case .item(let item) = work else {
            guard directory.isWritable, unwritten.count < Self.removalLimit else { return }
            unwritten.append(work)
            removalsWait = true
            return
        }
        let mayWait = directory.isWritable && !isNeeded
        let (isCurrent, stays) = store.state.withLock { state in
            let isCurrent = state.pending[item.hash] === item
            let fits = RecordHeader.recordBytes(payload: item.bytes) <= state.statistics.recordLimit
            if isCurrent, isNeeded || mayWait && fits { return (true, true) }
            state.statistics.pendingBytes -= item.bytes
            if isCurrent {
                state.pending[item.hash] = nil
                _ = state.index.markStale(item.hash)
                state.changes.raise(item.hash)
                state.statistics.evicted += 1
            }
            return (isCurrent, false)
        }
        if stays { if isNeeded { unwritten.append(work) } else { kept.append(work) } }
        if isCurrent, !isNeeded, item.isMarkedStale, !item.hasStaleMark { writeStaleMark(of: item, store) }
        if unwritten.count >= unwrittenLimit { leaveOutReplaced(store) }
    }

    /// Writes a stale mark without the waiting item, if the disk has space for a mark. The mark applies to the older item of the key in a
    /// file.
    private func writeStaleMark(of item: PendingItem, _ store: ResponseStore) {
        item.hasStaleMark = true
        let mark = Work.staleMark(item.hash)
        guard directory.isWritable, !removalsWait, refusing.trouble?.isFailedWrite != true else {
            return giveUp(mark, isNeeded: true, store)
        }
        append(mark, nil, isNeeded: true, store)
    }

    private func leaveOutReplaced(_ store: ResponseStore) {
        unwritten.removeAll { work in
            guard case .item(let item) = work, store.state.withLock({ $0.pending[item.hash] !== item }) else { return false }
            settle(item, store)
            return true
        }
        unwrittenLimit = max(Self.leastUnwritten, unwritten.count * 2)
    }

    /// Writes one piece of work.
    /// - Parameter isNeeded: whether it is a removal or a mark. On a full disk, space is made for it.
    func write(_ work: Work, _ encoded: [UInt8]?, isNeeded: Bool, _ store: ResponseStore) {
        // The item was replaced or removed meanwhile, so it is not written.
        if case .item(let item) = work, store.state.withLock({ $0.pending[item.hash] !== item }) { return settle(item, store) }
        append(work, encoded, isNeeded: isNeeded, store)
        if buffer.count >= Self.batchBytes { writeBuffer(store) }
    }

    private func settle(_ item: PendingItem, _ store: ResponseStore) {
        store.state.withLock { $0.statistics.pendingBytes -= item.bytes }
    }

    /// Appends a record to the buffer if the disk has space; otherwise calls `giveUp`.
    func append(_ work: Work, _ encoded: [UInt8]?, isNeeded: Bool, _ store: ResponseStore) {
        let header = work.header(encoded)
        // Usually one iteration. A second one is needed if other kept marks fill the new segment. Marks are kept only once, so the loop
        // ends.
        while !hasCapacity(for: header.recordBytes) {
            writeBuffer(store)
            guard makeSpace(for: header.recordBytes, isNeeded: isNeeded, store) else { return giveUp(work, isNeeded: isNeeded, store) }
        }
        appendRecord(work, encoded, header, isNeeded: isNeeded)
    }

    /// Whether a record of this size fits into the segment after the buffer.
    func hasCapacity(for size: Int) -> Bool { active.map { position.offset + buffer.count + size <= $0.size } ?? false }

    /// Appends a record to the buffer. The caller has checked that there is space.
    func appendRecord(_ work: Work, _ encoded: [UInt8]?, _ header: RecordHeader, isNeeded: Bool) {
        let offset = position.offset + buffer.count
        appendRecord(header) { out in
            switch work {
            case .item(let item): item.appendPayload(encoded, to: &out)
            case .notes(let notes): for note in notes { note.append(to: &out) }
            case .removal, .clearing, .staleMark, .staleAll: break
            }
        }
        placed.append(Placed(work: work, offset: offset, isNeeded: isNeeded, note: header.note))
        if encoded != nil {
            self.encoded.add(EncodedCounts(contents: 1, plainBytes: header.plainBytes, codedBytes: header.bodyBytes))
        }
    }

    /// Appends a record to the buffer.
    /// - Parameter payload: appends the record's key, metadata, head and body.
    func appendRecord(_ header: RecordHeader, _ payload: (inout [UInt8]) -> Void = { _ in }) {
        var header = header
        let offset = position.offset + buffer.count
        let start = buffer.count
        buffer.append(contentsOf: Self.noBytes)
        payload(&buffer)
        // Padding up to the alignment of the next record.
        buffer.append(contentsOf: Self.noBytes[..<(start + header.recordBytes - buffer.count)])
        buffer.withUnsafeMutableBytes { bytes in
            let record = bytes.baseAddress! + start
            if header.kind == .item {
                header.payloadChecksum = RecordHeader.payloadChecksum(record + RecordHeader.bytes, header.payloadBytes, seed: seed)
            }
            header.write(to: record, segment: position.segment, offset: offset, seed: seed)
        }
    }

    /// Writes the buffer, after which look-ups read its items from the segment. Returns false if the disk refused the write.
    @discardableResult
    func writeBuffer(_ store: ResponseStore) -> Bool {
        guard !buffer.isEmpty, let active else { return true }
        defer {
            placed.removeAll(keepingCapacity: true)
            buffer.removeAll(keepingCapacity: buffer.count <= Self.batchBytes * 2)
        }
        if let error = active.displacement ?? buffer.withUnsafeBytes({ active.write($0, at: position.offset, settings) }) {
            retireActive(store)
            note(.failedWrite(fault(error)), store)
            for one in placed { giveUp(one.work, isNeeded: one.isNeeded, store) }
            return false
        }
        position.offset += buffer.count
        inPieces(placed) { settleWritten($0, store) }
        return true
    }

    /// Maximum number of records processed while holding the lock, and the pause between two such sections in microseconds.
    private static let lockedRecords = 256
    private static let lockPause: UInt32 = 20

    /// Processes elements in sections, so that lookups wait for a few records at most.
    func inPieces<Element>(_ all: [Element], _ body: (ArraySlice<Element>) -> Void) {
        for start in stride(from: 0, to: all.count, by: Self.lockedRecords) {
            if start > 0 { usleep(Self.lockPause) }
            body(all[start..<min(start + Self.lockedRecords, all.count)])
        }
    }

    /// Moves written items from `pending` to the index.
    private func settleWritten(_ placed: ArraySlice<Placed>, _ store: ResponseStore) {
        let mark = ResidencyTrust.mark(ResidencyTrust.now)
        defer { encoded = EncodedCounts() }
        store.state.withLock { state in
            state.statistics.encoded.add(encoded)
            for one in placed {
                if case .notes(let notes) = one.work { state.statistics.notesWritten += notes.count }
                guard case .item(let item) = one.work else { continue }
                state.statistics.pendingBytes -= item.bytes
                guard state.pending[item.hash] === item else { continue }
                state.pending[item.hash] = nil
                var entry = IndexEntry(
                    hash: item.hash, segment: position.segment, byteOffset: one.offset, isMarkedStale: item.isMarkedStale,
                    isNeeded: item.retention.isNeeded)
                entry.inMemoryMark = mark
                entry.note = item.note
                if item.note != one.note {
                    entry.flags |= IndexEntry.noteIsUnwritten
                    writeNotesLater(store, &state)
                }
                if state.index.set(entry) { state.statistics.replaced += 1 }
            }
        }
    }
}
