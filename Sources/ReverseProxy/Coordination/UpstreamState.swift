// The state of one upstream as all outputs report it: up, failing, down or unknown. Attempts change it; a time without attempts only turns
// *down* into *unknown*. It affects no request: the failure memory decides which requests are sent. Pure: the time is an argument, in
// milliseconds of the monotonic clock.

import Figures
import Upstream

/// The state machine of one upstream.
///
/// - *Down*: the address cannot be reached, or all attempts of a run failed and the known failure rate does not explain the run's length.
/// - *Failing*: some attempts fail and others succeed, for longer than a short outage. It ends after a run of successes that the known
///   failure rate does not explain.
/// - *Unknown*: there was no attempt yet, or none for five minutes after *down*. The latter still counts as down.
struct UpstreamState: Sendable {
    /// Consecutive failures after which an upstream is down: the minimum, the maximum while no other failure is known, and the maximum
    /// otherwise.
    static let shortestRun = 5
    static let firstRun = 7
    static let longestRun = 200
    /// Time after the last attempt after which *down* becomes *unknown*.
    static let silence: Int64 = 300_000
    /// Time without an attempt after which a health check of an upstream that is down is due.
    static let checkInterval: Int64 = 60_000
    /// Consecutive failures after which a health check is due.
    static let suspiciousRun = 5
    /// Minimum share of failures, number of failures, and number of runs of failures for *failing*.
    static let failingShare = 0.05
    static let failures = 3.0
    static let failingRuns = 3
    /// Minimum time since the last failure before *failing* ends, and the time after which `fewSuccesses` suffice.
    static let calm: Int64 = 30_000
    static let longCalm: Int64 = 300_000
    static let fewSuccesses = 20

    /// Good and bad attempts, weighted by recency.
    private struct Share {
        private static let limit = 256.0
        private(set) var good = 0.0
        private(set) var bad = 0.0

        var total: Double { good + bad }
        var ofFailures: Double { total == 0 ? 0 : bad / total }

        mutating func add(good: Double = 0, bad: Double = 0) {
            self.good += good
            self.bad += bad
            guard total > Self.limit else { return }
            self.good /= 2
            self.bad /= 2
        }

        /// Minimum length of a run of equal outcomes that has a probability of at most e^-`improbability`.
        /// - Parameter share: the share of attempts with that outcome; not 0.
        static func run(of share: Double, improbability: Double) -> Int {
            // -ln(1 - x) as a series, because this module does not import the C library.
            var (sum, power) = (0.0, 1.0)
            for exponent in 1...1_200 where power > 1e-9 {
                power *= 1 - share
                sum += power / Double(exponent)
            }
            return Int((improbability / sum).rounded(.up))
        }
    }

    private(set) var report = UpstreamReport()
    /// Minimum duration of a run of failures after which the upstream is down.
    private let window: Int64
    /// All attempts except those of the current run and those while the upstream was down.
    private var known = Share()
    /// Attempts since the first failure of the current period.
    private var period = Share()
    private var periodSince: Int64?
    /// Number of runs of failures in this period, and the start of the last one. An outage usually causes one or two runs, because late
    /// failures follow a success. More runs indicate that a part of the upstream fails.
    private var runs = 0
    private var lastRunAt = Int64.min
    /// Consecutive failed attempts.
    private var run: Int {
        get { report.failuresInARow }
        set { report.failuresInARow = newValue }
    }
    /// End of the first attempt of the current run.
    private var runSince = Int64.min
    private var successes = 0
    private var failedAt = Int64.min
    private var wasFailing = false
    private var isAddressOpen = false
    private var isRouteOpen = false
    private var checkedAt = Int64.min
    /// True if the address is reachable again, so that a health check is due.
    private var checksNow = false

    init(window: Int64) { self.window = window }

    // MARK: Attempts

    /// Records a complete good response.
    /// - Parameter began: time at which the request was sent.
    mutating func succeed(began: Int64, now: Int64) {
        if report.isDown {
            // A request that was sent before the outage is not evidence for a recovery.
            guard began >= report.since ?? .min else { return }
            recover()
        }
        (report.respondedAt, report.attemptedAt) = (now, now)
        known.add(good: 1, bad: Double(run))
        (run, successes) = (0, successes + 1)
        if report.state == .unknown { report.state = .up }
        if report.state == .up { report.cause = nil }
        guard periodSince != nil else { return }
        period.add(good: 1)
        if hasEnded(now) { end() }
    }

    /// Records a failed attempt: an error response, or none.
    mutating func fail(_ cause: String, began: Int64, now: Int64) {
        let isBehindSuccess = successes > 0
        (report.attemptedAt, report.cause, failedAt, successes) = (now, cause, now, 0)
        guard !report.isDown else {
            (report.state, report.wasDown) = (.down, false)
            return
        }
        if periodSince == nil { (periodSince, period, runs) = (now, Share(), 0) }
        period.add(bad: 1)
        if began >= report.respondedAt ?? .min {
            if run == 0 { (runSince, runs, lastRunAt) = (now, runs + 1, now) }
            run += 1
        } else {
            // Another request succeeded during this attempt.
            known.add(bad: 1)
            if isBehindSuccess, runs == 0 || now - lastRunAt >= window { (runs, lastRunAt) = (runs + 1, now) }
        }
        consider(now)
    }

    /// Records a change of the failure memory.
    mutating func note(isAddressOpen: Bool, isRouteOpen: Bool, now: Int64) {
        checksNow = checksNow || (self.isAddressOpen && !isAddressOpen)
        (self.isAddressOpen, self.isRouteOpen) = (isAddressOpen, isRouteOpen)
        consider(now)
    }

    /// Updates the state by the elapsed time.
    mutating func pass(now: Int64) {
        guard report.state == .down, now - (report.attemptedAt ?? now) >= Self.silence else { return }
        (report.state, report.wasDown) = (.unknown, true)
    }

    // MARK: States

    private mutating func consider(_ now: Int64) {
        guard !report.isDown else { return }
        if isAddressOpen || (run >= Self.shortestRun && now - runSince >= window && run >= neededRun) {
            wasFailing = report.state == .failing
            (report.state, report.since) = (.down, run > 0 ? runSince : now)
            (checkedAt, checksNow) = (now, false)
        } else if report.state != .failing, isFailing(now) {
            if periodSince == nil { (periodSince, period, runs) = (now, Share(), 0) }
            (report.state, report.since) = (.failing, periodSince ?? now)
        }
    }

    private func isFailing(_ now: Int64) -> Bool {
        // After an outage of the whole upstream, a route may still be open without a new failure.
        if isRouteOpen, report.state == .up, failedAt > report.respondedAt ?? .min { return true }
        // Earlier failures may explain a long run of failures.
        if run >= Self.firstRun, now - runSince >= Self.checkInterval, known.bad > 0 { return true }
        guard report.state == .up, runs >= Self.failingRuns, period.bad >= Self.failures, period.good >= 1 else { return false }
        return period.ofFailures >= Self.failingShare
    }

    /// Minimum length of a run of failures that the known failure rate explains with a probability of at most 10⁻⁹.
    private var neededRun: Int {
        let (bad, total) = (max(0, period.bad - Double(run)), max(0, period.total - Double(run)))
        let shares = [(known.bad, known.total), (bad, total)].filter { $0.0 >= 0.5 }.map { ($0.0 + 2) / ($0.1 + 2) }
        // Without a known failure, few attempts are not enough to estimate the failure rate.
        guard let share = shares.max() else {
            return min(max(Share.run(of: 1 / (known.total + 2), improbability: 20.7), Self.shortestRun), Self.firstRun)
        }
        return min(max(Share.run(of: min(share, 0.9), improbability: 20.7), Self.shortestRun), Self.longestRun)
    }

    private func hasEnded(_ now: Int64) -> Bool {
        guard !isRouteOpen, !report.isDown, now - failedAt >= Self.calm else { return false }
        if now - failedAt >= Self.longCalm, successes >= Self.fewSuccesses { return true }
        // The failure rate up to the last failure. Including later successes would lower the number of successes required.
        let before = period.bad / max(period.bad, period.total - Double(successes), 1)
        let share = min(max(before, Self.failingShare), 0.75)
        return successes >= Share.run(of: 1 - share, improbability: 13.8)
    }

    private mutating func end() {
        (report.state, report.since, report.cause) = (.up, nil, nil)
        (periodSince, period, runs) = (nil, Share(), 0)
    }

    private mutating func recover() {
        report.wasDown = false
        checksNow = false
        guard wasFailing else { return end() }
        (report.state, report.since) = (.failing, periodSince)
    }

    // MARK: Health checks

    /// Whether a health check may be due now or later.
    var isSuspicious: Bool { report.isDown || run >= Self.suspiciousRun }

    /// Whether Cistern should send a health check now. It is not recorded as sent.
    func check(now: Int64) -> FailureMemory.CheckState {
        let wait: Int64
        if report.isDown {
            if checksNow { return .due }
            let last = max(report.attemptedAt ?? .min, checkedAt)
            wait = last == .min ? 0 : last + Self.checkInterval - now
        } else {
            guard isSuspicious else { return .over }
            wait = checkedAt == .min ? 0 : checkedAt + window / 2 - now
        }
        return wait <= 0 ? .due : .notYet(wait)
    }

    mutating func noteCheck(now: Int64) { (checkedAt, checksNow) = (now, false) }

    /// Adopts the state of another process, or from before a reload. An own attempt must confirm it.
    mutating func inherit(_ former: UpstreamReport) {
        guard report.isUnasked, former.isDown else { return }
        report = former
        (report.state, report.wasDown) = (.unknown, true)
    }
}
