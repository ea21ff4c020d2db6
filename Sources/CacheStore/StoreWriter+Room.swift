// Room for the next segment: as large as the disk allows, in the place of the oldest ones where the limit is reached or the disk is full.

import CSystem
import Glibc
import Locking

extension StoreWriter {
    /// How much of an evicted segment is written again for its use, as a share of the new one: so that evicting frees the larger part.
    private static let reinsertedShare = 4

    /// Goes on in the newest segment after a start, or makes a new one.
    /// - Parameters:
    ///   - size: of the record that is to have room in it, beside what evicting keeps.
    ///   - isNeeded: it is a removal or a mark: it also gets the reserve, and the oldest segment goes for it.
    func makeRoom(for size: Int, isNeeded: Bool, _ store: ResponseStore) -> Bool {
        if active == nil, let newest = store.state.withLock({ $0.segments[position.segment] }), position.offset + size <= newest.size,
            newest.size == settings.segmentBytes || newest.toldSize(seed: seed) == newest.size
        {
            active = newest
            return true
        }
        if isNeeded, refusing.trouble?.isFailedWrite == false, useReserve(for: size, store) { return true }
        switch newSegment(for: size, isNeeded: isNeeded, store) {
        case .success(let segment): return begin(segment, store)
        case .failure(let none):
            if isNeeded, useReserve(for: size, store) { return true }
            if let fault = none.fault { note(.noRoom(fault), store) }
            return false
        }
    }

    /// Makes one in any case, with a first record in it. The rest of the newest one is left empty.
    func makeNewSegment(_ store: ResponseStore) -> Bool {
        switch newSegment(for: RecordHeader.bytes, isNeeded: false, store) {
        case .success(let segment): return begin(segment, store)
        case .failure(let none):
            note(.noRoom(none.fault ?? fault(ENOSPC)), store)
            return false
        }
    }

    /// Looks whether the disk has more room now, for items that are larger than the last look allowed. Must be called on the writer's queue.
    func checkRoom(_ store: ResponseStore) {
        let now = Self.milliseconds(CLOCK_MONOTONIC)
        guard now >= refusing.roomCheckedAt + Int64(settings.retryMilliseconds) else { return }
        refusing.roomCheckedAt = now
        refusing.recordLimit = nil
        _ = plan(store, settings.room(settings.directory))
    }

    /// Bytes on the disk, also of evicted segments whose files exist.
    private func plan(_ store: ResponseStore, _ room: DiskRoom?) -> SegmentPlan {
        let evictedBytes = evicted.reduce(0) { $0 + $1.size }
        return store.state.withLock { state in
            let plan = SegmentPlan(settings.sizes, held: state.segments.bytes + evictedBytes, count: state.segments.count, room: room)
            state.statistics.roomBytes = plan.roomBytes
            state.statistics.recordLimit = min(plan.recordLimit, refusing.recordLimit ?? .max)
            return plan
        }
    }

    /// The next file.
    /// - Returns: the reason why there is no room for one; nil where the record alone is too large.
    private func newSegment(for size: Int, isNeeded: Bool, _ store: ResponseStore) -> Result<Segment, NoSegment> {
        let plan = plan(store, settings.room(settings.directory))
        guard let wanted = plan.segmentBytes(for: size) else {
            let isTooSmall = plan.segmentBytes(for: RecordHeader.bytes) == nil
            return .failure(NoSegment(isTooSmall ? fault(ENOSPC) : nil))
        }
        var making = SegmentMaking(bytes: wanted, least: SegmentPlan.leastSegment(for: size), mayEvict: isNeeded || !refusing.evictedInVain)
        making.least = min(wanted, max(making.least, min(SegmentPlan.leastBytes, wanted)))
        making.budget = min(wanted / Self.reinsertedShare, wanted - size - RecordHeader.bytes)
        // Where the limit has room for both, the oldest goes once there is a new one: a disk that refuses it costs nothing.
        if exceedsLimit(beside: wanted, store) {
            evictWithinLimit(beside: wanted, &making, store)
            // Otherwise the store is larger than its limit until they are written again.
            if !isBeginning, exceedsLimit(beside: wanted, store), writeUnwrittenEarly(store) { removeEvicted() }
        }
        fitDisk(&making, store)
        var made = attempt(making)
        while case .failure(let error) = made, error.isDiskFull, evictForRoom(&making, store) { made = attempt(making) }
        switch made {
        case .success(let segment):
            refusing.evictedInVain = false
            if segment.size >= wanted { refusing.recordLimit = nil }
            evictWithinLimit(beside: segment.size, &making, store)
            if making.freed > 0 { noteLimit(beside: segment.size, store) }
            return .success(segment)
        case .failure(let error):
            refusing.evictedInVain = refusing.evictedInVain || making.freed > 0
            return .failure(NoSegment(isTooLarge(size, error, isNeeded: isNeeded, store) ? nil : fault(error)))
        }
    }

    private func evictWithinLimit(beside size: Int, _ making: inout SegmentMaking, _ store: ResponseStore) {
        while store.state.withLock({ settings.isFull($0.segments, adding: size) }) { evictOldest(store, budget: &making.budget) }
    }

    /// Whether smaller items may still have room on a disk that does not tell how much it has.
    private func isTooLarge(_ size: Int, _ error: Segment.WriteError, isNeeded: Bool, _ store: ResponseStore) -> Bool {
        guard !isNeeded, refusing.trouble == nil, error.isDiskFull, size > SegmentPlan.leastBytes else { return false }
        refusing.recordLimit = size / 2
        store.state.withLock { $0.statistics.recordLimit = min($0.statistics.recordLimit, size / 2) }
        return true
    }

    /// Whether the limit leaves no room beside the files of evicted segments.
    private func exceedsLimit(beside size: Int, _ store: ResponseStore) -> Bool {
        let bytes = store.state.withLock { $0.segments.bytes } + evicted.reduce(0) { $0 + $1.size }
        return bytes + size > settings.segmentsBytes
    }

    /// Nothing is allocated that is not there. Where the disk has no room for a segment, the oldest goes.
    private func fitDisk(_ making: inout SegmentMaking, _ store: ResponseStore) {
        while let room = settings.room(settings.directory) {
            let count = store.state.withLock { $0.segments.count }
            let available = max(SegmentPlan.growth(room, count: count) ?? 0, min(making.freed, room.freeBytes))
            if available >= making.bytes { return }
            if making.freed > 0, SegmentPlan.rounded(available) >= making.least {
                making.bytes = SegmentPlan.rounded(available)
                return
            }
            guard evictForRoom(&making, store) else {
                making.bytes = max(making.least, min(making.bytes, SegmentPlan.rounded(room.freeBytes)))
                return
            }
        }
    }

    /// Frees the blocks of evicted segments, and evicts the oldest one for that where none is evicted already.
    /// - Returns: false where nothing may go for this.
    private func evictForRoom(_ making: inout SegmentMaking, _ store: ResponseStore) -> Bool {
        // A file that a response is being sent from keeps its blocks: then more eviction would not help either.
        guard !isBeginning, making.freed < making.bytes else { return false }
        if evicted.isEmpty {
            guard making.mayEvict, store.state.withLock({ $0.segments.count }) > 1 else { return false }
            evictOldest(store, budget: &making.budget)
        }
        making.freed += evicted.reduce(0) { $0 + $1.size }
        _ = writeUnwrittenEarly(store)
        if refusing.trouble?.isFailedWrite != true { removeEvicted() }
        return true
    }

    /// A quota, or a disk whose room is not known, may take a smaller one only.
    private func attempt(_ making: SegmentMaking) -> Result<Segment, Segment.WriteError> {
        var bytes = making.bytes
        while true {
            let made = Result { () throws(Segment.WriteError) in
                try Segment(creating: position.segment + 1, bytes: bytes, settings)
            }
            guard case .failure(let error) = made, error.isDiskFull, bytes > making.least else { return made }
            bytes = max(making.least, SegmentPlan.rounded(bytes / 4))
        }
    }

    /// Writes removals and marks that evicting kept to the end of the last segment and to the reserve, so that a crash loses none of them when the
    /// evicted files go before there is a new segment. They are written again with the items that evicting kept, since they have to last as long.
    /// - Returns: false if there is no room for all of them, or the disk refuses them.
    private func writeUnwrittenEarly(_ store: ResponseStore) -> Bool {
        var isWhole = true
        for mark in unwritten {
            let header = mark.header(nil)
            if !hasRoom(for: header.recordBytes) {
                writeBuffer(store)
                guard let reserve = openReserve(for: header.recordBytes) else {
                    isWhole = false
                    continue
                }
                activate(reserve, store)
            }
            place(header) { if case .item(let item) = mark { item.appendPayload(nil, to: &$0) } }
        }
        return writeBuffer(store) && isWhole
    }

    // MARK: The reserve

    private func openReserve(for size: Int) -> Segment? {
        size + RecordHeader.bytes <= MarkReserve.bytes ? MarkReserve.use(as: position.segment + 1, settings) : nil
    }

    private func useReserve(for size: Int, _ store: ResponseStore) -> Bool {
        guard let reserve = openReserve(for: size) else { return false }
        activate(reserve, store)
        return true
    }

    // MARK: A new segment

    private func activate(_ segment: Segment, _ store: ResponseStore) {
        active = segment
        position = Position(segment: segment.number, offset: 0)
        store.state.withLock { $0.segments.append(segment) }
        if segment.size != settings.segmentBytes || refusing.trouble != nil { place(Segment.sizeRecord(segment.size)) }
    }

    /// Writes what has waited for it.
    /// - Returns: false where the disk does not take a first record either.
    private func begin(_ segment: Segment, _ store: ResponseStore) -> Bool {
        activate(segment, store)
        if refusing.trouble != nil {
            guard writeBuffer(store) else { return false }
            note(nil, store)
        }
        // Marks that fill this segment too make another one: then the outer call goes on there.
        guard !isBeginning else { return true }
        isBeginning = true
        let (marks, items) = (unwritten, kept)
        (unwritten, kept, removalsWait) = ([], [], false)
        let failures = refusing.failures
        for (works, isNeeded) in [(marks, true), (items, false)] {
            for work in works {
                // Behind one that the disk refuses, all wait on: a removal would take what was written before it.
                if refusing.failures == failures {
                    write(work, nil, isNeeded: isNeeded, store)
                } else {
                    giveUp(work, isNeeded: isNeeded, store)
                }
            }
        }
        isBeginning = false
        removeRewritten(store)
        MarkReserve.make(settings)
        return true
    }

    /// Nothing more is written to the newest segment: a part of it may hold what the disk did not take whole. A file without any record goes.
    func retireActive(_ store: ResponseStore) {
        guard let active else { return }
        self.active = nil
        guard position.offset == 0 else {
            position.offset = active.size / RecordHeader.alignment * RecordHeader.alignment
            return
        }
        active.removeFile()
        let before = store.state.withLock { state in
            state.segments.removeNewest()
            return state.segments[active.number - 1]
        }
        position = Position(segment: active.number - 1, offset: (before?.size ?? 0) / RecordHeader.alignment * RecordHeader.alignment)
    }

    // MARK: Evicting

    private func removeEvicted() {
        for segment in evicted { segment.removeFile() }
        evicted = []
    }

    /// Removes the files of evicted segments once the removals and marks that evicting kept are in other files.
    func removeRewritten(_ store: ResponseStore) {
        if writeBuffer(store), refusing.trouble == nil, unwritten.isEmpty { removeEvicted() }
    }

    /// Takes the oldest segment away. Tombstones are kept and written again; then, up to a share of the segment, what was used
    /// since it was written.
    /// - Parameter budget: bytes of records that may be kept for their use; less all that is kept.
    func evictOldest(_ store: ResponseStore, budget: inout Int) {
        guard let oldest = store.state.withLock({ $0.segments.oldest }) else { return }
        var live: [(header: RecordHeader, offset: Int, flags: UInt32, isReplaced: Bool)] = []
        SegmentScan.forEachRecord(in: oldest, seed: seed) { header, offset in
            guard header.kind == .item else { return }
            let (entry, isReplaced) = store.state.withLock { ($0.index.find(header.hash), $0.pending[header.hash] != nil) }
            if let entry, entry.leads(to: oldest.number, offset) {
                live.append((header, offset, entry.flags, isReplaced))
            }
        }
        var again: [KeyHash: PendingItem] = [:]
        var order: [KeyHash] = []
        var marks: Set<KeyHash> = []
        for retention in [Retention.always, .outlives, .mayRescue, .whenUsed] {
            for record in live where record.header.retention == retention && !record.isReplaced {
                let isNeeded = retention.isNeeded
                guard isNeeded || record.flags & IndexEntry.used != 0,
                    record.header.recordBytes <= (isNeeded ? settings.segmentBytes : budget),
                    let item = PendingItem(
                        record.header, in: oldest, at: record.offset, as: retention == .outlives ? .mayRescue : retention, seed: seed)
                else { continue }
                budget -= record.header.recordBytes
                again[item.hash] = item
                order.append(item.hash)
                if isNeeded { marks.insert(item.hash) }
            }
        }
        evicted.append(oldest)
        var survivors: [KeyHash: PendingItem] = [:]
        inPieces(live.map { ($0.header.hash, $0.offset) }) { records in
            store.state.withLock { settle(records, of: oldest.number, again, &survivors, &$0) }
        }
        store.state.withLock { state in
            _ = state.segments.removeOldest()
            state.statistics.reinserted += survivors.count
        }
        for hash in order {
            guard let survivor = survivors[hash] else { continue }
            if marks.contains(hash) { unwritten.append(.item(survivor)) } else { kept.append(.item(survivor)) }
        }
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

/// One attempt to make a segment.
private struct SegmentMaking {
    var bytes: Int
    /// Smaller ones are of no use.
    var least: Int
    /// Bytes of records that evicting may keep for their use.
    var budget = 0
    /// Bytes of segments that went for this.
    var freed = 0
    /// Whether the oldest segment may go.
    let mayEvict: Bool

    init(bytes: Int, least: Int, mayEvict: Bool) { (self.bytes, self.least, self.mayEvict) = (bytes, least, mayEvict) }
}

private struct NoSegment: Error {
    let fault: WriteFault?

    init(_ fault: WriteFault?) { self.fault = fault }
}
