// The second of the two points of decision: what follows when a fetch has failed, when a wait for another's fetch is over, or when the upstream
// takes too long. One pure function of what was decided of the request, of what is stored now, and of the time. A fetch that has brought a response is no
// matter of it: that response goes out (what is made of it first is decided by `ResponseDecision`).

import CachePolicy
import HTTPCore

public enum OutcomeDecision<Response: AnyObject> {
    /// What another's fetch has stored goes out.
    case serveShared(Response, age: Int64)
    /// A stored response goes out in the place of what the upstream did not bring.
    case rescue(Rescue<Response>, FetchFailure)
    /// The failure memory is asked again; then this leads a fetch, or waits for another's.
    /// - Parameter isLast: no third time follows.
    case askAnew(isLast: Bool)
    /// This asks for itself, whoever else asks for the same.
    case askAlone
    /// The upstream gets more time.
    case keepWaiting
    /// Nothing may go out: the client gets an error of our own.
    case refuse(FetchFailure, NoCopyReason)
}

extension OutcomeDecision {
    /// What it means for the exchange's machine.
    public var next: ExchangeMachine.Next {
        switch self {
        case .serveShared, .rescue, .refuse: .respond
        case .askAnew(let isLast): .askAnew(isLast: isLast)
        case .askAlone: .askAlone
        case .keepWaiting: .keepWaiting
        }
    }
}

/// A stored response that goes out while the upstream fails.
public struct Rescue<Response: AnyObject> {
    public enum Source: Sendable, Equatable {
        /// It is stored for this very request.
        case own
        /// It came after the copy and says that the resource is gone.
        case gone
        /// It was stored for those without credentials.
        case shared(SharedCopyPermission)
    }

    public let response: Response
    public let age: Int64
    /// Seconds of freshness left; nil where nothing is known of it.
    public let ttl: Int64?
    public let source: Source

    public init(_ response: Response, age: Int64, ttl: Int64?, _ source: Source) {
        self.response = response
        self.age = age
        self.ttl = ttl
        self.source = source
    }
}

/// Why no stored response goes out while the upstream fails.
public enum NoCopyReason: Sendable, Equatable {
    case nothingStored
    case forbidden(NoRescueReason)
    /// Nothing is stored for the request itself, and what is stored for those without credentials may not go out.
    case sharedForbidden(NoSharedRescueReason)
}

/// What has come to an end.
public enum Ending: Sendable, Equatable {
    /// Our own fetch, or the request was not sent at all.
    case failed(FetchFailure)
    /// The fetch of another that this has waited for.
    case flight(FlightOutcome)
    /// The time that the upstream has where a copy may go out.
    case softDeadline
    /// The time that one waits for another's fetch.
    case wait
    /// Nothing yet: another node's response has come while the upstream is asked.
    case copyTaken

    /// Whether what is stored now matters.
    public var looksIntoStore: Bool {
        switch self {
        case .failed, .flight(.stored), .flight(.outdated), .flight(.failed), .softDeadline, .copyTaken: true
        case .flight(.unshareable), .flight(.overtaken), .flight(.abandoned), .wait: false
        }
    }

    /// Whether the upstream has failed, so that a copy may go out.
    public var isFailure: Bool {
        switch self {
        case .failed, .flight(.failed), .softDeadline: true
        case .flight(.stored), .flight(.outdated), .flight(.unshareable), .flight(.overtaken), .flight(.abandoned), .wait, .copyTaken: false
        }
    }
}

// MARK: What it is made of

/// All that the second decision depends on.
public struct OutcomeFacts<Response: AnyObject> {
    public let directives: RequestCacheControl
    public let mode: ServingMode
    public let strictness: Strictness
    /// Seconds for which stale responses may stand in; nil: for ever.
    public var staleFor: Int64?
    public let now: Timestamp
    /// Whether it has waited before for a fetch that brought it nothing.
    public var hasWaited = false
    /// Whether the awaited fetch was another client's. Its failure is no evidence for this request.
    public var isOfAnotherClient = false
    public var stored = StoredNow<Response>()

    public init(_ directives: RequestCacheControl, _ mode: ServingMode, strictness: Strictness, now: Timestamp) {
        self.directives = directives
        self.mode = mode
        self.strictness = strictness
        self.now = now
    }
}

/// What the store has for a request when its fetch or its wait has ended.
public struct StoredNow<Response: AnyObject> {
    public typealias Copy = (response: Response, metadata: StoredMetadata)

    /// What was found when the request came.
    public var found: Copy?
    /// What is found now.
    public var current: Copy?
    /// What came after the later of the two and says that the resource is gone.
    public var gone: Copy?
    /// What is stored for those without credentials, where the request has some and nothing is stored for it.
    public var shared = SharedCopy.nothing

    public enum SharedCopy {
        case nothing
        case allowed(Rescue<Response>)
        case forbidden(NoSharedRescueReason)
    }

    public init() {}

    /// An older copy must not follow a newer one.
    public var latest: Copy? {
        guard let current else { return found }
        guard let found else { return current }
        return current.metadata.recency.isLater(than: found.metadata.recency) ? current : found
    }
}

// MARK: The decision

extension OutcomeFacts {
    public func decide(_ ending: Ending) -> OutcomeDecision<Response> {
        switch ending {
        case .failed(let failure): end(failure)
        case .flight(let outcome): follow(outcome)
        case .wait: .askAlone
        case .softDeadline: ownRescue.map { .rescue($0, .slow) } ?? .keepWaiting
        case .copyTaken: shareFresh()
        }
    }

    private func follow(_ outcome: FlightOutcome) -> OutcomeDecision<Response> {
        switch outcome {
        // The leader's fields may differ, and what it has stored be for requests with those only.
        case .stored where isUntouched: return .askAlone
        case .stored: return share()
        // What was stored before this request came is not what it waited for.
        case .outdated where isUnchanged: return hasWaited ? .askAlone : .askAnew(isLast: true)
        case .outdated: return share()
        case .unshareable: return .askAlone
        case .overtaken: return hasWaited ? .askAlone : .askAnew(isLast: true)
        case .abandoned: return .askAnew(isLast: hasWaited)
        case .failed(.tooManyStreams): return end(.tooManyStreams)
        case .failed(let failure):
            // The failure may be about the leader's request. No follower waits behind another one to find that out.
            guard let rescue = ownRescue else { return .askAlone }
            guard isOfAnotherClient else { return .rescue(rescue, failure) }
            return hasWaited ? .askAlone : .askAnew(isLast: true)
        }
    }

    private var isUnchanged: Bool {
        guard let found = stored.found else { return false }
        return stored.current?.metadata.order == found.metadata.order
    }

    /// Whether what was found, for all requests whatever unknown fields they have, has neither been replaced nor confirmed.
    private var isUntouched: Bool {
        guard let found = stored.found, found.metadata.flags.contains(.forAllFields), isUnchanged else { return false }
        return stored.current?.metadata.responseTime == found.metadata.responseTime
    }

    private func share() -> OutcomeDecision<Response> {
        guard let current = stored.current else { return .askAlone }
        // To the letter, one response is for several requests only where each of them may have it unasked (RFC 9111 §4).
        if strictness == .strict, case .validate = Reuse.decide(current.metadata, directives, now: now) { return .askAlone }
        return .serveShared(current.response, age: Freshness.currentAge(of: current.metadata, now: now))
    }

    /// What goes out unasked goes out; else the upstream is waited for further.
    private func shareFresh() -> OutcomeDecision<Response> {
        guard let current = stored.current, case .serve(_, let age) = Reuse.decide(current.metadata, directives, now: now) else {
            return .keepWaiting
        }
        return .serveShared(current.response, age: age)
    }

    private func end(_ failure: FetchFailure) -> OutcomeDecision<Response> {
        // A copy is no stream.
        if failure == .tooManyStreams { return .refuse(failure, .nothingStored) }
        switch ownCopy() {
        case .allowed(let rescue)?: return .rescue(rescue, failure)
        case .forbidden(let reason)?: return .refuse(failure, .forbidden(reason))
        case nil: break
        }
        switch stored.shared {
        case .allowed(let rescue): return .rescue(rescue, failure)
        case .forbidden(let reason): return .refuse(failure, .sharedForbidden(reason))
        case .nothing: return .refuse(failure, .nothingStored)
        }
    }

    private enum OwnCopy {
        case allowed(Rescue<Response>)
        case forbidden(NoRescueReason)
    }

    /// What is stored for this very request; what was said last of it, if that is that it is gone. nil where nothing is stored.
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
