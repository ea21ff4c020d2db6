// The second of two decisions: how a request continues after a failed fetch or a wait for a collapsed fetch, or when the upstream is slow.
// A pure function of the first decision's facts, the stored responses at that time, and the time. Responses that a fetch returned are
// handled by `ResponseDecision`.

import CachePolicy
import HTTPCore
import Upstream

public enum OutcomeDecision<Response: AnyObject> {
    /// Serve the response that a collapsed fetch has stored.
    case serveCollapsed(Response, age: Int64)
    /// Serve a stored response instead of the failed upstream response.
    case rescue(Rescue<Response>, FetchFailure)
    /// Ask the failure memory again, then lead a fetch or wait for another one.
    /// - Parameter isLast: there is no further attempt after this one.
    case fetchAgain(isLast: Bool)
    /// Fetch separately, regardless of collapsed requests.
    case fetchAlone
    /// Give the upstream more time.
    case keepWaiting
    /// Respond with an error, because no stored response may be served.
    case refuse(FetchFailure, NoCopyReason)
}

extension OutcomeDecision {
    /// The corresponding event for the exchange's state machine.
    public var next: ExchangeMachine.Next {
        switch self {
        case .serveCollapsed, .rescue, .refuse: .respond
        case .fetchAgain(let isLast): .fetchAgain(isLast: isLast)
        case .fetchAlone: .fetchAlone
        case .keepWaiting: .keepWaiting
        }
    }
}

/// A stored response that is served while the upstream fails.
public struct Rescue<Response: AnyObject> {
    public enum Source: Sendable, Equatable {
        /// Stored for this request.
        case own
        /// Newer than the request's stored response; states that the resource is gone.
        case gone
        /// Stored for requests without credentials.
        case sharedRescue(SharedRescuePermission)
    }

    public let response: Response
    /// Age in seconds.
    public let age: Int64
    /// Remaining freshness in seconds; nil if unknown.
    public let ttl: Int64?
    public let source: Source

    public init(_ response: Response, age: Int64, ttl: Int64?, _ source: Source) {
        self.response = response
        self.age = age
        self.ttl = ttl
        self.source = source
    }
}

/// Why no stored response is served while the upstream fails.
public enum NoCopyReason: Sendable, Equatable {
    case nothingStored
    case bypassed(BypassReason)
    case forbidden(NoRescueReason)
    /// No response is stored for the request itself, and the one stored without credentials may not be served.
    case sharedRescueForbidden(NoSharedRescueReason)
}

/// The event that requires the second decision.
public enum Ending: Sendable, Equatable {
    /// The request's own fetch failed, or was not started.
    case failed(FetchFailure)
    /// The collapsed fetch that the request waited for has ended.
    case flight(FlightOutcome)
    /// The soft deadline has passed: the time that the upstream has if a stored response can be served.
    case softDeadline
    /// The maximum time to wait for a collapsed fetch has passed.
    case waitLimit
    /// Another node's response has arrived while the fetch is still running.
    case copyTaken

    public var dependsOnStore: Bool {
        switch self {
        case .failed, .flight(.stored), .flight(.outdated), .flight(.failed), .softDeadline, .copyTaken: true
        case .flight(.unshareable), .flight(.overtaken), .flight(.abandoned), .waitLimit: false
        }
    }

    /// Whether a client can provoke the ending by its own requests: a slow response, or the pause after a rate limit.
    public var mayBeProvoked: Bool {
        switch self {
        case .softDeadline: true
        case .failed(.stopped(let stop)): stop.scope == .pause
        case .failed, .flight, .waitLimit, .copyTaken: false
        }
    }

    /// Whether the upstream has failed, so that a stored response may be served.
    public var isFailure: Bool {
        switch self {
        case .failed, .flight(.failed), .softDeadline: true
        case .flight(.stored), .flight(.outdated), .flight(.unshareable), .flight(.overtaken), .flight(.abandoned): false
        case .waitLimit, .copyTaken: false
        }
    }
}

// MARK: Facts

/// The facts on which the second decision depends.
public struct OutcomeFacts<Response: AnyObject> {
    public let directives: RequestCacheControl
    public let mode: ServingMode
    public let strictness: Strictness
    /// Maximum staleness in seconds of a response served while the upstream fails; nil means no limit.
    public var staleFor: Int64?
    public let now: Timestamp
    /// Whether the request has already waited for a fetch without a result.
    public var hasWaited = false
    /// Whether the awaited fetch belonged to another client. Its failure does not imply that this request fails.
    public var isOfAnotherClient = false
    /// Order of the awaited fetch.
    public var flightOrder = SentOrder.unknown
    /// Why the request bypasses the store; nil if it was looked up.
    public var bypass: BypassReason?
    public var stored = StoredNow<Response>()

    public init(_ directives: RequestCacheControl, _ mode: ServingMode, strictness: Strictness, now: Timestamp) {
        self.directives = directives
        self.mode = mode
        self.strictness = strictness
        self.now = now
    }
}

/// The stored responses for a request when its fetch or wait has ended.
public struct StoredNow<Response: AnyObject> {
    public typealias Copy = (response: Response, metadata: StoredMetadata)

    /// The response found when the request arrived; nil if none.
    public var found: Copy?
    /// The response found now; nil if none.
    public var current: Copy?
    /// A response newer than both which states that the resource is gone; nil if none.
    public var gone: Copy?
    /// Whether `latest` may be served to this request while the upstream still works: the upstream would select its representation, and it
    /// starts no session.
    public var isSelected = true
    /// The response stored without credentials. Looked up if the request has credentials and no stored response.
    public var sharedRescue = SharedRescueCandidate.nothing

    public enum SharedRescueCandidate {
        case nothing
        case allowed(Rescue<Response>)
        case forbidden(NoSharedRescueReason)
    }

    public init() {}

    /// The more recent of `found` and `current`, so that an older response never follows a newer one.
    public var latest: Copy? {
        guard let current else { return found }
        guard let found else { return current }
        return current.metadata.recency.isLater(than: found.metadata.recency) ? current : found
    }
}

// MARK: Decision

extension OutcomeFacts {
    public func decide(_ ending: Ending) -> OutcomeDecision<Response> {
        switch ending {
        case .failed(let failure): end(failure)
        case .flight(let outcome): follow(outcome)
        case .waitLimit: .fetchAlone
        // Another representation is served only if the upstream fails.
        case .softDeadline: (stored.isSelected ? ownRescue : nil).map { .rescue($0, .slow) } ?? .keepWaiting
        case .copyTaken: shareFresh()
        }
    }

    private func follow(_ outcome: FlightOutcome) -> OutcomeDecision<Response> {
        switch outcome {
        // The leader's unknown fields may differ, and its response may have been stored for requests with those fields only.
        case .stored where isUntouched: return .fetchAlone
        case .stored: return share()
        // The flight stored nothing since the request arrived.
        case .outdated where isUnchanged: return fetchOnceMore
        case .outdated: return share()
        case .unshareable: return .fetchAlone
        case .overtaken: return fetchOnceMore
        case .abandoned: return .fetchAgain(isLast: hasWaited)
        case .failed(.tooManyStreams): return end(.tooManyStreams)
        case .failed(let failure):
            // The failure may concern only the leader's request, so each follower sends its own request instead of waiting again.
            guard let rescue = ownRescue else { return .fetchAlone }
            guard isOfAnotherClient else { return .rescue(rescue, failure) }
            return fetchOnceMore
        }
    }

    private var fetchOnceMore: OutcomeDecision<Response> { hasWaited ? .fetchAlone : .fetchAgain(isLast: true) }

    private var isUnchanged: Bool {
        guard let found = stored.found else { return false }
        return stored.current?.metadata.order == found.metadata.order
    }

    /// Whether the found response, which serves all requests regardless of unknown fields, was neither replaced nor confirmed.
    private var isUntouched: Bool {
        guard let found = stored.found, found.metadata.flags.contains(.forAllFields), isUnchanged else { return false }
        return stored.current?.metadata.responseTime == found.metadata.responseTime
    }

    private func share() -> OutcomeDecision<Response> {
        guard let current = stored.current else { return .fetchAlone }
        // A later fetch, for another representation, may have replaced the response that the flight stored or confirmed.
        let isOfFlight = flightOrder != .unknown && !current.metadata.order.follows(flightOrder)
        guard isOfFlight || stored.isSelected else { return fetchOnceMore }
        // Under `strict`, requests share a response only if each may be served from the store without validation (RFC 9111 §4).
        if strictness == .strict, case .validate = Reuse.decide(current.metadata, directives, now: now) { return .fetchAlone }
        return .serveCollapsed(current.response, age: Freshness.currentAge(of: current.metadata, now: now))
    }

    /// Serves the response if no validation is needed; otherwise continues to wait for the upstream.
    private func shareFresh() -> OutcomeDecision<Response> {
        guard let current = stored.current, case .serve(_, let age) = Reuse.decide(current.metadata, directives, now: now) else {
            return .keepWaiting
        }
        return .serveCollapsed(current.response, age: age)
    }

    private func end(_ failure: FetchFailure) -> OutcomeDecision<Response> {
        // A stored response is never a stream.
        if failure == .tooManyStreams { return .refuse(failure, .nothingStored) }
        switch ownCopy() {
        case .allowed(let rescue)?: return .rescue(rescue, failure)
        case .forbidden(let reason)?: return .refuse(failure, .forbidden(reason))
        case nil: break
        }
        switch stored.sharedRescue {
        case .allowed(let rescue): return .rescue(rescue, failure)
        case .forbidden(let reason): return .refuse(failure, .sharedRescueForbidden(reason))
        case .nothing: return .refuse(failure, bypass.map { .bypassed($0) } ?? .nothingStored)
        }
    }

    private enum OwnCopy {
        case allowed(Rescue<Response>)
        case forbidden(NoRescueReason)
    }

    /// The response stored for this request, or a newer one which states that the resource is gone. nil if no response is stored.
    private func ownCopy() -> OwnCopy? {
        guard let latest = stored.latest else { return nil }
        guard mode != .record else { return .forbidden(.record) }
        switch Reuse.rescue(latest.metadata, directives, strictness: strictness, staleFor: staleFor, now: now) {
        case .forbidden(let reason): return .forbidden(reason)
        case .allowed(let age, let ttl):
            guard let gone = stored.gone else { return .allowed(Rescue(latest.response, age: age, ttl: ttl, .own)) }
            switch Reuse.rescueGone(gone.metadata, directives, strictness: strictness, staleFor: staleFor, now: now) {
            case .forbidden(let reason): return .forbidden(reason)
            case .allowed(let age, let ttl): return .allowed(Rescue(gone.response, age: age, ttl: ttl, .gone))
            }
        }
    }

    private var ownRescue: Rescue<Response>? { if case .allowed(let rescue)? = ownCopy() { rescue } else { nil } }
}
