// The segments that there are, oldest first. Their numbers rise, mostly by one, so that a number leads to its place at once.

/// Found by its number at every look-up: a dictionary took as long as finding the key did.
struct SegmentList: Sendable {
    private var segments: [Segment] = []

    var count: Int { segments.count }
    var isEmpty: Bool { segments.isEmpty }
    var oldest: Segment? { segments.first }
    var newest: Segment? { segments.last }
    /// Of all files.
    private(set) var bytes = 0

    subscript(number: UInt64) -> Segment? {
        guard let first = segments.first, number >= first.number else { return nil }
        // What names the number may be damaged: it can be any.
        let place = number - first.number
        if place < segments.count, segments[Int(place)].number == number { return segments[Int(place)] }
        // One before it is missing.
        var (low, high) = (0, segments.count)
        while low < high {
            let middle = (low + high) / 2
            if segments[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < segments.count && segments[low].number == number ? segments[low] : nil
    }

    /// - Parameter segment: with a higher number than all others.
    mutating func append(_ segment: Segment) {
        segments.append(segment)
        bytes += segment.size
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
