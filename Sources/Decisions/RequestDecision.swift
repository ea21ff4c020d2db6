// The first of the two points of decision: what is done with a request, once its head is there (and its content, where the key needs it). One pure
// function makes one value of what is known then. The flow performs it; the trace, metrics and Cache-Status read it, and decide nothing. What
// follows when the upstream has failed, or when a wait is over, is the second point: `OutcomeDecision`.

import CachePolicy
import Forwarding
import HTTPCore

/// - `Response`: a stored response, as the flow holds it.
public enum RequestDecision<Response: AnyObject> {
    /// A stored response goes out. The upstream is not asked.
    case serve(Response, Serving)
    /// A stored response goes out, and a new one is fetched behind it.
    case serveAndRefresh(Response, Serving, BackgroundCause, RequestPlace)
    /// A stored response fits, but has to be confirmed or replaced first. It may be the rescue.
    case validate(StoredCopy<Response>, ValidationCause, RequestPlace)
    /// Nothing that is stored fits. What comes is stored where it may be.
    case forward(MissReason, RequestPlace)
    /// Only a part is asked for. What comes is not stored; a stored whole may be the rescue.
    case part(StoredCopy<Response>?)
    /// The store has nothing to do with the request; nil: there is no store.
    case pass(BypassReason?)
    /// Cistern responds itself. The upstream is not asked.
    case refuse(Refusal)
}

/// How a stored response goes out.
public struct Serving: Sendable, Equatable {
    public enum Cause: Sendable, Equatable {
        /// It is fresh, or the request takes it as stale as it is (`max-stale`).
        case fresh
        /// It is stale, and allows itself to be served meanwhile (RFC 5861 §3).
        case staleWhileRevalidate
        case mode(ServingMode)
        /// The mode again: what goes out says that the resource is gone, since that was said after the copy.
        case gone(ServingMode)
    }

    public let age: Int64
    /// Seconds of freshness left; nil where nothing was said of it.
    public let ttl: Int64?
    public let cause: Cause

    public init(age: Int64, ttl: Int64?, _ cause: Cause) {
        self.age = age
        self.ttl = ttl
        self.cause = cause
    }
}

/// A stored response that does not go out now, and whether it may if the upstream fails.
public struct StoredCopy<Response: AnyObject> {
    public let response: Response
    public let mayRescue: Bool
}

/// Why a stored response that fits has to be validated.
public enum ValidationCause: Sendable, Equatable {
    /// It may not be served to anybody by itself.
    case stale(ValidationReason)
    /// It could be served, but this request does not take it.
    case request(ValidationReason)
    /// The mode is `record`.
    case record
}

/// Why nothing that is stored fits.
public enum MissReason: Sendable, Equatable {
    case nothingStored
    /// Something is stored, but for other values of the fields that Vary names.
    case otherVariant
}

/// Why Cistern responds itself. What it says then is in `OwnRefusal`.
public enum Refusal: Sendable, Equatable {
    case request(RequestRefusal)
    /// The mode is `offline`, and nothing that may go out is stored.
    case offline
    /// The request wanted nothing but what is stored (RFC 9111 §5.2.1.7).
    case onlyIfCached

    /// Whether it may be for none of several APIs.
    public var isOfNoAPI: Bool {
        switch self {
        case .request(.access(let refusal)): refusal.isOfPlace
        case .request, .offline, .onlyIfCached: false
        }
    }
}

/// Under which keys a request was looked up. A class, since it is handed from hand to hand.
public final class KeyedTarget: Sendable, Equatable {
    public let keys: TargetKeys
    public let flight: FlightKey
    /// Of its keys.
    public let isPartitioned: Bool

    public init(keys: TargetKeys, flight: [UInt8]) {
        self.keys = keys
        self.flight = FlightKey(flight)
        isPartitioned = keys.isPartitioned
    }

    public static func == (one: KeyedTarget, other: KeyedTarget) -> Bool { one.keys == other.keys && one.flight == other.flight }
}

/// Where the response to a request belongs, and for whom it may be fetched together.
public struct RequestPlace: Sendable, Equatable {
    public let target: KeyedTarget
    public let sharing: Sharing

    public init(_ target: KeyedTarget, sharing: Sharing) {
        self.target = target
        self.sharing = sharing
    }

    public var keys: TargetKeys { target.keys }
    public var flight: FlightKey { target.flight }
    public var isPartitioned: Bool { target.isPartitioned }
    public var unknownFieldsHash: UInt64 { target.keys.unknownFieldsHash }

    public enum Sharing: Sendable {
        /// It says of itself what it wants, so it is asked for alone.
        case none
        /// The response to another request for the same would do.
        case collapsed
        /// A plain GET: it may be asked without its client too.
        case repeated
    }
}

// MARK: What it is made of

/// All that the first decision depends on. Not copyable, since it is large.
public struct RequestFacts<Response: AnyObject>: ~Copyable {
    public let method: Method
    public var storeUse = StoreUse<Response>.noStore
    public var directives = RequestCacheControl()
    /// What `Reuse.decide` has already returned for the stored response, these directives and `now`. nil: `decide` calls it.
    public var reuse: ReuseDecision?
    public var mode = ServingMode.live
    /// Why the request would be refused whatever is stored elsewhere.
    public var refusal: RequestRefusal?
    public let strictness: Strictness
    /// Seconds for which stale responses may stand in for a failing upstream; nil: for ever.
    public var staleFor: Int64?
    /// A stream and nothing else is wanted.
    public var wantsStream = false
    public let now: Timestamp

    public init(_ method: Method, strictness: Strictness, now: Timestamp) {
        self.method = method
        self.strictness = strictness
        self.now = now
    }
}

/// What the store has to do with a request.
public enum StoreUse<Response: AnyObject> {
    case noStore
    case bypassed(BypassReason)
    case lookedUp(LookUpFacts<Response>)
}

/// What looking into the store has brought.
public struct LookUpFacts<Response: AnyObject> {
    /// What was found lies behind a reference, so that handing it on copies nothing, and dropping it asks no tables for the type.
    public enum Result {
        indirect case found(Response, StoredMetadata)
        case nothing
        case otherVariant
    }

    public let result: Result
    public let target: KeyedTarget
    /// Only a part is asked for.
    public var isForPart = false
    /// What the response depends on is in the key, with the request's content: others with the same content may have it.
    public var isKeptByContent = false
    /// The response that came after what was found and says that it is gone. Looked for in modes that serve whatever is stored.
    public var gone = Result.nothing
    /// This hit is asked for often, and has little freshness left.
    public var isRefreshDue = false

    public init(_ result: Result, _ target: KeyedTarget) {
        self.result = result
        self.target = target
    }
}

// MARK: The decision

/// What the rules say of a stored response that fits. Not generic, and without the response: what a generic type is has to be looked up at each
/// use, which costs as much as the rules do.
private struct Rating {
    let stored: StoredMetadata
    let reuse: ReuseDecision
}

extension RequestFacts {
    /// - Parameter mayRefresh: whether a fetch may be started behind a stale response that goes out.
    public func decide(mayRefresh: Bool = true) -> RequestDecision<Response> {
        var rating: Rating?
        if case .lookedUp(let lookedUp) = storeUse, case .found(let response, let stored) = lookedUp.result {
            let found = Rating(stored: stored, reuse: reuse ?? Reuse.decide(stored, directives, now: now))
            if let served = serve(response, found, lookedUp, mayRefresh) { return served }
            rating = found
        }
        // What only wants what is stored needs no upstream.
        if refusal == .access(.requestsPerAddress), isForStoredOnly { return .refuse(.onlyIfCached) }
        if let refusal { return .refuse(.request(refusal)) }
        if mode == .offline { return .refuse(.offline) }
        switch storeUse {
        case .noStore: return .pass(nil)
        case .bypassed(let reason): return isForStoredOnly ? .refuse(.onlyIfCached) : .pass(reason)
        case .lookedUp(let lookedUp): return directives.onlyIfCached ? .refuse(.onlyIfCached) : ask(rating, lookedUp)
        }
    }

    /// A request that may change something is never kept from the upstream (RFC 9111 §4).
    private var isForStoredOnly: Bool { directives.onlyIfCached && (method.isRead || method == .query) }

    /// nil where nothing that is stored goes out without asking.
    private func serve(
        _ response: Response, _ found: Rating, _ lookedUp: LookUpFacts<Response>, _ mayRefresh: Bool
    ) -> RequestDecision<Response>? {
        switch mode {
        case .record: nil
        case .offline: serveWhatIsStored(response, found, lookedUp)
        case .replay: serveWhatIsStored(response, found, lookedUp) ?? serveByRules(response, found, lookedUp, mayRefresh)
        case .live: serveByRules(response, found, lookedUp, mayRefresh)
        }
    }

    private func serveByRules(
        _ response: Response, _ found: Rating, _ lookedUp: LookUpFacts<Response>, _ mayRefresh: Bool
    ) -> RequestDecision<Response>? {
        if case .serve = found.reuse {} else if let negative = negative(lookedUp) { return negative }
        switch found.reuse {
        case .validate: return nil
        case .serve(let ttl, let age):
            let serving = Serving(age: age, ttl: ttl, .fresh)
            let place = place(lookedUp)
            // RFC 8246 §2: what is immutable is not asked after while it is fresh.
            guard lookedUp.isRefreshDue, place.sharing == .repeated, !found.stored.flags.contains(.immutable) else {
                return .serve(response, serving)
            }
            return .serveAndRefresh(response, serving, .refreshAhead, place)
        // Only a GET can be asked anew without its client.
        case .serveWhileValidating where method != .get || lookedUp.isForPart || !mayRefresh: return nil
        case .serveWhileValidating(let ttl, let age):
            let serving = Serving(age: age, ttl: ttl, .staleWhileRevalidate)
            return .serveAndRefresh(response, serving, .staleWhileRevalidate, place(lookedUp))
        }
    }

    /// An error that came after what is stored, and is kept for a moment so that it is not asked for each time.
    private func negative(_ lookedUp: LookUpFacts<Response>) -> RequestDecision<Response>? {
        guard case .found(let gone, let metadata) = lookedUp.gone, metadata.isNegative,
            case .serve(let ttl, let age) = Reuse.decide(metadata, directives, now: now)
        else { return nil }
        return .serve(gone, Serving(age: age, ttl: ttl, .fresh))
    }

    /// However old, where it may go out at all.
    private func serveWhatIsStored(
        _ response: Response, _ found: Rating, _ lookedUp: LookUpFacts<Response>
    ) -> RequestDecision<Response>? {
        if case .serve(let ttl, let age) = found.reuse {
            return .serve(response, Serving(age: age, ttl: ttl, .mode(mode)))
        }
        if case .found(let gone, let metadata) = lookedUp.gone,
            case .allowed(let age, let ttl) = Reuse.rescueGone(metadata, directives, strictness: strictness, now: now)
        {
            return .serve(gone, Serving(age: age, ttl: ttl, .gone(mode)))
        }
        // Who switched this mode on wants what there is, however old.
        guard case .allowed(let age, let ttl) = Reuse.rescue(found.stored, directives, strictness: strictness, now: now) else { return nil }
        return .serve(response, Serving(age: age, ttl: ttl, .mode(mode)))
    }

    /// - Parameter found: of what is stored; nil where nothing is.
    private func ask(_ found: Rating?, _ lookedUp: LookUpFacts<Response>) -> RequestDecision<Response> {
        guard let found, case .found(let response, _) = lookedUp.result else {
            if lookedUp.isForPart { return .part(nil) }
            if case .otherVariant = lookedUp.result { return .forward(.otherVariant, place(lookedUp)) }
            return .forward(.nothingStored, place(lookedUp))
        }
        let copy = StoredCopy(response: response, mayRescue: mode != .record && mayRescue(found.stored))
        return lookedUp.isForPart ? .part(copy) : .validate(copy, validationCause(found), place(lookedUp))
    }

    private func mayRescue(_ stored: StoredMetadata) -> Bool {
        Reuse.rescue(stored, directives, strictness: strictness, staleFor: staleFor, now: now).isAllowed
    }

    private func validationCause(_ found: Rating) -> ValidationCause {
        guard mode != .record else { return .record }
        switch found.reuse {
        case .serve, .serveWhileValidating: return .stale(.stale)
        case .validate(let reason): return Reuse.isFresh(found.stored, now: now) ? .request(reason) : .stale(reason)
        }
    }

    private func place(_ lookedUp: LookUpFacts<Response>) -> RequestPlace {
        let sharing: RequestPlace.Sharing =
            if mode == .record || wantsStream || directives != RequestCacheControl() {
                .none
            } else if method == .get {
                .repeated
            } else {
                lookedUp.isKeptByContent ? .collapsed : .none
            }
        return RequestPlace(lookedUp.target, sharing: sharing)
    }
}

// MARK: What is read of it

extension RequestDecision {
    /// What is read of it often, all at once.
    /// - `copy`: what is held against the upstream's response, and what a validation confirms.
    /// - `mayRescue`: whether the copy may go out while the upstream fails: then what is wrong with its response counts as a failure.
    /// - `place`: nil where nothing of what comes is stored.
    public var copyAndPlace: (copy: Response?, mayRescue: Bool, place: RequestPlace?) {
        switch self {
        // It has just gone out.
        case .serveAndRefresh(let response, _, _, let place): (response, true, place)
        case .validate(let copy, _, let place): (copy.response, copy.mayRescue, place)
        case .forward(_, let place): (nil, false, place)
        case .part(let copy): (copy?.response, copy?.mayRescue ?? false, nil)
        case .serve, .pass, .refuse: (nil, false, nil)
        }
    }

    public var place: RequestPlace? { copyAndPlace.place }

    public var refusal: Refusal? { if case .refuse(let refusal) = self { refusal } else { nil } }

    /// Why the upstream is asked, in the registered words (RFC 9211 §2.2).
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

    /// Whether what other nodes have is looked for before this is done, where nodes share.
    public var looksAtOthers: Bool {
        switch self {
        case .forward, .validate: true
        case .serve, .serveAndRefresh, .part, .pass, .refuse: false
        }
    }

    /// Why what comes is not stored, where that is known without it.
    public var notStored: NotStoredReason {
        switch self {
        case .pass(let reason?): reason.notStored
        case .part: BypassReason.range.notStored
        case .serve, .serveAndRefresh, .validate, .forward, .pass(nil), .refuse: .storeRefused
        }
    }
}
