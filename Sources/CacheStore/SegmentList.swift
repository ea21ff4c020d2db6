// The existing segments, oldest first. Their numbers increase, mostly by one, so a number leads directly to an index in the array.

/// Segments by number. An array, because every lookup needs it and a dictionary took as long as the lookup of the key itself.
struct SegmentList: Sendable {
    private var segments: [Segment] = []

    var count: Int { segments.count }
    var isEmpty: Bool { segments.isEmpty }
    var oldest: Segment? { segments.first }
    var newest: Segment? { segments.last }
    /// Total bytes of all files.
    private(set) var bytes = 0

    subscript(number: UInt64) -> Segment? {
        guard let first = segments.first, number >= first.number else { return nil }
        // The number may come from a damaged entry and have any value.
        let index = number - first.number
        if index < segments.count, segments[Int(index)].number == number { return segments[Int(index)] }
        // Numbers are missing, so a binary search is needed.
        var (low, high) = (0, segments.count)
        while low < high {
            let middle = (low + high) / 2
            if segments[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < segments.count && segments[low].number == number ? segments[low] : nil
    }

    /// - Parameter segment: must have a higher number than all others.
    mutating func append(_ segment: Segment) {
        segments.append(segment)
        bytes += segment.size
    }

    /// Replaces the segment with this number by a copy of equal size.
    mutating func replace(_ copy: Segment) {
        if let index = segments.firstIndex(where: { $0.number == copy.number }) { segments[index] = copy }
    }

    mutating func removeNewest() {
        if let newest = segments.popLast() { bytes -= newest.size }
    }

    mutating func removeOldest() -> Segment {
        let oldest = segments.removeFirst()
        bytes -= oldest.size
        return oldest
    }
}

extension SegmentList: Sequence {
    func makeIterator() -> IndexingIterator<[Segment]> { segments.makeIterator() }
}
