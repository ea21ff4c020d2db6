// How far the log had been followed when: what a response is worth that was asked for at a time.

import Fleet

struct AppliedPositions: Sendable {
    private var entries: [(time: Int64, version: RecordVersion?)] = []

    /// What was asked for before the oldest of them is not shared.
    private static let limit = 4_096

    /// From now on it is so.
    /// - Parameters:
    ///   - version: nil: what others say is not seen.
    ///   - time: of day. Where it goes back all begins anew: what was asked for before has later times, and is not shared.
    mutating func note(_ version: RecordVersion?, at time: Int64) {
        guard entries.last?.version != version || entries.isEmpty else { return }
        if let last = entries.last, time < last.time { entries = [] }
        // Of one millisecond the first counts: what was asked for in it may have gone before the rest.
        if entries.count >= Self.limit { entries.removeFirst(Self.limit / 2) }
        entries.append((time, version))
    }

    /// What held when a request was sent; nil where that is not known.
    func version(before time: Int64) -> RecordVersion? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].time < time { low = middle + 1 } else { high = middle }
        }
        return low == 0 ? nil : entries[low - 1].version
    }
}
