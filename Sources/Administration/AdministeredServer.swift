// All that the administrator's pages may know of the running server, and all that they may have it do. No page gets more of it than this.

import CachePolicy
import Explanation
import FaultInjection
import HTTPCore
import JSON
import ResponseCache
import Telemetry

/// Asked on the interface's queue; what is handed back comes from whatever thread has it.
public protocol AdministeredServer: AnyObject, Sendable {
    /// Milliseconds since 1970, and of a clock that is never set.
    var wallMilliseconds: Int64 { get }
    var monotonicMilliseconds: Int64 { get }

    // MARK: Numbers

    var cacheFigures: CacheFigures { get }
    func collectMetrics(then: @escaping @Sendable (MetricsSnapshot) -> Void)

    /// Of the process: it outlives reloads.
    var status: StatusMemory { get }
    /// Of the page of the state, on each address of TCP that has it.
    var statusURLs: [String] { get }

    // MARK: Settings

    /// Reads the settings again, and the files that they name, such as certificates. `then` is called once all of it holds on every loop, or
    /// all stays as it was.
    func reload(then: @escaping @Sendable (ReloadOutcome) -> Void)

    // MARK: Practising outages

    var faults: FaultTable { get }
    /// Calls `then` with what `change` returned, once every loop knows.
    func changeFaults<Result: Sendable>(
        _ change: (inout FaultTable) -> Result, then: @escaping @Sendable (Result) -> Void)

    // MARK: Another process

    /// Whether another process has taken over, and is to be asked for changes.
    var isTakenOver: Bool { get }
    /// Calls `then` once that knows what has changed here; at once where there is none.
    func afterTelling(_ then: @escaping @Sendable () -> Void)

    // MARK: Other nodes

    /// Calls `then` with what this node knows of them; nil where nothing is shared.
    func collectShare(then: @escaping @Sendable (JSONValue?) -> Void)
    /// From now on what is purged is not taken from other nodes; nil where nothing is shared.
    func announcePurge(_ selection: FleetSelection, isSoft: Bool) -> (any AnnouncedPurge)?

    // MARK: Loops

    /// What requests came to, by target, as each loop has counted it.
    func collectTargets(then: @escaping @Sendable ([TargetTally]) -> Void)
    /// What a search finds on all loops.
    func searchRecords(_ search: WhyRing.Search, then: @escaping @Sendable (WhyRing.Found) -> Void)
    /// Calls `then` once each loop has turned: what it was about to do when this was called has been done.
    func afterEachLoop(_ then: @escaping @Sendable () -> Void)
}

/// The same of one API.
public protocol AdministeredAPI: AnyObject, Sendable {
    /// Empty for the only one.
    var name: String { get }
    /// By which records call it.
    var place: UInt16 { get }
    /// nil where nothing is stored.
    var cache: SharedCacheState? { get }
    var policy: CachePolicySettings { get }
    /// Scheme, host, port and base path of the upstream.
    var upstreamURL: String { get }
    /// In their order: the first that is not down is asked.
    var addresses: [AddressState] { get }
    /// What is taken off clients' paths before the upstream is asked.
    var strippedPath: [UInt8] { get }
    /// Those that have a name of their own, at their places.
    var routeNames: [String] { get }
    /// What an explanation has to know of a target's route.
    func explainedRoute(of target: [UInt8]) -> ExplainedRoute

    // MARK: What is known of failures

    var remembersFailures: Bool { get }
    /// The state of the upstream.
    var report: UpstreamReport { get }
    /// All that is open now.
    func openFailures() -> [OpenFailure]
    /// nil if nothing has failed since the start.
    var lastFailure: LastFailure? { get }
    /// Forgets what is known of scopes of this name or kind, or of all.
    /// - Returns: how many there were.
    func resetFailures(_ name: String?) -> Int

    // MARK: Modes

    var modes: ModeTable { get }
    /// Returns what `change` returns: whether there was something to change. If so, `then` is called once every loop knows.
    func changeModes(_ change: (inout ModeTable) -> Bool, then: @escaping @Sendable () -> Void) -> Bool

    // MARK: Archives

    /// Whether clients' requests for this target can be for it, as far as its path and those of others tell.
    func mayBeAsked(for target: ArraySlice<UInt8>) -> Bool

    /// What the rules for all and those of its route say of an archived response.
    func judge(_ archived: ArchivedResponse) -> ArchiveJudgement
}

/// One address of an upstream.
public struct AddressState: Sendable {
    /// With its base path.
    public let url: String
    /// Since when it cannot be reached, in milliseconds of the clock that is never set, and what the last attempt ended with; nil where nothing
    /// speaks against it.
    public let down: (since: Int64, error: String)?

    public init(url: String, down: (since: Int64, error: String)?) { (self.url, self.down) = (url, down) }
}

/// What came of reading the settings again.
public enum ReloadOutcome: Sendable {
    case applied(AppliedSettings)
    /// Every mistake, in a sentence each.
    case refused([String])

    /// As metrics call it.
    public var label: String {
        switch self {
        case .applied(let applied): applied.awaitingRestart.isEmpty ? "applied" : "restart_needed"
        case .refused: "refused"
        }
    }

    public static let labels = ["applied", "restart_needed", "refused"]
}

public struct AppliedSettings: Sendable {
    /// The names of settings that have another value than before.
    public var changed: [String]
    /// Those that would have, and keep the one of the start.
    public var awaitingRestart: [String]
    /// The files of the certificates in use.
    public var certificates: [String]
    public var warnings: [String]

    public init(changed: [String] = [], awaitingRestart: [String] = [], certificates: [String] = [], warnings: [String] = []) {
        (self.changed, self.awaitingRestart) = (changed, awaitingRestart)
        (self.certificates, self.warnings) = (certificates, warnings)
    }
}

/// What is known to fail.
public struct OpenFailure: Sendable {
    /// By which it is reset.
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
    /// With its unit; empty where it depends on the route.
    public let settingValue: String
    public let effect: String
    /// Milliseconds.
    public let wait: Int64
    /// When it was looked last, as `since`; nil where nobody looks.
    public let lookedAt: Int64?
    /// A number for the one who was asked to wait; nil where it concerns all.
    public let user: UInt64?

    public init(
        name: String, kind: String, since: Int64, cause: String, details: String? = nil, advice: String? = nil, setting: String,
        settingValue: String = "", effect: String, wait: Int64,
        lookedAt: Int64? = nil, user: UInt64?
    ) {
        (self.settingValue, self.lookedAt) = (settingValue, lookedAt)
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
    /// Label and details.
    var causeText: String { details.map { "\(cause): \($0)" } ?? cause }
}

/// The last failure of an upstream.
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
    /// What its route calls good.
    public let good: GoodResponse
    /// Why its content is not kept.
    public let flaw: NotStoredReason?
    /// The entity tag of its data, where it came without a validator.
    public let ownTag: [UInt8]?
    /// JSON that RFC 8259 refuses.
    public let isLenient: Bool

    public init(good: GoodResponse, flaw: NotStoredReason?, ownTag: [UInt8]?, isLenient: Bool) {
        (self.good, self.isLenient) = (good, isLenient)
        self.flaw = flaw
        self.ownTag = ownTag
    }
}
