// Requests do not wait for each other if the last response to their target could not be shared, or the upstream failed. This also holds for
// new targets of directories in which no response could be stored.

public struct UnshareableTargets: Sendable {
    /// Maximum number of targets. When the table is full, further targets are not added; requests for them wait for each other.
    public static let limit = 16_384
    /// Maximum number of targets that requests of one client can add, so that no client fills the table.
    public static let clientLimit = 2_048
    /// Factor between the duration of a fetch and the time that its target is remembered. It limits the cost of waiting to a tenth.
    private static let factor: Int64 = 10
    /// Bounds of that time, in milliseconds. Other nodes read a mark within the shortest one.
    private static let shortest: Int64 = 100
    private static let longest: Int64 = 600_000
    /// Minimum interval between removals of expired targets, in milliseconds.
    private static let sweepInterval: Int64 = 100

    private struct Entry: Sendable {
        let end: Int64
        let client: UInt64
    }

    /// If two targets have equal hashes, requests for both are not shared.
    private var entries: [SeededHash: Entry] = [:]
    /// Number of entries of each client.
    private var counts: [UInt64: Int] = [:]
    private var nextSweep = Int64.min

    public init() {}

    public var isEmpty: Bool { entries.isEmpty }

    /// How long a target is remembered.
    /// - Parameter upstream: milliseconds from the request to the response, or to the part of it that forbids sharing.
    public static func milliseconds(upstream: Int64) -> Int64 { min(max(min(upstream, longest) * factor, shortest), longest) }

    /// - Parameters:
    ///   - client: number of the client that requested the response.
    ///   - now: milliseconds of a monotonic clock.
    public mutating func note(_ target: SeededHash, for milliseconds: Int64, by client: UInt64, now: Int64) {
        if let entry = entries[target], entry.client == client {
            entries[target] = Entry(end: now + milliseconds, client: client)
            return
        }
        forget(target)
        if entries.count >= Self.limit || counts[client] ?? 0 >= Self.clientLimit { sweep(now) }
        guard entries.count < Self.limit, counts[client] ?? 0 < Self.clientLimit else { return }
        entries[target] = Entry(end: now + milliseconds, client: client)
        counts[client, default: 0] += 1
    }

    public func contains(_ target: SeededHash, now: Int64) -> Bool {
        guard !entries.isEmpty, let entry = entries[target] else { return false }
        return now < entry.end
    }

    /// Removes a target after a response that could be shared.
    /// - Returns: whether it was there.
    @discardableResult
    public mutating func forget(_ target: SeededHash) -> Bool {
        guard !entries.isEmpty, let entry = entries.removeValue(forKey: target) else { return false }
        let left = (counts[entry.client] ?? 1) - 1
        counts[entry.client] = left > 0 ? left : nil
        return true
    }

    private mutating func sweep(_ now: Int64) {
        guard now >= nextSweep else { return }
        nextSweep = now + Self.sweepInterval
        for (target, entry) in entries where entry.end <= now { forget(target) }
    }
}

/// Directories in which good responses could not be stored.
public struct UnstoredDirectories: Sendable {
    /// Number of different targets that show it. One response that is stored refutes it.
    public static let evidence = 4
    /// Number of slots. A directory overwrites another one in its slot.
    private static let slots = 1_024

    private struct Entry: Sendable {
        var directory: UInt64 = 0
        /// Hashes of the last targets; the oldest is replaced first.
        var targets = InlineArray<4, UInt64>(repeating: 0)
        var count = 0
        var client: UInt64 = 0
        /// Whether the targets were requested by several clients. What one client requests has no effect on others.
        var isOfSeveral = false
    }

    /// Empty until the first record.
    private var entries: [Entry] = []

    public init() {}

    private static func slot(_ directory: UInt64) -> Int { Int(directory % UInt64(slots)) }

    /// Records a good response.
    /// - Parameter client: number of the client that requested it.
    public mutating func note(_ target: SeededHash, in directory: UInt64, isStored: Bool, by client: UInt64) {
        let slot = Self.slot(directory)
        guard !isStored else {
            if !entries.isEmpty, entries[slot].directory == directory { entries[slot] = Entry() }
            return
        }
        if entries.isEmpty { entries = [Entry](repeating: Entry(), count: Self.slots) }
        var entry = entries[slot]
        if entry.directory != directory || entry.count == 0 {
            entry = Entry()
            (entry.directory, entry.client) = (directory, client)
        }
        if entry.client != client { entry.isOfSeveral = true }
        let isKnown = (0..<min(entry.count, Self.evidence)).contains { entry.targets[$0] == target.value }
        if !isKnown {
            entry.targets[entry.count % Self.evidence] = target.value
            entry.count += 1
        }
        entries[slot] = entry
    }

    public func contains(_ directory: UInt64, for client: UInt64) -> Bool {
        guard !entries.isEmpty else { return false }
        let entry = entries[Self.slot(directory)]
        return entry.directory == directory && entry.count >= Self.evidence && (entry.isOfSeveral || entry.client == client)
    }
}
