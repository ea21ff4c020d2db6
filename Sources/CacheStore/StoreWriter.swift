// The writing side of the store: one serial queue that appends to the newest segment, makes new ones, and evicts the oldest.

import CSystem
import Dispatch
import Glibc
import Locking
import TakeOver

/// `@unchecked Sendable` because `waiting` is behind its mutex and everything else is touched on `serial` only.
final class StoreWriter: @unchecked Sendable {
    enum Work {
        case item(PendingItem)
        case removal(KeyHash)
        case clearing
        case staleMark(KeyHash)
        case staleAll
    }

    /// The newest segment and where in it the next record goes.
    struct Position {
        var segment: UInt64
        var offset: Int
    }

    private let directory: StoreDirectory
    private let settings: StoreSettings
    private let seed: UInt64
    private let serial = DispatchQueue(label: "cistern.store", qos: .utility)
    /// Filled by those who put in, emptied by the writer.
    private let waiting: Mutex<WriterQueue>
    private(set) var position: Position
    private var active: Segment?
    private var buffer: [UInt8] = []
    /// What is in the buffer, in its order, and at which offsets of the segment.
    private var placed: [(work: Work, offset: Int)] = []
    /// What evicting kept, until it is in the next segment: longer where the disk has no room for one now. And tombstones and the
    /// disk did not take, until it takes something again.
    private var unwritten: [Work] = []
    /// How many there may be before those are left out that need not be written any more.
    private var unwrittenLimit = leastUnwritten
    /// Their files stay until what is kept of them is written again, so that a crash in between costs nothing.
    private var evicted: [Segment] = []
    /// The number of the first segment that was written to since all was on the disk.
    private var firstUnsynchronized: UInt64
    private var trouble: Trouble?
    /// Since the statistics were told.
    private var encoded = EncodedCounts()
    private let encoder: ItemEncoder

    /// What keeps the disk from taking more. Without room for a segment, small records may still go to the end of the last one: that is no
    /// recovery.
    private enum Trouble { case noRoom, failedWrite }

    /// Records are gathered up to this size and written with one call.
    private static let batchBytes = 1 << 20
    private static let leastUnwritten = 1_024
    /// Removals that may wait for a disk that takes nothing; what is beyond it counts until the next start. 3 MiB.
    private static let removalLimit = 1 << 17
    /// How much of an evicted segment is written again for its use, as a share of its size: so that evicting frees the larger part.
    private static let reinsertedShare = 4

    /// - Parameter isHeld: nothing is written before `goOn`.
    init(directory: StoreDirectory, settings: StoreSettings, seed: UInt64, start: Position, isHeld: Bool = false) {
        waiting = Mutex(WriterQueue(isHeld: isHeld))
        encoder = ItemEncoder(settings)
        self.directory = directory
        self.settings = settings
        self.seed = seed
        position = start
        firstUnsynchronized = start.segment
    }

    /// Called with the store's state locked, so that work is queued in the order in which it took effect.
    func queue(_ work: Work, store: ResponseStore) {
        switch waiting.withLock({ $0.append(work) }) {
        case .none: break
        case .soon:
            // Whoever lets go of a store does not wait for it: the directory is free at once.
            serial.asyncAfter(deadline: .now() + .milliseconds(settings.gatheringMilliseconds)) { [weak self, weak store] in
                guard let self, let store else { return }
                waiting.withLock { $0.endMoment() }
                drain(store)
            }
        case .now: serial.async { self.drain(store) }
        }
    }

    /// Writes all that was queued before, with the codings that it is to have.
    func writeWaiting(_ store: ResponseStore) {
        serial.sync { drain(store) }
        waitUntilIdle()
    }

    /// Writes removals and marks that were queued before. Never waits for contents that are being coded.
    func writeNeededNow(_ store: ResponseStore) { serial.sync { drain(store) } }

    /// Returns when what is to be written at once has been.
    func waitUntilIdle() {
        serial.sync {}
        encoder.waitUntilIdle()
        serial.sync {}
    }

    /// The disk is waited for on the caller's thread: the next write must not wait for it too.
    func synchronize(_ store: ResponseStore) {
        let (segments, newest) = serial.sync {
            drain(store)
            return (store.state.withLock { $0.segments }.filter { $0.number >= firstUnsynchronized }, position.segment)
        }
        for segment in segments { segment.synchronize() }
        serial.sync { firstUnsynchronized = max(firstUnsynchronized, newest) }
    }

    // MARK: Removals and marks

    var hasPeer: Bool { waiting.withLock { $0.hasPeer } }

    /// Whether a removal or a mark is not in a file.
    var hasUnwritten: Bool { waiting.withLock { $0.hasUnwritten } }

    /// Calls `then` once all removals and marks that were queued before are in a file, or the disk has refused them: at once, or from the writer's queue.
    func whenNeededWritten(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) {
        let isWritten = waiting.withLock { waiting in waiting.wait(then) ? nil : waiting.isWritten }
        if let isWritten { then(isWritten) }
    }

    // MARK: Another process

    /// Writes what waits.
    /// - Returns: where the next record goes.
    func positionNow(_ store: ResponseStore) -> Position {
        serial.sync {
            drain(store)
            return position
        }
    }

    /// Writes what waits, and then nothing: that goes to another process.
    /// - Returns: where that writes on.
    func pass(_ store: ResponseStore, to successor: @escaping @Sendable (PassedChange) -> Void) -> Position {
        serial.sync {
            drain(store)
            write(encoder.takeBack().map { (.item($0), nil) }, store)
            for then in waiting.withLock({ $0.pass(unwritten, to: successor) }) { then(true) }
            return position
        }
    }

    /// The other process has it: nothing is kept here any more.
    func leave() { waiting.withLock { $0.leave() } }

    /// Writes again, first what has waited.
    /// - Parameters:
    ///   - position: where another process has left off; nil: where this one has.
    ///   - leftOut: whose files go.
    func goOn(_ store: ResponseStore, from position: Position? = nil, without leftOut: LeftOutSegments = LeftOutSegments()) {
        serial.sync {
            if let position { (self.position, active, firstUnsynchronized) = (position, nil, 0) }
            writeAgain(leftOut, store)
            waiting.withLock { $0.write() }
            drain(store)
        }
    }

    /// What a smaller limit leaves no room for goes, once what is kept of it is written again.
    func leaveOut(_ leftOut: LeftOutSegments, _ store: ResponseStore) {
        guard !leftOut.segments.isEmpty else { return }
        serial.sync { writeAgain(leftOut, store) }
    }

    private func writeAgain(_ leftOut: LeftOutSegments, _ store: ResponseStore) {
        evicted += leftOut.segments
        for one in leftOut.kept { write(one, nil, store) }
        writeBuffer(store)
        removeEvicted()
    }

    /// From now on another process hears of what takes something back; nil: none.
    func tell(_ peer: (@Sendable (PassedChange) -> Void)?) { waiting.withLock { $0.tell(peer) } }

    /// It hears of something that is not written.
    func tell(_ change: PassedChange) { waiting.withLock { $0.tell(change) } }

    private func drain(_ store: ResponseStore) {
        let all = waiting.withLock { $0.takeAll() }
        write(needed: all.needed, store)
        var items: [Work] = []
        var uncoded: [PendingItem] = []
        for one in all.rest {
            if case .item(let item) = one, item.isToBeEncoded, encoder.isUsed { uncoded.append(item) } else { items.append(one) }
        }
        for part in uncoded.parts(bytes: WriterQueue.gatheredBytes, \.bytes) {
            encoder.encode(Array(part), of: store, for: serial) { [weak self, weak store] encoded in
                guard let self, let store else { return }
                write(encoded.map { (.item($0.item), $0.content) }, store)
            }
        }
        for part in items.parts(bytes: Self.batchBytes, \.bytes) {
            write(part.map { ($0, nil) }, store)
            write(needed: waiting.withLock { $0.takeNeeded() }, store)
        }
    }

    /// Removals and marks go before all else that waits.
    private func write(needed: (work: [Work], number: UInt64), _ store: ResponseStore) {
        let (work, number) = needed
        guard !work.isEmpty else { return }
        write(work.map { ($0, nil) }, store)
        let isWritten = directory.isWritable && unwritten.isEmpty
        for then in waiting.withLock({ $0.settle(number, isWritten: isWritten) }) { then(isWritten) }
    }

    /// - Parameter all: in their order, with the coded contents of items.
    private func write(_ all: [(work: Work, encoded: [UInt8]?)], _ store: ResponseStore) {
        var all = all
        // What the disk did not take goes first, so that no tombstone of it removes what is later.
        if trouble == .failedWrite {
            all = unwritten.map { ($0, nil) } + all
            unwritten = []
        }
        var isFailing = !directory.isWritable
        for (work, encoded) in all {
            guard !isFailing else {
                store.state.withLock { $0.statistics.writeErrors += 1 }
                giveUp(work, store)
                continue
            }
            write(work, encoded, store)
            // One record tells whether it takes them again.
            if trouble == .failedWrite { isFailing = !writeBuffer(store) }
        }
        writeBuffer(store)
    }

    /// What must be written stays for later; all else goes, and what it has replaced is found again: as stale, since something newer was seen.
    private func giveUp(_ work: Work, _ store: ResponseStore) {
        guard case .item(let item) = work else {
            if directory.isWritable, unwritten.count < Self.removalLimit { unwritten.append(work) }
            return
        }
        let stays = store.state.withLock { state in
            let isCurrent = state.pending[item.hash] === item
            if isCurrent, item.retention.isNeeded { return true }
            state.statistics.pendingBytes -= item.bytes
            if isCurrent {
                state.pending[item.hash] = nil
                _ = state.index.markStale(item.hash)
                state.changes.raise(item.hash)
            }
            return false
        }
        guard stays else { return }
        unwritten.append(work)
        if unwritten.count >= unwrittenLimit { leaveOutReplaced(store) }
    }

    private func leaveOutReplaced(_ store: ResponseStore) {
        unwritten.removeAll { work in
            guard case .item(let item) = work, store.state.withLock({ $0.pending[item.hash] !== item }) else { return false }
            settle(item, store)
            return true
        }
        unwrittenLimit = max(Self.leastUnwritten, unwritten.count * 2)
    }

    private func write(_ work: Work, _ encoded: [UInt8]?, _ store: ResponseStore) {
        // Something newer may have come, or a removal: then it need not be written.
        if case .item(let item) = work, store.state.withLock({ $0.pending[item.hash] !== item }) { return settle(item, store) }
        append(work, encoded, store)
        if buffer.count >= Self.batchBytes { writeBuffer(store) }
    }

    private func settle(_ item: PendingItem, _ store: ResponseStore) {
        store.state.withLock { $0.statistics.pendingBytes -= item.bytes }
    }

    /// Puts a record into the buffer, where there is room on the disk.
    private func append(_ work: Work, _ encoded: [UInt8]?, _ store: ResponseStore) {
        var header = work.header(encoded)
        let size = header.recordBytes
        // Once is enough, but where marks of others that were kept leave no room in the new segment. They are kept once, so this ends.
        while active == nil || position.offset + buffer.count + size > active!.size {
            writeBuffer(store)
            guard makeRoom(for: size, takesBack: work.takesBack, store) else {
                store.state.withLock { $0.statistics.writeErrors += 1 }
                note(.noRoom)
                return giveUp(work, store)
            }
        }
        let offset = position.offset + buffer.count
        let start = buffer.count
        buffer.append(contentsOf: repeatElement(0, count: RecordHeader.bytes))
        if case .item(let item) = work { item.appendPayload(encoded, to: &buffer) }
        // Up to the next record's alignment.
        while buffer.count - start < size { buffer.append(0) }
        buffer.withUnsafeMutableBytes { bytes in
            let record = bytes.baseAddress! + start
            if header.kind == .item {
                header.payloadChecksum = RecordHeader.payloadChecksum(record + RecordHeader.bytes, header.payloadBytes, seed: seed)
            }
            header.write(to: record, segment: position.segment, offset: offset, seed: seed)
        }
        placed.append((work, offset))
        if encoded != nil {
            self.encoded.add(EncodedCounts(contents: 1, plainBytes: header.plainBytes, codedBytes: header.bodyBytes))
        }
    }

    private func note(_ trouble: Trouble?) {
        defer { self.trouble = trouble }
        if (trouble == nil) != (self.trouble == nil) { settings.whenWritable?(trouble == nil) }
    }

    /// Writes what is gathered, and from then on answers from there; false where the disk did not take it.
    @discardableResult
    private func writeBuffer(_ store: ResponseStore) -> Bool {
        guard !buffer.isEmpty, let active else { return true }
        let isWritten = buffer.withUnsafeBytes { active.write($0, at: position.offset) }
        if isWritten { position.offset += buffer.count }
        if !isWritten { note(.failedWrite) } else if trouble == .failedWrite { note(nil) }
        if isWritten {
            inPieces(placed) { settleWritten($0, store) }
        } else {
            store.state.withLock { $0.statistics.writeErrors += 1 }
        }
        if !isWritten { for one in placed { giveUp(one.work, store) } }
        placed.removeAll(keepingCapacity: true)
        buffer.removeAll(keepingCapacity: buffer.count <= Self.batchBytes * 2)
        return isWritten
    }

    /// Records that are dealt with while the store's state is locked, and how long others may have it before the next ones.
    private static let lockedRecords = 256
    private static let lockPause: UInt32 = 20

    /// So that look-ups wait for a few records at most, however many there are.
    private func inPieces<Element>(_ all: [Element], _ body: (ArraySlice<Element>) -> Void) {
        for start in stride(from: 0, to: all.count, by: Self.lockedRecords) {
            if start > 0 { usleep(Self.lockPause) }
            body(all[start..<min(start + Self.lockedRecords, all.count)])
        }
    }

    /// From now on they are found in the segment.
    private func settleWritten(_ placed: ArraySlice<(work: Work, offset: Int)>, _ store: ResponseStore) {
        let mark = ResidencyTrust.mark(ResidencyTrust.now)
        defer { encoded = EncodedCounts() }
        store.state.withLock { state in
            state.statistics.encoded.add(encoded)
            for case (.item(let item), let offset) in placed {
                state.statistics.pendingBytes -= item.bytes
                guard state.pending[item.hash] === item else { continue }
                state.pending[item.hash] = nil
                var entry = IndexEntry(
                    hash: item.hash, segment: position.segment, byteOffset: offset, isMarkedStale: item.isMarkedStale,
                    isNeeded: item.retention.isNeeded)
                entry.inMemoryMark = mark
                entry.note = item.note
                if state.index.set(entry) { state.statistics.replaced += 1 }
            }
        }
    }

    /// Goes on in the newest segment after a start, or makes a new one; evicts the oldest where the limit is reached.
    /// - Parameters:
    ///   - size: of the record that is to have room in it, beside what evicting keeps.
    ///   - takesBack: where the disk is full, the oldest segment goes as if the limit were reached.
    private func makeRoom(for size: Int, takesBack: Bool, _ store: ResponseStore) -> Bool {
        if active == nil, let newest = store.state.withLock({ $0.segments[position.segment] }),
            position.offset + size <= newest.size, newest.size == settings.segmentBytes
        {
            active = newest
            return true
        }
        var budget = min(settings.segmentBytes / Self.reinsertedShare, settings.segmentBytes - size)
        while store.state.withLock({ settings.isFull($0.segments) }) { evictOldest(store, budget: &budget) }
        var made = makeSegment(store)
        var isStillFull = false
        if case .failure(let error) = made, error.isDiskFull, takesBack, store.state.withLock({ $0.segments.count }) > 1 {
            evictOldest(store, budget: &budget)
            made = makeSegment(store)
            isStillFull = true
        }
        defer { removeEvicted() }
        guard case .success(let segment) = made else { return false }
        note(isStillFull ? .noRoom : nil)
        active = segment
        position = Position(segment: segment.number, offset: 0)
        store.state.withLock { $0.segments.append(segment) }
        let kept = unwritten
        unwritten = []
        for one in kept { write(one, nil, store) }
        writeBuffer(store)
        return true
    }

    /// The next file. Those of evicted segments go before it where the limit leaves no room beside them, or the disk has none.
    private func makeSegment(_ store: ResponseStore) -> Result<Segment, Segment.NoRoom> {
        func attempt() -> Result<Segment, Segment.NoRoom> {
            Result { () throws(Segment.NoRoom) in try Segment(creating: position.segment + 1, settings) }
        }
        let bytes = store.state.withLock { $0.segments.bytes } + evicted.reduce(0) { $0 + $1.size }
        if bytes + settings.segmentBytes > settings.segmentsBytes { removeEvicted() }
        let made = attempt()
        guard case .failure(let error) = made, error.isDiskFull, !evicted.isEmpty else { return made }
        removeEvicted()
        return attempt()
    }

    private func removeEvicted() {
        for segment in evicted { segment.removeFile() }
        evicted = []
    }

    /// Takes the oldest segment away. Tombstones are kept and written again; then, up to a share of the segment, what was used
    /// since it was written.
    /// - Parameter budget: bytes of records that may be kept for their use; less all that is kept.
    private func evictOldest(_ store: ResponseStore, budget: inout Int) {
        guard let oldest = store.state.withLock({ $0.segments.oldest }) else { return }
        var live: [(header: RecordHeader, offset: Int, flags: UInt32, isReplaced: Bool)] = []
        SegmentScan.forEachRecord(in: oldest, seed: seed) { header, offset in
            guard header.kind == .item else { return }
            let (entry, isReplaced) = store.state.withLock { ($0.index.find(header.hash), $0.pending[header.hash] != nil) }
            if let entry, entry.leads(to: oldest.number, offset) {
                live.append((header, offset, entry.flags, isReplaced))
            }
        }
        var kept: [KeyHash: PendingItem] = [:]
        var order: [KeyHash] = []
        for retention in [Retention.always, .outlives, .mayRescue, .whenUsed] {
            for record in live where record.header.retention == retention && !record.isReplaced {
                let isNeeded = retention.isNeeded
                guard isNeeded || record.flags & IndexEntry.used != 0,
                    record.header.recordBytes <= (isNeeded ? settings.segmentBytes : budget),
                    let item = PendingItem(
                        record.header, in: oldest, at: record.offset, as: retention == .outlives ? .mayRescue : retention, seed: seed)
                else { continue }
                budget -= record.header.recordBytes
                kept[item.hash] = item
                order.append(item.hash)
            }
        }
        evicted.append(oldest)
        var survivors: [KeyHash: PendingItem] = [:]
        inPieces(live.map { ($0.header.hash, $0.offset) }) { records in
            store.state.withLock { settle(records, of: oldest.number, kept, &survivors, &$0) }
        }
        store.state.withLock { state in
            _ = state.segments.removeOldest()
            state.statistics.reinserted += survivors.count
        }
        unwritten += order.compactMap { survivors[$0].map(Work.item) }
    }

    /// Takes a segment's records out of the index. What is kept waits to be written again, unless it was removed since the segment was gone
    /// through: what was purged stays purged.
    private func settle(
        _ live: ArraySlice<(KeyHash, Int)>, of segment: UInt64, _ kept: [KeyHash: PendingItem],
        _ survivors: inout [KeyHash: PendingItem], _ state: inout ResponseStore.State
    ) {
        for record in live.map({ (hash: $0, offset: $1) }) {
            guard let entry = state.index.find(record.hash), entry.leads(to: segment, record.offset) else {
                continue
            }
            // What is kept has to be looked up again to count as used.
            state.changes.raise(record.hash)
            state.index.remove(record.hash)
            guard let item = kept[record.hash], state.pending[record.hash] == nil else {
                state.statistics.evicted += 1
                continue
            }
            let survivor = entry.flags & IndexEntry.markedStale != 0 ? PendingItem(markingStale: item) : item
            survivor.raiseNote(to: entry.note)
            survivors[record.hash] = survivor
            state.pending[record.hash] = survivor
            state.statistics.pendingBytes += survivor.bytes
        }
    }
}
