// Opening a store: from the snapshot of a clean stop, or by walking the record headers of all segments. Whatever was damaged meanwhile
// costs the damaged records and nothing else.

import CSystem
import Descriptors
import Glibc

enum SegmentScan {
    /// Calls `body` with each record whose header is valid, in order; returns the offset behind the last one. Behind a damaged header the
    /// next valid one is looked for: headers are keyed, so nothing else passes for one.
    @discardableResult
    static func forEachRecord(in segment: Segment, seed: UInt64, _ body: (RecordHeader, Int) -> Void) -> Int {
        var offset = 0
        var end = 0
        while offset + RecordHeader.bytes <= segment.size {
            let place = segment.base + offset
            if let header = RecordHeader(at: place, segment: segment.number, offset: offset, limit: segment.size, seed: seed) {
                body(header, offset)
                offset += header.recordBytes
                end = offset
            } else {
                offset += RecordHeader.alignment
            }
        }
        return end
    }
}

struct StoreRecovery {
    let directory: StoreDirectory
    let settings: StoreSettings
    let seed: UInt64
    var index = IndexTable()
    var segments = SegmentList()
    var end = StoreWriter.Position(segment: 0, offset: 0)
    var statistics = StoreStatistics()
    /// What goes once the directory is ours.
    private(set) var leftovers = StoreLeftovers()

    init(directory: StoreDirectory, settings: StoreSettings, seed: UInt64) {
        self.directory = directory
        self.settings = settings
        self.seed = seed
    }

    mutating func run() {
        var before = timespec()
        clock_gettime(CLOCK_MONOTONIC, &before)
        openSegments()
        leaveOutOldest()
        if directory.isWritable { leftovers.remove() }
        if let snapshot = IndexSnapshot.read(directory: directory.path, segments: segments, seed: seed) {
            index = snapshot.index
            end = snapshot.end
            statistics.opening.isFromSnapshot = true
        } else {
            scan()
        }
        // It holds for this start only: after the first write it would be wrong.
        if directory.isWritable { IndexSnapshot.remove(directory: directory.path) }
        var after = timespec()
        clock_gettime(CLOCK_MONOTONIC, &after)
        statistics.opening.entries = index.count
        statistics.opening.milliseconds = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1_000_000
    }

    /// The same with the index of another process, which still reads here: nothing is written, and nothing goes.
    /// - Returns: whether that can be used.
    mutating func run(handed index: borrowing Descriptor) -> Bool {
        openSegments()
        guard let snapshot = IndexSnapshot.read(index, segments: segments, seed: seed) else { return false }
        self.index = snapshot.index
        end = snapshot.end
        leaveOutOldest()
        statistics.opening.isFromSnapshot = true
        statistics.opening.entries = snapshot.index.count
        return true
    }

    private mutating func openSegments() {
        for number in directory.segmentNumbers() {
            guard let segment = Segment(opening: number, in: directory.path, isWritable: directory.isWritable) else {
                leftovers.paths.append(Segment.path(number, directory.path))
                continue
            }
            segments.append(segment)
        }
        end.segment = segments.newest?.number ?? 0
    }

    /// The limit may have been lowered, or segments be of another size: the oldest go until what is left is within it.
    private mutating func leaveOutOldest() {
        guard directory.isWritable else { return }
        while segments.bytes > settings.segmentsBytes { leftovers.segments.append(segments.removeOldest()) }
    }

    private mutating func scan() {
        var count = 0
        for segment in segments {
            let number = segment.number
            let last = SegmentScan.forEachRecord(in: segment, seed: seed) { header, offset in
                count += 1
                switch header.kind {
                case .item:
                    index.set(IndexEntry(hash: header.hash, segment: number, byteOffset: offset, isMarkedStale: header.isMarkedStale))
                case .removal: index.remove(header.hash)
                case .clearing: index = IndexTable()
                case .staleMark: _ = index.markStale(header.hash)
                case .staleAll: index.markAllStale()
                }
            }
            end = StoreWriter.Position(segment: number, offset: last)
        }
        statistics.opening.hasForeignRecords =
            count == 0 && segments.contains { RecordHeader.coding(at: $0.base) != nil }
    }
}

/// Files of a directory that are of no use.
struct StoreLeftovers: Sendable {
    var paths: [String] = []
    var segments: [Segment] = []

    mutating func remove() {
        for path in paths { unlink(path) }
        for segment in segments { segment.removeFile() }
        (paths, segments) = ([], [])
    }
}
