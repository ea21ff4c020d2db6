// The failure memory (circuit breaker). It records attempts, and decides from them whether a stored response is served without waiting for
// the upstream. Pure: the time is an argument. Only failed attempts open a scope. A stored response is served at once only within two
// rechecks after a failure in its scope. Failures of one client affect only its own requests until a second client confirms them. Only an
// unreachable address stops a request without a stored response. All tables are bounded; a request without recorded failures is sent.

import HTTPCore

/// When a scope counts as failing, and how often it is checked. Times are in milliseconds.
public struct FailureSettings: Sendable, Equatable {
    public var isOn = true
    /// Consecutive failed connection attempts after which the address counts as unreachable.
    public var threshold = 5
    /// Minimum time without a success after which the upstream or a route counts as failing. Stopped requests are repeated for this long.
    public var window: Int64 = 10_000
    /// Interval between checks of a failing scope.
    public var recheck: Int64 = 1_000
    /// Maximum Retry-After that is followed.
    public var retryAfterLimit: Int64 = 300_000

    public init() {}

    /// Time after a failed attempt during which stored responses are served at once.
    var right: Int64 { 2 * recheck }
}

public struct FailureMemory: Sendable {
    public enum RequestKind: Sendable, Equatable {
        /// A stored response may be served instead.
        /// - Parameter mayCheckInBackground: whether the request may be repeated in the background.
        case withCopy(mayCheckInBackground: Bool)
        /// There is no stored response, and the request is safe.
        case reading
        /// The request may change something.
        case writing
        /// The operator excluded the path from the cache: the request is always sent.
        case excluded
    }

    public enum CheckState: Sendable, Equatable {
        /// The check must be sent now. It has been recorded as sent.
        case due
        /// The check must wait for this many milliseconds.
        case notYet(Int64)
        /// The scope no longer counts as failing.
        case over
    }

    /// Maximum length of a path that is kept for display, in bytes.
    static let shownBytes = 128
    static let keyLimit = 4_096
    /// Maximum number of keys and of users with a recorded good response.
    static let knownLimit = 8_192

    public let settings: FailureSettings
    private var address = AddressScope()
    private var upstream = WideScope()
    /// Scopes of routes, by the index of the route.
    private var routes: [Int: WideScope] = [:]
    private var keys = RecentTable<KeyScope>(limit: keyLimit) { $0.isWorthKeeping }
    /// The last success of each key, and whether any success was faster than the wait limit of requests with a stored response.
    private var successes = RecentTable<(at: Int64, wasQuick: Bool)>(limit: knownLimit) { _ in false }
    /// Users with credentials that have received a good response.
    private var provenUsers = RecentTable<Bool>(limit: knownLimit) { _ in false }
    private var budget = CheckBudget()
    private var changes: [Change] = []
    private var opened: [FailureScopeKind: Int] = [:]
    /// Whether a stored response may be served at once. Set when a scope opens; cleared when a search finds no open scope.
    private var mayStop = false
    private var nextSearchAt = Int64.min
    /// The last success, if nothing has failed since. Lets repeated successes within one millisecond skip the update.
    private var lastSuccess: (key: UInt64, client: UInt64, isQuick: Bool, provesUser: Bool, at: Int64)?
    /// Whether some key may be slow even while the upstream works.
    public private(set) var knowsSlowKeys = false

    public init(_ settings: FailureSettings) { self.settings = settings }

    public func openedCount(of kind: FailureScopeKind) -> Int { opened[kind] ?? 0 }

    /// Whether every request is sent, and no failure counts towards an unreachable address.
    public var isCalm: Bool { !mayStop && address.row.count == 0 }

    /// Returns the changes since the last call.
    public mutating func takeChanges() -> [Change] {
        guard !changes.isEmpty else { return [] }
        defer { changes = [] }
        return changes
    }

    // MARK: Admission

    public mutating func admit(_ scopes: borrowing RequestScopes, _ requestKind: RequestKind, now: Int64) -> FailureAdmission {
        guard settings.isOn else { return .go }
        if mayStop, now >= nextSearchAt { searchOpen(now) }
        if address.row.isOpen { return admit(requestKind, now: now) }
        guard mayStop, case .withCopy(let mayCheckInBackground) = requestKind else { return .go }
        let (witness, key) = (witness(of: scopes), keys[scopes.key])
        if let pause = key?.pause(of: witness, after: successesAround(scopes.route), now: now) {
            return .serveCopy(pause.stop(now: now), checksInBackground: false)
        }
        guard let (kind, row) = failing(scopes, key, witness, now), now - row.failedAt <= settings.right else { return .go }
        let isCheckDue = isCheckDue(kind, row, key, witness, now)
        noteStopped(kind, scopes, witness, isCheck: isCheckDue, now)
        // A request that cannot be repeated in the background is sent as the check.
        if isCheckDue, !mayCheckInBackground { return .go }
        let wait = isCheckDue ? 0 : row.timeToCheck(interval(kind, row, witness), now: now)
        return .serveCopy(row.stop(kind, wait: wait), checksInBackground: isCheckDue)
    }

    /// Whether `admit` would stop a request. Changes nothing.
    public func stops(_ scopes: borrowing RequestScopes, _ requestKind: RequestKind, now: Int64) -> Bool {
        guard settings.isOn else { return false }
        if address.row.isOpen { return admit(requestKind, now: now) != .go }
        guard mayStop, case .withCopy(let mayCheckInBackground) = requestKind else { return false }
        let (witness, key) = (witness(of: scopes), keys[scopes.key])
        if key?.pause(of: witness, after: successesAround(scopes.route), now: now) != nil { return true }
        guard let (kind, row) = failing(scopes, key, witness, now), now - row.failedAt <= settings.right else { return false }
        return mayCheckInBackground || !isCheckDue(kind, row, key, witness, now)
    }

    /// Whether a stopped request must be repeated now, although no client has sent it again.
    public mutating func check(_ scopes: borrowing RequestScopes, now: Int64) -> CheckState {
        let (witness, key) = (witness(of: scopes), keys[scopes.key])
        guard let (kind, row) = failing(scopes, key, witness, now) else { return .over }
        let isCheckDue = isCheckDue(kind, row, key, witness, now)
        noteStopped(kind, scopes, witness, isCheck: isCheckDue, now)
        let interval = interval(kind, row, witness)
        // Another client's turn may expire unused.
        return isCheckDue ? .due : .notYet(max(row.timeToCheck(interval, now: now), interval / 8))
    }

    /// Whether the request is in a scope that fails for its client, without regard to doubt. All such requests share a limited part of the
    /// connections.
    public func isFailing(_ scopes: borrowing RequestScopes) -> Bool {
        failing(scopes, keys[scopes.key], witness(of: scopes), .max) != nil
    }

    /// Decides for an unreachable address.
    private func admit(_ requestKind: RequestKind, now: Int64) -> FailureAdmission {
        let stop = address.row.stop(.address, wait: settings.recheck)
        switch requestKind {
        case .withCopy: return .serveCopy(stop, checksInBackground: false)
        case .reading: return .refuse(stop)
        // The address may be reachable again, and an unsafe request cannot be replaced by a stored response.
        case .writing: return now - address.row.failedAt < settings.recheck ? .refuse(stop) : .go
        case .excluded: return .go
        }
    }

    private func witness(of scopes: borrowing RequestScopes) -> Witness {
        Witness(address: scopes.client, user: scopes.user != 0 && provenUsers.contains(scopes.user) ? scopes.user : 0)
    }

    /// The widest scope that fails for this client, whether or not stored responses may still be served at once.
    private func failing(
        _ scopes: borrowing RequestScopes, _ key: KeyScope?, _ witness: Witness, _ now: Int64
    ) -> (kind: FailureScopeKind, row: FailureRow)? {
        if upstream.includes(key), upstream.row.witnesses.counts(for: witness) { return (.upstream, upstream.row) }
        if let route = scopes.route.flatMap({ routes[$0] }), route.includes(key), route.row.witnesses.counts(for: witness) {
            return (.route, route.row)
        }
        guard let key, key.counts(after: successesAround(scopes.route)), key.counts(for: witness, now: now) else { return nil }
        return (.key, key.row)
    }

    /// Number of successes of the narrowest wide scope that contains a key.
    private func successesAround(_ route: Int?) -> Int { (route.map { routes[$0] } ?? upstream)?.successes ?? 0 }

    // MARK: Checks

    /// The interval between checks. A wide scope is checked more often at first. An unfinished check delays the next one of its client.
    private func interval(_ kind: FailureScopeKind, _ row: FailureRow, _ witness: Witness? = nil) -> Int64 {
        if kind == .key { return witness.map(row.turns.isUnderWay) == true ? settings.recheck * 3 / 2 : settings.recheck }
        return settings.recheck >> max(0, 4 - row.turns.sent)
    }

    private func isCheckDue(
        _ kind: FailureScopeKind, _ row: FailureRow, _ key: KeyScope?, _ witness: Witness, _ now: Int64
    ) -> Bool {
        let interval = interval(kind, row, witness)
        guard row.timeToCheck(interval, now: now) == 0, row.turns.isTurn(of: witness, interval: interval, now: now) else { return false }
        // A key that belongs to several scopes is checked at most once per recheck.
        if let checkedAt = key?.row.turns.checkedAt, now - checkedAt < settings.recheck { return false }
        return kind != .key || budget.hasCapacity(for: witness, settings.recheck, now)
    }

    private mutating func noteStopped(
        _ kind: FailureScopeKind, _ scopes: borrowing RequestScopes, _ witness: Witness, isCheck: Bool, _ now: Int64
    ) {
        if isCheck, kind == .key { budget.take(witness, settings.recheck, now) }
        switch kind {
        case .upstream: upstream.row.turns.note(witness, isCheck: isCheck, now: now)
        case .route: scopes.route.map { routes[$0]?.row.turns.note(witness, isCheck: isCheck, now: now) }
        case .address, .key, .pause: break
        }
        if isCheck || kind == .key { change(scopes) { $0.row.turns.note(witness, isCheck: isCheck, now: now) } }
    }

    @discardableResult
    private mutating func change<Result>(_ scopes: borrowing RequestScopes, _ change: (inout KeyScope) -> Result) -> Result {
        let new = keys.contains(scopes.key) ? nil : KeyScope(scopes)
        return keys.change(scopes.key) { value in
            if value == nil { value = new }
            return change(&value!)
        }
    }

    // MARK: Keys that are slow even while the upstream works

    /// Maximum time that a request with a stored response waits for the upstream, in milliseconds: `limit`, or twice the usual time of a
    /// key that was always slower.
    public func patience(_ scopes: borrowing RequestScopes, limit: Int64, atMost longest: Int64) -> Int64 {
        guard knowsSlowKeys, settings.isOn, let slowness = keys[scopes.key]?.slowness, slowness.isNature(for: witness(of: scopes)) else {
            return limit
        }
        return max(limit, min(2 * slowness.usual, longest))
    }

    private mutating func noteTime(_ scopes: borrowing RequestScopes, _ witness: Witness, took: Int64, isQuick: Bool) {
        guard !isQuick else {
            if keys[scopes.key]?.slowness != nil { change(scopes) { $0.slowness = nil } }
            return
        }
        guard successes[scopes.key]?.wasQuick != true else { return }
        let isSlow = change(scopes) { key in
            var slowness = key.slowness ?? Slowness(usual: took)
            slowness.add(took, by: witness)
            key.slowness = slowness
            return slowness.count >= Slowness.responses
        }
        if isSlow { knowsSlowKeys = true }
    }

    // MARK: Results of attempts

    /// Records a complete response without a failure.
    /// - Parameters:
    ///   - took: milliseconds since the request was sent.
    ///   - limit: how long a request with a stored response waits; 0 for no limit.
    ///   - provesUser: whether the upstream accepted the credentials. Refusals and redirects show only that it responds.
    public mutating func succeed(_ scopes: borrowing RequestScopes, took: Int64, limit: Int64, provesUser: Bool, now: Int64) {
        guard settings.isOn else { return }
        let isQuick = limit == 0 || took < limit
        if isCalm, let last = lastSuccess, last == (scopes.key, scopes.client, isQuick, provesUser, now) { return }
        lastSuccess = (scopes.key, scopes.client, isQuick, provesUser, now)
        reach(now: now)
        if provesUser, scopes.user != 0, !provenUsers.contains(scopes.user) { provenUsers.change(scopes.user) { $0 = true } }
        if upstream.succeed(scopes.key, now: now) { changes.append(Change(scope: .upstream, cause: nil)) }
        if let route = scopes.route, routes[route, default: WideScope()].succeed(scopes.key, now: now) {
            changes.append(Change(scope: .route(route), cause: nil))
        }
        noteTime(scopes, witness(of: scopes), took: took, isQuick: isQuick)
        successes.change(scopes.key) { $0 = (now, isQuick || $0?.wasQuick == true) }
        guard let key = keys[scopes.key] else { return }
        if key.row.isOpen { changes.append(Change(scope: .key(key.path), cause: nil)) }
        if key.pauses.contains(where: { $0.until > now }) { changes.append(Change(scope: .pause(key.path, user: key.user), cause: nil)) }
        let recheck = settings.recheck
        change(scopes) { $0.succeed(recheck, now: now) }
    }

    /// Records that a safe request was sent and received no good response.
    /// - Parameter began: time at which the request was sent. If a success was recorded later, the failure is ignored.
    public mutating func fail(_ scopes: borrowing RequestScopes, _ cause: FailureCause, began: Int64, now: Int64) {
        guard settings.isOn else { return }
        lastSuccess = nil
        if case .transfer = cause {} else { reach(now: now) }
        let route = scopes.route.map { ($0, routes[$0] ?? WideScope()) }
        guard began >= max(address.returnedAt, upstream.closedAt, route?.1.closedAt ?? .min) else { return }
        let (witness, around, window) = (witness(of: scopes), successesAround(scopes.route), settings.window)
        let succeededAt = successes[scopes.key]?.at ?? .min
        let (key, opens) = change(scopes) { key in
            key.row.turns.end(began: began)
            let opens = began >= succeededAt && key.fail(witness, cause, after: around, window: window, now: now)
            return (key, opens)
        }
        if opens { open(.key(key.path), cause) }
        defer { mayStop = mayStop || failing(scopes, key, witness, now) != nil }
        if upstream.fail(scopes.key, key, witness, cause, began: began, now: now, settings) { open(.upstream, cause) }
        guard let routeIndex = route?.0, var scope = route?.1 else { return }
        if scope.fail(scopes.key, key, witness, cause, began: began, now: now, settings) { open(.route(routeIndex), cause) }
        routes[routeIndex] = scope
    }

    /// Records that the upstream asked this client to pause requests for this key.
    /// - Parameter retryAfter: milliseconds.
    public mutating func pause(_ scopes: borrowing RequestScopes, _ status: Status, retryAfter: Int64, now: Int64) {
        let time = min(retryAfter, settings.retryAfterLimit)
        guard settings.isOn, time > 0 else { return }
        let (witness, around) = (witness(of: scopes), successesAround(scopes.route))
        let isNew = change(scopes) { $0.pause(witness, status, until: now + time, after: around, now: now) }
        mayStop = true
        if isNew { open(.pause(scopes.shownPath, user: scopes.user), .status(status)) }
    }

    /// Records that bytes came from the address, so it is reachable.
    public mutating func reach(now: Int64) {
        address.reachedAt = now
        guard address.row.count > 0 else { return }
        let wasOpen = address.row.isOpen
        address.row = FailureRow()
        guard wasOpen else { return }
        address.returnedAt = now
        changes.append(Change(scope: .address, cause: nil))
        // Failures from before the address was reachable are no evidence about the upstream and its routes.
        if upstream.close(now: now) { changes.append(Change(scope: .upstream, cause: nil)) }
        for route in routes.keys.sorted() where routes[route]?.close(now: now) == true {
            changes.append(Change(scope: .route(route), cause: nil))
        }
    }

    /// Records a failed connection attempt.
    /// - Parameter began: start of the attempt. If the address was reached later, the failure is ignored.
    public mutating func failToReach(_ error: UpstreamError, began: Int64, now: Int64) {
        guard settings.isOn, began >= address.reachedAt else { return }
        address.row.add(Witness(address: 0, user: 0), .transfer(error), now: now)
        if address.row.opens(at: settings.threshold, now: now) { open(.address, .transfer(error)) }
    }

    /// Whether a connection must be attempted now.
    public mutating func attempt(now: Int64) -> CheckState {
        guard address.row.isOpen else { return .over }
        let wait = address.row.timeToCheck(settings.recheck, now: now)
        guard wait == 0 else { return .notYet(wait) }
        address.row.turns.note(Witness(address: 0, user: 0), isCheck: true, now: now)
        return .due
    }

    // MARK: Changes

    private mutating func open(_ scope: Scope, _ cause: FailureCause) {
        if scope != .address { mayStop = true }
        opened[scope.kind, default: 0] += 1
        changes.append(Change(scope: scope, cause: cause))
    }

    /// Searches all scopes, at most once per recheck, for one that may let a stored response be served at once.
    private mutating func searchOpen(_ now: Int64) {
        nextSearchAt = now + settings.recheck
        let since = now - settings.right
        mayStop =
            upstream.row.isOpen || routes.values.contains { $0.row.isOpen } || keys.contains { $0.mayStop(since: since, now) }
    }

    // MARK: Display

    /// All open scopes, the widest first.
    public func openScopes(now: Int64) -> [OpenScope] {
        var found: [OpenScope] = []
        func add(_ scope: Scope, _ number: UInt64, _ row: FailureRow) {
            guard row.isOpen else { return }
            let interval = scope == .address ? settings.recheck : interval(scope.kind, row)
            let stop = row.stop(scope.kind, wait: row.timeToCheck(interval, now: now))
            found.append(OpenScope(scope: scope, key: number, stop: stop, checkedAt: max(row.failedAt, row.turns.checkedAt ?? .min)))
        }
        add(.address, 0, address.row)
        add(.upstream, 0, upstream.row)
        for (route, scope) in routes.sorted(by: { $0.key < $1.key }) { add(.route(route), UInt64(route), scope.row) }
        for (number, key) in keys.entries {
            let isPart = upstream.includes(key) || key.route.flatMap { routes[$0] }?.includes(key) == true
            if !isPart, key.counts(after: successesAround(key.route)) { add(.key(key.path), number, key.row) }
            let pauses = key.pauses.filter { $0.holds(after: successesAround(key.route), now) }
            guard let pause = pauses.max(by: { $0.until < $1.until }) else { continue }
            let scope = Scope.pause(key.path, user: key.user)
            found.append(OpenScope(scope: scope, key: number, stop: pause.stop(now: now), checkedAt: nil))
        }
        return found
    }

    /// Whether the scope of the address is open.
    public var isUnreachable: Bool { address.row.isOpen }

    /// Whether any route's scope is open.
    public var isRouteFailing: Bool { routes.values.contains { $0.row.isOpen } }

    /// Discards the evidence of a scope.
    public mutating func reset(_ scope: OpenScope, now: Int64) {
        lastSuccess = nil
        switch scope.scope {
        case .address: address = AddressScope()
        case .upstream: _ = upstream.close(now: now)
        case .route(let route): _ = routes[route]?.close(now: now)
        case .key, .pause: keys.change(scope.key) { $0 = nil }
        }
        changes.append(Change(scope: scope.scope, cause: nil))
    }
}
