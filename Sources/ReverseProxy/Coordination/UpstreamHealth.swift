// The failure memory and the reported state of one upstream, for all shards. Logs their changes. Admission, metrics, `why`, `stats` and
// `cistern upstream` read them here.

import Figures
import HTTPCore
import Logging
import Reactor
import Synchronization
import Upstream

/// Thread-safe; called by all shards, but not for fresh hits. The state is guarded by a mutex. Times are milliseconds of the loops' clock.
public final class UpstreamHealth: Sendable {
    /// Name of the API; empty if there is only one.
    private let api: String
    /// Names of the routes. The last entry is for all other paths.
    private let routes: [String]
    private let logger: Logger
    private let settings: FailureSettings
    private let state: Reactor.Mutex<State>
    /// Copy of `FailureMemory.isCalm`, so that requests skip the lock while nothing fails. An outdated value has the effect that a request
    /// sent a moment earlier would have.
    private let isCalm = Atomic(true)
    /// Copy of `FailureMemory.knowsSlowKeys`: whether some keys may be slow even while the upstream works.
    private let knowsSlowKeys = Atomic(false)
    public let first: FirstFailures
    /// Whether the upstream is down, or its last attempts all failed.
    private let isSuspicious = Atomic(false)
    /// Last time at which a successful connection was recorded.
    private let reachedAt = Atomic(Int64.min)

    private struct State {
        var memory: FailureMemory
        var upstream: UpstreamState
        var lines = LogAllowance()
        /// Causes of the current outage that the log names.
        var namedCauses = NamedCauses()
        /// Unreachable addresses of an upstream with several, by index.
        var downAddresses: [Int: DownAddress] = [:]
        /// Names that could not be resolved at the last attempt. Each was logged once.
        var failedNames: Set<String> = []
        /// Whether changed TLS files of the upstream cannot be used.
        var hasUnusableTLSFiles = false
    }

    public init(api: String = "", routes: [String], settings: FailureSettings, logger: Logger) {
        self.api = api
        self.routes = routes
        self.logger = logger
        self.settings = settings
        first = FirstFailures(api: api, logger: logger)
        state = Reactor.Mutex(State(memory: FailureMemory(settings), upstream: UpstreamState(window: settings.window)))
    }

    public var isOn: Bool { settings.isOn }
    public var recheck: Int64 { settings.recheck }
    /// How long a stopped request is repeated in the background, in milliseconds.
    public var window: Int64 { settings.window }

    // MARK: Asking

    public func admit(_ scopes: borrowing RequestScopes, _ requestKind: FailureMemory.RequestKind, now: Int64) -> FailureAdmission {
        isCalm.load(ordering: .relaxed) ? .go : change(now: now) { $0.memory.admit(scopes, requestKind, now: now) }
    }

    /// Whether any scope fails, so that `admit` may stop a request.
    public var mayStop: Bool { !isCalm.load(ordering: .relaxed) }

    /// Whether `admit` would stop a request. Has no side effects.
    public func stops(_ scopes: borrowing RequestScopes, _ requestKind: FailureMemory.RequestKind, now: Int64) -> Bool {
        mayStop && state.withLock { $0.memory.stops(scopes, requestKind, now: now) }
    }

    public func check(_ scopes: borrowing RequestScopes, now: Int64) -> FailureMemory.CheckState {
        change(now: now) { $0.memory.check(scopes, now: now) }
    }

    public func attempt(now: Int64) -> FailureMemory.CheckState { change(now: now) { $0.memory.attempt(now: now) } }

    public func isFailing(_ scopes: borrowing RequestScopes) -> Bool {
        !isCalm.load(ordering: .relaxed) && state.withLock { $0.memory.isFailing(scopes) }
    }

    /// Maximum time that a request with a stored response waits for the upstream, in milliseconds: `limit`, or longer if its key is slow
    /// even while the upstream works.
    public func patience(_ scopes: borrowing RequestScopes, limit: Int64, atMost longest: Int64) -> Int64 {
        guard limit > 0, knowsSlowKeys.load(ordering: .relaxed) else { return limit }
        return state.withLock { $0.memory.patience(scopes, limit: limit, atMost: longest) }
    }

    // MARK: Outcomes

    /// - Parameters:
    ///   - took: milliseconds since the request was sent.
    ///   - limit: maximum time that a request with a stored response waits, in milliseconds; 0 for no limit.
    ///   - provesUser: whether the upstream accepted the credentials.
    public func succeed(_ scopes: borrowing RequestScopes, took: Int64, limit: Int64, provesUser: Bool, now: Int64) {
        change(now: now) {
            $0.memory.succeed(scopes, took: took, limit: limit, provesUser: provesUser, now: now)
            $0.upstream.succeed(began: now - took, now: now)
        }
        if first.wantsSuccesses { first.noteSuccess(scopes.shownPath, now: now) }
    }

    public func reach(now: Int64) {
        // While nothing fails, one record per millisecond is enough.
        guard !isCalm.load(ordering: .relaxed) || reachedAt.exchange(now, ordering: .relaxed) != now else { return }
        change(now: now) { $0.memory.reach(now: now) }
        first.noteReached(now: now)
    }

    public func fail(_ scopes: borrowing RequestScopes, _ cause: FailureCause, began: Int64, now: Int64) {
        first.noteFailure(scopes.shownPath, cause, now: now)
        change(now: now, cause) {
            $0.memory.fail(scopes, cause, began: began, now: now)
            $0.upstream.fail(cause.label, began: began, now: now)
        }
    }

    /// Records a failed unsafe request. It affects the log and the reported state only.
    public func failWriting(_ scopes: borrowing RequestScopes, _ cause: FailureCause, began: Int64, now: Int64) {
        first.noteFailure(scopes.shownPath, cause, now: now)
        change(now: now, cause) { $0.upstream.fail(cause.label, began: began, now: now) }
    }

    public func pause(_ scopes: borrowing RequestScopes, _ status: Status, retryAfter: Int64, now: Int64) {
        change(now: now) { $0.memory.pause(scopes, status, retryAfter: retryAfter, now: now) }
    }

    /// - Parameter certificate: names, issuer and validity of a refused certificate; otherwise nil.
    public func failToReach(_ error: UpstreamError, certificate: String? = nil, began: Int64, now: Int64) {
        first.noteUnreachable(error, certificate: certificate, now: now)
        change(now: now, .transfer(error)) {
            $0.memory.failToReach(error, began: began, now: now)
            $0.upstream.fail(error.rawValue, began: began, now: now)
        }
    }

    /// - Parameter cause: cause of a failed attempt; nil for other changes.
    private func change<Result>(now: Int64, _ cause: FailureCause? = nil, _ body: (inout State) -> Result) -> Result {
        let (result, lines) = state.withLock { state -> (Result, [Line]) in
            let before = state.upstream.report
            let result = body(&state)
            isCalm.store(state.memory.isCalm, ordering: .relaxed)
            knowsSlowKeys.store(state.memory.knowsSlowKeys, ordering: .relaxed)
            let changes = state.memory.takeChanges()
            for change in changes where change.cause != nil { first.noteOpened(change.scope) }
            if !changes.isEmpty {
                state.upstream.note(isAddressOpen: state.memory.isUnreachable, isRouteOpen: state.memory.isRouteFailing, now: now)
            }
            isSuspicious.store(state.upstream.isSuspicious, ordering: .relaxed)
            if !before.isDown, state.upstream.report.isDown { first.noteDown() }
            var lines = changes.compactMap { line(of: $0, &state.lines, now: now) }
            if let line = line(from: before, &state, cause, now: now) { lines.append(line) }
            return (result, lines)
        }
        for line in lines { logger.log(level: line.level, "\(line.text)") }
        return result
    }

    // MARK: The reported state

    /// The reported state, with the elapsed time taken into account.
    public func report(now: Int64) -> UpstreamReport {
        change(now: now) {
            $0.upstream.pass(now: now)
            return $0.upstream.report
        }
    }

    /// Whether a call of `checkUpstream` may be useful.
    public var wantsCheck: Bool { isSuspicious.load(ordering: .relaxed) }

    /// Whether Cistern should send a health check now. If so, the check is recorded as sent.
    /// - Parameters:
    ///   - mayCheck: whether a request for a health check exists.
    ///   - mayCompare: whether one exists that did not fail in its last attempt.
    public func checkUpstream(mayCheck: Bool, mayCompare: Bool, now: Int64) -> FailureMemory.CheckState {
        change(now: now) { state in
            state.upstream.pass(now: now)
            let check = state.upstream.check(now: now)
            guard check == .due else { return check }
            guard state.upstream.report.isDown ? mayCheck : mayCompare else { return .notYet(UpstreamState.checkInterval) }
            state.upstream.noteCheck(now: now)
            return .due
        }
    }

    /// Takes over the reported state of this upstream from before a reload. *Down* becomes *unknown (last: down)*.
    public func inherit(_ former: UpstreamHealth) {
        let report = former.state.withLock { $0.upstream.report }
        inherit(report)
    }

    /// Takes over the reported state of this upstream from another process.
    public func inherit(_ report: UpstreamReport) {
        state.withLock { state in
            state.upstream.inherit(report)
            isSuspicious.store(state.upstream.isSuspicious, ordering: .relaxed)
        }
    }

    // MARK: Log

    private struct Line {
        let level: Logger.Level
        let text: String
    }

    private func line(of change: FailureMemory.Change, _ allowance: inout LogAllowance, now: Int64) -> Line? {
        let (scope, begins): (String, String)
        switch change.scope {
        // Changes of the reported state are logged for these scopes.
        case .address, .upstream: return nil
        case .route(let index): (scope, begins) = (" on route \(routes[index])", "fails on every request")
        case .key(let path): (scope, begins) = (" on \(Self.text(path))", "fails")
        case .pause(let path, _): (scope, begins) = (" on \(Self.text(path))", "asked a client to wait (Retry-After)")
        }
        guard let leftOut = allowance.take(change.scope.kind, now: now) else { return nil }
        let isNarrow = change.scope.kind != .route
        let more = leftOut == 0 ? "" : " (\(leftOut) similar changes omitted)"
        let subject = "the upstream\(api.isEmpty ? "" : " of \(api)")\(scope)"
        guard let cause = change.cause else {
            let ends = change.scope.kind == .pause ? "responded successfully before the pause ended" : "responds successfully again"
            return Line(level: isNarrow ? .info : .notice, text: "\(subject) \(ends)\(more)")
        }
        return Line(level: isNarrow ? .info : .warning, text: "\(subject) \(begins) (\(cause.text)): \(change.scope.effect)\(more)")
    }

    /// Returns the log line for a change of the reported state, or for a new cause of an outage; nil for the first response.
    private func line(from before: UpstreamReport, _ state: inout State, _ cause: FailureCause?, now: Int64) -> Line? {
        let after = state.upstream.report
        if !after.isDown { state.namedCauses = NamedCauses() }
        let newCause = cause.flatMap { after.isDown && state.namedCauses.mayAdd($0) ? $0 : nil }
        let isOtherState = (before.state, before.wasDown) != (after.state, after.wasDown)
        guard isOtherState ? !(before.isUnasked && after.state == .up) : newCause != nil,
            let leftOut = state.lines.take(.upstream, now: now)
        else { return nil }
        if let newCause { state.namedCauses.add(newCause) }
        let more = leftOut == 0 ? "" : " (\(leftOut) similar changes omitted)"
        let seconds = { (time: Int64?) in "\(max(0, now - (time ?? now)) / 1_000) s" }
        // Another shard may have recorded a different failure meanwhile.
        let last = first.last.flatMap { $0.cause.label == after.cause ? $0 : nil }
        let causeText = (last?.text ?? after.cause).map { " (\($0))" } ?? ""
        let advice = after.state == .down || after.state == .failing ? last?.adviceClause ?? "" : ""
        let words =
            switch after.state {
            case .up: "up again: it was \(before.isDown ? "down" : "failing") for \(seconds(before.since))"
            case .failing where before.isDown: "failing\(causeText): it was down, and some requests succeed again"
            case .failing: "failing\(causeText): some requests fail, and others succeed"
            case .down where !isOtherState: "still down, for another reason\(causeText)"
            case .down:
                "down\(causeText): nothing has succeeded for \(seconds(after.since)). Requests get stored responses, if there are any"
            case .unknown: "in an unknown state: it was down, and there has been no request since. Set failure.probe to detect a recovery"
            }
        let level: Logger.Level = after.state == .up ? .notice : .warning
        return Line(level: level, text: "the upstream\(api.isEmpty ? "" : " of \(api)") is \(words)\(advice)\(more)")
    }

    /// The path for logs and terminals: control characters and non-ASCII bytes are replaced by `?`.
    static func text(_ path: [UInt8]) -> String {
        String(decoding: path.map { (0x21..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    }

    /// Records that one of several addresses became unreachable, or reachable again if `error` is nil. All shards report it; each cause is
    /// logged once.
    public func noteAddress(_ addresses: [String], _ index: Int, _ error: UpstreamError?, now: Int64) {
        let subject = "\(addresses[index])\(api.isEmpty ? "" : " of \(api)")"
        guard let error else {
            let wasDown = state.withLock { $0.downAddresses.removeValue(forKey: index) != nil }
            return wasDown ? logger.notice("\(subject) can be reached again") : ()
        }
        let (isFirst, isNew, other) = state.withLock { state in
            let known = state.downAddresses[index]
            var address = DownAddress(since: known?.since ?? now, error: error, named: known?.named ?? NamedCauses())
            let isNew = address.named.mayAdd(.transfer(error))
            if isNew { address.named.add(.transfer(error)) }
            state.downAddresses[index] = address
            return (known == nil, isNew, addresses.indices.first { state.downAddresses[$0] == nil })
        }
        guard isNew else { return }
        let what = isFirst ? "cannot be reached" : "still cannot be reached, for another reason"
        let effect = other.map { "\(addresses[$0]) is used" } ?? "there is no other"
        let advice = error.advice.map { "; \($0.text)" } ?? ""
        logger.warning("\(subject) \(what) (\(error.text)): \(effect)\(advice)")
    }

    /// Records that the lookup of a name failed or succeeded. All shards report it; a change is logged once.
    public func noteName(_ name: String, hasFailed: Bool) {
        let isFirstReport = state.withLock { state in
            hasFailed ? state.failedNames.insert(name).inserted : state.failedNames.remove(name) != nil
        }
        guard isFirstReport else { return }
        let subject = "the name \(name)\(api.isEmpty ? "" : " of \(api)")"
        if hasFailed {
            logger.warning("\(subject) cannot be resolved: its last known addresses remain in use")
        } else {
            logger.notice("\(subject) can be resolved again")
        }
    }

    /// Records whether changed TLS files can be used. All shards report it; a change is logged once.
    public func noteTLSFiles(of settings: UpstreamSettings, areUsable: Bool) {
        let isChange = state.withLock { state in
            defer { state.hasUnusableTLSFiles = !areUsable }
            return state.hasUnusableTLSFiles == areUsable
        }
        guard isChange else { return }
        guard !areUsable else { return logger.notice("the TLS files of the upstream\(api.isEmpty ? "" : " of \(api)") can be used again") }
        for (setting, reason) in settings.unusableTLSFiles {
            logger.warning("\(setting)\(api.isEmpty ? "" : " of \(api)"): \(reason); the former files remain in use")
        }
    }

    /// An unreachable address.
    public struct DownAddress: Sendable {
        /// Time of the first failed attempt, in milliseconds of the loops' clock.
        public let since: Int64
        /// Error of the last recorded attempt.
        public let error: UpstreamError
        fileprivate var named: NamedCauses
    }

    /// Known unreachable addresses of several, by index.
    public var downAddresses: [Int: DownAddress] { state.withLock { $0.downAddresses } }

    // MARK: Output

    /// Name of a scope in commands and pages.
    public func name(of scope: FailureMemory.Scope) -> String {
        switch scope {
        case .address, .upstream: scope.kind.rawValue
        case .route(let index): "route:\(routes[index])"
        case .key(let path): "key:\(Self.text(path))"
        case .pause(let path, _): "pause:\(Self.text(path))"
        }
    }

    public func openScopes(now: Int64) -> [FailureMemory.OpenScope] { state.withLock { $0.memory.openScopes(now: now) } }

    /// Resets the open scopes with this name or kind; nil resets all open scopes.
    /// - Returns: the number of scopes that were open.
    public func reset(_ name: String?, now: Int64) -> Int {
        let wanted = openScopes(now: now).filter { open in
            name == nil || name == open.scope.kind.rawValue || name == self.name(of: open.scope)
        }
        change(now: now) { state in
            for scope in wanted { state.memory.reset(scope, now: now) }
        }
        return wanted.count
    }

    public func summary(now: Int64) -> MetricsSnapshot.Failures {
        let report = report(now: now)
        let (open, opened) = state.withLock { state in
            (state.memory.openScopes(now: now), FailureScopeKind.allCases.map { state.memory.openedCount(of: $0) })
        }
        let routeNames = routes.dropLast()
        return MetricsSnapshot.Failures(
            upstreams: [report],
            scopes: zip(FailureScopeKind.allCases, opened).map { kind, count in
                .init(scope: kind.rawValue, open: open.count { $0.scope.kind == kind }, opened: count)
            },
            routes: routeNames.enumerated().map { index, name in
                .init(route: api.isEmpty ? name : "\(api)/\(name)", isOpen: open.contains { $0.scope == .route(index) })
            })
    }
}

/// Rate limit for log lines about changes, per kind and minute. The next line reports the number of omitted lines.
struct LogAllowance {
    static let lines = 10
    static let period: Int64 = 60_000

    private var kinds: [FailureScopeKind: (since: Int64, lines: Int, leftOut: Int)] = [:]

    /// Returns the number of lines omitted before this one; nil if this line must be omitted.
    mutating func take(_ kind: FailureScopeKind, now: Int64) -> Int? {
        var known = kinds[kind] ?? (now, 0, 0)
        if now - known.since >= Self.period { (known.since, known.lines) = (now, 0) }
        defer { kinds[kind] = known }
        guard known.lines < Self.lines else {
            known.leftOut += 1
            return nil
        }
        known.lines += 1
        defer { known.leftOut = 0 }
        return known.leftOut
    }

    mutating func leaveOut(_ kind: FailureScopeKind) { kinds[kind]?.leftOut += 1 }
}

extension FailureMemory.Scope {
    /// Describes the effect of an open scope on requests.
    public var effect: String {
        switch self {
        case .address: "stored responses are served at once, reads without one get 503, and connections are attempted at intervals"
        case .upstream, .route: "stored responses are served at once, checks continue in the background, other requests are sent as usual"
        case .key:
            "the stored response for this request is served at once, checks continue in the background, and all other requests "
                + "are sent as usual"
        case .pause: "stored responses for this client are served at once, and all other requests are sent as usual"
        }
    }
}
