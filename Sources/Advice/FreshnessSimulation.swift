// Simulates freshness lifetimes on the observed fetches: for each candidate, which fetches a stored response would have replaced, and which
// of these responses would have been out of date.

/// The simulated lifetimes.
public enum FreshnessCandidates {
    /// In ascending order.
    public static let seconds: [Int64] = [1, 2, 5, 10, 30, 60, 300, 900]

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
}

/// The effects of all candidates, by index.
struct FreshnessEffects {
    var saved = SIMD8<UInt32>()
    var outdated = SIMD8<UInt32>()
    var longest = SIMD8<UInt32>()

    subscript(index: Int) -> FreshnessEffect {
        get { FreshnessEffect(saved: saved[index], outdated: outdated[index], longest: longest[index]) }
        set { (saved[index], outdated[index], longest[index]) = (newValue.saved, newValue.outdated, newValue.longest) }
    }

    mutating func add(_ other: FreshnessEffects) {
        saved &+= other.saved
        outdated &+= other.outdated
        longest = pointwiseMax(longest, other.longest)
    }
}

/// The responses that would be stored for one target, one for each candidate. Times are the lowest 32 bits of milliseconds, which suffice
/// for a target that was used in the last weeks.
struct SimulatedCopies {
    /// Versions of the data; 0 if nothing is stored.
    private var versions = SIMD8<UInt32>()
    private var fetchedAt = SIMD8<UInt32>()
    /// Last times when the upstream was seen with these versions.
    private var currentAt = SIMD8<UInt32>()

    /// In milliseconds.
    private static let lifetimes = SIMD8<UInt32>(FreshnessCandidates.seconds.map { UInt32($0 * 1_000) })

    /// Notes a fetch, which shows the upstream's version at this time.
    /// - Parameters:
    ///   - isForced: whether the fetch takes place regardless of freshness.
    ///   - isStored: whether the response would be stored.
    /// - Returns: for each candidate 1 if its response would have been out of date, otherwise 0.
    mutating func note(
        version: UInt32, isForced: Bool, isStored: Bool = true, now: UInt32, _ effects: inout FreshnessEffects
    ) -> SIMD8<UInt32> {
        let now = SIMD8(repeating: now)
        let isUsed = isForced ? SIMDMask(repeating: false) : (versions .!= 0) .& (now &- fetchedAt .< Self.lifetimes)
        let isCurrent = versions .== version
        let isOutdated = isUsed .& .!isCurrent
        let outdated = SIMD8<UInt32>().replacing(with: 1, where: isOutdated)
        effects.saved &+= SIMD8<UInt32>().replacing(with: 1, where: isUsed)
        effects.outdated &+= outdated
        effects.longest.replace(with: pointwiseMax(effects.longest, now &- currentAt), where: isOutdated)
        currentAt.replace(with: now, where: .!isOutdated)
        fetchedAt.replace(with: now, where: .!isUsed)
        versions.replace(with: isStored ? version : 0, where: .!isUsed)
        return outdated
    }
}
