// The scopes of failure with their recorded attempts: the address, single keys, and the wide scopes (the upstream, each configured route).
// Plain values; `FailureMemory` makes the decisions.

import HTTPCore

public enum FailureScopeKind: String, Sendable, CaseIterable {
    /// Host and port cannot be reached.
    case address
    /// Every request to the upstream fails.
    case upstream
    /// Every request on a configured route fails.
    case route
    /// One exact request of one partition fails.
    case key
    /// The upstream asked one client to pause requests for one key.
    case pause

    /// Label for metrics and for `detail` in Cache-Status (the first one is from RFC 9209 §2.3.2).
    public var label: String {
        switch self {
        case .address: "destination_unavailable"
        case .upstream: "upstream_failing"
        case .route: "route_failing"
        case .key: "key_failing"
        case .pause: "paused"
        }
    }
}

public enum FailureCause: Sendable, Equatable {
    case transfer(UpstreamError)
    case status(Status)
    /// The content was not usable.
    case junk

    public var label: String {
        switch self {
        case .transfer(let error): error.rawValue
        case .status(let status): "status_\(status.rawValue)"
        case .junk: "junk"
        }
    }

    /// Label and details, for the log and for messages.
    public var text: String { if case .transfer(let error) = self { error.text } else { label } }

    /// Text of the cause; nil if unknown.
    public var details: String? {
        guard case .transfer(let error) = self else { return nil }
        return error.cause == .injected ? UpstreamCause.injected.words : error.details
    }

    /// Setting that helps; nil if none does.
    public var advice: SettingAdvice? { if case .transfer(let error) = self { error.advice } else { nil } }
}

/// Why a request is not sent now.
public struct FailureStop: Sendable, Equatable {
    public let scope: FailureScopeKind
    public let cause: FailureCause
    /// Time of the first failure, in milliseconds of the memory's clock.
    public let since: Int64
    /// Milliseconds until the next check, or until the pause ends.
    public let wait: Int64

    /// The setting that determines this decision, as in the configuration file.
    public var setting: FailureSetting {
        switch scope {
        case .pause: .retryAfterLimit
        case .address: .threshold
        case .key: .recheck
        case .upstream, .route: .window
        }
    }
}

/// A setting of the failure memory.
public enum FailureSetting: String, Sendable {
    case threshold = "failure.threshold"
    case window = "failure.window"
    case recheck = "failure.recheck"
    case retryAfterLimit = "failure.retry_after_limit"
}

extension FailureMemory {
    /// Identification of a scope for display.
    public enum Scope: Sendable, Equatable {
        case address, upstream
        /// The index of the route.
        case route(Int)
        /// The path without its query.
        case key([UInt8])
        case pause([UInt8], user: UInt64)

        public var kind: FailureScopeKind {
            switch self {
            case .address: .address
            case .upstream: .upstream
            case .route: .route
            case .key: .key
            case .pause: .pause
            }
        }
    }

    /// A scope opens or closes.
    public struct Change: Sendable, Equatable {
        public let scope: Scope
        /// The cause of opening; nil if the scope closes.
        public let cause: FailureCause?
    }

    public struct OpenScope: Sendable, Equatable {
        public let scope: Scope
        /// Identifies the scope for `reset`.
        public let key: UInt64
        public let stop: FailureStop
        /// When a check was last sent, or an attempt last failed; nil for a pause.
        public let checkedAt: Int64?
    }
}

public enum FailureAdmission: Sendable, Equatable {
    case go
    /// A stored response is served at once.
    /// - Parameter checksInBackground: whether the request is repeated in the background, as a check.
    case serveCopy(FailureStop, checksInBackground: Bool)
    /// There is no stored response, and the address cannot be reached.
    case refuse(FailureStop)
}

// MARK: Evidence

/// Failed attempts since the last success, and the checks since these opened the scope.
struct FailureRow: Sendable {
    private(set) var count = 0
    private(set) var witnesses = Witnesses()
    private(set) var firstFailedAt = Int64.min
    private(set) var failedAt = Int64.min
    private(set) var cause = FailureCause.junk
    /// When the scope opened; nil if it is not open.
    private(set) var openedAt: Int64?
    var turns = CheckTurns()

    var isOpen: Bool { openedAt != nil }

    mutating func add(_ witness: Witness, _ cause: FailureCause, now: Int64) {
        if count == 0 { firstFailedAt = now }
        count += 1
        witnesses.add(witness)
        (failedAt, self.cause) = (now, cause)
    }

    /// Opens the scope after this many attempts. Returns whether it opens now.
    mutating func opens(at attempts: Int, now: Int64) -> Bool {
        guard openedAt == nil, count >= attempts else { return false }
        openedAt = now
        return true
    }

    /// Milliseconds until the next check.
    func timeToCheck(_ interval: Int64, now: Int64) -> Int64 { max(0, (turns.checkedAt ?? openedAt ?? now) + interval - now) }

    func stop(_ kind: FailureScopeKind, wait: Int64) -> FailureStop {
        FailureStop(scope: kind, cause: cause, since: firstFailedAt, wait: wait)
    }
}

/// Determines which client sends the next check: the one whose last check is the oldest, so that the clients share the checks.
struct CheckTurns: Sendable {
    /// Maximum number of clients in the recorded order.
    static let limit = 8

    private(set) var checkedAt: Int64?
    private(set) var sent = 0
    private var hasEnded = true
    /// The clients of the last checks, the latest last.
    private var checked: [Witness] = []
    /// The stopped client whose last check is the oldest.
    private var waiting: Witness?

    private func rank(_ witness: Witness) -> Int { checked.lastIndex { !$0.isAnother(than: witness) } ?? -1 }

    func isUnderWay(by witness: Witness) -> Bool { !hasEnded && checked.last?.isAnother(than: witness) == false }

    /// Whether this client may send the check. A turn that is not used soon passes to any client.
    func isTurn(of witness: Witness, interval: Int64, now: Int64) -> Bool {
        guard let waiting, let checkedAt, now - checkedAt < interval * 5 / 4 else { return true }
        return rank(witness) <= rank(waiting)
    }

    /// Records a stopped request.
    /// - Parameter isCheck: whether the request is repeated as a check.
    mutating func note(_ witness: Witness, isCheck: Bool, now: Int64) {
        guard isCheck else {
            if waiting.map({ rank(witness) < rank($0) }) ?? true { waiting = witness }
            return
        }
        checked.removeAll { !$0.isAnother(than: witness) }
        if checked.count == Self.limit { checked.removeFirst() }
        checked.append(witness)
        (checkedAt, hasEnded, waiting) = (now, false, nil)
        sent += 1
    }

    /// Records the end of an attempt.
    mutating func end(began: Int64) {
        if began >= checkedAt ?? .min { hasEnded = true }
    }
}

/// Limits the checks of single keys per recheck. A client may send a check while it has sent fewer checks than remain in the budget.
struct CheckBudget: Sendable {
    static let limit = 16

    private var began = Int64.min
    private var taken: [Witness] = []

    func hasCapacity(for witness: Witness, _ period: Int64, _ now: Int64) -> Bool {
        guard began != .min, now < began + period else { return true }
        let own = taken.count { !$0.isAnother(than: witness) }
        return taken.count < Self.limit && (own == 0 || own < Self.limit - taken.count)
    }

    mutating func take(_ witness: Witness, _ period: Int64, _ now: Int64) {
        if began == .min || now >= began + period { (began, taken) = (now, []) }
        taken.append(witness)
    }
}

/// Response times of a key that was always slower than the wait limit of requests with a stored response.
struct Slowness: Sendable {
    /// Number of good responses after which a key counts as slow.
    static let responses = 20

    private(set) var count = 0
    /// Usual response time in milliseconds.
    private(set) var usual: Int64
    private var witnesses = Witnesses()

    init(usual: Int64) { self.usual = usual }

    mutating func add(_ took: Int64, by witness: Witness) {
        count = min(count + 1, Self.responses)
        usual += (took - usual) / 4
        witnesses.add(witness)
    }

    func isNature(for witness: Witness) -> Bool { count >= Self.responses && witnesses.counts(for: witness) }
}

/// The upstream asked a client to wait (Retry-After).
struct Pause: Sendable {
    let witness: Witness
    let status: Status
    let since: Int64
    let until: Int64
    /// Number of successes of the enclosing scope when the upstream last requested the pause.
    let successes: Int

    /// Whether the pause still applies. After 503 (Service Unavailable) any success ends it. 429 is a rate limit of this client, so
    /// successes of other requests do not end it.
    func holds(after successes: Int, _ now: Int64) -> Bool { until > now && (status == 429 || successes == self.successes) }

    func stop(now: Int64) -> FailureStop { FailureStop(scope: .pause, cause: .status(status), since: since, wait: max(0, until - now)) }
}

// MARK: The scopes

struct AddressScope: Sendable {
    var row = FailureRow()
    /// Time when bytes were last received from the address.
    var reachedAt = Int64.min
    /// Time when the address became reachable after a failure. Earlier attempts are no evidence about keys.
    var returnedAt = Int64.min
}

/// The upstream, or a configured route.
struct WideScope: Sendable {
    /// Number of failed attempts since the last success, and of different keys among them, that opens the scope. If fewer keys were seen
    /// within `keyAge`, all of them must have failed.
    static let attempts = 5
    static let keys = 5
    static let keyAge: Int64 = 3_600_000

    var row = FailureRow()
    private(set) var succeededAt: Int64?
    /// Time when the scope was last open. Attempts that began earlier are ignored.
    private(set) var closedAt = Int64.min
    /// Number of times that the scope succeeded, or that all its failures were discarded.
    private(set) var successes = 0
    /// When its first attempt began.
    private var seenAt: Int64?
    private var failedKeys: [UInt64] = []
    /// The keys of the last attempts, and when each was seen.
    private var seenKeys: [(key: UInt64, at: Int64)] = []

    /// Whether the scope is open and covers this key. A key that failed while other keys succeeded is judged by its own failures.
    func includes(_ key: KeyScope?) -> Bool { row.isOpen && !isOwn(key) }

    private func isOwn(_ key: KeyScope?) -> Bool {
        guard let key, key.row.count > 0, let succeededAt else { return false }
        return key.row.firstFailedAt < succeededAt
    }

    /// Records a success. Returns whether the scope was open.
    mutating func succeed(_ key: UInt64, now: Int64) -> Bool {
        succeededAt = now
        see(key, now)
        return close(now: now)
    }

    /// Discards all failures. Returns whether the scope was open.
    mutating func close(now: Int64) -> Bool {
        successes += 1
        guard row.count > 0 else { return false }
        let wasOpen = row.isOpen
        if wasOpen { closedAt = now }
        (row, failedKeys) = (FailureRow(), [])
        return wasOpen
    }

    /// Records a failure. Returns whether the scope opens.
    /// - Parameter known: the state of the key, including this failure.
    mutating func fail(
        _ key: UInt64, _ known: KeyScope, _ witness: Witness, _ cause: FailureCause, began: Int64, now: Int64, _ settings: FailureSettings
    ) -> Bool {
        let from = succeededAt ?? seenAt ?? began
        seenAt = seenAt ?? began
        guard began >= from else { return false }
        guard !isOwn(known) else {
            seenKeys.removeAll { $0.key == key }
            return false
        }
        see(key, now)
        row.add(witness, cause, now: now)
        if failedKeys.count < Self.keys, !failedKeys.contains(key) { failedKeys.append(key) }
        let seen = seenKeys.count { now - $0.at <= Self.keyAge }
        return now - from >= settings.window && failedKeys.count >= seen && row.opens(at: Self.attempts, now: now)
    }

    private mutating func see(_ key: UInt64, _ now: Int64) {
        if seenKeys.count == Self.keys, let oldest = seenKeys.first, now - oldest.at < Self.keyAge / 2 { return }
        seenKeys.removeAll { $0.key == key }
        if seenKeys.count == Self.keys { seenKeys.removeFirst() }
        seenKeys.append((key, now))
    }
}

/// An exact request of one partition.
struct KeyScope: Sendable {
    /// Consecutive failed attempts that open the scope.
    static let attempts = 2
    /// Maximum number of clients with recorded pauses.
    static let pauseLimit = 8

    let path: [UInt8]
    let route: Int?
    let user: UInt64
    var row = FailureRow()
    /// Whether other keys succeeded between this key's failures, so that the cause is the key itself.
    private var isOwn = false
    /// Number of successes of the enclosing scope at the key's last failure.
    private var successes = 0
    private(set) var pauses: [Pause] = []
    var slowness: Slowness?
    /// Time until which only failures of a single client count, for that client, and the duration of this doubt, which doubles each time. A
    /// success while the key failed shows that the requests of some clients may be the cause.
    private var doubtedUntil = Int64.min
    private var doubt: Int64 = 0

    /// Number of rechecks of the first doubt, and maximum duration in milliseconds.
    private static let doubtedRechecks: Int64 = 10
    private static let doubtLimit: Int64 = 300_000

    init(_ scopes: borrowing RequestScopes) { (path, route, user) = (scopes.shownPath, scopes.route, scopes.user) }

    /// Whether the key fails now.
    /// - Parameter successes: number of successes of the enclosing scope. A success since the key's last failure cancels its earlier
    ///   failures, unless the cause is the key itself.
    func counts(after successes: Int) -> Bool { row.isOpen && (isOwn || successes == self.successes) }

    var isWorthKeeping: Bool { row.isOpen || !pauses.isEmpty || slowness != nil }

    /// Whether the key may let a stored response be served at once.
    func mayStop(since: Int64, _ now: Int64) -> Bool { row.isOpen && row.failedAt >= since || pauses.contains { $0.until > now } }

    /// Returns the client's present pause; nil if there is none.
    /// - Parameter successes: number of successes of the enclosing scope.
    func pause(of witness: Witness, after successes: Int, now: Int64) -> Pause? {
        pauses.first { !$0.witness.isAnother(than: witness) && $0.holds(after: successes, now) }
    }

    /// Whether the key's failures count for this client.
    func counts(for witness: Witness, now: Int64) -> Bool {
        now < doubtedUntil ? row.witnesses.areOnly(witness) : row.witnesses.counts(for: witness)
    }

    mutating func succeed(_ recheck: Int64, now: Int64) {
        if row.isOpen, !row.witnesses.areOne {
            let isRepeated = doubt > 0 && now - doubtedUntil < Self.doubtLimit
            doubt = isRepeated ? min(doubt * 2, Self.doubtLimit) : Self.doubtedRechecks * recheck
            doubtedUntil = now + doubt
        }
        (row, isOwn, pauses) = (FailureRow(), false, [])
    }

    /// Records a failure. Returns whether the scope opens.
    mutating func fail(_ witness: Witness, _ cause: FailureCause, after successes: Int, window: Int64, now: Int64) -> Bool {
        if !row.isOpen, row.count > 0, now - row.failedAt > window { (row, isOwn) = (FailureRow(), false) }
        if row.count > 0, self.successes < successes { isOwn = true }
        self.successes = successes
        row.add(witness, cause, now: now)
        return row.opens(at: Self.attempts, now: now)
    }

    /// Records a pause. Returns whether the client was not paused already.
    mutating func pause(_ witness: Witness, _ status: Status, until: Int64, after successes: Int, now: Int64) -> Bool {
        let known = pause(of: witness, after: successes, now: now)
        pauses.removeAll { $0.until <= now || !$0.witness.isAnother(than: witness) }
        if pauses.count == Self.pauseLimit { pauses.removeFirst() }
        pauses.append(Pause(witness: witness, status: status, since: known?.since ?? now, until: until, successes: successes))
        return known == nil
    }
}
