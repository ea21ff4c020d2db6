// What is remembered of an upstream that fails, so that not every request finds it out again, and so that no request to what is well is
// ever kept from it. Pure: the time is passed in. Everything here is a copy going out at once or not; requests without a copy are stopped
// by nothing but an address that cannot be reached.
//
// All tables are bounded. What is forgotten is asked as if nothing had failed, which is what happens without this memory.

import HTTPCore

/// When a scope counts as failing, and how often it is looked at then. Times are milliseconds.
public struct FailureSettings: Sendable, Equatable {
    public var isOn = true
    /// Failures in a row, of reaching the address or of one path.
    public var threshold = 5
    /// A family, or all, counts as failing where nothing of it succeeded for so long.
    public var window: Int64 = 10_000
    /// From one look at what fails to the next. Never lengthened: so long may pass until a return is known.
    public var recheck: Int64 = 1_000
    /// Longest Retry-After that is obeyed.
    public var retryAfterLimit: Int64 = 300_000

    public init() {}
}

public struct FailureMemory: Sendable {
    public enum Asking: Sendable, Equatable {
        /// A stored copy may go out instead.
        /// - Parameter mayLookBehind: whether the same may be asked in the background.
        case withCopy(mayLookBehind: Bool)
        /// There is none, and the request changes nothing.
        case reading
        /// The request may change something.
        case writing
    }

    public enum Look: Sendable, Equatable {
        case due
        /// Not before so many milliseconds.
        case notYet(Int64)
        /// What was to be looked at does not count as failing any more.
        case over
    }

    /// A scope's name, for people.
    public enum Scope: Sendable, Equatable {
        case address, upstream
        case family(FamilyName)
        case target([UInt8])
        case pause([UInt8], user: UInt64)

        public var kind: FailureScopeKind {
            switch self {
            case .address: .address
            case .upstream: .upstream
            case .family: .family
            case .target: .target
            case .pause: .pause
            }
        }
    }

    /// So much of a path is kept to be shown.
    static let shownBytes = 128
    /// Families and paths that are remembered, and pauses.
    static let familyLimit = 1_024
    static let targetLimit = 4_096
    static let pauseLimit = 4_096

    public let settings: FailureSettings
    private var address = AddressScope()
    private var upstream = UpstreamScope()
    private var families = RecentTable<FamilyScope>(limit: familyLimit) { $0.opening != nil }
    private var targets = RecentTable<TargetScope>(limit: targetLimit) { $0.opening != nil }
    private var pauses = RecentTable<PauseScope>(limit: pauseLimit) { _ in true }
    /// Counts how often all that was known of paths was void, since the upstream was away and came back; and when it did last.
    private var era = 0
    private var eraBegan = Int64.min
    private var changes: [Change] = []
    /// How often a scope of each kind has opened.
    private var opened: [FailureScopeKind: Int] = [:]
    /// Whether a scope may be open beside the address: since one opened, none was found to be when all were last gone through.
    private var mayBeOpen = false
    /// When they are gone through again.
    private var nextSearchAt = Int64.min
    /// The last success, as long as nothing has failed since: another in the same millisecond says nothing new.
    private var lastSuccess: (target: UInt64, family: UInt64, isQuick: Bool, at: Int64)?

    public init(_ settings: FailureSettings) { self.settings = settings }

    public func openedCount(of kind: FailureScopeKind) -> Int { opened[kind] ?? 0 }

    /// Whether nothing is open, nor anything that counts towards the address being out of reach: then every request is sent.
    public var isCalm: Bool { !mayBeOpen && address.opening == nil && address.failuresInRow == 0 }

    /// What has changed since this was last called. Changes nothing where nothing has, so that it is cheap to ask.
    public mutating func takeChanges() -> [Change] {
        guard !changes.isEmpty else { return [] }
        defer { changes = [] }
        return changes
    }

    /// The same, and whether all is calm: asked in one step, for which nothing is copied.
    public mutating func takeNews() -> (isCalm: Bool, changes: [Change]) { (isCalm, takeChanges()) }

    // MARK: Asking

    public mutating func admit(_ scopes: borrowing RequestScopes, _ asking: Asking, now: Int64) -> FailureAdmission {
        guard settings.isOn else { return .go }
        if mayBeOpen, now >= nextSearchAt { searchOpen(now) }
        if let opening = address.opening { return admit(asking, toAddress: opening, now: now) }
        guard case .withCopy(let mayLookBehind) = asking else { return .go }
        if pauses.count > 0, let admission = askPause(scopes, mayLookBehind, now) { return admission }
        let known = targets[scopes.target]
        if known?.isApart != true || known?.era != era {
            if let admission = askUpstream(scopes, mayLookBehind, now) ?? askFamily(scopes, mayLookBehind, now) { return admission }
        }
        guard let known, known.opening != nil else { return .go }
        return askTarget(scopes, mayLookBehind, now) ?? .go
    }

    /// Whether `admit` would stop a request. Nothing is changed by the question.
    public func stops(_ scopes: borrowing RequestScopes, _ asking: Asking, now: Int64) -> Bool {
        guard settings.isOn else { return false }
        if let opening = address.opening { return admit(asking, toAddress: opening, now: now) != .go }
        guard case .withCopy(let mayLookBehind) = asking else { return false }
        if pauses.count > 0, let pause = pauses[scopes.pause], pause.until > now { return true }
        let known = targets[scopes.target]
        if known?.isApart != true || known?.era != era {
            if upstream.concerns(scopes), let stops = stops(upstream.opening, mayLookBehind, now) { return stops }
            if let family = families[scopes.family], family.era == era, family.witnesses.mayStop(scopes.user),
                let stops = stops(family.opening, mayLookBehind, now)
            {
                return stops
            }
        }
        guard let known, known.era == era, known.witnesses.mayStop(scopes.asker), let opening = known.opening,
            opening.lookedAt >= families[scopes.family]?.closedAt ?? .min
        else { return false }
        return stops(opening, mayLookBehind, now) ?? false
    }

    /// nil where it says nothing of it.
    private func stops(_ opening: Opening?, _ mayLookBehind: Bool, _ now: Int64) -> Bool? {
        guard let opening, !opening.hasLapsed(now: now, recheck: settings.recheck) else { return nil }
        return mayLookBehind || !opening.isLookDue(now: now, recheck: settings.recheck)
    }

    private func admit(_ asking: Asking, toAddress opening: Opening, now: Int64) -> FailureAdmission {
        let stop = FailureStop(scope: .address, cause: opening.cause, since: opening.since, wait: settings.recheck)
        switch asking {
        case .withCopy: return .serveCopy(stop, looksBehind: false)
        case .reading: return .refuse(stop)
        // It may have come back since the last attempt, and only this one can change what it is to change.
        case .writing: return address.failedAt.map { now - $0 < settings.recheck } == true ? .refuse(stop) : .go
        }
    }

    private mutating func askPause(_ scopes: borrowing RequestScopes, _ mayLookBehind: Bool, _ now: Int64) -> FailureAdmission? {
        guard let pause = pauses[scopes.pause], pause.until > now else { return nil }
        let isLook = pause.isLookDue(by: scopes.client, now: now, recheck: settings.recheck)
        if isLook { pauses.change(scopes.pause) { $0?.lookedAt = now } }
        return isLook && !mayLookBehind ? .go : .serveCopy(pause.stop(now: now), looksBehind: isLook)
    }

    private mutating func askUpstream(_ scopes: borrowing RequestScopes, _ mayLookBehind: Bool, _ now: Int64) -> FailureAdmission? {
        var opening = upstream.opening
        guard opening != nil, upstream.concerns(scopes) else { return nil }
        let admission = ask(&opening, .upstream, mayLookBehind, now)
        if opening == nil { forgetUpstream() } else { upstream.opening = opening }
        return admission
    }

    private mutating func askFamily(_ scopes: borrowing RequestScopes, _ mayLookBehind: Bool, _ now: Int64) -> FailureAdmission? {
        guard let family = families[scopes.family], family.era == era, family.opening != nil, family.witnesses.mayStop(scopes.user) else {
            return nil
        }
        var opening = family.opening
        let admission = ask(&opening, .family, mayLookBehind, now)
        families.change(scopes.family) { value in
            value?.opening = opening
            if opening == nil { value?.failed.forget() }
        }
        if opening == nil { changes.append(Change(scope: .family(family.name), cause: nil)) }
        return admission
    }

    private mutating func askTarget(_ scopes: borrowing RequestScopes, _ mayLookBehind: Bool, _ now: Int64) -> FailureAdmission? {
        guard let target = targets[scopes.target], target.era == era, target.witnesses.mayStop(scopes.asker) else { return nil }
        var opening = target.opening
        // What others of its family have brought since says more.
        if let known = opening, known.lookedAt < families[scopes.family]?.closedAt ?? .min { opening = nil }
        let admission = ask(&opening, .target, mayLookBehind, now)
        targets.change(scopes.target) { value in
            value?.opening = opening
            if opening == nil { value?.failuresInRow = 0 }
        }
        if opening == nil { changes.append(Change(scope: .target(target.path), cause: nil)) }
        return admission
    }

    /// - Parameter opening: nil afterwards where nobody has looked for so long that the request is sent as if nothing had failed.
    private func ask(_ opening: inout Opening?, _ kind: FailureScopeKind, _ mayLookBehind: Bool, _ now: Int64) -> FailureAdmission? {
        guard let known = opening else { return nil }
        guard !known.hasLapsed(now: now, recheck: settings.recheck) else {
            opening = nil
            return nil
        }
        let isLook = known.isLookDue(now: now, recheck: settings.recheck)
        if isLook { opening?.lookedAt = now }
        // What cannot be asked in the background looks itself.
        if isLook, !mayLookBehind { return .go }
        return .serveCopy(known.stop(kind, now: now, settings), looksBehind: isLook)
    }

    /// Whether a request for these scopes is to be repeated in the background, to look whether what stopped it is well again.
    public mutating func look(_ kind: FailureScopeKind, _ scopes: borrowing RequestScopes, now: Int64) -> Look {
        let recheck = settings.recheck
        // The look at all, or at the family, is for what is within it too.
        if kind == .family || kind == .target, upstream.opening != nil { return .notYet(recheck) }
        if kind == .target, let family = families[scopes.family], family.era == era, family.opening != nil { return .notYet(recheck) }
        switch kind {
        case .upstream: return Opening.look(&upstream.opening, now: now, recheck: recheck)
        case .family:
            guard var opening = families[scopes.family].flatMap({ $0.era == era ? $0.opening : nil }) else { return .over }
            let look = opening.look(now: now, recheck: recheck)
            families.change(scopes.family) { $0?.opening = opening }
            return look
        case .target:
            guard var opening = targets[scopes.target].flatMap({ $0.era == era ? $0.opening : nil }) else { return .over }
            let look = opening.look(now: now, recheck: recheck)
            targets.change(scopes.target) { $0?.opening = opening }
            return look
        case .address, .pause: return .over
        }
    }

    /// Whether paths of its kind count as failing: then they share a part of the connections.
    public func isFailing(_ scopes: borrowing RequestScopes) -> Bool {
        guard mayBeOpen else { return false }
        if upstream.opening != nil { return true }
        if let family = families[scopes.family], family.era == era, family.opening != nil { return true }
        guard let target = targets[scopes.target] else { return false }
        return target.era == era && target.opening != nil
    }

    // MARK: What came of it

    /// A good response, whole.
    /// - Parameter isQuick: one who has a copy would have waited for it.
    public mutating func succeed(_ scopes: borrowing RequestScopes, isQuick: Bool, now: Int64) {
        guard settings.isOn, !isKnown(scopes, isQuick: isQuick, now: now) else { return }
        reach(now: now)
        let wasAllFailing = upstream.opening != nil
        upstream.succeed(now: now)
        if wasAllFailing {
            changes.append(Change(scope: .upstream, cause: nil))
            beginEra(now)
        }
        let isFamilyBack = succeedInFamily(scopes, now)
        succeedAtTarget(scopes, isQuick: isQuick, isApart: wasAllFailing || isFamilyBack, now)
        if pauses.count > 0 { endPause(scopes) }
        lastSuccess = (scopes.target, scopes.family, isQuick, now)
    }

    /// Whether the last thing that was learned is the same success: busy paths have many in a millisecond.
    private func isKnown(_ scopes: borrowing RequestScopes, isQuick: Bool, now: Int64) -> Bool {
        guard isCalm, pauses.count == 0, let last = lastSuccess else { return false }
        return last.at == now && last.target == scopes.target && last.family == scopes.family && last.isQuick == isQuick
    }

    /// Returns whether it counted as failing.
    private mutating func succeedInFamily(_ scopes: borrowing RequestScopes, _ now: Int64) -> Bool {
        let era = self.era
        let closed: FamilyName? = families.change(scopes.family) { value in
            guard value != nil else {
                value = FamilyScope(name: scopes.familyName, succeededAt: now, era: era)
                return nil
            }
            // In place: a copy costs as much as all the rest.
            let wasOpen = value?.opening != nil && value?.era == era
            value?.succeed(now: now)
            value?.era = era
            return wasOpen ? value?.name : nil
        }
        if let closed { changes.append(Change(scope: .family(closed), cause: nil)) }
        return closed != nil
    }

    /// A response that is good but late leaves a path as it is: copies go out at once, and it is looked at in the background.
    private mutating func succeedAtTarget(_ scopes: borrowing RequestScopes, isQuick: Bool, isApart: Bool, _ now: Int64) {
        guard isApart || targets.contains(scopes.target) else { return }
        let era = self.era
        let closed: [UInt8]? = targets.change(scopes.target) { value in
            var target = value ?? TargetScope(scopes, era: era)
            let wasOpen = target.opening != nil && target.era == era
            if target.era != era { target.succeed(now: now) }
            target.era = era
            if isApart { target.isApart = true }
            if isQuick { target.succeed(now: now) }
            value = target
            return wasOpen && target.opening == nil ? target.path : nil
        }
        if let closed { changes.append(Change(scope: .target(closed), cause: nil)) }
    }

    private mutating func endPause(_ scopes: borrowing RequestScopes) {
        guard let pause = pauses[scopes.pause] else { return }
        pauses.change(scopes.pause) { $0 = nil }
        changes.append(Change(scope: pause.name, cause: nil))
    }

    /// Something came from it: so it can be reached, whatever it said.
    public mutating func reach(now: Int64) {
        address.failuresInRow = 0
        address.reachedAt = now
        guard address.opening != nil else { return }
        address.opening = nil
        changes.append(Change(scope: .address, cause: nil))
        // What failed meanwhile says nothing of the paths.
        beginEra(now)
        forgetUpstream()
    }

    /// A request that only reads was sent, and no good response came.
    /// - Parameter began: when it was sent. What has succeeded since says more.
    public mutating func fail(_ scopes: borrowing RequestScopes, _ cause: FailureCause, began: Int64, now: Int64) {
        guard settings.isOn else { return }
        lastSuccess = nil
        switch cause {
        case .status, .junk: reach(now: now)
        case .transfer, .slow: break
        }
        guard began >= eraBegan else { return }
        guard cause != .junk else {
            // What is wrong with one response's content is that path's own: others may be as good as ever.
            if began >= families[scopes.family]?.closedAt ?? .min { failAtTarget(scopes, cause, began, now) }
            return
        }
        let familyClosed = failInFamily(scopes, cause, began, now)
        if began >= familyClosed { failAtTarget(scopes, cause, began, now) }
        failInAll(scopes, cause, began, now)
    }

    /// Returns when the family was last found well after it had counted as failing.
    private mutating func failInFamily(_ scopes: borrowing RequestScopes, _ cause: FailureCause, _ began: Int64, _ now: Int64) -> Int64 {
        let (era, window) = (self.era, settings.window)
        let (closedAt, opens): (Int64, FamilyName?) = families.change(scopes.family) { value in
            var family = value ?? FamilyScope(name: scopes.familyName, succeededAt: began, era: era)
            defer { value = family }
            if family.era != era { family.forgetFailures(era: era) }
            guard began >= family.succeededAt, began >= family.closedAt else { return (family.closedAt, nil) }
            family.failed.add(scopes.target, at: now)
            family.witnesses.add(scopes.user)
            family.opening?.failAgain(cause, began: began)
            let isFailing = now - family.succeededAt >= window && family.failed.count(since: now - window) >= FamilyScope.threshold
            guard family.opening == nil, isFailing else { return (family.closedAt, nil) }
            family.opening = Opening(since: now, cause: cause, lookedAt: now)
            return (family.closedAt, family.name)
        }
        if let opens { open(.family(opens), cause) }
        return closedAt
    }

    private mutating func failAtTarget(_ scopes: borrowing RequestScopes, _ cause: FailureCause, _ began: Int64, _ now: Int64) {
        let (era, settings) = (self.era, self.settings)
        let opens: [UInt8]? = targets.change(scopes.target) { value in
            var target = value ?? TargetScope(scopes, era: era)
            defer { value = target }
            if target.era != era { target.forgetFailures(era: era) }
            guard began >= target.succeededAt else { return nil }
            target.isApart = false
            if target.opening == nil, now - settings.window > target.failedAt { target.forgetFailures(era: era) }
            target.failuresInRow = min(target.failuresInRow + 1, settings.threshold)
            target.failedAt = now
            target.witnesses.add(scopes.asker)
            target.opening?.failAgain(cause, began: began)
            guard target.opening == nil, target.failuresInRow >= settings.threshold else { return nil }
            target.opening = Opening(since: now, cause: cause, lookedAt: now)
            return target.path
        }
        if let opens { open(.target(opens), cause) }
    }

    private mutating func failInAll(_ scopes: borrowing RequestScopes, _ cause: FailureCause, _ began: Int64, _ now: Int64) {
        let succeededAt = upstream.succeededAt ?? began
        upstream.succeededAt = succeededAt
        guard began >= succeededAt, began >= upstream.closedAt else { return }
        upstream.failed.add(scopes.target, at: now)
        upstream.witnesses.add(scopes.user)
        upstream.families.add(scopes.family)
        upstream.opening?.failAgain(cause, began: began)
        let isFailing =
            now - succeededAt >= settings.window && upstream.failed.count(since: now - settings.window) >= UpstreamScope.threshold
        guard upstream.opening == nil, isFailing else { return }
        upstream.opening = Opening(since: now, cause: cause, lookedAt: now)
        open(.upstream, cause)
    }

    /// It asked to be left alone, by this user, on this path.
    /// - Parameter retryAfter: milliseconds.
    public mutating func pause(_ scopes: borrowing RequestScopes, _ status: Status, retryAfter: Int64, now: Int64) {
        let time = min(retryAfter, settings.retryAfterLimit)
        guard settings.isOn, time > 0 else { return }
        let known = pauses[scopes.pause].flatMap { $0.until > now ? $0 : nil }
        let pause = PauseScope(scopes, status, until: now + time, after: known, now: now)
        pauses.change(scopes.pause) { $0 = pause }
        mayBeOpen = true
        if known == nil { open(pause.name, .status(status)) }
    }

    // MARK: The address

    /// No connection came about.
    /// - Parameter began: when it was tried. What has been reached since says more.
    public mutating func failToReach(_ error: UpstreamError, began: Int64, now: Int64) {
        guard settings.isOn else { return }
        guard began >= address.reachedAt else { return }
        address.failedAt = now
        address.opening?.cause = .transfer(error)
        address.failuresInRow = min(address.failuresInRow + 1, settings.threshold)
        guard address.opening == nil, address.failuresInRow >= settings.threshold else { return }
        address.opening = Opening(since: now, cause: .transfer(error), lookedAt: now)
        open(.address, .transfer(error))
    }

    /// Whether a connection is to be tried now.
    public mutating func attempt(now: Int64) -> Look { Opening.look(&address.opening, now: now, recheck: settings.recheck) }

    // MARK: Changes

    private mutating func open(_ scope: Scope, _ cause: FailureCause) {
        if scope != .address { mayBeOpen = true }
        opened[scope.kind, default: 0] += 1
        changes.append(Change(scope: scope, cause: cause))
    }

    /// Goes through all that is remembered, once in a while: what is forgotten or void does not tell of its end.
    private mutating func searchOpen(_ now: Int64) {
        nextSearchAt = now + settings.recheck
        mayBeOpen =
            upstream.opening != nil || families.contains { $0.opening != nil && $0.era == era }
            || targets.contains { $0.opening != nil && $0.era == era } || pauses.contains { $0.until > now }
    }

    private mutating func beginEra(_ now: Int64) {
        era += 1
        eraBegan = now
    }

    private mutating func forgetUpstream() {
        if upstream.opening != nil { changes.append(Change(scope: .upstream, cause: nil)) }
        upstream.forgetFailures()
    }

    // MARK: Showing

    /// All that is open now, the widest first.
    public func openScopes(now: Int64) -> [OpenScope] {
        var found: [OpenScope] = []
        func add(_ scope: Scope, _ key: UInt64, _ opening: Opening?) {
            guard let opening, scope == .address || !opening.hasLapsed(now: now, recheck: settings.recheck) else { return }
            found.append(OpenScope(scope: scope, key: key, stop: opening.stop(scope.kind, now: now, settings), lookedAt: opening.lookedAt))
        }
        add(.address, 0, address.opening)
        add(.upstream, 0, upstream.opening)
        for (key, family) in families.entries where family.era == era { add(.family(family.name), key, family.opening) }
        for (key, target) in targets.entries where target.era == era { add(.target(target.path), key, target.opening) }
        for (key, pause) in pauses.entries where pause.until > now {
            found.append(OpenScope(scope: pause.name, key: key, stop: pause.stop(now: now), lookedAt: nil))
        }
        return found
    }

    /// Whether it is known to be down as a whole.
    public func isDown(now: Int64) -> Bool {
        address.opening != nil || upstream.opening.map { !$0.hasLapsed(now: now, recheck: settings.recheck) } == true
    }

    /// Everything is asked again as if it had not failed.
    public mutating func reset(_ scope: OpenScope) {
        lastSuccess = nil
        switch scope.scope {
        case .address:
            address = AddressScope()
            changes.append(Change(scope: .address, cause: nil))
        case .upstream: forgetUpstream()
        case .family: families.change(scope.key) { $0 = nil }
        case .target: targets.change(scope.key) { $0 = nil }
        case .pause: pauses.change(scope.key) { $0 = nil }
        }
        switch scope.scope {
        case .address, .upstream: break
        case .family, .target, .pause: changes.append(Change(scope: scope.scope, cause: nil))
        }
    }
}
