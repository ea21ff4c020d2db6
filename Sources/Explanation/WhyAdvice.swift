// Advice about settings: which setting caused a result, and what it would change. Tests check the table against the list of settings.

import CachePolicy
import Decisions
import Upstream

public struct WhyAdvice: Equatable, Sendable {
    /// Name in the configuration file.
    public let setting: String
    public let effect: String

    public init(_ setting: String, _ effect: String) {
        self.setting = setting
        self.effect = effect
    }
}

extension WhyAdvice {
    /// - Parameter label: reason for not storing, as a metric label.
    /// - Returns: the text of the reason and the setting that changes it; nil if there is no such reason.
    public static func words(ofNotStored label: String) -> (sentence: String, advice: WhyAdvice?)? {
        NotStoredReason(rawValue: label).map { ($0.sentence, $0.advice) }
    }
}

extension NotStoredReason {
    /// Reason clause of a sentence about a response that was not stored.
    public var sentence: String {
        switch self {
        case .methodNotCacheable: "responses to this method are not kept"
        case .requestContent: "the request had content, and its effect on the response is unknown"
        case .longContent: "the request's content is longer than what responses are kept by on its route"
        case .changingContent: "the request's content changes something, or may do so"
        case .unreadContent: "the content of other requests took so much memory or work that this one's was not looked through"
        case .connectionUser: "the upstream authenticates connections (NTLM, Negotiate or Kerberos), so the response is this client's alone"
        case .rangeRequest: "only a part was asked for"
        case .preconditions: "the request had preconditions that only the upstream can judge"
        case .status: "responses with this status are not kept"
        case .setCookie: "the response sets a cookie, and such responses are not kept"
        case .noContent: "the response has no content"
        case .partial: "the response is only a part"
        case .requestNoStore: "the request said Cache-Control: no-store"
        case .noStore: "the response said Cache-Control: no-store"
        case .privateResponse:
            "the response has Cache-Control: private, and no credentials of the request select a partition"
        case .userUnknown:
            """
            the response has Cache-Control: private, and no credentials of the request identify one user: no credential field, and no cookie \
            that looks like a session's
            """
        case .oneTimeCredentials:
            "the request's credentials are new each time (a signature, Digest or a DPoP proof), so no later request would find the response"
        case .authorized: "the request was authorized, and the response did not allow sharing"
        case .varyStar: "the response said Vary: *, or varies by where the client is, so it fits no other request"
        case .tooManyMembers: "the response varies by too many fields, or belongs to too many groups"
        case .contentType: "the response's media type is not one that is kept"
        case .contentCoding: "the response was coded in a way that cannot, or for no-transform may not, be taken off"
        case .tooLarge: "the response is too large"
        case .invalidJSON: "the response says that it is JSON and is not"
        case .empty: "the response says that it is JSON and is empty"
        case .unprovenEnd: "nothing proves that the response was complete"
        case .undecodable: "the response's coding could not be taken off"
        case .tooDeep: "the response is JSON that nests deeper than is looked at"
        case .notGood: "the response is not what the route calls a good one"
        case .notKept: "the response lacks what the route's keep_if demands"
        case .graphQLError: "the response has GraphQL errors and no data"
        case .outdated: "a response that was asked for later had come before it, and is stored"
        case .invalidated: "its target was purged or written to while the response was on its way"
        case .storeRefused: "the store did not take it"
        case .stream: "it is a stream, which is passed on as it comes"
        case .notAllowed: "the upstream does not let scripts of this origin send what the preflight asked for"
        }
    }

    /// - Parameter status: status of the response; nil if unknown.
    /// - Returns: nil if no setting changes the outcome.
    public func advice(status: UInt16?) -> WhyAdvice? {
        switch self {
        case .status: WhyAdvice(ofNotStored: status)
        default: advice
        }
    }

    /// Advice for a response with an unknown status; nil if no setting changes the outcome.
    public var advice: WhyAdvice? {
        switch self {
        case .methodNotCacheable:
            WhyAdvice(
                "routes.methods", "names methods that only read on a route, so that their responses are kept; GraphQL mutations never are")
        case .longContent:
            WhyAdvice("routes.content_limit", "is the longest content of a request that its response is kept by")
        case .status: WhyAdvice(ofNotStored: nil)
        case .noStore: WhyAdvice("routes.freshness.ignore", "with no-store in it, the route's responses are kept although they say so")
        case .setCookie: WhyAdvice("cache.set_cookie", "strip: keeps the response without the cookie")
        case .privateResponse: WhyAdvice("cache.role", "private: one user's own cache keeps it")
        case .userUnknown:
            WhyAdvice("cache.credential_cookies", "with the cookie that tells users apart named in it, without *, the response is kept")
        case .authorized:
            WhyAdvice("cache.credential_fields", "with authorization in the list, the response is kept for requests with equal credentials")
        case .contentType: WhyAdvice("cache.content_types", "names the media types that are kept")
        case .tooLarge:
            WhyAdvice("cache.buffer_limit", "is the largest response that is kept; store.size and the space on its disk bound it too")
        case .notGood: WhyAdvice("routes.good.must_have", "and the others beside it say what a good response of the route is like")
        case .notKept: WhyAdvice("routes.keep_if.must_have", "and the others beside it say which responses of the route are kept")
        case .invalidated: WhyAdvice("routes.invalidates_target", "off: a write to the target does not make its responses invalid")
        case .storeRefused: WhyAdvice("store.directory", "must be writable; `cistern status` tells")
        case .oneTimeCredentials:
            WhyAdvice(
                "credentials.partition", "ignore: on a route with equal responses for all clients, they are kept for all")
        case .noContent: WhyAdvice("cache.store", "any: keeps responses without content too")
        case .contentCoding: WhyAdvice("cache.store", "any: keeps responses in their own coding")
        case .unreadContent, .tooManyMembers, .requestContent, .changingContent, .connectionUser, .rangeRequest, .preconditions, .partial,
            .requestNoStore, .varyStar,
            .invalidJSON, .graphQLError, .empty, .unprovenEnd, .undecodable, .tooDeep,
            .outdated, .stream,
            .notAllowed:
            nil
        }
    }
}

extension CrossOriginRules.Verdict {
    var sentence: String {
        switch self {
        case .allowed: "Cistern responded to the preflight itself, as the setting cors says, and allowed what it asked for."
        case .originNotNamed: "Cistern refused the preflight: cors.origins does not name its origin."
        case .methodNotNamed: "Cistern refused the preflight: cors.methods does not name the method that it asked for."
        case .fieldNotNamed: "Cistern refused the preflight: cors.fields does not name a field that it asked for."
        }
    }
}

extension BypassReason {
    public var sentence: String {
        switch self {
        case .method: "Responses to this method do not come from the store."
        case .content: "The request had content, so the store has no response for it."
        case .longContent:
            "Responses to this method are kept by the request's content, and only as long as that is no longer than routes.content_limit."
        case .changingContent:
            "Responses to this method are kept by the request's content, but not where that changes something, or may (as a GraphQL mutation)."
        case .unreadContent: "Responses to this method are kept by the request's content, which was not looked through."
        case .range: "Only a part was asked for, and no fresh whole is stored."
        case .precondition: "The request had preconditions that only the upstream can judge."
        case .stream: "Responses of this route are streams (routes.stream), which never come from the store."
        case .connectionUser:
            "The client's connection is authenticated at the upstream (NTLM, Negotiate or Kerberos): its requests use a separate connection."
        case .upgrade: "The client wanted to change to another protocol (routes.upgrade): what is said in that is passed on as it comes."
        }
    }
}

extension BackgroundCause {
    public var sentence: String {
        switch self {
        case .staleWhileRevalidate: "A stale response that permits this was served; this fetch refreshed it in the background."
        case .refreshAhead:
            "The stored response is requested often and was about to become stale; this fetch refreshed it in the background."
        case .recheck: "The upstream was known to fail here; this was a check in the background."
        case .slow: "The stored response was served because the upstream was slow; the fetch continued."
        case .clientLeft: "The client had left; the upstream's response was still waited for."
        }
    }
}

extension ValidationReason {
    /// Reason clause of a sentence about a request that was forwarded although a response is stored.
    public var sentence: String {
        switch self {
        case .noFreshness: "the stored response did not say for how long it is fresh"
        case .stale: "the stored response is stale"
        case .noCache: "the stored response said Cache-Control: no-cache"
        case .markedStale: "the stored response was purged softly, or a login or a captive portal answered a write"
        case .unseen: "what other nodes have purged could not be seen, and the stored response was older than share.blind_limit"
        case .otherOrigin: "the stored response was sent for another Origin, or for none, so this script may not be permitted to read it"
        case .ageUnknown: "the clock was set back since the stored response came, so its age is unknown"
        case .requestNoCache: "the request said Cache-Control: no-cache"
        case .requestMaxAge: "the stored response is older than the request's max-age"
        case .requestMinFresh: "the stored response is not fresh for as long as the request's min-fresh"
        }
    }
}

extension FleetReply {
    var sentence: String {
        let time = "\(microseconds / 1_000).\(microseconds / 100 % 10) ms"
        return switch outcome {
        case .found where hasWaited: "Another node fetched this response; it came after \(time)."
        case .missing where hasWaited: "Another node sent this request to the upstream, and had stored no response after \(time)."
        case .found: "Another node had stored the response: it came from the shared level in \(time)."
        case .missing: "No other node had stored it (the shared level said so in \(time))."
        case .late: "The shared level had not replied after \(time), so the upstream was asked beside it."
        case .failed: "The shared level could not be asked (cistern share status)."
        case .refused:
            "What other nodes had stored may not be taken: \(refusal?.sentence ?? "it is no newer, or was purged or changed since")."
        }
    }
}

extension FleetRefusal {
    /// Reason clause of a sentence about a response of another node that may not be used.
    fileprivate var sentence: String {
        switch self {
        case .otherEpoch: "it was stored before the engine lost its log"
        case .belowFloor: "it is older than what can be known of purges"
        case .ahead: "this node has not read as far in the fleet's log"
        case .doubted: "its place in the fleet's log may have been lost with a primary"
        case .purgedAll: "all was purged since, or something was said that this node cannot read"
        case .marked: "it was purged or written to since"
        case .selected: "it was purged since"
        case .held: "this node has changed it, and not told the others yet"
        case .unreadable: "no secret of this node opens it (share.secret_file), or it was changed there"
        case .clock: "by the fleet's clock it comes from the future, or that clock is not known yet"
        case .notNewer: "the stored response here is as recent, or was invalidated here"
        case .notGood: "it is not what counts as good here, or less than the good copy that is stored here"
        }
    }
}

extension FleetObstacle {
    var sentence: String {
        let reason =
            switch self {
            case .failing: "the engine fails, and is not asked (cistern share status says why)"
            case .disconnected: "what other nodes purge cannot be seen just now (cistern share status says why)"
            case .slow: "a round trip to the engine takes too long"
            case .unshareable: "the last response could not be shared, or the upstream failed, so each node asks for itself for a while"
            case .lookedUp: "responses of users identified by the upstream (credentials.identity.lookup) are not shared"
            }
        return "What other nodes had stored was not looked for: \(reason)."
    }
}

extension FleetDoubt {
    /// Reason clause of a sentence about a request that was forwarded although a response is stored.
    var sentence: String {
        let reason =
            switch self {
            case .neverFollowed: "it was stored before this node followed what other nodes purge"
            case .epoch: "the engine between nodes has lost its log, and with it what other nodes may have purged"
            case .trimmed: "what other nodes purged while this one was away is no longer in the log (share.keep)"
            case .lostEntries: "what other nodes purged was lost with a server of the engine"
            case .unopened: "a node with another secret has purged or changed something, and this node cannot read what (share.secret_file)"
            }
        return "the stored response counts as stale, since \(reason)"
    }
}

extension LifetimeSource {
    /// nil if the response gave its own lifetime.
    var sentence: String? {
        switch self {
        case .response: nil
        case .heuristic: "How long it counts as fresh is a share of the time since its Last-Modified (cache.heuristics)."
        case .standard: "It did not say how long it is fresh: the setting freshness.default does."
        case .minimum: "It counts as fresh for longer than it said: the setting freshness.minimum has it so."
        case .maximum: "It counts as fresh for less than it said: the setting freshness.maximum has it so."
        case .negative: "It is an error, and is kept for the time that the setting negative gives."
        }
    }
}

extension NoRescueReason {
    /// Reason clause of a sentence about a stored response that may not be served as a rescue.
    public var sentence: String {
        switch self {
        case .noCache: "it said no-cache"
        case .mustRevalidate: "it said must-revalidate"
        case .proxyRevalidate: "it said proxy-revalidate"
        case .sharedMaxAge: "it said s-maxage"
        case .requestNoCache: "the request said no-cache"
        case .staleIfError: "it is staler than its stale-if-error allows"
        case .authorized: "it is the response to another's authorized request, and may be shared only as long as it is validated"
        case .storedError: "it is an error itself"
        case .staleFor: "it has been stale for longer than stale_for"
        case .record: "the mode is record"
        }
    }

    /// nil if no setting changes the result.
    public var advice: WhyAdvice? {
        switch self {
        case .noCache, .mustRevalidate, .proxyRevalidate, .sharedMaxAge, .requestNoCache, .staleIfError:
            WhyAdvice("cache.policy", "rescue: stored responses are served while the upstream fails, regardless of their Cache-Control")
        case .authorized:
            WhyAdvice("cache.credential_fields", "with authorization in the list, the response is kept for requests with equal credentials")
        case .staleFor: WhyAdvice("cache.stale_for", "longer, or 0s: stored responses are served at any age")
        case .storedError, .record: nil
        }
    }
}

extension SharedRescuePermission {
    /// Name of the response that was served.
    public var copy: String {
        switch self {
        case .isPublic, .ownCookies, .always: "The stored response to those without credentials"
        case .expiredToken: "The stored response of the token's user"
        case .lookedUpBefore: "The stored response of the credentials' user"
        }
    }

    /// Reason clause of a sentence about a stored response that was served instead.
    public var sentence: String {
        switch self {
        case .isPublic: "it said that it is for everyone"
        case .ownCookies: "the request's cookies are those that the upstream gave to a client without any"
        case .always: "the operator allows any (cache.rescue_with_shared: always)"
        case .expiredToken: "the token has just ended (credentials.identity.jwt.rescue_expired)"
        case .lookedUpBefore:
            "the upstream cannot identify the user now; this is its last answer (credentials.identity.lookup.keep)"
        }
    }
}

extension NoSharedRescueReason {
    /// Reason clause of a sentence about a response stored without credentials that may not be served.
    public var sentence: String {
        switch self {
        case .never: "cache.rescue_with_shared is never"
        case .varies: "it depends on the credentials (Vary)"
        case .notPublic: "it did not say public or s-maxage"
        case .otherCookies: "it did not say public or s-maxage, and the credentials are not just cookies that came with it"
        case .gone: "the target is gone for those without credentials"
        }
    }

    /// nil if no setting changes the result.
    public var advice: WhyAdvice? {
        switch self {
        case .never:
            WhyAdvice(
                "cache.rescue_with_shared",
                "own: it may if it said public or s-maxage, or if the cookies came with it; always: it may in any case")
        case .notPublic, .otherCookies:
            WhyAdvice("cache.rescue_with_shared", "always: it may be served for all requests with credentials")
        case .varies, .gone: nil
        }
    }
}

extension UpstreamFault {
    /// Text about a response.
    public var sentence: String {
        switch self {
        case .serverError: "the server says that it is in trouble"
        case .rateLimited: "the server says that it was asked too often"
        case .invalidJSON: "it says that it is JSON and is not"
        case .undecodable: "its coding cannot be taken off"
        case .emptyContent: "it is empty"
        case .unexpectedType: "its media type is not the expected one, as when a web page comes instead of JSON"
        case .unexpectedStatus: "a status like this was not asked for"
        case .redirected: "it leads elsewhere, as to a login page"
        case .unprovenEnd: "nothing proves that it was complete"
        case .crowd: "many targets turned so at once, as when a gateway loses its routes"
        case .unexpectedSize: "the route's good responses have another size"
        case .missingValue: "it lacks a value that the route's good responses have"
        case .unwantedValue: "it has a value that the route's good responses have not"
        case .shrunk: "it is much shorter than the stored one"
        }
    }
}

extension ContentOutcome {
    /// nil if the outcome needs no sentence.
    public var sentence: String? {
        switch self {
        case .whole: nil
        case .streamedTooLong: "The request's content was passed on as it came: it is too long to be held."
        case .streamedNoRoom: "The request's content was passed on as it came: others held too much."
        case .unfinished: "The request's content did not become whole, and nothing was asked."
        }
    }

    public var advice: WhyAdvice? {
        switch self {
        case .whole, .unfinished, .streamedNoRoom: nil
        case .streamedTooLong:
            WhyAdvice("limits.request_buffer", "is how much of one request's content is read before the request is sent to the upstream")
        }
    }
}

extension FailureStop {
    public var sentence: String {
        let cause = "(\(StateSentence.words(ofCause: cause.text)))"
        return switch scope {
        case .address: "The upstream cannot be reached \(cause), and was not asked."
        case .upstream: "Every request to the upstream fails \(cause): the copy was served at once, and checks continue in the background."
        case .route: "Every request on this route fails \(cause): the copy was served at once, and checks continue in the background."
        case .key: "This request failed twice in a row \(cause): the copy was served at once, and checks continue in the background."
        case .pause: "The upstream asked this client to wait before it sends this request again \(cause), and was not asked."
        }
    }

    /// The setting that helps against the cause; nil if none does.
    public var causeAdvice: WhyAdvice? { cause.advice.map { WhyAdvice($0.setting, $0.effect) } }

    public var advice: WhyAdvice {
        let setting = setting.rawValue
        return switch self.setting {
        case .retryAfterLimit: WhyAdvice(setting, "is the maximum Retry-After that is followed")
        case .recheck: WhyAdvice(setting, "is the interval between checks of what fails")
        case .window: WhyAdvice(setting, "is how long nothing must have succeeded for this")
        case .threshold: WhyAdvice(setting, "is how many failures in a row it takes; failure.recheck is the interval between attempts")
        }
    }
}

extension FetchFailure {
    /// - Parameter status: status of the upstream's response; 0 if there was none.
    public func sentence(status: UInt16) -> String {
        switch self {
        case .stopped(let stop): stop.sentence
        case .slow: "The upstream was too slow, and a copy was served; the fetch continued."
        case .tooManyStreams: "The upstream's response is a stream, and streams hold half of the connections already: as many as they may."
        case .transfer(let error) where error.kind == .connectionLimitReached:
            "The upstream was not asked: too many others were waiting for it."
        case .transfer(let error) where error.kind == .tunnelRefused:
            "The forward proxy made no tunnel to the upstream, which was not asked\(error.details.map { ": \($0)" } ?? "")."
        case .transfer(let error):
            "The upstream failed: \(error.sentencePart)\(status == 0 ? "" : ", after status \(status)")."
        case .fault(let fault, _):
            "The upstream's response, status \(status), cannot be used (\(StateSentence.words(ofCause: fault.rawValue))): \(fault.sentence)."
        }
    }

    /// - Parameter isUnderWay: whether the head of the upstream's response was complete.
    public func advice(isUnderWay: Bool) -> WhyAdvice? {
        switch self {
        case .stopped(let stop): stop.advice
        case .slow: WhyAdvice("cache.rescue_after", "is how long the upstream has where a copy could be served")
        case .tooManyStreams: WhyAdvice("upstream.connections", "is how many there are; streams may hold half of them")
        case .transfer(let error):
            isUnderWay && [.connectionReadTimeout, .responseTimeout].contains(error.kind)
                ? WhyAdvice(
                    "routes.stream",
                    "true: responses that grow over time, such as a watch, are streamed; timeouts.stream is their longest pause")
                : error.advice.map { WhyAdvice($0.setting, $0.effect) }
        case .fault(let fault, _): fault.advice
        }
    }
}

extension UpstreamError {
    fileprivate var sentencePart: String { StateSentence.words(ofCause: rawValue) + (details.map { " (\($0))" } ?? "") }
}

extension UpstreamFault {
    /// The setting with the violated requirement of the route; nil for other faults.
    var advice: WhyAdvice? {
        switch self {
        case .unexpectedSize: WhyAdvice("routes.good.min_bytes", "and routes.good.max_bytes say how long a good response of the route is")
        case .missingValue: WhyAdvice("routes.good.must_have", "names the values of a good response of the route")
        case .unwantedValue: WhyAdvice("routes.good.must_not_have", "names the values that no good response of the route has")
        case .crowd: WhyAdvice("cache.gone", "ignore: a 404 or 403 is passed on, however many targets have one")
        case .shrunk: WhyAdvice("routes.good.shrink_limit", "is the least share of the stored one's length")
        case .serverError, .rateLimited, .invalidJSON, .undecodable, .emptyContent, .unexpectedType, .unexpectedStatus, .redirected,
            .unprovenEnd:
            nil
        }
    }

    /// Advice for a response that violates `good` of the route.
    var demandAdvice: WhyAdvice? {
        guard self == .unexpectedType else { return advice }
        return WhyAdvice("routes.good.content_types", "names the media types of a good response of the route")
    }
}
