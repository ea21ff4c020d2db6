// Advice about settings: which setting caused a result, and what it would change. Tests check the table against the list of settings.

import CachePolicy
import Decisions
import Upstream

public struct WhyAdvice: Equatable, Sendable {
    /// Name in the configuration file.
    public let setting: String
    public let effect: String
    /// Value of a setting that only routes have, as YAML; nil for other settings, and for those of a route that exists.
    let inRoute: String?

    public init(_ setting: String, _ effect: String, inRoute: String? = nil) {
        (self.setting, self.effect, self.inRoute) = (setting, effect, inRoute)
    }
}

extension NotStoredReason {
    /// Reason clause of a sentence about a response that was not stored.
    public var sentence: String {
        switch self {
        case .methodNotCacheable: "responses to this method are not stored"
        case .requestContent: "the request had content, and its effect on the response is unknown"
        case .longContent: "the request's content is longer than routes.content_limit"
        case .changingContent: "the request's content changes data, or may change it"
        case .unreadContent: "this request's content was not examined, because other requests' content used the available memory or time"
        case .connectionUser:
            "the upstream authenticates connections (NTLM, Negotiate or Kerberos), so the response belongs to this client only"
        case .rangeRequest: "the request is for a part only (Range)"
        case .preconditions: "the request has preconditions that only the upstream can evaluate"
        case .status: "responses with this status are not stored"
        case .setCookie: "the response sets a cookie, and such responses are not stored"
        case .noContent: "the response has no content"
        case .partial: "the response is partial (206)"
        case .requestNoStore: "the request has Cache-Control: no-store"
        case .noStore: "the response has Cache-Control: no-store"
        case .privateResponse:
            "the response has Cache-Control: private, and no credentials of the request select a partition"
        case .userUnknown:
            """
            the response has Cache-Control: private, and no credentials of the request identify one user: no credential field, and no \
            session cookie
            """
        case .oneTimeCredentials:
            "the request's credentials differ in each request (a signature, Digest or a DPoP proof), so no later request would match"
        case .authorized: "the request has Authorization, and the response does not allow sharing"
        case .varyStar: "the response has Vary: *, or varies by the client's address, so it matches no other request"
        case .tooManyMembers: "the response varies by too many fields, or belongs to too many groups"
        case .contentType: "responses with this media type are not stored"
        case .contentCoding: "the response has a content coding that cannot be decoded, or must not be decoded because of no-transform"
        case .tooLarge: "the response is too large"
        case .memoryLimit: "other responses that were being received used all the memory for them, or the client's part of it"
        case .invalidJSON: "the media type is JSON, but the content is not valid JSON"
        case .empty: "the media type is JSON, but the content is empty"
        case .unprovenEnd: "the response may be incomplete: neither its length nor its content shows its end"
        case .undecodable: "the response's content could not be decoded"
        case .tooDeep: "the response is JSON with too deep nesting"
        case .notGood: "the response does not meet the route's requirements for a good response"
        case .notKept: "the response does not meet the route's keep_if"
        case .graphQLError: "the response has GraphQL errors and no data"
        case .outdated: "the response to a later request arrived first, and is stored"
        case .invalidated: "its target was purged or changed by a write while the response was in transit"
        case .storeRefused: "the store did not accept the response, because its disk refused writes or the settings were reloaded meanwhile"
        case .changingField:
            "a request field has a new value in each request, and fewer than \(EqualResponses.required) values got an equal response"
        case .stream: "the response is a stream, which is forwarded as it arrives"
        case .cacheOff: "its route has cache: off"
        case .notAllowed: "the upstream does not permit scripts of this origin to send the preflight's method or fields"
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
                "routes.methods", "lists methods that only read, so that their responses are stored. GraphQL mutations are never stored",
                inRoute: "methods: [POST]")
        case .longContent:
            WhyAdvice("routes.content_limit", "is the maximum content length of requests with stored responses")
        case .status: WhyAdvice(ofNotStored: nil)
        case .noStore:
            WhyAdvice(
                "routes.freshness.ignore", "containing no-store: the route's responses are stored although they have no-store",
                inRoute: "freshness: {ignore: [no-store]}")
        case .setCookie: WhyAdvice("cache.set_cookie", "strip: the response is stored without the cookie")
        case .privateResponse: WhyAdvice("cache.role", "private: the response is stored, because the cache serves a single user")
        case .userUnknown:
            WhyAdvice("cache.credential_cookies", "containing the cookie that identifies the user, without *: the response is stored")
        case .authorized:
            WhyAdvice("cache.credential_fields", "containing authorization: the response is stored for requests with equal credentials")
        case .contentType: WhyAdvice("cache.content_types", "lists the media types that are stored")
        case .tooLarge:
            WhyAdvice("cache.buffer_limit", "is the maximum size of a stored response. store.size and free disk space limit it too")
        case .notGood: WhyAdvice("routes.good.must_have", "and the other settings of routes.good define a good response of the route")
        case .notKept:
            WhyAdvice("routes.keep_if.must_have", "and the other settings of routes.keep_if define which responses of the route are stored")
        case .invalidated:
            WhyAdvice(
                "routes.invalidates_target", "off: a write to the target does not invalidate its responses",
                inRoute: "invalidates_target: off")
        case .storeRefused: WhyAdvice("store.directory", "must be writable; `cistern status` shows the error")
        case .oneTimeCredentials:
            WhyAdvice(
                "credentials.partition", "ignore: for a route with equal responses for all clients; they are stored for all")
        case .cacheOff: WhyAdvice("routes.cache", "on: responses of the route are stored, shared and served")
        case .changingField:
            WhyAdvice("cache.harmless_fields", "containing the field: its values make no difference, so responses are stored at once")
        case .noContent: WhyAdvice("cache.store", "any: responses without content are stored too")
        case .contentCoding: WhyAdvice("cache.store", "any: responses are stored in their own content coding")
        case .unreadContent, .tooManyMembers, .requestContent, .changingContent, .connectionUser, .rangeRequest, .preconditions, .partial,
            .requestNoStore, .varyStar, .memoryLimit,
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
        case .allowed: "Cistern answered the preflight itself, because cors is configured, and allowed it."
        case .originNotNamed: "Cistern refused the preflight: cors.origins does not contain its origin."
        case .methodNotNamed: "Cistern refused the preflight: cors.methods does not contain the requested method."
        case .fieldNotNamed: "Cistern refused the preflight: cors.fields does not contain a requested field."
        }
    }
}

extension BypassReason {
    public var sentence: String {
        switch self {
        case .method: "Responses to this method are not served from the store."
        case .content: "The request had content, so the store has no response for it."
        case .longContent:
            "Responses to this method are stored under the request's content, which is longer than routes.content_limit."
        case .changingContent:
            "Responses to this method are stored under the request's content, but this content may change data, as a GraphQL mutation does."
        case .unreadContent: "Responses to this method are stored under the request's content, which was not examined."
        case .range: "The request is for a part only (Range), and no fresh complete response is stored."
        case .precondition: "The request has preconditions that only the upstream can evaluate."
        case .cacheOff: "The route has cache: off, so the request went to the upstream as if there were no cache."
        case .stream: "Responses of this route are streams (routes.stream), which are never served from the store."
        case .connectionUser:
            "The client's connection is authenticated at the upstream (NTLM, Negotiate or Kerberos): its requests use a separate connection."
        case .upgrade: "The client upgraded to another protocol (routes.upgrade). Its bytes are forwarded as they arrive."
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
        case .clientLeft: "The client had disconnected; the fetch continued without it."
        }
    }
}

extension ValidationReason {
    /// Reason clause of a sentence about a request that was forwarded although a response is stored.
    public var sentence: String {
        switch self {
        case .noFreshness: "the stored response has no freshness lifetime"
        case .stale: "the stored response is stale"
        case .noCache: "the stored response has Cache-Control: no-cache"
        case .markedStale:
            "the stored response was soft-purged, a write with an unclear outcome may have changed the resource, or a 304 forbade its reuse"
        case .unseen: "purges of other nodes could not be read, and the stored response was older than share.blind_limit"
        case .otherOrigin: "the stored response was sent for another Origin, or for none, so this script may not be permitted to read it"
        case .ageUnknown: "the clock was set back after the response was stored, so its age is unknown"
        case .requestNoCache: "the request has Cache-Control: no-cache"
        case .requestMaxAge: "the stored response is older than the request's max-age"
        case .requestMinFresh: "the stored response will not stay fresh for the request's min-fresh"
        }
    }
}

extension FleetReply {
    var sentence: String {
        let time = "\(microseconds / 1_000).\(microseconds / 100 % 10) ms"
        return switch outcome {
        case .found where hasWaited: "Another node fetched this response; it arrived after \(time)."
        case .missing where hasWaited: "Another node sent this request to the upstream, and had stored no response after \(time)."
        case .found: "Another node had stored the response. Redis returned it in \(time)."
        case .missing: "No other node had stored the response (Redis replied in \(time))."
        case .late: "Redis had not replied after \(time), so the request was sent to the upstream as well."
        case .failed: "Redis could not be queried (see cistern share status)."
        case .refused:
            "The response of another node was not used: \(refusal?.sentence ?? "it is not newer, or was purged or changed since")."
        }
    }
}

extension FleetRefusal {
    /// Reason clause of a sentence about a response of another node that may not be used.
    fileprivate var sentence: String {
        switch self {
        case .otherEpoch: "it was stored before Redis lost the fleet's log"
        case .belowFloor: "it is older than the oldest purge in the fleet's log"
        case .ahead: "this node has not yet read the fleet's log up to its position"
        case .doubted: "its position in the fleet's log may have been lost with a Redis primary"
        case .purgedAll: "everything was purged since, or the log has an entry that this node cannot read"
        case .marked: "it was purged, or changed by a write, since"
        case .selected: "it was purged since, or there are too many purges since then to compare it with all of them"
        case .held: "this node has invalidated it, and has not notified the other nodes yet"
        case .unreadable: "no secret of this node decrypts it (share.secret_file), or it was modified in Redis"
        case .clock: "its time is in the future by the fleet's clock, or that clock is not known yet"
        case .notNewer: "the stored response here is as recent, or was invalidated here"
        case .notGood: "it is not a good response by this node's rules, or worse than the good response stored here"
        }
    }
}

extension FleetObstacle {
    var sentence: String {
        let reason =
            switch self {
            case .failing: "Redis fails and is not queried (see cistern share status)"
            case .disconnected: "purges of other nodes cannot be read at present (see cistern share status)"
            case .slow: "a round trip to Redis takes too long"
            case .unshareable:
                "the last response could not be shared, or the upstream failed, so each node queries the upstream itself for a while"
            case .lookedUp: "responses to credentials that the upstream identifies (credentials.identity.lookup) are not shared"
            }
        return "Responses of other nodes were not looked up: \(reason)."
    }
}

extension FleetDoubt {
    /// Reason clause of a sentence about a request that was forwarded although a response is stored.
    var sentence: String {
        let reason =
            switch self {
            case .neverFollowed: "it was stored before this node read the purges of other nodes"
            case .epoch: "Redis lost the fleet's log, which may have contained purges of other nodes"
            case .trimmed: "purges of other nodes while this node was disconnected are no longer in the log (share.keep)"
            case .lostEntries: "purges of other nodes were lost with a Redis server"
            case .unopened: "a node with another secret purged or changed responses, and this node cannot read which (share.secret_file)"
            }
        return "the stored response counts as stale, because \(reason)"
    }
}

extension LifetimeSource {
    /// nil if the response gave its own lifetime.
    var sentence: String? {
        switch self {
        case .response: nil
        case .heuristic: "Its freshness lifetime is a percentage of the time since Last-Modified (cache.heuristics)."
        case .standard: "It gives no freshness lifetime: freshness.default applies."
        case .minimum: "Its own freshness lifetime is shorter: freshness.minimum applies."
        case .maximum: "Its own freshness lifetime is longer: freshness.maximum applies."
        case .negative: "It is an error, and is stored for the time of the setting negative."
        }
    }
}

extension NoRescueReason {
    /// Reason clause of a sentence about a stored response that may not be served as a rescue.
    public var sentence: String {
        switch self {
        case .noCache: "it has no-cache"
        case .mustRevalidate: "it has must-revalidate"
        case .proxyRevalidate: "it has proxy-revalidate"
        case .sharedMaxAge: "it has s-maxage"
        case .requestNoCache: "the request has no-cache"
        case .staleIfError: "it has been stale for longer than its stale-if-error allows"
        case .authorized: "it is the response to another user's request with Authorization, and needs validation before it is shared"
        case .storedError: "the stored response is an error itself"
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
            WhyAdvice("cache.credential_fields", "containing authorization: the response is stored for requests with equal credentials")
        case .staleFor: WhyAdvice("cache.stale_for", "longer, or 0s: stored responses are served at any age")
        case .storedError, .record: nil
        }
    }
}

extension SharedRescuePermission {
    /// Name of the response that was served.
    public var copy: String {
        switch self {
        case .isPublic, .ownCookies, .always: "The response stored for clients without credentials"
        case .expiredToken: "The stored response of the token's user"
        case .lookedUpBefore: "The stored response of the credentials' user"
        }
    }

    /// Reason clause of a sentence about a stored response that was served instead.
    public var sentence: String {
        switch self {
        case .isPublic: "it is public (public or s-maxage)"
        case .ownCookies: "the upstream set the request's cookies in this response"
        case .always: "cache.rescue_with_shared is always"
        case .expiredToken: "the token has just expired (credentials.identity.jwt.rescue_expired)"
        case .lookedUpBefore:
            "the upstream cannot identify the user now, so its last answer applies (credentials.identity.lookup.keep)"
        }
    }
}

extension NoSharedRescueReason {
    /// Reason clause of a sentence about a response stored without credentials that may not be served.
    public var sentence: String {
        switch self {
        case .never: "cache.rescue_with_shared is never"
        case .varies: "it depends on the credentials (Vary)"
        case .notPublic: "it has neither public nor s-maxage"
        case .otherCookies:
            "it has neither public nor s-maxage, and the credentials are not only cookies that it set, or an unsafe request with them "
                + "may have changed their user"
        case .gone: "the target no longer exists for clients without credentials"
        }
    }

    /// nil if no setting changes the result.
    public var advice: WhyAdvice? {
        switch self {
        case .never:
            WhyAdvice(
                "cache.rescue_with_shared",
                "own: served if it has public or s-maxage, or set the request's cookies; always: served in any case")
        case .notPublic, .otherCookies:
            WhyAdvice("cache.rescue_with_shared", "always: the response is served for all requests with credentials")
        case .varies, .gone: nil
        }
    }
}

extension UpstreamFault {
    /// Text about a response.
    public var sentence: String {
        switch self {
        case .serverError: "the server reports an error"
        case .rateLimited: "the server reports too many requests"
        case .invalidJSON: "its media type is JSON, but its content is not valid JSON"
        case .undecodable: "its content cannot be decoded"
        case .emptyContent: "its content is empty"
        case .unexpectedType: "its media type is not the expected one, such as a web page instead of JSON"
        case .unexpectedStatus: "its status is not valid for this request"
        case .redirected: "it redirects to another URL, such as a login page"
        case .unprovenEnd: "it may be incomplete"
        case .crowd: "many targets returned this status at once, as when a gateway loses its routes"
        case .unexpectedSize: "its size is outside the limits of the route's good responses"
        case .missingValue: "it lacks a value that the route's good responses have"
        case .unwantedValue: "it has a value that the route's good responses must not have"
        case .shrunk: "it is much shorter than the stored response"
        }
    }
}

extension ContentOutcome {
    /// nil if the outcome needs no sentence.
    public var sentence: String? {
        switch self {
        case .whole: nil
        case .streamedTooLong: "The request's content was streamed to the upstream, because it is too long to be buffered."
        case .streamedNoRoom: "The request's content was streamed to the upstream, because other requests used the memory for buffering."
        case .unfinished: "The request's content was incomplete, so no request was sent to the upstream."
        }
    }

    public var advice: WhyAdvice? {
        switch self {
        case .whole, .unfinished, .streamedNoRoom: nil
        case .streamedTooLong:
            WhyAdvice(
                "limits.request_buffer", "is the maximum content of a request that is buffered before the request is sent to the upstream")
        }
    }
}

extension FailureStop {
    public var sentence: String {
        let cause = "(\(StateSentence.words(ofCause: cause.text)))"
        return switch scope {
        case .address: "The upstream cannot be reached \(cause), so no request was sent."
        case .upstream:
            "Every request to the upstream fails \(cause): the stored response was served at once, and checks continue in the background."
        case .route:
            "Every request on this route fails \(cause): the stored response was served at once, and checks continue in the background."
        case .key:
            "This request failed twice in a row \(cause): the stored response was served at once, and checks continue in the background."
        case .pause: "The upstream asked this client to wait before repeating this request \(cause), so no request was sent."
        }
    }

    /// The setting that helps against the cause; nil if none does.
    public var causeAdvice: WhyAdvice? { cause.advice.map { WhyAdvice($0.setting, $0.effect) } }

    public var advice: WhyAdvice {
        let setting = setting.rawValue
        return switch self.setting {
        case .retryAfterLimit: WhyAdvice(setting, "is the maximum Retry-After that Cistern follows")
        case .recheck: WhyAdvice(setting, "is the interval between checks of a failing upstream")
        case .window: WhyAdvice(setting, "is the time without a success after which this applies")
        case .threshold:
            WhyAdvice(
                setting, "is the number of consecutive failures after which this applies; failure.recheck is the interval between attempts")
        }
    }
}

extension FetchFailure {
    /// - Parameter status: status of the upstream's response; 0 if there was none.
    public func sentence(status: UInt16) -> String {
        switch self {
        case .stopped(let stop): stop.sentence
        case .slow: "The upstream was too slow, so a stored response was served; the fetch continued."
        case .tooManyStreams: "The upstream's response is a stream, and streams, or those of the client, use their part of the connections."
        case .transfer(let error) where error.kind == .connectionLimitReached:
            "No request was sent to the upstream, because too many requests were waiting for a connection."
        case .transfer(let error) where error.kind == .tunnelRefused:
            "The forward proxy opened no tunnel to the upstream, so no request was sent\(error.details.map { ": \($0)" } ?? "")."
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
        case .slow: WhyAdvice("cache.rescue_after", "is the maximum time to wait for the upstream if a stored response can be served")
        case .tooManyStreams: WhyAdvice("upstream.connections", "is the number of connections; streams may use half of them")
        case .transfer(let error):
            isUnderWay && [.connectionReadTimeout, .responseTimeout].contains(error.kind)
                ? WhyAdvice(
                    "routes.stream",
                    "true: responses that grow over time, such as a watch, are streamed; timeouts.stream is their maximum pause",
                    inRoute: "stream: true")
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
        case .unexpectedSize: WhyAdvice("routes.good.min_bytes", "and routes.good.max_bytes limit the size of a good response of the route")
        case .missingValue: WhyAdvice("routes.good.must_have", "lists the values that a good response of the route must have")
        case .unwantedValue: WhyAdvice("routes.good.must_not_have", "lists the values that a good response of the route must not have")
        case .crowd: WhyAdvice("cache.gone", "ignore: a 404 or 403 is forwarded, regardless of how many targets return one")
        case .shrunk: WhyAdvice("routes.good.shrink_limit", "is the minimum length, in percent of the stored response's")
        case .serverError, .rateLimited, .invalidJSON, .undecodable, .emptyContent, .unexpectedType, .unexpectedStatus, .redirected,
            .unprovenEnd:
            nil
        }
    }

    /// Advice for a response that violates `good` of the route.
    var demandAdvice: WhyAdvice? {
        guard self == .unexpectedType else { return advice }
        return WhyAdvice("routes.good.content_types", "lists the media types of a good response of the route")
    }
}
