// Simulates freshness lifetimes on the observed fetches: for each candidate, which fetches a stored response would have replaced, and which
// of these responses would have been out of date.

/// The simulated lifetimes.
public enum FreshnessCandidates {
    /// In ascending order.
    public static let seconds: [Int64] = [1, 2, 5, 10, 30, 60, 120, 300, 900, 3_600]

    /// Indices of the greatest candidate that is not above a lifetime, and of the least one that is not below it. They are equal if the
    /// lifetime is a candidate, or beyond all of them.
    public static func nearest(_ lifetime: Int64) -> ClosedRange<Int> {
        let above = seconds.firstIndex { $0 >= lifetime } ?? seconds.count - 1
        let isOutside = seconds[above] <= lifetime || above == 0
        return isOutside ? above...above : above - 1...above
    }
}

/// Effect of a lifetime on a number of fetches.
public struct FreshnessEffect: Sendable, Equatable {
    /// Fetches that a stored response would have replaced.
    public var saved: UInt32 = 0
    /// How many of these responses would have been out of date.
    public var outdated: UInt32 = 0
    /// Upper bound in milliseconds of how long any of them had been out of date.
    public var longest: UInt32 = 0

    public init(saved: UInt32 = 0, outdated: UInt32 = 0, longest: UInt32 = 0) {
        (self.saved, self.outdated, self.longest) = (saved, outdated, longest)
    }

    mutating func add(_ other: FreshnessEffect) {
        saved &+= other.saved
        outdated &+= other.outdated
        longest = max(longest, other.longest)
    }
}

/// The responses that would be stored for one target, one for each candidate.
struct SimulatedCopies {
    private var copies = InlineArray<10, SimulatedCopy>(repeating: SimulatedCopy())

    /// In milliseconds.
    private static let lifetimes = InlineArray<10, UInt32> { UInt32(FreshnessCandidates.seconds[$0] * 1_000) }

    /// - Parameter isForced: whether the fetch takes place regardless of freshness.
    mutating func note(version: UInt32, isForced: Bool, now: UInt32, _ effects: inout InlineArray<10, FreshnessEffect>) {
        let lifetimes = Self.lifetimes
        for index in copies.indices {
            copies[index].note(version: version, lifetime: lifetimes[index], isForced: isForced, now: now, &effects[index])
        }
    }
}

/// The response that would be stored for one target with one lifetime. Times are the lowest 32 bits of milliseconds, which suffice for a
/// target that was used in the last weeks.
struct SimulatedCopy {
    /// Version of its data; 0 if nothing is stored.
    private(set) var version: UInt32 = 0
    private var fetchedAt: UInt32 = 0
    /// Last time when the upstream was seen with this version.
    private var currentAt: UInt32 = 0

    /// Notes a fetch, which shows the upstream's version at this time.
    mutating func note(version: UInt32, lifetime: UInt32, isForced: Bool, now: UInt32, _ effect: inout FreshnessEffect) {
        guard self.version != 0, !isForced, now &- fetchedAt < lifetime else {
            (self.version, fetchedAt, currentAt) = (version, now, now)
            return
        }
        effect.saved &+= 1
        if self.version == version {
            currentAt = now
        } else {
            effect.outdated &+= 1
            effect.longest = max(effect.longest, now &- currentAt)
        }
    }
}
