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

    /// A record in the buffer.
    struct Placed {
        let work: Work
        /// In the segment.
        let offset: Int
        let isNeeded: Bool
    }

    let directory: StoreDirectory
    let settings: StoreSettings
    let seed: UInt64
    let serial = DispatchQueue(label: "cistern.store", qos: .utility)
    /// Filled by those who put in, emptied by the writer.
    let waiting: Mutex<WriterQueue>
    var position: Position
    var active: Segment?
    var buffer: [UInt8] = []
    /// The records in the buffer, in their order.
    private var placed: [Placed] = []
    /// Removals and marks that are not in a file: those that evicting kept, until they are in the next segment, and those that the disk refused.
    var unwritten: [Work] = []
    /// Whether any of them is no item. Later removals, marks and items are then written behind it: it takes all that is in the files before it.
    var removalsWait = false
    /// How many there may be before those are left out that need not be written any more.
    private var unwrittenLimit = leastUnwritten
    /// Items for which there is no room yet: those that evicting kept, and those that the disk refused. Look-ups find them in memory.
    var kept: [Work] = []
    /// Their files stay until what is kept of them is written again, so that a crash in between costs nothing.
    var evicted: [Segment] = []
    /// While `unwritten` and `kept` are written to a new segment. Nothing of them is in another file than those in `evicted`.
    var isBeginning = false
    /// The number of the first segment that was written to since all was on the disk.
    private var firstUnsynchronized: UInt64
    var refusing = RefusingState()
    /// Since the statistics were told.
    private var encoded = EncodedCounts()
    private let encoder: ItemEncoder

    /// Records are gathered up to this size and written with one call.
    private static let batchBytes = 1 << 20
    private static let leastUnwritten = 1_024
    /// Removals that may wait for a disk that takes nothing; what is beyond it counts until the next start. 3 MiB.
    private static let removalLimit = 1 << 17

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
        var failure: Segment.WriteError?
        for segment in segments {
            do throws(Segment.WriteError) { try segment.synchronize() } catch { failure = failure ?? error }
        }
        serial.sync {
            guard let failure else {
                firstUnsynchronized = max(firstUnsynchronized, newest)
                return
            }
            retireActive(store)
            note(.failedWrite(fault(failure)), store)
        }
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
            for then in waiting.withLock({ $0.pass(unwritten + kept, to: successor) }) { then(true) }
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
        for one in leftOut.kept { write(one, nil, isNeeded: true, store) }
        removeRewritten(store)
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
        let wasWell = refusing.trouble == nil
        // What waits goes first.
        if removalsWait, all.contains(where: { $0.work.takesBack }) { tryAgain(store) }
        var isFailing = !directory.isWritable
        for (work, encoded) in all {
            let isNeeded = work.takesBack
            guard !isFailing, refusing.trouble == nil || isNeeded && !removalsWait else {
                giveUp(work, isNeeded: isNeeded, store)
                continue
            }
            let failures = refusing.failures
            write(work, encoded, isNeeded: isNeeded, store)
            // One attempt tells whether the disk takes them again.
            if refusing.failures != failures { isFailing = isNeeded || refusing.trouble?.isFailedWrite == true }
        }
        writeBuffer(store)
        // Another part of the disk may take it.
        if wasWell, refusing.trouble?.isFailedWrite == true { tryAgain(store) }
    }

    /// What must be written stays for later, and items stay in memory for as long. An item that no segment has room for goes, and what it has replaced is
    /// found again: as stale, since something newer was seen.
    func giveUp(_ work: Work, isNeeded: Bool, _ store: ResponseStore) {
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

    /// The item that has its key in a file is stale too. The mark is written without the item that waits, where the disk has room for a mark.
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

    /// - Parameter isNeeded: it is a removal or a mark: where the disk is full, room is made for it.
    func write(_ work: Work, _ encoded: [UInt8]?, isNeeded: Bool, _ store: ResponseStore) {
        // Something newer may have come, or a removal: then it need not be written.
        if case .item(let item) = work, store.state.withLock({ $0.pending[item.hash] !== item }) { return settle(item, store) }
        append(work, encoded, isNeeded: isNeeded, store)
        if buffer.count >= Self.batchBytes { writeBuffer(store) }
    }

    private func settle(_ item: PendingItem, _ store: ResponseStore) {
        store.state.withLock { $0.statistics.pendingBytes -= item.bytes }
    }

    /// Puts a record into the buffer, where there is room on the disk.
    private func append(_ work: Work, _ encoded: [UInt8]?, isNeeded: Bool, _ store: ResponseStore) {
        let header = work.header(encoded)
        // Once is enough, but where marks of others that were kept leave no room in the new segment. They are kept once, so this ends.
        while !hasRoom(for: header.recordBytes) {
            writeBuffer(store)
            guard makeRoom(for: header.recordBytes, isNeeded: isNeeded, store) else { return giveUp(work, isNeeded: isNeeded, store) }
        }
        place(work, encoded, header, isNeeded: isNeeded)
    }

    /// Whether a record of this size fits behind the buffer.
    func hasRoom(for size: Int) -> Bool { active.map { position.offset + buffer.count + size <= $0.size } ?? false }

    /// Puts a record into the buffer. There is room for it.
    func place(_ work: Work, _ encoded: [UInt8]?, _ header: RecordHeader, isNeeded: Bool) {
        let offset = position.offset + buffer.count
        place(header) { if case .item(let item) = work { item.appendPayload(encoded, to: &$0) } }
        placed.append(Placed(work: work, offset: offset, isNeeded: isNeeded))
        if encoded != nil {
            self.encoded.add(EncodedCounts(contents: 1, plainBytes: header.plainBytes, codedBytes: header.bodyBytes))
        }
    }

    /// - Parameter payload: appends the record's key, metadata, head and body.
    func place(_ header: RecordHeader, _ payload: (inout [UInt8]) -> Void = { _ in }) {
        var header = header
        let offset = position.offset + buffer.count
        let start = buffer.count
        buffer.append(contentsOf: repeatElement(0, count: RecordHeader.bytes))
        payload(&buffer)
        // Up to the next record's alignment.
        while buffer.count - start < header.recordBytes { buffer.append(0) }
        buffer.withUnsafeMutableBytes { bytes in
            let record = bytes.baseAddress! + start
            if header.kind == .item {
                header.payloadChecksum = RecordHeader.payloadChecksum(record + RecordHeader.bytes, header.payloadBytes, seed: seed)
            }
            header.write(to: record, segment: position.segment, offset: offset, seed: seed)
        }
    }

    /// Writes what is gathered, and from then on answers from there; false where the disk did not take it.
    @discardableResult
    func writeBuffer(_ store: ResponseStore) -> Bool {
        guard !buffer.isEmpty, let active else { return true }
        defer {
            placed.removeAll(keepingCapacity: true)
            buffer.removeAll(keepingCapacity: buffer.count <= Self.batchBytes * 2)
        }
        if let error = buffer.withUnsafeBytes({ active.write($0, at: position.offset, settings) }) {
            retireActive(store)
            note(.failedWrite(fault(error)), store)
            for one in placed { giveUp(one.work, isNeeded: one.isNeeded, store) }
            return false
        }
        position.offset += buffer.count
        inPieces(placed) { settleWritten($0, store) }
        return true
    }

    /// Records that are dealt with while the store's state is locked, and how long others may have it before the next ones.
    private static let lockedRecords = 256
    private static let lockPause: UInt32 = 20

    /// So that look-ups wait for a few records at most, however many there are.
    func inPieces<Element>(_ all: [Element], _ body: (ArraySlice<Element>) -> Void) {
        for start in stride(from: 0, to: all.count, by: Self.lockedRecords) {
            if start > 0 { usleep(Self.lockPause) }
            body(all[start..<min(start + Self.lockedRecords, all.count)])
        }
    }

    /// From now on they are found in the segment.
    private func settleWritten(_ placed: ArraySlice<Placed>, _ store: ResponseStore) {
        let mark = ResidencyTrust.mark(ResidencyTrust.now)
        defer { encoded = EncodedCounts() }
        store.state.withLock { state in
            state.statistics.encoded.add(encoded)
            for one in placed {
                guard case .item(let item) = one.work else { continue }
                state.statistics.pendingBytes -= item.bytes
                guard state.pending[item.hash] === item else { continue }
                state.pending[item.hash] = nil
                var entry = IndexEntry(
                    hash: item.hash, segment: position.segment, byteOffset: one.offset, isMarkedStale: item.isMarkedStale,
                    isNeeded: item.retention.isNeeded)
                entry.inMemoryMark = mark
                entry.note = item.note
                if state.index.set(entry) { state.statistics.replaced += 1 }
            }
        }
    }
}
