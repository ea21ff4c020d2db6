// The first of two decisions: how a request is handled once its head is known (and its content, if the key needs it). One pure function
// computes one value. The module ReverseProxy carries it out; traces, metrics and Cache-Status read it and decide nothing. The second
// decision, after a failure or a wait, is `OutcomeDecision`.

import CachePolicy
import Forwarding
import HTTPCore

/// `Response` is the caller's type of a stored response.
public enum RequestDecision<Response: AnyObject> {
    /// Serve a stored response without contacting the upstream.
    case serve(Response, ServingBasis)
    /// Serve a stored response, and fetch a new one in the background by a complete GET.
    case serveAndRefresh(Response, ServingBasis, BackgroundCause, FetchTarget)
    /// Validate a matching stored response before it is used. It may serve as the rescue.
    case validate(StoredCopy<Response>, ValidationCause, FetchTarget)
    /// Forward the request, because no stored response matches. The response is stored if permitted.
    case forward(MissReason, FetchTarget)
    /// Forward a range request. The response is not stored; a stored complete response may serve as the rescue.
    case part(StoredCopy<Response>?)
    /// Bypass the store. nil: there is no store.
    case pass(BypassReason?)
    /// Respond with an error without contacting the upstream.
    case refuse(Refusal)
}

/// How a stored response is served.
public struct ServingBasis: Sendable, Equatable {
    public enum Cause: Sendable, Equatable {
        /// The response is fresh, or the request accepts it stale (`max-stale`).
        case fresh
        /// The response is stale and permits serving during revalidation (RFC 5861 §3).
        case staleWhileRevalidate
        case mode(ServingMode)
        /// Served because of the mode. The response states that the resource is gone, and is newer than the good stored response.
        case gone(ServingMode)
    }

    /// Age in seconds.
    public let age: Int64
    /// Remaining freshness in seconds; nil if the response gives no lifetime.
    public let ttl: Int64?
    public let cause: Cause

    public init(age: Int64, ttl: Int64?, _ cause: Cause) {
        self.age = age
        self.ttl = ttl
        self.cause = cause
    }
}

/// A stored response that is not served now, and whether it may be served if the upstream fails.
public struct StoredCopy<Response: AnyObject> {
    public let response: Response
    public let mayRescue: Bool
}

/// Why a matching stored response must be validated.
public enum ValidationCause: Sendable, Equatable {
    /// The response may not be served to any client without validation.
    case stale(ValidationReason)
    /// The response could be served, but this request does not accept it.
    case request(ValidationReason)
    /// The mode is `record`.
    case record
}

/// Why no stored response matches.
public enum MissReason: Sendable, Equatable {
    case nothingStored
    /// A response is stored for other values of the fields in Vary.
    case otherVariant
}

/// Why Cistern responds with an error itself. The texts are in `OwnRefusal`.
public enum Refusal: Sendable, Equatable {
    case request(RequestRefusal)
    /// The mode is `offline`, and no stored response may be served.
    /// - Parameter bypass: why the request bypasses the store; nil if it was looked up, or if there is no store.
    case offline(_ bypass: BypassReason?)
    /// The request has only-if-cached, and no suitable response is stored (RFC 9111 §5.2.1.7).
    /// - Parameter bypass: why the request bypasses the store; nil if it was looked up.
    case onlyIfCached(_ bypass: BypassReason?)

    /// Whether the request may belong to none of several APIs.
    public var isOfNoAPI: Bool {
        switch self {
        case .request(.access(let refusal)): refusal.isAboutTarget
        case .request, .offline, .onlyIfCached: false
        }
    }
}

/// The key under which requests that can share a response are collapsed.
public typealias FlightKey = HashedKey

/// The keys under which a request was looked up. A class, so that passing it along copies one reference.
public final class KeyedTarget: Sendable {
    public let keys: TargetKeys
    public let flight: FlightKey
    /// `keys.isPartitioned`.
    public let isPartitioned: Bool

    public init(keys: TargetKeys, flight: [UInt8]) {
        self.keys = keys
        self.flight = FlightKey(flight)
        isPartitioned = keys.isPartitioned
    }
}

/// The key for the response to a request, and whether its fetch may be shared.
public struct FetchTarget: Sendable {
    public let target: KeyedTarget
    public let sharing: Sharing

    public init(_ target: KeyedTarget, sharing: Sharing) {
        self.target = target
        self.sharing = sharing
    }

    public var keys: TargetKeys { target.keys }
    public var flight: FlightKey { target.flight }
    public var isPartitioned: Bool { target.isPartitioned }

    /// Whether the request may take and end the lease of its target, because other nodes could use its response. Fields that change with
    /// each request are not part of the nodes' keys.
    public var takesLease: Bool { sharing == .repeated && target.keys.unknownFields?.changing.isEmpty ?? true }

    public enum Sharing: Sendable {
        /// The request is fetched separately, because of its directives or mode, or because it accepts only a stream.
        case none
        /// The response to another request with this key may be used.
        case collapsed
        /// A plain GET: it may also be sent without a client, as a background refresh.
        case repeated
    }
}

// MARK: Facts

/// The facts on which the first decision depends. Not copyable, because the type is large.
public struct RequestFacts<Response: AnyObject>: ~Copyable {
    public let method: Method
    public var storeUse = StoreUse<Response>.noStore
    public var directives = RequestCacheControl()
    /// Result of `Reuse.decide` for the stored response, these directives and `now`; nil: `decide` computes it.
    public var reuse: ReuseDecision?
    public var mode = ServingMode.live
    /// Why the request would be refused if no stored response is served; nil if it would not.
    public var refusal: RequestRefusal?
    public let strictness: Strictness
    /// Maximum staleness in seconds of a response served while the upstream fails; nil means no limit.
    public var staleFor: Int64?
    /// Whether the request accepts only a stream.
    public var wantsStream = false
    public let now: Timestamp

    public init(_ method: Method, strictness: Strictness, now: Timestamp) {
        self.method = method
        self.strictness = strictness
        self.now = now
    }
}

public enum StoreUse<Response: AnyObject> {
    case noStore
    case bypassed(BypassReason)
    case lookedUp(LookUpFacts<Response>)
}

public struct LookUpFacts<Response: AnyObject> {
    /// `indirect`, so that passing the result along copies one reference, and releasing it needs no type metadata.
    public enum Result {
        indirect case found(Response, StoredMetadata)
        case nothing
        case otherVariant
    }

    public let result: Result
    public let target: KeyedTarget
    /// Whether the request is a range request.
    public var isForPart = false
    /// The key contains the request's content, so other requests with this content may share the response.
    public var isKeptByContent = false
    /// The newer response which states that the resource is gone. Looked up if the stored response might be served stale.
    public var gone = Result.nothing
    /// Whether the stored response is requested often and has little freshness left.
    public var isRefreshDue = false

    public init(_ result: Result, _ target: KeyedTarget) {
        self.result = result
        self.target = target
    }
}

// MARK: Decision

/// The result of the rules for a matching stored response. Not generic and without the response: looking up the metadata of a generic type
/// at each use costs as much as the rules.
private struct Rating {
    let stored: StoredMetadata
    let reuse: ReuseDecision
}

extension RequestFacts {
    /// - Parameter mayRefresh: whether a background refresh may be started after serving a stale response.
    public func decide(mayRefresh: Bool = true) -> RequestDecision<Response> {
        var rating: Rating?
        if case .lookedUp(let lookedUp) = storeUse, case .found(let response, let stored) = lookedUp.result {
            let found = Rating(stored: stored, reuse: reuse ?? Reuse.decide(stored, directives, now: now))
            if let served = serve(response, found, lookedUp, mayRefresh) { return served }
            rating = found
        }
        // A request with only-if-cached never uses the upstream, so the limit does not apply to it.
        if refusal == .access(.requestsPerAddress), isForStoredOnly { return .refuse(.onlyIfCached(bypass)) }
        if let refusal { return .refuse(.request(refusal)) }
        if mode == .offline { return .refuse(.offline(bypass)) }
        switch storeUse {
        case .noStore: return .pass(nil)
        case .bypassed(let reason): return isForStoredOnly ? .refuse(.onlyIfCached(reason)) : .pass(reason)
        case .lookedUp(let lookedUp): return directives.onlyIfCached ? .refuse(.onlyIfCached(nil)) : contactUpstream(rating, lookedUp)
        }
    }

    private var bypass: BypassReason? { if case .bypassed(let reason) = storeUse { reason } else { nil } }

    /// Whether the request must be answered from the store. A request that may change data is always forwarded (RFC 9111 §4).
    private var isForStoredOnly: Bool {
        bypass != .cacheOff && directives.onlyIfCached && (method.isRead || method == .query)
    }

    /// Returns nil if no stored response may be served without contacting the upstream.
    private func serve(
        _ response: Response, _ found: Rating, _ lookedUp: LookUpFacts<Response>, _ mayRefresh: Bool
    ) -> RequestDecision<Response>? {
        switch mode {
        case .record: nil
        case .offline: serveRegardlessOfAge(response, found, lookedUp)
        case .replay: serveRegardlessOfAge(response, found, lookedUp) ?? serveByRules(response, found, lookedUp, mayRefresh)
        case .live: serveByRules(response, found, lookedUp, mayRefresh)
        }
    }

    private func serveByRules(
        _ response: Response, _ found: Rating, _ lookedUp: LookUpFacts<Response>, _ mayRefresh: Bool
    ) -> RequestDecision<Response>? {
        if !found.reuse.isFresh, case .found = lookedUp.gone { return serveGone(lookedUp) }
        switch found.reuse {
        case .validate: return nil
        case .serve(let ttl, let age):
            let serving = ServingBasis(age: age, ttl: ttl, .fresh)
            let fetchTarget = fetchTarget(lookedUp, isRefresh: method.isRead)
            // RFC 8246 §2: an immutable response is not revalidated while it is fresh.
            guard lookedUp.isRefreshDue, fetchTarget.sharing == .repeated, !found.stored.flags.contains(.immutable) else {
                return .serve(response, serving)
            }
            return .serveAndRefresh(response, serving, .refreshAhead, fetchTarget)
        // A complete GET is sent without the client, also for HEAD and for a range.
        case .serveWhileValidating where !method.isRead || !mayRefresh: return nil
        case .serveWhileValidating(let ttl, let age):
            let serving = ServingBasis(age: age, ttl: ttl, .staleWhileRevalidate)
            return .serveAndRefresh(response, serving, .staleWhileRevalidate, fetchTarget(lookedUp, isRefresh: true))
        }
    }

    /// Serves an error newer than the stored response, if it is stored briefly (`negative`) to avoid repeated requests, or if the request
    /// accepts a stale response. Otherwise the upstream is contacted: the older response is no longer the latest known state.
    private func serveGone(_ lookedUp: LookUpFacts<Response>) -> RequestDecision<Response>? {
        guard case .found(let gone, let metadata) = lookedUp.gone, metadata.isNegative || directives.maxStale != nil,
            case .serve(let ttl, let age) = Reuse.decide(metadata, directives, now: now)
        else { return nil }
        return .serve(gone, ServingBasis(age: age, ttl: ttl, .fresh))
    }

    /// Serves a stored response regardless of its age, unless the rules forbid it altogether.
    private func serveRegardlessOfAge(
        _ response: Response, _ found: Rating, _ lookedUp: LookUpFacts<Response>
    ) -> RequestDecision<Response>? {
        if case .serve(let ttl, let age) = found.reuse, found.reuse.isFresh {
            return .serve(response, ServingBasis(age: age, ttl: ttl, .mode(mode)))
        }
        if case .found(let gone, let metadata) = lookedUp.gone,
            case .allowed(let age, let ttl) = Reuse.rescueGone(metadata, directives, strictness: strictness, now: now)
        {
            return .serve(gone, ServingBasis(age: age, ttl: ttl, .gone(mode)))
        }
        // The operator chose this mode to receive stored responses of any age.
        guard case .allowed(let age, let ttl) = Reuse.rescue(found.stored, directives, strictness: strictness, now: now) else { return nil }
        return .serve(response, ServingBasis(age: age, ttl: ttl, .mode(mode)))
    }

    /// - Parameter found: result for the stored response; nil if there is none.
    private func contactUpstream(_ found: Rating?, _ lookedUp: LookUpFacts<Response>) -> RequestDecision<Response> {
        guard let found, case .found(let response, _) = lookedUp.result else {
            if lookedUp.isForPart { return .part(nil) }
            if case .otherVariant = lookedUp.result { return .forward(.otherVariant, fetchTarget(lookedUp)) }
            return .forward(.nothingStored, fetchTarget(lookedUp))
        }
        let cause = validationCause(found)
        let mayRescue =
            mode != .record
            && Reuse.rescue(found.stored, directives, strictness: strictness, staleFor: staleFor, now: now).isAllowed
        let copy = StoredCopy(response: response, mayRescue: mayRescue)
        return lookedUp.isForPart ? .part(copy) : .validate(copy, cause, fetchTarget(lookedUp))
    }

    private func validationCause(_ found: Rating) -> ValidationCause {
        guard mode != .record else { return .record }
        switch found.reuse {
        case .serve, .serveWhileValidating: return .stale(.stale)
        case .validate(let reason): return Reuse.isFresh(found.stored, now: now) ? .request(reason) : .stale(reason)
        }
    }

    /// - Parameter isRefresh: whether a complete GET is sent in the background.
    private func fetchTarget(_ lookedUp: LookUpFacts<Response>, isRefresh: Bool = false) -> FetchTarget {
        let sharing: FetchTarget.Sharing =
            if mode == .record || wantsStream || directives != RequestCacheControl() {
                .none
            } else if method == .get || isRefresh {
                .repeated
            } else {
                lookedUp.isKeptByContent ? .collapsed : .none
            }
        return FetchTarget(lookedUp.target, sharing: sharing)
    }
}

// MARK: Properties of a decision

extension RequestDecision {
    /// Three properties that are often needed together.
    /// - `copy`: the stored response with which the upstream's response is compared, and which a validation confirms.
    /// - `mayRescue`: whether the stored response may be served while the upstream fails. Faults of the upstream's response then count as
    ///   failures.
    /// - `fetchTarget`: nil if the response is not stored.
    public var copyAndTarget: (copy: Response?, mayRescue: Bool, fetchTarget: FetchTarget?) {
        switch self {
        // The response was just served.
        case .serveAndRefresh(let response, _, _, let fetchTarget): (response, true, fetchTarget)
        case .validate(let copy, _, let fetchTarget): (copy.response, copy.mayRescue, fetchTarget)
        case .forward(_, let fetchTarget): (nil, false, fetchTarget)
        case .part(let copy): (copy?.response, copy?.mayRescue ?? false, nil)
        case .serve, .pass, .refuse: (nil, false, nil)
        }
    }

    public var fetchTarget: FetchTarget? { copyAndTarget.fetchTarget }

    public var refusal: Refusal? { if case .refuse(let refusal) = self { refusal } else { nil } }

    /// The forward reason for Cache-Status, as registered by RFC 9211 §2.2.
    public var forwardToken: StaticString {
        switch self {
        case .validate(_, .stale, _), .serveAndRefresh: "stale"
        case .validate(_, .request, _): "request"
        case .forward(.nothingStored, _): "uri-miss"
        case .forward(.otherVariant, _): "vary-miss"
        case .pass(let reason?): reason.forwardToken
        case .part: BypassReason.range.forwardToken
        case .validate(_, .record, _), .pass(nil), .serve, .refuse: "bypass"
        }
    }

    /// Whether the shared store of the fleet is searched before this decision is carried out.
    public var searchesFleet: Bool {
        switch self {
        case .forward, .validate: true
        case .serve, .serveAndRefresh, .part, .pass, .refuse: false
        }
    }

    /// Why the response is not stored, if that is known in advance; otherwise `storeRefused`.
    public var notStored: NotStoredReason {
        switch self {
        case .pass(let reason?): reason.notStored
        case .part: BypassReason.range.notStored
        case .serve, .serveAndRefresh, .validate, .forward, .pass(nil), .refuse: .storeRefused
        }
    }
}
