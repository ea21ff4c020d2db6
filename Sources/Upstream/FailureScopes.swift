// The parts of an upstream that can fail each by itself, and what is known of each: its address, one path, a family of paths, all that it
// is asked for, and one user's pause. Plain values; `FailureMemory` decides by them.

import HTTPCore

public enum FailureScopeKind: String, Sendable, CaseIterable {
    /// Host and port cannot be reached.
    case address
    /// Whatever it is asked for fails.
    case upstream
    /// A route, or the paths that are alike up to their last slash.
    case family
    /// A path, with any arguments.
    case target
    /// It asked one user to leave one path alone for a while.
    case pause

    /// For metrics, and the `detail` of Cache-Status (the first is that of RFC 9209 §2.3.2).
    public var label: String {
        switch self {
        case .address: "destination_unavailable"
        case .upstream: "upstream_failing"
        case .family: "family_failing"
        case .target: "target_failing"
        case .pause: "paused"
        }
    }
}

public enum FailureCause: Sendable, Equatable {
    case transfer(UpstreamError)
    case status(Status)
    /// A response came that is none.
    case junk
    /// It took longer than one who has a copy waits.
    case slow

    public var label: String {
        switch self {
        case .transfer(let error): error.rawValue
        case .status(let status): "status_\(status.rawValue)"
        case .junk: "junk"
        case .slow: "slow"
        }
    }
}

/// Why a request is not sent now.
public struct FailureStop: Sendable, Equatable {
    public let scope: FailureScopeKind
    public let cause: FailureCause
    /// Milliseconds of the clock by which the memory is told the time.
    public let since: Int64
    /// Milliseconds until it is looked again, or until the pause ends.
    public let wait: Int64

    /// The setting in play, as in the configuration file.
    public var setting: FailureSetting {
        switch scope {
        case .pause: .retryAfterLimit
        case .address: .threshold
        case .target: cause == .slow ? .rescueAfter : .threshold
        case .upstream, .family: cause == .slow ? .rescueAfter : .window
        }
    }
}

/// A setting by which a failure is told from what is well.
public enum FailureSetting: String, Sendable {
    case threshold = "failure.threshold"
    case window = "failure.window"
    case retryAfterLimit = "failure.retry_after_limit"
    case rescueAfter = "cache.rescue_after"
}

extension FailureMemory {
    /// A scope opens or closes.
    public struct Change: Sendable, Equatable {
        public let scope: Scope
        /// nil: it closes.
        public let cause: FailureCause?
    }

    public struct OpenScope: Sendable, Equatable {
        public let scope: Scope
        /// What it is reset by.
        public let key: UInt64
        public let stop: FailureStop
        /// When a request was sent that was to look, or that failed; nil of a pause.
        public let lookedAt: Int64?
    }
}

public enum FailureAdmission: Sendable, Equatable {
    case go
    /// The stored copy goes out at once.
    /// - Parameter looksBehind: the same is asked in the background, to see whether it is well again.
    case serveCopy(FailureStop, looksBehind: Bool)
    /// Nothing can be served, and asking is of no use now.
    case refuse(FailureStop)
}

/// What a family is called.
public enum FamilyName: Sendable, Equatable {
    /// The place of a route.
    case route(Int)
    /// The path up to its last slash; the beginning of it where it is long.
    case directory([UInt8])
}

/// The scopes that a request belongs to. Numbers stand for paths and users: hashes with a secret seed. Made once for a request and shown to all who
/// ask: a copy for each would count references.
public struct RequestScopes: ~Copyable, Sendable {
    /// Without arguments.
    public let path: ArraySlice<UInt8>
    /// The place of its route; nil for paths that no route is for.
    public let route: Int?
    public let target: UInt64
    public let family: UInt64
    /// 0: nobody in particular.
    public let user: UInt64
    /// The user and the arguments together.
    public let asker: UInt64
    /// The client's address; 0 where nobody can tell.
    public let client: UInt64

    /// The target and the user together.
    public var pause: UInt64 {
        var hasher = Hasher()
        hasher.combine(target)
        hasher.combine(user)
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    /// - Parameter host: where the upstream is told it, in lower case: what fails at one host says nothing of another.
    public init(pathAndQuery: ArraySlice<UInt8>, host: [UInt8] = [], route: Int?, user: UInt64, client: UInt64 = 0) {
        let end = pathAndQuery.firstIndex(of: UInt8(ascii: "?")) ?? pathAndQuery.endIndex
        path = pathAndQuery[..<end]
        self.route = route
        (self.user, self.client) = (user, client)
        let directory = Self.directory(of: path)
        var hasher = Self.hasher(0, host, directory)
        family = Self.number(route.map { Self.hasher($0 + 1, host) } ?? hasher)
        path[directory.endIndex...].withUnsafeBytes { hasher.combine(bytes: $0) }
        target = Self.number(hasher)
        asker = end == pathAndQuery.endIndex ? user : Self.number(Self.hasher(Int(truncatingIfNeeded: user), [], pathAndQuery[end...]))
    }

    /// The same once more.
    public init(_ other: borrowing RequestScopes) {
        (path, route, target, family) = (other.path, other.route, other.target, other.family)
        (user, asker, client) = (other.user, other.asker, other.client)
    }

    var familyName: FamilyName {
        route.map(FamilyName.route) ?? .directory(Array(Self.directory(of: path).prefix(FailureMemory.shownBytes)))
    }

    private static func directory(of path: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        path.lastIndex(of: UInt8(ascii: "/")).map { path[...$0] } ?? path
    }

    private static func hasher(_ number: Int, _ host: [UInt8], _ rest: ArraySlice<UInt8> = []) -> Hasher {
        var hasher = Hasher()
        hasher.combine(number)
        // A host has no slash in it, and a directory begins with one.
        if !host.isEmpty { host.withUnsafeBytes { hasher.combine(bytes: $0) } }
        if !rest.isEmpty { rest.withUnsafeBytes { hasher.combine(bytes: $0) } }
        return hasher
    }

    private static func number(_ hasher: Hasher) -> UInt64 { UInt64(truncatingIfNeeded: hasher.finalize()) }
}

/// Who has seen a scope fail, or shown it. What only one has seen stops nobody else: it may be that one's own matter.
struct Witnesses: Sendable {
    private enum Seen {
        case nobody
        case one(UInt64)
        case several
    }

    private var seen = Seen.nobody

    mutating func add(_ witness: UInt64) {
        switch seen {
        case .nobody: seen = .one(witness)
        case .one(let other) where other != witness: seen = .several
        case .one, .several: break
        }
    }

    func mayStop(_ asker: UInt64) -> Bool {
        switch seen {
        case .nobody: false
        case .one(let witness): witness == asker
        case .several: true
        }
    }
}

/// What is known of a scope that fails.
struct Opening: Sendable {
    let since: Int64
    var cause: FailureCause
    /// When the last request was sent that was to look, or that failed.
    var lookedAt: Int64

    mutating func failAgain(_ cause: FailureCause, began: Int64) {
        self.cause = cause
        lookedAt = max(lookedAt, began)
    }

    /// Whether nobody has looked for so long that nothing is known any more: who comes now is the first to ask again.
    func hasLapsed(now: Int64, recheck: Int64) -> Bool { now - lookedAt > 2 * recheck }

    func isLookDue(now: Int64, recheck: Int64) -> Bool { now - lookedAt >= recheck }

    mutating func look(now: Int64, recheck: Int64) -> FailureMemory.Look {
        guard isLookDue(now: now, recheck: recheck) else { return .notYet(lookedAt + recheck - now) }
        lookedAt = now
        return .due
    }

    static func look(_ opening: inout Opening?, now: Int64, recheck: Int64) -> FailureMemory.Look {
        opening?.look(now: now, recheck: recheck) ?? .over
    }

    func stop(_ kind: FailureScopeKind, now: Int64, _ settings: FailureSettings) -> FailureStop {
        FailureStop(scope: kind, cause: cause, since: since, wait: max(0, lookedAt + settings.recheck - now))
    }
}

/// Different paths that failed lately: so many as it takes to judge by them.
struct FailedPaths: Sendable {
    private var paths: [(target: UInt64, at: Int64)] = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    mutating func add(_ target: UInt64, at time: Int64) {
        if let known = paths.firstIndex(where: { $0.target == target }) {
            paths.remove(at: known)
        } else if paths.count == limit {
            paths.removeFirst()
        }
        paths.append((target, time))
    }

    mutating func forget() { paths = [] }

    /// How many different ones failed since.
    func count(since time: Int64) -> Int { paths.count { $0.at >= time } }
}

// MARK: The scopes

struct AddressScope: Sendable {
    var failuresInRow = 0
    /// When anything was last heard of it.
    var reachedAt = Int64.min
    var opening: Opening?
    /// When the last attempt to reach it that failed did so.
    var failedAt: Int64?
}

struct UpstreamScope: Sendable {
    /// So many different paths have failed, and nothing succeeded.
    static let threshold = 3

    var failed = FailedPaths(limit: UpstreamScope.threshold)
    var witnesses = Witnesses()
    /// Those that have failed. What only one has shown tells nothing of the others.
    var families = Witnesses()
    var opening: Opening?
    /// nil before the first exchange.
    var succeededAt: Int64?
    /// When it was open last: what was asked before that tells nothing of now.
    var closedAt = Int64.min

    func concerns(_ scopes: borrowing RequestScopes) -> Bool { witnesses.mayStop(scopes.user) && families.mayStop(scopes.family) }

    mutating func succeed(now: Int64) {
        if opening != nil { closedAt = now }
        succeededAt = now
        forgetFailures()
    }

    mutating func forgetFailures() {
        failed.forget()
        (witnesses, families) = (Witnesses(), Witnesses())
        opening = nil
    }
}

struct FamilyScope: Sendable {
    /// So many different paths of it have failed, and none succeeded.
    static let threshold = 5

    let name: FamilyName
    var failed = FailedPaths(limit: FamilyScope.threshold)
    var witnesses = Witnesses()
    var opening: Opening?
    /// At first, when it was seen for the first time.
    var succeededAt: Int64
    var closedAt = Int64.min
    /// Of `FailureMemory.era`.
    var era: Int

    mutating func succeed(now: Int64) {
        failed.forget()
        witnesses = Witnesses()
        succeededAt = now
        if opening != nil { closedAt = now }
        opening = nil
    }

    mutating func forgetFailures(era: Int) {
        failed.forget()
        witnesses = Witnesses()
        opening = nil
        self.era = era
    }
}

struct TargetScope: Sendable {
    let path: [UInt8]
    var failuresInRow = 0
    var failedAt = Int64.min
    var succeededAt = Int64.min
    var witnesses = Witnesses()
    var opening: Opening?
    /// It has succeeded while its family, or all, counted as failing. They do not stop it until it fails itself.
    var isApart = false
    var era: Int

    init(_ scopes: borrowing RequestScopes, era: Int) {
        path = Array(scopes.path.prefix(FailureMemory.shownBytes))
        self.era = era
    }

    mutating func succeed(now: Int64) {
        forgetFailures(era: era)
        succeededAt = now
    }

    mutating func forgetFailures(era: Int) {
        failuresInRow = 0
        witnesses = Witnesses()
        opening = nil
        self.era = era
    }
}

struct PauseScope: Sendable {
    let path: [UInt8]
    let user: UInt64
    let since: Int64
    let until: Int64
    let status: Status
    /// Of clients without credentials, those that were told so. It may be meant for them alone: by addresses, say.
    var told: [UInt64]
    /// When another of them last looked whether it is.
    var lookedAt: Int64

    /// So many have to be told before nobody looks.
    static let toldLimit = 8

    /// One that has just been told to wait, or to wait again.
    init(_ scopes: borrowing RequestScopes, _ status: Status, until: Int64, after known: PauseScope?, now: Int64) {
        path = Array(scopes.path.prefix(FailureMemory.shownBytes))
        (user, self.until, self.status) = (scopes.user, until, status)
        (since, told, lookedAt) = known.map { ($0.since, $0.told, $0.lookedAt) } ?? (now, [], now)
        if user == 0, told.count < Self.toldLimit, !told.contains(scopes.client) { told.append(scopes.client) }
    }

    func isLookDue(by client: UInt64, now: Int64, recheck: Int64) -> Bool {
        user == 0 && told.count < Self.toldLimit && !told.contains(client) && now - lookedAt >= recheck
    }

    var name: FailureMemory.Scope { .pause(path, user: user) }

    func stop(now: Int64) -> FailureStop { FailureStop(scope: .pause, cause: .status(status), since: since, wait: max(0, until - now)) }
}
