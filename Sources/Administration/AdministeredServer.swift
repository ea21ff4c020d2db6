// The operations and data of the running server that the admin interface may use.

import Advice
import CachePolicy
import Explanation
import Figures
import JSON
import ResponseCache
import Upstream

/// Methods are called on the interface's queue. Callbacks run on any thread.
public protocol AdministeredServer: AnyObject, Sendable {
    /// Milliseconds since 1970, and of the monotonic clock.
    var wallMilliseconds: Int64 { get }
    var monotonicMilliseconds: Int64 { get }

    // MARK: Numbers

    var cacheFigures: CacheFigures { get }
    func collectMetrics(then: @escaping @Sendable (MetricsSnapshot) -> Void)

    /// History of the process, which survives reloads.
    var status: StatusMemory { get }
    /// URLs of the status page on TCP listeners.
    var statusURLs: [String] { get }

    // MARK: Settings

    /// Reloads the settings and the files that they name, such as certificates. `then` is called when all loops use the new settings, or
    /// when the reload was rejected.
    func reload(then: @escaping @Sendable (ReloadOutcome) -> Void)

    // MARK: Injected faults

    var faults: FaultTable { get }
    /// Changes the faults. Calls `then` with the result of `change` when all loops have received the change.
    func changeFaults<Result: Sendable>(
        _ change: (inout FaultTable) -> Result, then: @escaping @Sendable (Result) -> Void)

    // MARK: Take-over

    /// Whether another process has taken over, which must then receive changes.
    var isTakenOver: Bool { get }
    /// Calls `then` when the successor has received the changes of this process; at once if there is none.
    func afterPropagation(_ then: @escaping @Sendable () -> Void)

    // MARK: Fleet

    /// Calls `then` with the state of the fleet as seen by this node; nil if nothing is shared.
    func collectShare(then: @escaping @Sendable (JSONValue?) -> Void)
    /// Rejects matching records of other nodes from now on. nil if nothing is shared.
    func announcePurge(_ selection: FleetSelection, isSoft: Bool) -> AnnouncedPurge?

    // MARK: Event loops

    /// Collects the counters by target of all loops.
    func collectTargets(then: @escaping @Sendable ([TargetTally]) -> Void)
    /// Searches the records of all loops.
    func searchRecords(_ search: WhyRing.Search, then: @escaping @Sendable (WhyRing.Found) -> Void)
    /// Calls `then` after each loop has completed a turn, including the work it had begun at the time of the call.
    func afterEachLoop(_ then: @escaping @Sendable () -> Void)
}

/// The part of the server that belongs to one API.
public protocol AdministeredAPI: AnyObject, Sendable {
    /// Empty for a single unnamed API.
    var name: String { get }
    /// Index of the API in records.
    var index: UInt16 { get }
    /// nil if nothing is stored.
    var cache: APICacheState? { get }
    var policy: CachePolicySettings { get }
    /// Scheme, host, port and base path of the upstream.
    var upstreamURL: String { get }
    /// In order of priority: the first address that is not down is used.
    var addresses: [AddressState] { get }
    /// Prefix that is removed from clients' paths before requests go to the upstream.
    var strippedPath: [UInt8] { get }
    /// Names of the routes, by index.
    var routeNames: [String] { get }
    /// Settings of a target's route, for explanations.
    func explainedRoute(of target: [UInt8]) -> ExplainedRoute

    // MARK: Observation

    /// What was observed of its paths since a time of the monotonic clock; nil if traffic is not observed.
    func observedTraffic(since: Int64) -> [ObservedSummary]?
    var advisedSettings: AdvisedSettings { get }

    // MARK: Failure memory

    var remembersFailures: Bool { get }
    var report: UpstreamReport { get }
    func openFailures() -> [OpenFailure]
    /// nil if nothing has failed since the start.
    var lastFailure: LastFailure? { get }
    /// Removes scopes with this name or of this kind; all for nil.
    /// - Returns: number of removed scopes.
    func resetFailures(_ name: String?) -> Int

    // MARK: Modes

    var modes: ModeTable { get }
    /// Changes the modes, and returns the result of `change`: whether anything changed. If so, calls `then` when all loops have received
    /// the change.
    func changeModes(_ change: (inout ModeTable) -> Bool, then: @escaping @Sendable () -> Void) -> Bool

    // MARK: Archives

    /// Whether requests for this target are routed to this API, judged by path only.
    func mayBeAsked(for target: ArraySlice<UInt8>) -> Bool

    /// Applies the rules for all paths and those of the route to an archived response.
    func judge(_ archived: ArchivedResponse) -> ArchiveJudgement
}

/// An address of an upstream.
public struct AddressState: Sendable {
    /// Includes the base path.
    public let url: String
    /// Start of the outage in milliseconds of the monotonic clock, with the error of the last attempt; nil if no failure is known.
    public let down: (since: Int64, error: String)?

    public init(url: String, down: (since: Int64, error: String)?) { (self.url, self.down) = (url, down) }
}

public enum ReloadOutcome: Sendable {
    case applied(AppliedSettings)
    /// One sentence for each mistake.
    case refused([String])

    /// Label in metrics.
    public var label: String {
        switch self {
        case .applied(let applied): applied.awaitingRestart.isEmpty ? "applied" : "restart_needed"
        case .refused: "refused"
        }
    }

    public static let labels = ["applied", "restart_needed", "refused"]
}

public struct AppliedSettings: Sendable {
    /// Names of changed settings.
    public var changed: [String]
    /// Names of changed settings that keep their former values until a restart.
    public var awaitingRestart: [String]
    /// Files of the certificates in use.
    public var certificates: [String]
    public var warnings: [String]

    public init(changed: [String] = [], awaitingRestart: [String] = [], certificates: [String] = [], warnings: [String] = []) {
        (self.changed, self.awaitingRestart) = (changed, awaitingRestart)
        (self.certificates, self.warnings) = (certificates, warnings)
    }
}

/// A failure scope.
public struct OpenFailure: Sendable {
    /// Identifies the scope for a reset.
    public let name: String
    public let kind: String
    /// Milliseconds of the monotonic clock.
    public let since: Int64
    public let cause: String
    /// Text of the cause; nil if unknown.
    public let details: String?
    /// Setting that helps against the cause, and its effect; nil if none helps.
    public let advice: String?
    public let setting: String
    /// Value with its unit; empty if it depends on the route.
    public let settingValue: String
    public let effect: String
    /// Milliseconds.
    public let wait: Int64
    /// Time of the last check, on the clock of `since`; nil if there are no checks.
    public let checkedAt: Int64?
    /// Identifies the user that the failure concerns; nil for all users.
    public let user: UInt64?

    public init(
        name: String, kind: String, since: Int64, cause: String, details: String? = nil, advice: String? = nil, setting: String,
        settingValue: String = "", effect: String, wait: Int64,
        checkedAt: Int64? = nil, user: UInt64?
    ) {
        (self.settingValue, self.checkedAt) = (settingValue, checkedAt)
        self.name = name
        self.kind = kind
        self.since = since
        (self.cause, self.details, self.advice) = (cause, details, advice)
        self.setting = setting
        self.effect = effect
        self.wait = wait
        self.user = user
    }
}

extension OpenFailure {
    var causeText: String { details.map { "\(cause): \($0)" } ?? cause }
}

public struct LastFailure: Sendable {
    /// Milliseconds of the monotonic clock.
    public let at: Int64
    public let cause: String
    /// Text of the cause; nil if unknown.
    public let details: String?
    /// Names, issuer and validity of a refused certificate.
    public let certificate: String?
    /// Setting that helps against the cause, and its effect; nil if none helps.
    public let advice: String?
    /// Path without the query; nil if no connection was established.
    public let path: String?
    /// Whether a success has followed.
    public let isOver: Bool

    public init(
        at: Int64, cause: String, details: String?, certificate: String?, advice: String?, path: String?, isOver: Bool
    ) {
        (self.at, self.cause, self.details, self.certificate) = (at, cause, details, certificate)
        (self.advice, self.path, self.isOver) = (advice, path, isOver)
    }
}

public struct ArchiveJudgement: Sendable {
    /// Requirements of its route for good responses.
    public let good: GoodResponse
    /// Why the content is not stored; nil if it is acceptable.
    public let flaw: NotStoredReason?
    /// Entity tag computed from the data, for a response without validator; otherwise nil.
    public let ownTag: [UInt8]?
    /// Whether the JSON is malformed by RFC 8259.
    public let isLenient: Bool

    public init(good: GoodResponse, flaw: NotStoredReason?, ownTag: [UInt8]?, isLenient: Bool) {
        (self.good, self.isLenient) = (good, isLenient)
        self.flaw = flaw
        self.ownTag = ownTag
    }
}
