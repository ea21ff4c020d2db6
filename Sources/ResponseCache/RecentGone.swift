// What was remembered as gone within the window, to be lifted if it turns out that a crowd of 404 is not to be believed. Bounded in number and
// bytes: where more come, the oldest stays remembered and is not lifted with the others. A step costs nothing that grows with the number.

struct RecentGone {
    private struct Entry {
        let time: Int64
        let target: UInt64
        let key: [UInt8]
    }

    /// As many as `GoneWatch` can count.
    static let limit = 4_096
    static let limitBytes = 4 << 20

    private let window: Int64
    private var entries: [Entry] = []
    /// Those before it are forgotten.
    private var first = 0
    private var bytes = 0

    /// - Parameter window: milliseconds.
    init(window: Int64) { self.window = window }

    var count: Int { entries.count - first }

    /// - Parameters:
    ///   - target: a number for it.
    ///   - now: milliseconds of the loops' clock.
    /// - Returns: how many were forgotten before their time.
    mutating func add(_ key: [UInt8], of target: UInt64, now: Int64) -> Int {
        while count > 0, now - entries[first].time >= window { forgetFirst() }
        var forgotten = 0
        while count > 0, count >= Self.limit || bytes + key.count > Self.limitBytes {
            forgetFirst()
            forgotten += 1
        }
        entries.append(Entry(time: now, target: target, key: key))
        bytes += key.count
        if first > Self.limit {
            entries.removeFirst(first)
            first = 0
        }
        return forgotten
    }

    /// Takes out those whose target fits; returns their keys.
    mutating func take(now: Int64, where fits: (UInt64) -> Bool) -> [[UInt8]] {
        let recent = entries[first...].filter { now - $0.time < window }
        let taken = recent.filter { fits($0.target) }
        entries = recent.filter { !fits($0.target) }
        first = 0
        bytes = entries.reduce(0) { $0 + $1.key.count }
        return taken.map(\.key)
    }

    private mutating func forgetFirst() {
        bytes -= entries[first].key.count
        first += 1
    }
}
