// The scopes of failure and the evidence of each: the address, one key, and the wide ones (the upstream, each configured route). Plain values;
// `FailureMemory` decides by them.

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
    /// The upstream asked one client to leave one key alone for a while.
    case pause

    /// For metrics, and the `detail` of Cache-Status (the first is that of RFC 9209 §2.3.2).
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
    public var text: String { details.map { "\(label): \($0)" } ?? label }

    /// Text of the cause; nil if unknown.
    public var details: String? { if case .transfer(let error) = self { error.details } else { nil } }

    /// Setting that helps; nil if none does.
    public var advice: SettingAdvice? { if case .transfer(let error) = self { error.advice } else { nil } }
}

/// Why a request is not sent now.
public struct FailureStop: Sendable, Equatable {
    public let scope: FailureScopeKind
    public let cause: FailureCause
    /// Milliseconds of the clock by which the memory is told the time.
    public let since: Int64
    /// Milliseconds until the next check, or until the pause ends.
    public let wait: Int64

    /// The setting in play, as in the configuration file.
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
    /// A scope's name, for people.
    public enum Scope: Sendable, Equatable {
        case address, upstream
        /// The index of the route.
        case route(Int)
        /// The path, without its arguments.
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
        /// nil: it closes.
        public let cause: FailureCause?
    }

    public struct OpenScope: Sendable, Equatable {
        public let scope: Scope
        /// The number by which it is reset.
        public let key: UInt64
        public let stop: FailureStop
        /// When a check was last sent, or an attempt failed; nil for a pause.
        public let lookedAt: Int64?
    }
}

public enum FailureAdmission: Sendable, Equatable {
    case go
    /// The stored copy goes out at once.
    /// - Parameter looksBehind: the request is repeated in the background, as a check.
    case serveCopy(FailureStop, looksBehind: Bool)
    /// There is no copy, and no connection can be made.
    case refuse(FailureStop)
}

// MARK: Evidence

/// Failed attempts since the last success, and the checks since they opened their scope.
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

    /// Returns whether it opens now.
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

/// Whose turn it is to send the next check: the client whose last check lies furthest back, so that no client takes all of them.
struct CheckTurns: Sendable {
    /// Clients whose order is remembered.
    static let limit = 8

    private(set) var checkedAt: Int64?
    private(set) var sent = 0
    private var hasEnded = true
    /// The clients of the last checks, the latest last.
    private var checked: [Witness] = []
    /// Of the clients that were stopped since, the one whose last check lies furthest back.
    private var waiting: Witness?

    private func rank(_ witness: Witness) -> Int { checked.lastIndex { !$0.isAnother(than: witness) } ?? -1 }

    func isUnderWay(by witness: Witness) -> Bool { !hasEnded && checked.last?.isAnother(than: witness) == false }

    /// A turn that is not used soon passes to any client.
    func isTurn(of witness: Witness, interval: Int64, now: Int64) -> Bool {
        guard let waiting, let checkedAt, now - checkedAt < interval * 5 / 4 else { return true }
        return rank(witness) <= rank(waiting)
    }

    /// A request was stopped.
    /// - Parameter isCheck: it is repeated as a check.
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

    /// An attempt has ended.
    mutating func end(began: Int64) {
        if began >= checkedAt ?? .min { hasEnded = true }
    }
}

/// How many checks of single keys are sent in a recheck. A client has another while it has had fewer than are left.
struct CheckBudget: Sendable {
    static let limit = 16

    private var began = Int64.min
    private var taken: [Witness] = []

    func hasRoom(for witness: Witness, _ period: Int64, _ now: Int64) -> Bool {
        guard began != .min, now < began + period else { return true }
        let own = taken.count { !$0.isAnother(than: witness) }
        return taken.count < Self.limit && (own == 0 || own < Self.limit - taken.count)
    }

    mutating func take(_ witness: Witness, _ period: Int64, _ now: Int64) {
        if began == .min || now >= began + period { (began, taken) = (now, []) }
        taken.append(witness)
    }
}

/// The times of a key that was never quicker than a request with a copy waits.
struct Slowness: Sendable {
    /// Good responses after which a key counts as slow by nature.
    static let responses = 20

    private(set) var count = 0
    /// Milliseconds.
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

/// The upstream asked a client to wait.
struct Pause: Sendable {
    let witness: Witness
    let status: Status
    let since: Int64
    let until: Int64
    /// Successes of the enclosing scope when the upstream last requested the pause.
    let successes: Int

    /// Whether the pause still holds. After 503 (unavailable) any success ends it. 429 is a limit of this client, which no other request lifts.
    func holds(after successes: Int, _ now: Int64) -> Bool { until > now && (status == 429 || successes == self.successes) }

    func stop(now: Int64) -> FailureStop { FailureStop(scope: .pause, cause: .status(status), since: since, wait: max(0, until - now)) }
}

// MARK: The scopes

struct AddressScope: Sendable {
    var row = FailureRow()
    /// When anything was last heard of it.
    var reachedAt = Int64.min
    /// When it was reached again after it had been unreachable. Attempts that began before say nothing of keys.
    var returnedAt = Int64.min
}

/// The upstream, or a configured route.
struct WideScope: Sendable {
    /// Failed attempts since the last success, and keys among them, that open it. Where fewer keys were seen within `keyAge`, all of them.
    static let attempts = 5
    static let keys = 5
    static let keyAge: Int64 = 3_600_000

    var row = FailureRow()
    private(set) var succeededAt: Int64?
    /// When it was open last. Attempts that began before say nothing of now.
    private(set) var closedAt = Int64.min
    /// How often it succeeded, or all its failures were void.
    private(set) var successes = 0
    /// When its first attempt began.
    private var seenAt: Int64?
    private var failedKeys: [UInt64] = []
    /// The keys of the last attempts, and when each was seen.
    private var seenKeys: [(key: UInt64, at: Int64)] = []

    /// Whether all fails, this key too. A key that failed while others succeeded fails by itself.
    func includes(_ key: KeyScope?) -> Bool { row.isOpen && !isOwn(key) }

    private func isOwn(_ key: KeyScope?) -> Bool {
        guard let key, key.row.count > 0, let succeededAt else { return false }
        return key.row.firstFailedAt < succeededAt
    }

    /// Returns whether it was open.
    mutating func succeed(_ key: UInt64, now: Int64) -> Bool {
        succeededAt = now
        see(key, now)
        return close(now: now)
    }

    /// Forgets all failures. Returns whether it was open.
    mutating func close(now: Int64) -> Bool {
        successes += 1
        guard row.count > 0 else { return false }
        let wasOpen = row.isOpen
        if wasOpen { closedAt = now }
        (row, failedKeys) = (FailureRow(), [])
        return wasOpen
    }

    /// Returns whether it opens.
    /// - Parameter known: what is known of the key, with this failure.
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
    /// Failed attempts in a row that open it.
    static let attempts = 2
    /// Clients whose pauses are remembered.
    static let pauseLimit = 8

    let path: [UInt8]
    let route: Int?
    let user: UInt64
    var row = FailureRow()
    /// Others succeeded between its failures: it fails by itself.
    private var isOwn = false
    /// The successes of the scope around it when it failed last.
    private var successes = 0
    private(set) var pauses: [Pause] = []
    var slowness: Slowness?

    init(_ scopes: borrowing RequestScopes) { (path, route, user) = (scopes.shownPath, scopes.route, scopes.user) }

    /// Whether it fails now.
    /// - Parameter successes: of the scope around it. Failures from before one of them say nothing of now, unless the key fails by itself.
    func counts(after successes: Int) -> Bool { row.isOpen && (isOwn || successes == self.successes) }

    var isWorthKeeping: Bool { row.isOpen || !pauses.isEmpty || slowness != nil }

    /// Whether it may let a copy go out at once.
    func mayStop(since: Int64, _ now: Int64) -> Bool { row.isOpen && row.failedAt >= since || pauses.contains { $0.until > now } }

    /// - Parameter successes: successes of the enclosing scope.
    func pause(of witness: Witness, after successes: Int, now: Int64) -> Pause? {
        pauses.first { !$0.witness.isAnother(than: witness) && $0.holds(after: successes, now) }
    }

    mutating func succeed() { (row, isOwn, pauses) = (FailureRow(), false, []) }

    /// Returns whether it opens.
    mutating func fail(_ witness: Witness, _ cause: FailureCause, after successes: Int, window: Int64, now: Int64) -> Bool {
        if !row.isOpen, row.count > 0, now - row.failedAt > window { (row, isOwn) = (FailureRow(), false) }
        if row.count > 0, self.successes < successes { isOwn = true }
        self.successes = successes
        row.add(witness, cause, now: now)
        return row.opens(at: Self.attempts, now: now)
    }

    /// Returns whether the client was not asked to wait already.
    mutating func pause(_ witness: Witness, _ status: Status, until: Int64, after successes: Int, now: Int64) -> Bool {
        let known = pause(of: witness, after: successes, now: now)
        pauses.removeAll { $0.until <= now || !$0.witness.isAnother(than: witness) }
        if pauses.count == Self.pauseLimit { pauses.removeFirst() }
        pauses.append(Pause(witness: witness, status: status, since: known?.since ?? now, until: until, successes: successes))
        return known == nil
    }
}
