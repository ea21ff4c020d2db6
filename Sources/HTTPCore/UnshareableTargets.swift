// Targets for which collapsing is off, because the last response could not be shared or the upstream failed.

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
