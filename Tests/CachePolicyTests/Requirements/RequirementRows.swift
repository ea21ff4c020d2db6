// Paraphrased requirements of RFC 9111 for a shared cache, each with its implementation and its test. Sources/CachePolicy/README.md is
// generated from these rows. Tests fail if a named file, symbol or test does not exist.

enum Level: String {
    case must = "MUST"
    case should = "SHOULD"
    case may = "MAY"
}

struct Requirement {
    let section: String
    let level: Level
    let sentence: String
    /// `Module/File.swift symbol`. Empty if the requirement has no code; `test` then contains the reason.
    let code: String
    /// Identifier of the test in the form of `swift test list`: `Module.Suite/function`.
    let test: String

    init(_ section: String, _ level: Level, _ sentence: String, _ code: String, _ test: String) {
        self.section = section
        self.level = level
        self.sentence = sentence
        self.code = code
        self.test = test
    }

    static let all: [Requirement] = keys + storing + reuse + freshness + validation + invalidation + fields + security

    private static let keys = [
        Requirement(
            "2", .must, "The cache key contains at least the method and the target URI.", "CachePolicy/CacheKey.swift append",
            "CachingTests.CachingTests/keys"),
        Requirement(
            "2", .may, "Responses are stored only for GET and other supported methods.", "CachePolicy/RequestUse.swift RequestUse",
            "CachePolicyTests.StoringTests/byRequest"),
        Requirement(
            "2", .may, "A cache that is disconnected from the upstream may serve stale responses.", "CachePolicy/Reuse.swift rescue",
            "CachePolicyTests.ReuseTests/rescue"),
    ]

    private static let storing = [
        Requirement(
            "3", .must, "A response is stored only if the request method is understood.", "CachePolicy/Storing.swift decide",
            "CachePolicyTests.StoringTests/byRequest"),
        Requirement(
            "3", .must, "A response is stored only if its status is final.", "CachePolicy/Storing.swift CacheableStatus",
            "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "3", .must, "A 206 or 304 response, or one with must-understand, is stored only if the cache understands its status.",
            "CachePolicy/Storing.swift isUnderstood", "CachePolicyTests.RandomWalkTests/agree"),
        Requirement(
            "3", .must, "The no-store response directive forbids storing.", "CachePolicy/Storing.swift noStore",
            "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "3", .must, "The private response directive forbids storing in a shared cache.", "CachePolicy/Storing.swift privateResponse",
            "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "3", .must, "A shared cache does not store the response to a request with Authorization, unless §3.5 allows it.",
            "CachePolicy/Storing.swift authorized",
            "CachePolicyTests.StoringTests/byRequest"),
        Requirement(
            "3", .must, "Storing requires public, an explicit freshness lifetime, or a heuristically cacheable status.",
            "CachePolicy/Storing.swift mayKeep", "CachingTests.SemanticsTests/storeAny"),
        Requirement(
            "3", .may, "The private response directive allows storing in a private cache.", "CachePolicy/Storing.swift mayKeep",
            "CachePolicyTests.AnyStatusTests/ownCache"),
        Requirement(
            "3", .may, "A response with an unknown status may be stored if it has explicit freshness; it is served unchanged.",
            "CachePolicy/Storing.swift mayKeep", "CachingTests.SemanticsTests/storeAny"),
        Requirement(
            "3.1", .must, "All header fields are stored, including unknown ones, except those in the rows below.",
            "CachePolicy/StoredHead.swift make",
            "CachePolicyTests.ValidationTests/stored"),
        Requirement(
            "3.1", .must, "Hop-by-hop fields and fields listed in Connection are not stored.",
            "HTTPCore/HopByHop.swift removingHopByHop",
            "UpstreamSideTests.ProxyingTests/fields"),
        Requirement(
            "3.1", .must, "Fields named by private or no-cache are not stored.",
            "CachePolicy/CacheControl.swift unstoredFields",
            "CachingTests.SemanticsTests/namedFields"),
        Requirement(
            "3.1", .must, "Trailer fields are dropped and not merged into the header section.", "HTTPCore/ChunkedDecoder.swift stepTrailer",
            "CachingTests.SemanticsTests/trailers"),
        Requirement(
            "3.2", .must, "Each field of a 304 response replaces the stored fields of the same name.",
            "CachePolicy/Validation.swift freshened",
            "CachePolicyTests.ValidationTests/freshening"),
        Requirement(
            "3.2", .must, "Content-Length and other fields that describe the stored content are not updated.",
            "CachePolicy/Validation.swift kept",
            "CachePolicyTests.ValidationTests/freshening"),
        Requirement(
            "3.2", .must,
            "A response updated by a 304 or HEAD response stays stored only if §3 allows it; it may have become private.",
            "ResponseCache/ResponseCache+Confirming.swift mayKeep", "CachingTests.ValidationTests/forbidden"),
        Requirement(
            "3.3", .must, "An incomplete response is not stored, and so never served as complete.",
            "Decisions/FetchMachine.swift transferFailed",
            "RescueTests.RescueTests/nothingStored"),
        Requirement(
            "3.3", .must, "A partial response is not stored as a complete response.", "CachePolicy/Storing.swift partial",
            "CachingTests.SemanticsTests/partOfStale"),
        Requirement("3.4", .may, "Partial responses may be combined.", "", "Not implemented: partial responses are never stored."),
        Requirement(
            "3.5", .must, "A shared response to a request with Authorization is never served stale, not even with policy: rescue.",
            "CachePolicy/Reuse.swift authorized", "CachePolicyTests.StaleTests/both"),
        Requirement(
            "3", .may, "Errors caused by a single request (400, 416, 429, …) are not stored, unless cache.store_errors is letter.",
            "CachePolicy/Storing.swift isAboutOneRequest", "CachePolicyTests.AnyStatusTests/statuses"),
        Requirement(
            "3.5", .must, "No user gets another user's partition; responses without credentials rescue a user only as configured.",
            "CachePolicy/SharedRescue.swift decide", "RescueTests.SharedRescueWalk/walk"),
        Requirement(
            "3.5", .must, "Responses to requests with Authorization are shared only with public, must-revalidate or s-maxage.",
            "CachePolicy/Storing.swift mayShare", "CachePolicyTests.StoringTests/byRequest"),
    ]

    private static let reuse = [
        Requirement(
            "4", .must, "A stored response is reused only for the same target URI.", "CachePolicy/CacheKey.swift append",
            "CachePolicyTests.KeyTests/everyByte"),
        Requirement(
            "4", .must, "A stored GET response is reused for GET and HEAD; a POST response whose Content-Location is the target, for GET.",
            "ReverseProxy/Fetch/Fetch+Storing.swift takeKeyOfGet", "CachingTests.SemanticsTests/post"),
        Requirement(
            "4", .must, "The no-cache response directive forbids reuse without validation.", "CachePolicy/Reuse.swift noCache",
            "CachePolicyTests.ReuseTests/forbidden"),
        Requirement(
            "4", .must, "A stored response is reused only if it is fresh, may be served stale, or was validated.",
            "CachePolicy/Reuse.swift decide",
            "CachePolicyTests.ReuseTests/directives"),
        Requirement(
            "4", .must, "A stored response that is served without validation contains Age.",
            "ReverseProxy/Entry/RequestEntry+Hits.swift serveHit",
            "CachingTests.CachingTests/freshness"),
        Requirement(
            "4", .must, "Unsafe requests are forwarded to the upstream (write-through).", "CachePolicy/RequestUse.swift method",
            "CachingTests.CachingTests/invalidation"),
        Requirement(
            "4", .must, "The most recent matching response is used, because a newer response replaces the older one of the same variant.",
            "ResponseCache/ResponseCache+Inserting.swift insert", "CachePolicyTests.RandomWalkTests/agree"),
        Requirement(
            "4", .must,
            "The response to the later request is the more recent one; an older response that ends later does not replace it.",
            "CachePolicy/Recency.swift isOutdated",
            "CachingTests.StoringOrderTests/older"),
        Requirement(
            "4", .may, "Concurrent requests for a cache key may be collapsed into one upstream request.",
            "ReverseProxy/Coordination/CollapsedRequests.swift join",
            "CachingTests.CollapsingTests/oneRequest"),
        Requirement(
            "4", .must, "Collapsed requests share only a response that each may reuse without validation (strict; rescue differs).",
            "Decisions/OutcomeDecision.swift serveCollapsed",
            "CachingTests.SelectionTests/sharing"),
        Requirement(
            "4.1", .must, "A stored response is used only if its selecting fields match those of the request.",
            "CachePolicy/SelectingFields.swift values",
            "CachingTests.CachingTests/vary"),
        Requirement(
            "4.1", .must, "With policy: strict, the partition includes every cookie, so that Vary: Cookie always matches.",
            "CachePolicy/CredentialCookies.swift isStrict",
            "CachePolicyTests.CredentialCookiesTests/strict"),
        Requirement(
            "4.1", .must, "With policy: strict, a response that varies by credentials is not used for requests with other credentials.",
            "CachePolicy/SharedRescue.swift varies", "CachePolicyTests.SharedRescueTests/decisions"),
        Requirement(
            "4.1", .must,
            "Content stored in a content coding is served only if Accept-Encoding allows that coding; otherwise the request is forwarded.",
            "HTTPCore/ContentCoding.swift allows", "CachePolicyTests.AnyStatusTests/allowedCodings"),
        Requirement(
            "4.1", .may, "Selecting fields are normalized: white space, several field lines and the order of languages do not matter.",
            "CachePolicy/SelectingFields.swift preferences", "CachingTests.SemanticsTests/languages"),
        Requirement(
            "4.1", .must, "An absent selecting field matches only a request in which that field is absent too.",
            "CachePolicy/SelectingFields.swift values", "CachePolicyTests.InvalidationTests/selecting"),
        Requirement(
            "4.1", .must, "If a 304 response changes Vary, later requests are matched by the new Vary.",
            "ResponseCache/ResponseCache+Confirming.swift write",
            "CachingTests.ValidationTests/vary"),
        Requirement(
            "4.1", .must, "Selecting fields are taken from the forwarded request, without the fields listed in Connection.",
            "HTTPCore/HopByHop.swift removingNamed",
            "CachingTests.SelectionTests/hidden"),
        Requirement(
            "4.1", .must, "A Vary field with a member * never matches.", "CachePolicy/SelectingFields.swift isStar",
            "CachePolicyTests.StoringTests/byAnswer"),
    ]

    private static let freshness = [
        Requirement(
            "4.2", .should,
            "If freshness information conflicts, the first or the most restrictive value applies; invalid information means stale.",
            "CachePolicy/CacheControl.swift smaller", "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "4.2", .should, "Dates are parsed case-insensitively; a date in a time zone other than GMT is invalid.",
            "HTTPCore/HTTPDate.swift parse",
            "HTTPCoreTests.HTTPDateTests/read"),
        Requirement(
            "4.2.1", .must, "The freshness lifetime is s-maxage, else max-age, else Expires minus Date.",
            "CachePolicy/Freshness.swift lifetime",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "4.2.2", .must, "Heuristic freshness is not used if the response has an explicit lifetime.",
            "CachePolicy/StoredHead.swift heuristic",
            "CachingTests.SemanticsTests/heuristics"),
        Requirement(
            "4.2.2", .should, "Heuristic freshness is off by default, and at most 10 % of the time since Last-Modified.",
            "CachePolicy/Freshness.swift heuristic", "CachingTests.SemanticsTests/heuristics"),
        Requirement(
            "4.2.3", .must, "The current age is calculated from Age, Date, the response delay and the resident time.",
            "CachePolicy/Freshness.swift currentAge", "CachePolicyTests.FreshnessTests/currentAge"),
        Requirement(
            "4.2.3", .must, "A confirmation (304) resets the age, even if it was not written to disk.",
            "CachePolicy/ConfirmationNote.swift encode", "CachingTests.ConfirmedAgeTests/confirmed"),
        Requirement(
            "4.2.4", .may, "While disconnected, a cache may serve a later 404 or 410 response instead of the earlier stored response.",
            "ResponseCache/ResponseCache+Gone.swift saysGone", "CachingTests.GoneTests/remembered"),
        Requirement(
            "4.2.4", .must,
            "No stale response is served if no-cache, must-revalidate, proxy-revalidate or s-maxage forbids it (strict; rescue differs).",
            "CachePolicy/Reuse.swift forbiddance", "CachePolicyTests.ReuseTests/rescue"),
        Requirement(
            "4.2.4", .must, "A stale response is served only if the cache is disconnected, or the client or the response allows it.",
            "CachePolicy/Reuse.swift decide",
            "CachePolicyTests.RandomWalkTests/agree"),
    ]

    private static let validation = [
        Requirement(
            "4.3.1", .must, "A validation request contains the stored entity tag.", "CachePolicy/Validation.swift addConditions",
            "CachingTests.CachingTests/validation"),
        Requirement(
            "4.3.1", .should, "A validation request contains the stored Last-Modified.", "CachePolicy/Validation.swift ifModifiedSince",
            "CachingTests.CachingTests/validation"),
        Requirement(
            "4.3.2", .must, "If-Match and If-Unmodified-Since are not evaluated by the cache; such requests are forwarded.",
            "CachePolicy/RequestUse.swift hasOtherConditions", "CachingTests.CachingTests/bypass"),
        Requirement(
            "4.3.2", .should, "If-None-Match is evaluated against the stored response, with precedence over If-Modified-Since.",
            "CachePolicy/Preconditions.swift isNotModified", "CachePolicyTests.ValidationTests/preconditions"),
        Requirement(
            "4.3.2", .should, "If-Modified-Since is compared with Last-Modified, or with Date if only a lifetime is present.",
            "CachePolicy/Preconditions.swift isNotModified",
            "CachePolicyTests.ValidationTests/dateInstead"),
        Requirement(
            "4.3.2", .should, "Range and If-Range are evaluated against a complete stored response.",
            "CachePolicy/RangeRequest.swift RangeRequest",
            "CachingTests.SemanticsTests/parts"),
        Requirement(
            "4.3.2", .must, "If-Range matches only a strong entity tag or a strong date.", "CachePolicy/RangeRequest.swift isHeld",
            "CachePolicyTests.RangeTests/conditions"),
        Requirement(
            "4.3.3", .must, "A full response to a validation request replaces the stored response.",
            "ResponseCache/ResponseCache+Storing.swift store",
            "CachingTests.CachingTests/networkFirst"),
        Requirement(
            "4.3.3", .may, "After a 500, 502, 503 or 504 response, a stored response that may be served stale is served instead.",
            "CachePolicy/LastGood.swift serverError",
            "RescueTests.RescueTests/rescued"),
        Requirement(
            "4.3.4", .must, "A 304 response updates only the stored response whose validator it contains.",
            "CachePolicy/Validation.swift applies", "CachePolicyTests.SelectionTests/applies"),
        Requirement(
            "4.3.4", .must, "A 304 response that matches no stored response updates nothing; the request is repeated without conditions.",
            "Decisions/FetchMachine.swift fetchUnconditionally",
            "CachingTests.ValidationTests/foreign"),
        Requirement(
            "4.3.4", .must,
            "The fields of a 304 response replace stored ones. Content-Type is replaced only if content checked as JSON remains JSON.",
            "CachePolicy/Validation.swift freshened", "CachePolicyTests.SelectionTests/updates"),
        Requirement(
            "4.3.5", .should, "A matching HEAD response freshens the stored GET response; with policy: strict, even without a validator.",
            "CachePolicy/Validation.swift update", "CachePolicyTests.SelectionTests/heads"),
        Requirement(
            "4.3.4", .must, "A late 304 or HEAD response does not update a response to a later request.",
            "ResponseCache/ResponseCache+Confirming.swift base",
            "CachingTests.StoringOrderTests/confirmation"),
        Requirement(
            "4.3.5", .should, "A HEAD response that does not match makes the stored GET response stale.",
            "CachePolicy/Validation.swift fits",
            "CachingTests.SemanticsTests/head"),
    ]

    private static let invalidation = [
        Requirement(
            "4.4", .must, "Invalidation is limited to URIs of the same origin and within the upstream's base path.",
            "CachePolicy/Invalidation.swift UpstreamOrigin", "CachePolicyTests.GroupTests/dropped"),
        Requirement(
            "4.4", .must, "A successful unsafe request invalidates its target URI; unknown methods count as unsafe.",
            "CachePolicy/Invalidation.swift targets",
            "CachePolicyTests.InvalidationTests/targets"),
        Requirement(
            "4.4", .must, "Invalidation of a target includes responses stored by request content (QUERY).",
            "ResponseCache/ResponseCache.swift invalidationPart", "CachingTests.InvalidationTests/byContent"),
        Requirement(
            "4.4", .may, "The URIs in Location and Content-Location are invalidated too.", "CachePolicy/Invalidation.swift targets",
            "CachePolicyTests.InvalidationTests/targets"),
        Requirement(
            "4.4", .must, "URIs of another origin in Location and Content-Location are not invalidated.",
            "CachePolicy/Invalidation.swift path",
            "CachePolicyTests.InvalidationTests/targets"),
    ]

    private static let fields = [
        Requirement(
            "5.1", .should, "The first of several Age values is used; a value that is not a number is ignored.",
            "CachePolicy/Freshness.swift ageValue", "CachePolicyTests.FreshnessTests/ageValues"),
        Requirement(
            "5.2", .must, "Cache directives are forwarded, whether or not the cache applies them.", "HTTPCore/HopByHop.swift protected",
            "UpstreamSideTests.ProxyingTests/fields"),
        Requirement(
            "5.2", .should, "Directive names are case-insensitive; arguments may be tokens or quoted strings.",
            "CachePolicy/CacheDirective.swift isWellQuoted",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "5.2.1", .should, "The request directives max-age, max-stale, min-fresh and no-cache are applied.",
            "CachePolicy/Reuse.swift decide",
            "CachePolicyTests.ReuseTests/directives"),
        Requirement(
            "5.2.1.5", .must, "With the no-store request directive, neither the request nor its response is stored.",
            "CachePolicy/Storing.swift requestNoStore",
            "CachingTests.CachingTests/requestDirectives"),
        Requirement(
            "5.2.1.6", .should, "With the no-transform request directive, the stored content is not compressed for the response.",
            "CachePolicy/CacheControl.swift noTransform",
            "ClientSideTests.StrictConformanceTests/requestNoTransform"),
        Requirement(
            "5.2.1.7", .should, "A request with only-if-cached is answered with a stored response or with 504.",
            "Decisions/RequestDecision.swift onlyIfCached",
            "CachingTests.CachingTests/requestDirectives"),
        Requirement(
            "5.2.2.2", .must,
            "With must-revalidate, no stale response is served; if the upstream is unreachable, the client gets 504 (strict).",
            "CachePolicy/Reuse.swift mustRevalidate",
            "RescueTests.RescueTests/policies"),
        Requirement(
            "5.2.2.3", .should, "With must-understand, no-store is ignored if the status is understood.",
            "CachePolicy/Storing.swift mustUnderstand", "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "5.2.2.4", .must, "With the no-cache response directive, a stored response is not used without validation.",
            "CachePolicy/Reuse.swift noCache",
            "CachePolicyTests.ReuseTests/forbidden"),
        Requirement(
            "5.2.2.6", .must,
            "With no-transform, content is not transformed. It is stored in its coding (cache.store: any), or forwarded and not stored.",
            "CachePolicy/Storing.swift noTransform", "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "5.2.2.8", .must, "proxy-revalidate has the meaning of must-revalidate for shared caches.",
            "CachePolicy/Reuse.swift proxyRevalidate",
            "CachePolicyTests.ReuseTests/rescue"),
        Requirement(
            "5.2.2.10", .must, "s-maxage overrides max-age and Expires, and implies proxy-revalidate.",
            "CachePolicy/Reuse.swift sharedMaxAge",
            "CachePolicyTests.ReuseTests/rescue"),
        Requirement(
            "5.2.2.10", .must, "A private cache ignores s-maxage and proxy-revalidate.",
            "CachePolicy/CacheControl.swift asRead",
            "CachePolicyTests.DirectiveTests/role"),
        Requirement(
            "5.2.3", .must, "Unknown directives are ignored.", "CachePolicy/CacheDirective.swift candidate",
            "CachePolicyTests.ReuseTests/directives"),
        Requirement(
            "5.3", .must, "An invalid Expires value, especially \"0\", counts as a time in the past.",
            "CachePolicy/Freshness.swift lifetime",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "5.3", .must, "Expires is ignored if max-age or s-maxage is present.", "CachePolicy/Freshness.swift lifetime",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "5.4", .should, "Pragma: no-cache in a request applies only if Cache-Control is absent.",
            "CachePolicy/CacheControl.swift pragma",
            "CachingTests.CachingTests/requestDirectives"),
        Requirement("5.5", .may, "Warning is obsolete: it is forwarded and stored, and never generated.", "", "No implementation needed."),
    ]

    private static let security = [
        Requirement(
            "7.1", .should, "Request fields that may change the response are part of the cache key or are removed (cache poisoning).",
            "Forwarding/UpstreamRequestFields.swift isDropped",
            "UpstreamSideTests.ProxyingTests/fields"),
        Requirement(
            "7.3", .may, "Set-Cookie in a 304 or HEAD response is handled according to the setting, too.",
            "ResponseCache/ResponseCache+Confirming.swift setCookie",
            "ClientSideTests.StrictConformanceTests/cookies"),
        Requirement(
            "7.3", .may,
            "Set-Cookie does not prevent storing; a setting stores the response without it, with it, or not at all.",
            "CachePolicy/StoredHead.swift setCookie", "CachingTests.SharedCacheTests/setCookie"),
    ]
}
