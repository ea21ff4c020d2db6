// Makes space for the next segment, which is as large as the disk allows. At the limit or on a full disk it replaces the oldest segments.

import CSystem
import Glibc
import Reactor

extension StoreWriter {
    /// Divisor for the part of a new segment that kept items may occupy, so that eviction frees the larger part.
    private static let reinsertedShare = 4

    /// Continues in the newest segment after a start, or creates a new one.
    /// - Parameters:
    ///   - size: size in bytes of the record that must fit, in addition to items that eviction keeps.
    ///   - isNeeded: whether the record is a removal or a mark. It may then use the reserve, and the oldest segment may be evicted for it.
    func makeSpace(for size: Int, isNeeded: Bool, _ store: ResponseStore) -> Bool {
        if active == nil, let newest = store.state.withLock({ $0.segments[position.segment] }), position.offset + size <= newest.size,
            newest.size == settings.segmentBytes || newest.recordedSize(seed: seed) == newest.size
        {
            active = newest
            return true
        }
        if isNeeded, refusing.trouble?.isFailedWrite == false, useReserve(for: size, store) { return true }
        switch newSegment(for: size, isNeeded: isNeeded, store) {
        case .success(let segment): return begin(segment, store)
        case .failure(let none):
            if isNeeded, useReserve(for: size, store) { return true }
            if let fault = none.fault { note(.noSpace(fault), store) }
            return false
        }
    }

    /// Creates a segment and writes a first record into it. The rest of the newest segment stays empty.
    func makeNewSegment(_ store: ResponseStore) -> Bool {
        switch newSegment(for: RecordHeader.bytes, isNeeded: false, store) {
        case .success(let segment): return begin(segment, store)
        case .failure(let none):
            note(.noSpace(none.fault ?? fault(ENOSPC)), store)
            return false
        }
    }

    /// Checks whether the disk has more space now, for items above the last known maximum size. Must be called on the writer's queue.
    func checkSpace(_ store: ResponseStore) {
        let now = Self.milliseconds(CLOCK_MONOTONIC)
        guard now >= refusing.spaceCheckedAt + Int64(settings.retryMilliseconds) else { return }
        refusing.spaceCheckedAt = now
        refusing.recordLimit = nil
        _ = plan(store, settings.diskSpace(settings.directory))
    }

    /// Computes the plan for the next segment from all bytes on disk, including evicted segments whose files still exist.
    private func plan(_ store: ResponseStore, _ diskSpace: DiskSpace?) -> SegmentPlan {
        let evictedBytes = evicted.reduce(0) { $0 + $1.size }
        return store.state.withLock { state in
            let plan = SegmentPlan(
                settings.sizes, held: state.segments.bytes + evictedBytes, count: state.segments.count, diskSpace: diskSpace)
            state.statistics.usableBytes = plan.usableBytes
            state.statistics.recordLimit = min(plan.recordLimit, refusing.recordLimit ?? .max)
            return plan
        }
    }

    /// Creates the next segment file.
    /// - Returns: on failure, the reason why there is no space; its fault is nil if only this record is too large.
    private func newSegment(for size: Int, isNeeded: Bool, _ store: ResponseStore) -> Result<Segment, NoSegment> {
        let error = directory.restore()
        guard error == 0 else { return .failure(NoSegment(fault: fault(Segment.WriteError(code: error, path: directory.path + "/key")))) }
        let plan = plan(store, settings.diskSpace(settings.directory))
        guard let wanted = plan.segmentBytes(for: size) else {
            let isTooSmall = plan.segmentBytes(for: RecordHeader.bytes) == nil
            return .failure(NoSegment(fault: isTooSmall ? fault(ENOSPC) : nil))
        }
        var making = SegmentMaking(
            bytes: wanted, least: SegmentPlan.leastSegment(for: size), mayEvict: isNeeded || !refusing.evictedWithoutSuccess)
        making.least = min(wanted, max(making.least, min(SegmentPlan.leastBytes, wanted)))
        making.budget = min(wanted / Self.reinsertedShare, wanted - size - RecordHeader.bytes)
        // If both fit within the limit, the oldest segment is evicted only after the new one exists, so that nothing is lost if the disk
        // refuses the new one.
        if exceedsLimit(beside: wanted, store) {
            evictWithinLimit(beside: wanted, &making, store)
            // Otherwise the store would exceed its limit until the kept items are written again.
            if !isBeginning, exceedsLimit(beside: wanted, store), writeUnwrittenEarly(store) { removeEvicted() }
        }
        fitDisk(&making, store)
        var made = attempt(making)
        while case .failure(let error) = made, error.isDiskFull, evictForSpace(&making, store) { made = attempt(making) }
        switch made {
        case .success(let segment):
            refusing.evictedWithoutSuccess = false
            if segment.size >= wanted { refusing.recordLimit = nil }
            evictWithinLimit(beside: segment.size, &making, store)
            if making.freed > 0 { noteLimit(beside: segment.size, store) }
            return .success(segment)
        case .failure(let error):
            refusing.evictedWithoutSuccess = refusing.evictedWithoutSuccess || making.freed > 0
            return .failure(NoSegment(fault: isTooLarge(size, error, isNeeded: isNeeded, store) ? nil : fault(error)))
        }
    }

    private func evictWithinLimit(beside size: Int, _ making: inout SegmentMaking, _ store: ResponseStore) {
        while store.state.withLock({ settings.isFull($0.segments, adding: size) }) { evictOldest(store, budget: &making.budget) }
    }

    /// If the free space is unknown, lowers the maximum record size and returns whether smaller items may still fit.
    private func isTooLarge(_ size: Int, _ error: Segment.WriteError, isNeeded: Bool, _ store: ResponseStore) -> Bool {
        guard !isNeeded, refusing.trouble == nil, error.isDiskFull, size > SegmentPlan.leastBytes else { return false }
        refusing.recordLimit = size / 2
        store.state.withLock { $0.statistics.recordLimit = min($0.statistics.recordLimit, size / 2) }
        return true
    }

    /// Whether a new segment would exceed the limit together with the files of evicted segments.
    private func exceedsLimit(beside size: Int, _ store: ResponseStore) -> Bool {
        let bytes = store.state.withLock { $0.segments.bytes } + evicted.reduce(0) { $0 + $1.size }
        return bytes + size > settings.segmentsBytes
    }

    /// Reduces the segment to the free space. Evicts the oldest segments if the disk has no space for it.
    private func fitDisk(_ making: inout SegmentMaking, _ store: ResponseStore) {
        while let diskSpace = settings.diskSpace(settings.directory) {
            let count = store.state.withLock { $0.segments.count }
            let available = max(SegmentPlan.growth(diskSpace, count: count) ?? 0, min(making.freed, diskSpace.freeBytes))
            if available >= making.bytes { return }
            if making.freed > 0, SegmentPlan.rounded(available) >= making.least {
                making.bytes = SegmentPlan.rounded(available)
                return
            }
            guard evictForSpace(&making, store) else {
                making.bytes = max(making.least, min(making.bytes, SegmentPlan.rounded(diskSpace.freeBytes)))
                return
            }
        }
    }

    /// Deletes the files of evicted segments, and evicts the oldest segment if none is evicted already.
    /// - Returns: false if no segment may be evicted for this.
    private func evictForSpace(_ making: inout SegmentMaking, _ store: ResponseStore) -> Bool {
        // A file from which a response is being sent keeps its blocks. Evicting more segments would not free them either.
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

    /// Creates the segment, and retries with smaller sizes if the disk is full: a quota may apply, or the free space may be unknown.
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

    /// Writes the removals and marks that eviction kept to the end of the last segment and to the reserve, so that they survive a crash
    /// after the evicted files are deleted. They are written once more with the other kept items, so that they last as long as those.
    /// - Returns: false if there is no space for all of them, or the disk refuses them.
    private func writeUnwrittenEarly(_ store: ResponseStore) -> Bool {
        var isWhole = true
        for mark in unwritten {
            let header = mark.header(nil)
            if !hasCapacity(for: header.recordBytes) {
                writeBuffer(store)
                guard let reserve = openReserve(for: header.recordBytes) else {
                    isWhole = false
                    continue
                }
                activate(reserve, store)
            }
            appendRecord(header) { if case .item(let item) = mark { item.appendPayload(nil, to: &$0) } }
        }
        return writeBuffer(store) && isWhole
    }

    // MARK: The reserve

    private func openReserve(for size: Int) -> Segment? {
        size + RecordHeader.bytes <= MarkReserve.bytes ? MarkReserve.use(as: position.segment + 1, settings) : nil
    }

    private func useReserve(for size: Int, _ store: ResponseStore) -> Bool {
        guard directory.restore() == 0, let reserve = openReserve(for: size) else { return false }
        activate(reserve, store)
        return true
    }

    // MARK: A new segment

    private func activate(_ segment: Segment, _ store: ResponseStore) {
        active = segment
        position = Position(segment: segment.number, offset: 0)
        store.state.withLock { $0.segments.append(segment) }
        if segment.size != settings.segmentBytes || refusing.trouble != nil { appendRecord(Segment.sizeRecord(segment.size)) }
    }

    /// Starts a segment and writes the waiting removals, marks and items into it.
    /// - Returns: false if the disk refuses the first record.
    private func begin(_ segment: Segment, _ store: ResponseStore) -> Bool {
        activate(segment, store)
        if refusing.trouble != nil {
            guard writeBuffer(store) else { return false }
            note(nil, store)
        }
        // The kept marks have filled this segment, and a nested call has created another one, in which the outer call continues.
        guard !isBeginning else { return true }
        isBeginning = true
        let (marks, items) = (unwritten, kept)
        (unwritten, kept, removalsWait) = ([], [], false)
        let failures = refusing.failures
        for (works, isNeeded) in [(marks, true), (items, false)] {
            for work in works {
                // After a refused write, all later work waits too. A removal written now would be applied to items that were stored before
                // it and are written later.
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

    /// Stops writing to the newest segment, because it may contain an incomplete write. Deletes the file if it has no record.
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

    /// Deletes the files of evicted segments once the removals and marks that eviction kept are in other files.
    func removeRewritten(_ store: ResponseStore) {
        if writeBuffer(store), refusing.trouble == nil, unwritten.isEmpty { removeEvicted() }
    }

    /// Evicts the oldest segment. Tombstones are kept and written again. Items that were used since they were written are kept too, up to
    /// a share of the segment.
    /// - Parameter budget: bytes of records that may be kept because they were used; reduced by all kept records.
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

    /// Removes a segment's records from the index. Kept items wait to be written again, unless they were removed or replaced since the
    /// segment was scanned.
    private func settle(
        _ live: ArraySlice<(KeyHash, Int)>, of segment: UInt64, _ kept: [KeyHash: PendingItem],
        _ survivors: inout [KeyHash: PendingItem], _ state: inout ResponseStore.State
    ) {
        for record in live.map({ (hash: $0, offset: $1) }) {
            guard let entry = state.index.find(record.hash), entry.leads(to: segment, record.offset) else {
                continue
            }
            // A kept item counts as used again only after another lookup.
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

/// One attempt to create a segment.
private struct SegmentMaking {
    var bytes: Int
    /// Minimum useful size in bytes.
    var least: Int
    /// Bytes of records that eviction may keep because they were used.
    var budget = 0
    /// Bytes of segments evicted for this attempt.
    var freed = 0
    /// Whether the oldest segment may be evicted.
    let mayEvict: Bool
}

private struct NoSegment: Error {
    let fault: WriteFault?
}
