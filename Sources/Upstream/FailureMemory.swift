// What is remembered of an upstream that fails, so that not every request finds it out again: closed while it answers, open while it does
// not, and then one request is let through from time to time. Pure: the time and the chance are passed in.

/// When an upstream counts as down, and how often it is looked at then. Times are milliseconds.
package struct FailureSettings: Sendable {
    /// Failures in a row that open.
    package var threshold = 5
    /// Percentage of failures within the window that opens.
    package var rate = 50
    /// Exchanges within the window below which the rate says nothing.
    package var minimum = 20
    package var window: Int64 = 10_000
    /// From one request that is let through to the next; doubles with each that fails, up to the limit.
    package var recheck: Int64 = 1_000
    package var recheckLimit: Int64 = 30_000
    /// Longest Retry-After that is obeyed.
    package var retryAfterLimit: Int64 = 300_000

    package init() {}
}

package enum UpstreamState: Int, Sendable, CaseIterable {
    case closed, open, halfOpen

    package var label: String {
        switch self {
        case .closed: "closed"
        case .open: "open"
        case .halfOpen: "half_open"
        }
    }
}

package struct FailureMemory: Sendable {
    package enum Admission: Sendable, Equatable {
        case go
        /// As `go`; what comes of it decides whether the upstream is up again.
        case probe
        /// Not before so many milliseconds.
        case wait(Int64)
    }

    package let settings: FailureSettings
    package private(set) var state = UpstreamState.closed
    private var failuresInRow = 0
    private var buckets = [Bucket](repeating: Bucket(), count: FailureMemory.bucketCount)
    private var interval: Int64 = 0
    private var nextProbe: Int64 = 0

    /// The window is kept in so many parts.
    private static let bucketCount = 10

    private struct Bucket: Sendable {
        var number: Int64 = -1
        var exchanges = 0
        var failures = 0
    }

    package init(_ settings: FailureSettings) { self.settings = settings }

    /// Whether a request may be sent at `now`.
    package mutating func admit(now: Int64) -> Admission {
        guard state != .closed else { return .go }
        guard now >= nextProbe else { return .wait(nextProbe - now) }
        // A probe that never reports stops nothing: the next one goes an interval later.
        state = .halfOpen
        nextProbe = now + interval
        return .probe
    }

    /// The upstream has answered. Returns whether the state changed.
    @discardableResult
    package mutating func succeeded(now: Int64) -> Bool {
        failuresInRow = 0
        guard state != .closed else {
            note(now, isFailure: false)
            return false
        }
        state = .closed
        buckets = [Bucket](repeating: Bucket(), count: Self.bucketCount)
        return true
    }

    /// The upstream has failed.
    /// - Parameters:
    ///   - retryAfter: milliseconds that it asked to be left alone for.
    ///   - chance: from 0 to 1: spreads the times at which several proxies look again.
    /// - Returns: whether the state changed.
    @discardableResult
    package mutating func failed(now: Int64, retryAfter: Int64? = nil, chance: Double) -> Bool {
        failuresInRow += 1
        note(now, isFailure: true)
        // None at all where it may come at once, or where such wishes are not obeyed.
        let wish = retryAfter.map { min($0, settings.retryAfterLimit) }.flatMap { $0 > 0 ? $0 : nil }
        switch state {
        case .closed:
            guard wish != nil || failuresInRow >= settings.threshold || isRateReached(now) else { return false }
            interval = settings.recheck
            open(now, wish, chance)
            return true
        case .halfOpen:
            interval = min(interval * 2, settings.recheckLimit)
            open(now, wish, chance)
            return true
        case .open:
            // An answer to a request sent before: it tells nothing new, except how long to wait.
            if let wish { nextProbe = max(nextProbe, now + wish) }
            return false
        }
    }

    private mutating func open(_ now: Int64, _ wish: Int64?, _ chance: Double) {
        state = .open
        let spread = Int64(Double(interval) * 0.2 * chance)
        nextProbe = now + max(interval + spread, wish ?? 0)
    }

    private mutating func note(_ now: Int64, isFailure: Bool) {
        let number = now / max(1, settings.window / Int64(Self.bucketCount))
        let place = Int(number % Int64(Self.bucketCount))
        if buckets[place].number != number { buckets[place] = Bucket(number: number) }
        buckets[place].exchanges += 1
        if isFailure { buckets[place].failures += 1 }
    }

    private func isRateReached(_ now: Int64) -> Bool {
        let newest = now / max(1, settings.window / Int64(Self.bucketCount))
        var exchanges = 0
        var failures = 0
        for bucket in buckets where bucket.number > newest - Int64(Self.bucketCount) {
            exchanges += bucket.exchanges
            failures += bucket.failures
        }
        return exchanges >= settings.minimum && failures * 100 >= settings.rate * exchanges
    }
}
