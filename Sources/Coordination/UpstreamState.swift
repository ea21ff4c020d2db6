// The state of one upstream as all outputs report it: up, failing, down or unknown. It follows from how attempts end, never from silence, and decides
// nothing: what a request gets is the failure memory's matter. Pure: the time is an argument, in milliseconds of the clock that is never set.
//
// - *Down*: the address cannot be reached, or all attempts of a run failed. The run must be so long that the known share of failures does not
//   explain it.
// - *Failing*: attempts fail and succeed in turns, which a short outage does not do. It ends after so many successes that the known share of
//   failures would have shown.
// - *Unknown*: nothing was asked for, or, since it was down, nothing for five minutes. The latter still counts as down.

import Telemetry

struct UpstreamState: Sendable {
    /// Failed attempts without a success after which an upstream is down: at least, at most, and while no other failure is known.
    static let shortestRun = 5
    static let firstRun = 7
    static let longestRun = 200
    /// Time after the last attempt in which down becomes unknown.
    static let silence: Int64 = 300_000
    /// Time without an attempt after which Cistern looks at an upstream that is down.
    static let lookInterval: Int64 = 60_000
    /// Failures in a row after which Cistern looks whether anything else succeeds.
    static let suspiciousRun = 5
    /// The share of failures, their number, and the number of runs of them, from which on an upstream is failing.
    static let failingShare = 0.05
    static let failures = 3.0
    static let failingRuns = 3
    /// Minimum time since the last failure after which failing ends, and the time after which few successes suffice.
    static let calm: Int64 = 30_000
    static let longCalm: Int64 = 300_000
    static let fewSuccesses = 20

    /// Good and bad attempts, the older ones with less weight.
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

        /// How many attempts in a row end alike by chance no more often than in one of e^`improbability` cases.
        /// - Parameter share: of the attempts that end so; not 0.
        static func run(of share: Double, improbability: Double) -> Int {
            // -ln(1 - x) as a series: this module does not import the C library.
            var (sum, power) = (0.0, 1.0)
            for exponent in 1...1_200 where power > 1e-9 {
                power *= 1 - share
                sum += power / Double(exponent)
            }
            return Int((improbability / sum).rounded(.up))
        }
    }

    /// Why Cistern looks at the upstream itself.
    enum Look: Sendable, Equatable {
        case due
        /// Not before this many milliseconds.
        case notYet(Int64)
        /// There is nothing to look for.
        case over
    }

    private(set) var report = UpstreamReport()
    /// Minimum duration of a run of failures after which the upstream is down.
    private let window: Int64
    /// All attempts but those of the present run, and those while it was down.
    private var known = Share()
    /// Attempts since the first failure of the present period.
    private var period = Share()
    private var periodSince: Int64?
    /// Runs of failures in this period, and when the last one began. One or two are an outage with its late failures, and more are an upstream
    /// that fails in part.
    private var runs = 0
    private var lastRunAt = Int64.min
    /// Failed attempts in a row.
    private var run: Int {
        get { report.failuresInARow }
        set { report.failuresInARow = newValue }
    }
    /// When the first of them ended.
    private var runSince = Int64.min
    private var successes = 0
    private var failedAt = Int64.min
    private var wasFailing = false
    private var isAddressOpen = false
    private var isRouteOpen = false
    private var lookedAt = Int64.min
    /// The address can be reached again: a look tells whether it responds.
    private var looksNow = false

    init(window: Int64) { self.window = window }

    // MARK: Attempts

    /// A good response came, whole.
    /// - Parameter began: when the request was sent.
    mutating func succeed(began: Int64, now: Int64) {
        if report.isDown {
            // A response to a request from before says nothing of now.
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

    /// An attempt failed: a response came that is a failure, or none.
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
            // Something succeeded while it was under way.
            known.add(bad: 1)
            if isBehindSuccess, runs == 0 || now - lastRunAt >= window { (runs, lastRunAt) = (runs + 1, now) }
        }
        consider(now)
    }

    /// What the failure memory knows has changed.
    mutating func note(isAddressOpen: Bool, isRouteOpen: Bool, now: Int64) {
        looksNow = looksNow || (self.isAddressOpen && !isAddressOpen)
        (self.isAddressOpen, self.isRouteOpen) = (isAddressOpen, isRouteOpen)
        consider(now)
    }

    /// Time has passed.
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
            (lookedAt, looksNow) = (now, false)
        } else if report.state != .failing, isFailing(now) {
            if periodSince == nil { (periodSince, period, runs) = (now, Share(), 0) }
            (report.state, report.since) = (.failing, periodSince ?? now)
        }
    }

    private func isFailing(_ now: Int64) -> Bool {
        // A route that is still open after an outage of the whole has not failed since.
        if isRouteOpen, report.state == .up, failedAt > report.respondedAt ?? .min { return true }
        // All of a long run failed, and earlier failures may explain that.
        if run >= Self.firstRun, now - runSince >= Self.lookInterval, known.bad > 0 { return true }
        guard report.state == .up, runs >= Self.failingRuns, period.bad >= Self.failures, period.good >= 1 else { return false }
        return period.ofFailures >= Self.failingShare
    }

    /// With one failure in a thousand million runs by chance.
    private var neededRun: Int {
        let (bad, total) = (max(0, period.bad - Double(run)), max(0, period.total - Double(run)))
        let shares = [(known.bad, known.total), (bad, total)].filter { $0.0 >= 0.5 }.map { ($0.0 + 2) / ($0.1 + 2) }
        // While no failure is known, few attempts do not tell how many fail.
        guard let share = shares.max() else {
            return min(max(Share.run(of: 1 / (known.total + 2), improbability: 20.7), Self.shortestRun), Self.firstRun)
        }
        return min(max(Share.run(of: min(share, 0.9), improbability: 20.7), Self.shortestRun), Self.longestRun)
    }

    private func hasEnded(_ now: Int64) -> Bool {
        guard !isRouteOpen, !report.isDown, now - failedAt >= Self.calm else { return false }
        if now - failedAt >= Self.longCalm, successes >= Self.fewSuccesses { return true }
        // The share until the last failure: the present successes would make themselves count for less.
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
        looksNow = false
        guard wasFailing else { return end() }
        (report.state, report.since) = (.failing, periodSince)
    }

    // MARK: Looking

    /// Whether a look may be due now or later.
    var isSuspicious: Bool { report.isDown || run >= Self.suspiciousRun }

    /// Whether Cistern should ask for something itself now.
    func look(now: Int64) -> Look {
        let wait: Int64
        if report.isDown {
            if looksNow { return .due }
            let last = max(report.attemptedAt ?? .min, lookedAt)
            wait = last == .min ? 0 : last + Self.lookInterval - now
        } else {
            guard isSuspicious else { return .over }
            wait = lookedAt == .min ? 0 : lookedAt + window / 2 - now
        }
        return wait <= 0 ? .due : .notYet(wait)
    }

    /// A look was sent.
    mutating func noteLook(now: Int64) { (lookedAt, looksNow) = (now, false) }

    /// The state that another process, or the same upstream under other settings, has left: nothing is known by own evidence.
    mutating func inherit(_ former: UpstreamReport) {
        guard report.isUnasked, former.isDown else { return }
        report = former
        (report.state, report.wasDown) = (.unknown, true)
    }
}
