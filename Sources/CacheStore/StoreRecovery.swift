// Opens a store from the snapshot of a clean stop, or by scanning the record headers of all segments. Damaged bytes may have been a
// removal or a mark, so all items stored before them count as stale. A file that cannot be read now may be readable at a later start, so
// it is kept, and nothing is written.

import CSystem
import Glibc
import Reactor

struct StoreRecovery {
    let directory: StoreDirectory
    let settings: StoreSettings
    let seed: UInt64
    var index = IndexTable()
    var segments = SegmentList()
    var end = StoreWriter.Position(segment: 0, offset: 0)
    var statistics = StoreStatistics()
    /// Number of positions where a removal or a mark may be lost, and the last of them.
    private var damage: (spans: Int, last: StoreWriter.Position)?
    /// Segments that exceed the limit.
    private(set) var leftOut = LeftOutSegments()
    /// Paths with names of segments that are not regular files or have an invalid size.
    private var unusable: [String] = []
    /// The first segment file that exists and could not be opened, or the directory if it could not be listed; nil if all were opened.
    private(set) var unreadable: Segment.WriteError?

    init(directory: StoreDirectory, settings: StoreSettings, seed: UInt64) {
        self.directory = directory
        self.settings = settings
        self.seed = seed
    }

    mutating func run() {
        let start = StoreWriter.milliseconds(CLOCK_MONOTONIC)
        if directory.isKeyUnreadable {
            statistics.opening.unreadablePath = directory.path + "/key"
            return
        }
        openSegments()
        if let unreadable, directory.isWritable {
            statistics.opening.unreadablePath = unreadable.path
            directory.refuseWrites(unreadable.code)
        }
        if directory.isWritable { for path in unusable + ["\(directory.path)/\(ResponseStore.copyName)"] { unlink(path) } }
        if let snapshot = IndexSnapshot.read(directory: directory.path, segments: segments, seed: seed) {
            index = snapshot.index
            end = snapshot.end
            statistics.opening.isFromSnapshot = true
        } else {
            scan()
        }
        // The segment may contain removals and marks.
        if unreadable != nil { index.markAllStale() }
        leaveOutOldest()
        // The snapshot is valid for this start only, because the first write makes it outdated.
        if directory.isWritable { IndexSnapshot.remove(directory: directory.path) }
        statistics.opening.entries = index.count
        statistics.opening.milliseconds = Int(StoreWriter.milliseconds(CLOCK_MONOTONIC) - start)
    }

    /// Opens the store with the index of another process that still uses the directory. Writes and removes nothing.
    /// - Returns: whether the index can be used.
    mutating func run(inherited index: borrowing Descriptor) -> Bool {
        guard let known = IndexSnapshot.endOfHanded(index) else { return false }
        // The other process may be creating later segments. Segments over the limit are not removed while it writes.
        openSegments(upTo: known)
        guard unreadable == nil else { return false }
        guard let snapshot = IndexSnapshot.readHanded(index, segments: segments, seed: seed) else { return false }
        self.index = snapshot.index
        end = snapshot.end
        statistics.opening.isFromSnapshot = true
        statistics.opening.entries = snapshot.index.count
        return true
    }

    /// Applies what the other process has written, created and evicted since it offered its index.
    /// - Parameters:
    ///   - start: end of the known records.
    ///   - end: end of all records.
    mutating func readOn(from start: StoreWriter.Position, to end: StoreWriter.Position) {
        let numbers = directory.segmentNumbers()
        let there = Set(numbers)
        let before = segments.oldest?.number
        while let oldest = segments.oldest, !there.contains(oldest.number) { _ = segments.removeOldest() }
        let newest = segments.newest?.number ?? 0
        for number in numbers where number > newest && number <= end.segment {
            if let segment = try? Segment(opening: number, in: directory.path, isWritable: true) { segments.append(segment) }
        }
        for segment in segments where segment.number >= start.segment && segment.number <= end.segment {
            let first = segment.number == start.segment ? start.offset : 0
            let last = segment.number == end.segment ? end.offset : segment.size
            if first < last { scan(segment, first..<last) }
        }
        doubtWhatIsBeforeDamage()
        if segments.oldest?.number != before { index.removeAll { segments[$0.segment] == nil } }
        leaveOutOldest()
        self.end = end
    }

    private mutating func openSegments(upTo last: UInt64 = .max) {
        let (numbers, error) = directory.listSegments()
        if error != 0 { unreadable = Segment.WriteError(code: error, path: directory.path) }
        for number in numbers where number <= last {
            do throws(Segment.OpeningError) {
                segments.append(try Segment(opening: number, in: directory.path, isWritable: directory.isWritable))
            } catch {
                switch error {
                case .noSegment: unusable.append(Segment.path(number, directory.path))
                case .failed(let failure): unreadable = unreadable ?? failure
                }
            }
        }
        end.segment = segments.newest?.number ?? 0
    }

    /// Removes the oldest segments until the size is within the limit. The limit may have been reduced, or the segment size changed.
    /// Tombstones in removed segments are written again, as in eviction, because older items may have been written again after them.
    private mutating func leaveOutOldest() {
        guard directory.isWritable, segments.bytes > settings.segmentsBytes else { return }
        let all = segments
        while segments.bytes > settings.segmentsBytes { leftOut.segments.append(segments.removeOldest()) }
        var needed: [IndexEntry] = []
        index.visitAll { if $0.flags & IndexEntry.needed != 0, segments[$0.segment] == nil { needed.append($0) } }
        statistics.opening.overLimit = index.count
        index.removeAll { segments[$0.segment] == nil }
        statistics.opening.overLimit -= index.count + needed.count
        statistics.evicted += statistics.opening.overLimit
        let kept = needed.compactMap { entry in
            all[entry.segment].flatMap { PendingItem(entry, in: $0, seed: seed) }
                .map { entry.flags & IndexEntry.markedStale == 0 ? $0 : PendingItem(markingStale: $0) }
        }
        leftOut.kept = kept.map { .item($0) }
        let lost = needed.count - kept.count
        guard lost > 0 else { return }
        statistics.damaged += lost
        statistics.opening.damagedSpans += lost
        index.markAllStale()
        leftOut.kept.append(.staleAll)
    }

    private mutating func scan() {
        var count = 0
        let all = Array(segments)
        let recorded = all.map { $0.recordedSize(seed: seed) }
        for (position, segment) in all.enumerated() {
            // Numbers increase by one, so a file is missing here, unless it could not be opened.
            if unreadable == nil, position > 0, all[position - 1].number + 1 != segment.number {
                noteDamage(at: .init(segment: segment.number, offset: 0))
            }
            let found = scan(segment)
            count += found.records
            let others = [
                all[..<position].indices.last { recorded[$0] == nil }, all[(position + 1)...].indices.first { recorded[$0] == nil },
            ]
            let isCut = recorded[position].map { segment.size < $0 } ?? isCut(segment, beside: others.compactMap { $0.map { all[$0] } })
            if found.records > 0, isCut {
                noteDamage(at: .init(segment: segment.number, offset: segment.size))
            }
            end = StoreWriter.Position(segment: segment.number, offset: found.end)
        }
        statistics.opening.hasForeignRecords =
            count == 0 && segments.contains { RecordHeader.coding(at: $0.base) != nil }
        // If no record is readable, `hasForeignRecords` or `hasLostKey` reports the reason.
        if count > 0 { doubtWhatIsBeforeDamage() }
    }
}

extension StoreRecovery {
    /// Applies the records of a segment.
    @discardableResult
    private mutating func scan(_ segment: Segment, _ range: Range<Int>? = nil) -> SegmentScan {
        var unreadableMarks: [Int] = []
        let found = SegmentScan.forEachRecord(in: segment, range, seed: seed) { header, offset in
            switch header.kind {
            case .item where header.hash == .zero:
                if SegmentScan.content(of: header, in: segment, at: offset, seed: seed) == .whole {
                    WrittenNote.forEach(in: segment, at: offset, header) { index.setWritten($0) }
                }
            case .item:
                let indexEntry = IndexEntry(
                    hash: header.hash, segment: segment.number, byteOffset: offset, isMarkedStale: header.isMarkedStale,
                    isNeeded: header.retention.isNeeded, note: header.note)
                guard header.retention.isNeeded else {
                    index.set(indexEntry)
                    break
                }
                switch SegmentScan.content(of: header, in: segment, at: offset, seed: seed) {
                case .whole: index.set(indexEntry)
                case .cutShort: break
                case .damaged: unreadableMarks.append(offset)
                }
            case .removal: index.remove(header.hash)
            case .clearing: index = IndexTable()
            case .staleMark: _ = index.markStale(header.hash)
            case .staleAll: index.markAllStale()
            }
        }
        if let last = [found.damage.last?.upperBound, unreadableMarks.last].compactMap(\.self).max() {
            noteDamage(found.damage.count + unreadableMarks.count, at: .init(segment: segment.number, offset: last))
        }
        return found
    }

    /// Whether the file may have been truncated. A file without a record of its size had the configured segment size when it was created.
    /// The files after it usually have that size too.
    private func isCut(_ segment: Segment, beside others: [Segment]) -> Bool {
        let sizes = [settings.segmentBytes] + others.map(\.size)
        return !sizes.contains(segment.size) && sizes.contains { $0 > segment.size }
    }

    private mutating func noteDamage(_ spans: Int = 1, at position: StoreWriter.Position) {
        damage = ((damage?.spans ?? 0) + spans, position)
    }

    /// Marks all items before the last damage as stale, because a removal or a mark may be lost. Later items are unaffected.
    private mutating func doubtWhatIsBeforeDamage() {
        guard let damage else { return }
        index.markStale(before: damage.last)
        statistics.damaged += damage.spans
        statistics.opening.damagedSpans += damage.spans
    }
}

/// Segments that exceed the limit.
struct LeftOutSegments: Sendable {
    var segments: [Segment] = []
    /// Items and marks that must be written again before the files are removed.
    var kept: [StoreWriter.Work] = []
}

extension PendingItem {
    /// Reads the record of an entry; nil if it cannot be read.
    fileprivate convenience init?(_ entry: IndexEntry, in segment: Segment, seed: UInt64) {
        let address = segment.base + entry.byteOffset
        guard
            let header = RecordHeader(at: address, segment: segment.number, offset: entry.byteOffset, limit: segment.size, seed: seed),
            header.hash == entry.hash
        else { return nil }
        self.init(header, in: segment, at: entry.byteOffset, as: header.retention, seed: seed)
        raiseNote(to: entry.note)
    }
}
