// Requirements of RFC 9111 for a shared cache in our words, with their implementation and their test. Sources/CachePolicy/README.md is
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
    /// `Module/File.swift symbol`; empty if omitted on purpose, which `test` then explains.
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
            "2", .must, "The key holds the method and the target URI at least.", "CachePolicy/CacheKey.swift append",
            "CachingTests.CachingTests/keys"),
        Requirement(
            "2", .may, "Only GET, and what else is understood, is kept.", "CachePolicy/RequestUse.swift RequestUse",
            "CachePolicyTests.StoringTests/byRequest"),
        Requirement(
            "2", .may, "A cache without connection to the upstream may serve stale responses.", "CachePolicy/Reuse.swift rescue",
            "CachePolicyTests.ReuseTests/rescue"),
    ]

    private static let storing = [
        Requirement(
            "3", .must, "Not stored unless the method is understood.", "CachePolicy/Storing.swift decide",
            "CachePolicyTests.StoringTests/byRequest"),
        Requirement(
            "3", .must, "Not stored unless the status is final.", "CachePolicy/Storing.swift CacheableStatus",
            "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "3", .must, "206 and 304, or any status with must-understand, only where it is understood.",
            "CachePolicy/Storing.swift isUnderstood", "CachePolicyTests.RandomWalkTests/agree"),
        Requirement(
            "3", .must, "no-store in the response forbids storing.", "CachePolicy/Storing.swift noStore",
            "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "3", .must, "private forbids a shared cache to store.", "CachePolicy/Storing.swift privateResponse",
            "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "3", .must, "Authorization forbids a shared cache to store, unless §3.5 allows it.", "CachePolicy/Storing.swift authorized",
            "CachePolicyTests.StoringTests/byRequest"),
        Requirement(
            "3", .must, "Something must allow it: public, an explicit lifetime, or a status that is cacheable by itself.",
            "CachePolicy/Storing.swift mayKeep", "CachingTests.SemanticsTests/storeAny"),
        Requirement(
            "3", .may, "private allows it in one user's own cache.", "CachePolicy/Storing.swift mayKeep",
            "CachePolicyTests.AnyStatusTests/ownCache"),
        Requirement(
            "3", .may, "A status that is not known is stored with explicit freshness, and goes out as it came.",
            "CachePolicy/Storing.swift mayKeep", "CachingTests.SemanticsTests/storeAny"),
        Requirement(
            "3.1", .must, "All fields are stored, known or not; only those below are left out.", "CachePolicy/StoredHead.swift make",
            "CachePolicyTests.ValidationTests/stored"),
        Requirement(
            "3.1", .must, "Fields that Connection names, and those of the connection, are not stored.",
            "HTTPCore/HopByHop.swift removingHopByHop",
            "UpstreamSideTests.ProxyingTests/fields"),
        Requirement(
            "3.1", .must, "Fields that private names are not stored; those of no-cache neither.",
            "CachePolicy/CacheControl.swift unstoredFields",
            "CachingTests.SemanticsTests/namedFields"),
        Requirement(
            "3.1", .must, "Trailers are not taken for header fields: they are dropped.", "HTTPCore/ChunkedDecoder.swift stepTrailer",
            "CachingTests.SemanticsTests/trailers"),
        Requirement(
            "3.2", .must, "Each field of a 304 takes the place of the stored ones of its name.", "CachePolicy/Validation.swift freshened",
            "CachePolicyTests.ValidationTests/freshening"),
        Requirement(
            "3.2", .must, "Content-Length, and what describes the stored content, is not updated.", "CachePolicy/Validation.swift kept",
            "CachePolicyTests.ValidationTests/freshening"),
        Requirement(
            "3.2", .must,
            "What a 304 or a HEAD makes of a stored response is stored only where §3 allows it: not what is private from then on.",
            "ResponseCache/ResponseCache+Confirming.swift mayKeep", "CachingTests.ValidationTests/forbidden"),
        Requirement(
            "3.3", .must, "An incomplete response is never taken for a whole: it is not kept at all.",
            "Decisions/FetchMachine.swift transferFailed",
            "RescueTests.RescueTests/nothingStored"),
        Requirement(
            "3.3", .must, "A partial response is not stored as a whole.", "CachePolicy/Storing.swift partial",
            "CachingTests.SemanticsTests/partOfStale"),
        Requirement("3.4", .may, "Parts may be combined.", "", "Left out: parts are never stored, and are cut from stored wholes."),
        Requirement(
            "3.5", .must, "What is shared so is shared only as that directive says: never stale, under rescue too.",
            "CachePolicy/Reuse.swift authorized", "CachePolicyTests.StaleTests/both"),
        Requirement(
            "3", .may, "Errors that one odd request brings about are never kept for others, unless cache.store_errors asks for the letter.",
            "CachePolicy/Storing.swift isAboutOneRequest", "CachePolicyTests.AnyStatusTests/statuses"),
        Requirement(
            "3.5", .must, "No partition gets another's copy; that of those without credentials stands in by the setting's rules only.",
            "CachePolicy/SharedRescue.swift decide", "RescueTests.SharedRescueWalk/walk"),
        Requirement(
            "3.5", .must, "Responses to Authorization are shared only with public, must-revalidate or s-maxage.",
            "CachePolicy/Storing.swift mayShare", "CachePolicyTests.StoringTests/byRequest"),
    ]

    private static let reuse = [
        Requirement(
            "4", .must, "Reused only for the same URI.", "CachePolicy/CacheKey.swift append",
            "CachePolicyTests.KeyTests/everyByte"),
        Requirement(
            "4", .must, "Reused only where the stored method allows it: GET for GET and HEAD, a POST's own response for GET.",
            "ReverseProxy/Fetch/Fetch+Storing.swift takeKeyOfGet", "CachingTests.SemanticsTests/post"),
        Requirement(
            "4", .must, "no-cache forbids reuse without validation.", "CachePolicy/Reuse.swift noCache",
            "CachePolicyTests.ReuseTests/forbidden"),
        Requirement(
            "4", .must, "Reused only while fresh, allowed to be stale, or validated.", "CachePolicy/Reuse.swift decide",
            "CachePolicyTests.ReuseTests/directives"),
        Requirement(
            "4", .must, "A response that is served without validation carries Age.", "ReverseProxy/Entry/RequestEntry+Hits.swift serveHit",
            "CachingTests.CachingTests/freshness"),
        Requirement(
            "4", .must, "Unsafe requests are written through.", "CachePolicy/RequestUse.swift method",
            "CachingTests.CachingTests/invalidation"),
        Requirement(
            "4", .must, "Of several that fit, the most recent is used: a newer one of the same variant takes the older one's place.",
            "ResponseCache/ResponseCache+Inserting.swift insert", "CachePolicyTests.RandomWalkTests/agree"),
        Requirement(
            "4", .must,
            "The more recent response is the one with the later request: an older one that ends later is not stored.",
            "CachePolicy/Recency.swift isOutdated",
            "CachingTests.StoringOrderTests/older"),
        Requirement(
            "4", .may, "Requests for one key may share one request to the upstream.",
            "ReverseProxy/Coordination/CollapsedRequests.swift join",
            "CachingTests.CollapsingTests/oneRequest"),
        Requirement(
            "4", .must, "They share only a response that each may have unasked (strict; rescue differs).",
            "Decisions/OutcomeDecision.swift serveCollapsed",
            "CachingTests.SelectionTests/sharing"),
        Requirement(
            "4.1", .must, "Only a stored response whose selecting fields match is used.", "CachePolicy/SelectingFields.swift values",
            "CachingTests.CachingTests/vary"),
        Requirement(
            "4.1", .must, "Under strict every cookie counts for the partition, so that Vary: Cookie never meets another value.",
            "CachePolicy/CredentialCookies.swift isStrict",
            "CachePolicyTests.CredentialCookiesTests/strict"),
        Requirement(
            "4.1", .must, "A copy that varies by credentials does not stand in for a request with other ones, under strict.",
            "CachePolicy/SharedRescue.swift varies", "CachePolicyTests.SharedRescueTests/decisions"),
        Requirement(
            "4.1", .must,
            "Content that is stored in its coding goes to those only whose Accept-Encoding allows that; for others the upstream is asked.",
            "HTTPCore/ContentCoding.swift allows", "CachePolicyTests.AnyStatusTests/allowedCodings"),
        Requirement(
            "4.1", .may, "White space, lists over several lines and the order of languages make no difference.",
            "CachePolicy/SelectingFields.swift preferences", "CachingTests.SemanticsTests/languages"),
        Requirement(
            "4.1", .must, "A field that is missing in one request matches only its absence in the other.",
            "CachePolicy/SelectingFields.swift values", "CachePolicyTests.InvalidationTests/selecting"),
        Requirement(
            "4.1", .must, "A 304 that brings another Vary: the stored response is found by that from then on.",
            "ResponseCache/ResponseCache+Confirming.swift write",
            "CachingTests.ValidationTests/vary"),
        Requirement(
            "4.1", .must, "Selecting fields are those of the request as the upstream got it, without what Connection names.",
            "HTTPCore/HopByHop.swift removingNamed",
            "CachingTests.SelectionTests/hidden"),
        Requirement(
            "4.1", .must, "Vary with a star never matches, wherever the star stands.", "CachePolicy/SelectingFields.swift isStar",
            "CachePolicyTests.StoringTests/byAnswer"),
    ]

    private static let freshness = [
        Requirement(
            "4.2", .should,
            "Where freshness is said in several ways, the first or the most restrictive counts; what cannot be read is stale.",
            "CachePolicy/CacheControl.swift smaller", "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "4.2", .should, "Dates are read in any case; a time zone other than GMT makes them invalid.", "HTTPCore/HTTPDate.swift parse",
            "HTTPCoreTests.HTTPDateTests/read"),
        Requirement(
            "4.2.1", .must, "s-maxage comes before max-age, that before Expires less Date.", "CachePolicy/Freshness.swift lifetime",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "4.2.2", .must, "No guess where a lifetime is given.", "CachePolicy/StoredHead.swift heuristic",
            "CachingTests.SemanticsTests/heuristics"),
        Requirement(
            "4.2.2", .should, "A guess is at most a tenth of the time since Last-Modified: it is off unless the operator says how much.",
            "CachePolicy/Freshness.swift heuristic", "CachingTests.SemanticsTests/heuristics"),
        Requirement(
            "4.2.3", .must, "The age takes in Age, Date, the delay of the response and the time in the store.",
            "CachePolicy/Freshness.swift currentAge", "CachePolicyTests.FreshnessTests/currentAge"),
        Requirement(
            "4.2.3", .must, "A confirmation counts for the age, also where it was not written down.",
            "CachePolicy/UnwrittenConfirmation.swift encode", "CachingTests.ConfirmedAgeTests/confirmed"),
        Requirement(
            "4.2.4", .may, "While disconnected, a later 404 or 410 goes out in the place of the copy that it came after.",
            "ResponseCache/ResponseCache+Gone.swift saysGone", "CachingTests.GoneTests/remembered"),
        Requirement(
            "4.2.4", .must,
            "No stale response where no-cache, must-revalidate, proxy-revalidate or s-maxage forbids it (strict; rescue differs).",
            "CachePolicy/Reuse.swift forbiddance", "CachePolicyTests.ReuseTests/rescue"),
        Requirement(
            "4.2.4", .must, "No stale response unless disconnected or allowed by the client or the response.",
            "CachePolicy/Reuse.swift decide",
            "CachePolicyTests.RandomWalkTests/agree"),
    ]

    private static let validation = [
        Requirement(
            "4.3.1", .must, "A stored entity tag is sent with the request that validates.", "CachePolicy/Validation.swift addConditions",
            "CachingTests.CachingTests/validation"),
        Requirement(
            "4.3.1", .should, "Last-Modified too.", "CachePolicy/Validation.swift ifModifiedSince",
            "CachingTests.CachingTests/validation"),
        Requirement(
            "4.3.2", .must, "Conditions that only the upstream can judge (If-Match, If-Unmodified-Since) are left to it.",
            "CachePolicy/RequestUse.swift hasOtherConditions", "CachingTests.CachingTests/bypass"),
        Requirement(
            "4.3.2", .should, "If-None-Match is answered from the store with 304, before If-Modified-Since.",
            "CachePolicy/Preconditions.swift isNotModified", "CachePolicyTests.ValidationTests/preconditions"),
        Requirement(
            "4.3.2", .should, "If-Modified-Since is held against Last-Modified, without it against Date.",
            "CachePolicy/Preconditions.swift isNotModified",
            "CachePolicyTests.ValidationTests/dateInstead"),
        Requirement(
            "4.3.2", .should, "Range is answered from a stored whole, If-Range with it.", "CachePolicy/RangeRequest.swift RangeRequest",
            "CachingTests.SemanticsTests/parts"),
        Requirement(
            "4.3.2", .must, "If-Range holds for a strong tag or a strong date only.", "CachePolicy/RangeRequest.swift isHeld",
            "CachePolicyTests.RangeTests/conditions"),
        Requirement(
            "4.3.3", .must, "A full response to a validation takes the stored one's place.",
            "ResponseCache/ResponseCache+Storing.swift store",
            "CachingTests.CachingTests/networkFirst"),
        Requirement(
            "4.3.3", .may, "A 500, 502, 503 or 504 counts as no response: a copy that may be stale goes out.",
            "CachePolicy/LastGood.swift serverError",
            "RescueTests.RescueTests/rescued"),
        Requirement(
            "4.3.4", .must, "A 304 is used for the stored response whose validator it names, and for no other.",
            "CachePolicy/Validation.swift applies", "CachePolicyTests.SelectionTests/applies"),
        Requirement(
            "4.3.4", .must, "A 304 for what is not stored updates nothing: the upstream is asked again, without conditions.",
            "Decisions/FetchMachine.swift fetchUnconditionally",
            "CachingTests.ValidationTests/foreign"),
        Requirement(
            "4.3.4", .must,
            "A 304's fields are the stored one's from then on, the media type too, unless what was checked as JSON were none.",
            "CachePolicy/Validation.swift freshened", "CachePolicyTests.SelectionTests/updates"),
        Requirement(
            "4.3.5", .should, "A HEAD that fits freshens the stored response to GET: under strict also without a validator.",
            "CachePolicy/Validation.swift update", "CachePolicyTests.SelectionTests/heads"),
        Requirement(
            "4.3.4", .must, "A late 304 or HEAD updates nothing that was asked for after it.",
            "ResponseCache/ResponseCache+Confirming.swift base",
            "CachingTests.StoringOrderTests/confirmation"),
        Requirement(
            "4.3.5", .should, "A HEAD that differs makes the stored response stale.", "CachePolicy/Validation.swift fits",
            "CachingTests.SemanticsTests/head"),
    ]

    private static let invalidation = [
        Requirement(
            "4.4", .must, "Never with the URIs of another origin, nor outside the upstream's base path.",
            "CachePolicy/Invalidation.swift UpstreamOrigin", "CachePolicyTests.GroupTests/dropped"),
        Requirement(
            "4.4", .must, "A successful unsafe request makes its target invalid; an unknown method counts as unsafe.",
            "CachePolicy/Invalidation.swift targets",
            "CachePolicyTests.InvalidationTests/targets"),
        Requirement(
            "4.4", .must, "What is stored for the target by a request's content (QUERY) is invalid too.",
            "ResponseCache/ResponseCache.swift invalidationPart", "CachingTests.InvalidationTests/byContent"),
        Requirement(
            "4.4", .may, "Location and Content-Location too.", "CachePolicy/Invalidation.swift targets",
            "CachePolicyTests.InvalidationTests/targets"),
        Requirement(
            "4.4", .must, "Never those of another origin.", "CachePolicy/Invalidation.swift path",
            "CachePolicyTests.InvalidationTests/targets"),
    ]

    private static let fields = [
        Requirement(
            "5.1", .should, "Of several Age values the first counts; one that is no number is ignored.",
            "CachePolicy/Freshness.swift ageValue", "CachePolicyTests.FreshnessTests/ageValues"),
        Requirement(
            "5.2", .must, "Directives are passed on, whatever is done with them.", "HTTPCore/HopByHop.swift protected",
            "UpstreamSideTests.ProxyingTests/fields"),
        Requirement(
            "5.2", .should, "Names in any case, arguments as tokens and as quoted strings.",
            "CachePolicy/CacheDirective.swift isWellQuoted",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "5.2.1", .should, "max-age, max-stale, min-fresh and no-cache of requests are obeyed.", "CachePolicy/Reuse.swift decide",
            "CachePolicyTests.ReuseTests/directives"),
        Requirement(
            "5.2.1.5", .must, "no-store of a request: nothing of it or its response is kept.", "CachePolicy/Storing.swift requestNoStore",
            "CachingTests.CachingTests/requestDirectives"),
        Requirement(
            "5.2.1.6", .should, "no-transform of a request: what is stored is not coded for it.",
            "CachePolicy/CacheControl.swift noTransform",
            "ClientSideTests.LetterTests/requestNoTransform"),
        Requirement(
            "5.2.1.7", .should, "only-if-cached is answered from the store or with 504.", "Decisions/RequestDecision.swift onlyIfCached",
            "CachingTests.CachingTests/requestDirectives"),
        Requirement(
            "5.2.2.2", .must, "must-revalidate: no stale response; an error where the upstream is not reached (strict).",
            "CachePolicy/Reuse.swift mustRevalidate",
            "RescueTests.RescueTests/policies"),
        Requirement(
            "5.2.2.3", .should, "must-understand lets no-store be ignored where the status is understood.",
            "CachePolicy/Storing.swift mustUnderstand", "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "5.2.2.4", .must, "no-cache: not used without validation.", "CachePolicy/Reuse.swift noCache",
            "CachePolicyTests.ReuseTests/forbidden"),
        Requirement(
            "5.2.2.6", .must,
            "no-transform: nothing is transformed. Such content is kept in its coding (cache.store: any), or passed on and not stored.",
            "CachePolicy/Storing.swift noTransform", "CachePolicyTests.StoringTests/byAnswer"),
        Requirement(
            "5.2.2.8", .must, "proxy-revalidate: as must-revalidate, for shared caches.", "CachePolicy/Reuse.swift proxyRevalidate",
            "CachePolicyTests.ReuseTests/rescue"),
        Requirement(
            "5.2.2.10", .must, "s-maxage: comes before max-age and Expires, and means proxy-revalidate.",
            "CachePolicy/Reuse.swift sharedMaxAge",
            "CachePolicyTests.ReuseTests/rescue"),
        Requirement(
            "5.2.2.10", .must, "s-maxage and proxy-revalidate mean nothing to one user's own cache.",
            "CachePolicy/CacheControl.swift asRead",
            "CachePolicyTests.DirectiveTests/role"),
        Requirement(
            "5.2.3", .must, "Unknown directives mean nothing.", "CachePolicy/CacheDirective.swift candidate",
            "CachePolicyTests.ReuseTests/directives"),
        Requirement(
            "5.3", .must, "Expires that is no date is in the past, \"0\" above all.", "CachePolicy/Freshness.swift lifetime",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "5.3", .must, "Expires means nothing beside max-age or s-maxage.", "CachePolicy/Freshness.swift lifetime",
            "CachePolicyTests.FreshnessTests/lifetimes"),
        Requirement(
            "5.4", .should, "Pragma: no-cache counts where there is no Cache-Control.", "CachePolicy/CacheControl.swift pragma",
            "CachingTests.CachingTests/requestDirectives"),
        Requirement("5.5", .may, "Warning is obsolete: it is passed on, stored, and never made.", "", "Nothing to do."),
    ]

    private static let security = [
        Requirement(
            "7.1", .should, "What a client sends and the upstream may react to is in the key, or dropped.",
            "Forwarding/UpstreamRequestFields.swift isDropped",
            "UpstreamSideTests.ProxyingTests/fields"),
        Requirement(
            "7.3", .may, "What a 304 or a HEAD says of cookies is treated in the same way.",
            "ResponseCache/ResponseCache+Confirming.swift setCookie",
            "ClientSideTests.LetterTests/cookies"),
        Requirement(
            "7.3", .may,
            "Set-Cookie does not forbid storing; the response is kept without it, with it, or not at all, as the operator says.",
            "CachePolicy/StoredHead.swift setCookie", "CachingTests.SharedCacheTests/setCookie"),
    ]
}
