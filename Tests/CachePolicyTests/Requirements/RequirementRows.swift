// What RFC 9111 asks of a shared cache, in our own words: where it is done, and which test shows it. Sources/CachePolicy/README.md is made
// of these rows, and the tests fail where a file, a name or a test that they speak of is gone.

enum Level: String {
    case must = "MUST"
    case should = "SHOULD"
    case may = "MAY"
}

struct Requirement {
    let section: String
    let level: Level
    let sentence: String
    /// `Room/File.swift symbol`; where it is left out on purpose, nothing, and `test` says why.
    let code: String
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
            "the same call in another spelling is the same key, and another call is not"),
        Requirement(
            "2", .may, "Only GET, and what else is understood, is kept.", "CachePolicy/RequestUse.swift RequestUse", "by the request"),
        Requirement(
            "2", .may, "A cache without connection to the upstream may serve stale answers.", "CachePolicy/Reuse.swift rescue",
            "strict obeys what forbids stale answers, rescue does not"),
    ]

    private static let storing = [
        Requirement("3", .must, "Not stored unless the method is understood.", "CachePolicy/Storing.swift decide", "by the request"),
        Requirement("3", .must, "Not stored unless the status is final.", "CachePolicy/Storing.swift CacheableStatus", "by the answer"),
        Requirement(
            "3", .must, "206 and 304, or any status with must-understand, only where it is understood.",
            "CachePolicy/Storing.swift isUnderstood", "the rules and the reference agree at every step"),
        Requirement("3", .must, "no-store in the answer forbids storing.", "CachePolicy/Storing.swift noStore", "by the answer"),
        Requirement("3", .must, "private forbids a shared cache to store.", "CachePolicy/Storing.swift privateResponse", "by the answer"),
        Requirement(
            "3", .must, "Authorization forbids a shared cache to store, unless §3.5 allows it.", "CachePolicy/Storing.swift authorized",
            "by the request"),
        Requirement(
            "3", .must, "Something must allow it: public, an explicit lifetime, or a status that is cacheable by itself.",
            "CachePolicy/Storing.swift mayKeep", "store any: other types and statuses with their freshness; json: they are passed on"),
        Requirement(
            "3", .may, "private allows it in one user's own cache.", "CachePolicy/Storing.swift mayKeep",
            "private lets one user's own cache keep what nothing else does"),
        Requirement(
            "3", .may, "A status that is not known is stored with explicit freshness, and goes out as it came.",
            "CachePolicy/Storing.swift mayKeep", "store any: other types and statuses with their freshness; json: they are passed on"),
        Requirement(
            "3.1", .must, "All fields are stored, known or not; only those below are left out.", "CachePolicy/StoredHead.swift make",
            "what is stored leaves out cookies, Age and the old length, and adds a date"),
        Requirement(
            "3.1", .must, "Fields that Connection names, and those of the connection, are not stored.",
            "HTTPCore/HopByHop.swift removingHopByHop",
            "fields of the connection stop here, the forwarding fields are ours, overrides are dropped"),
        Requirement(
            "3.1", .must, "Fields that private names are not stored; those of no-cache neither.", "CachePolicy/CacheControl.swift unkept",
            "fields that private and no-cache name are not kept, the rest is"),
        Requirement(
            "3.1", .must, "Trailers are not taken for header fields: they are dropped.", "HTTPCore/ResponseHeadParser.swift trailer",
            "trailers are dropped: they are no header fields, of this answer or of the stored one"),
        Requirement(
            "3.2", .must, "Each field of a 304 takes the place of the stored ones of its name.", "CachePolicy/Validation.swift freshened",
            "a 304 replaces fields, but not those that describe the stored content"),
        Requirement(
            "3.2", .must, "Content-Length, and what describes the stored content, is not updated.", "CachePolicy/Validation.swift kept",
            "a 304 replaces fields, but not those that describe the stored content"),
        Requirement(
            "3.2", .must,
            "What a 304 or a HEAD makes of a stored answer is stored only where §3 allows it: not what is private from then on.",
            "ResponseCache/ResponseCache+Confirming.swift mayKeep", "what may not be stored does not come in by a 304 or a HEAD"),
        Requirement(
            "3.3", .must, "An incomplete answer is never taken for a whole: it is not kept at all.",
            "ReverseProxy/Fetch.swift transferFailed",
            "without a copy there is one clear error, and nothing is stored"),
        Requirement(
            "3.3", .must, "A partial answer is not stored as a whole.", "CachePolicy/Storing.swift partial",
            "a part of what is not fresh is the upstream's, is not stored, and comes from the copy when the upstream fails"),
        Requirement("3.4", .may, "Parts may be combined.", "", "Left out: parts are never stored, and are cut from stored wholes."),
        Requirement(
            "3.5", .must, "What is shared so is shared only as that directive says: never stale, under rescue too.",
            "CachePolicy/Reuse.swift authorized", "in both modes: no stale answer of another's authorised request, and no stored error"),
        Requirement(
            "3", .may, "Errors that one odd request brings about are never kept for others, unless cache.store_errors asks for the letter.",
            "CachePolicy/Storing.swift isAboutOneRequest", "by status and lifetime"),
        Requirement(
            "3.5", .must, "No partition gets another's copy; that of those without credentials stands in by the setting's rules only.",
            "CachePolicy/SharedRescue.swift decide", "everybody gets what the rules say, and nobody another's"),
        Requirement(
            "3.5", .must, "Answers to Authorization are shared only with public, must-revalidate or s-maxage.",
            "CachePolicy/Storing.swift mayShare", "by the request"),
    ]

    private static let reuse = [
        Requirement(
            "4", .must, "Reused only for the same URI.", "CachePolicy/CacheKey.swift append",
            "every byte that may stand in a target has a key of its own, in a path and in an argument"),
        Requirement(
            "4", .must, "Reused only where the stored method allows it: GET for GET and HEAD, a POST's own answer for GET.",
            "ReverseProxy/Fetch.swift takeKeyOfGet", "an answer to POST that is what GET would bring serves later GETs (RFC 9110 §9.3.3)"),
        Requirement(
            "4", .must, "no-cache forbids reuse without validation.", "CachePolicy/Reuse.swift noCache",
            "no-cache is never served unasked; a stale one that must be validated is not served for max-stale"),
        Requirement(
            "4", .must, "Reused only while fresh, allowed to be stale, or validated.", "CachePolicy/Reuse.swift decide",
            "by the request's directives, ten seconds later"),
        Requirement(
            "4", .must, "An answer that is served without validation carries Age.", "ReverseProxy/ProxyShard+Hits.swift serveHit",
            "an explicitly fresh answer is served without asking, until it is stale"),
        Requirement(
            "4", .must, "Unsafe requests are written through.", "CachePolicy/RequestUse.swift method",
            "an unsafe request drops what is stored, in every partition and variant"),
        Requirement(
            "4", .must, "Of several that fit, the most recent is used: a newer one of the same variant takes the older one's place.",
            "ResponseCache/ResponseCache+Placing.swift insert", "the rules and the reference agree at every step"),
        Requirement(
            "4", .must,
            "Which of two is the more recent is told by when their requests were sent: an older one that ends later is not stored.",
            "CachePolicy/Recency.swift isOutdated",
            "a slow older response goes to its own client, and never takes the place of a newer one"),
        Requirement(
            "4", .may, "Requests for one key may share one request to the upstream.", "ReverseProxy/CollapsedRequests.swift join",
            "many requests at once for one cold key are one request to the upstream, also across shards"),
        Requirement(
            "4", .must, "They share only an answer that each may have unasked (strict; rescue differs as Configuration/README.md says).",
            "Decisions/OutcomeDecision.swift serveShared",
            "to the letter, requests share an answer only where each may have it unasked (RFC 9111 §4)"),
        Requirement(
            "4.1", .must, "Only a stored answer whose selecting fields match is used.", "CachePolicy/SelectingFields.swift values",
            "answers vary by what Vary names; a star is never stored"),
        Requirement(
            "4.1", .must, "Under strict every cookie counts for the partition, so that Vary: Cookie never meets another value.",
            "CachePolicy/CredentialCookies.swift isStrict",
            "to the letter every cookie counts, since Vary: Cookie speaks of the whole field (RFC 9111 §4.1)"),
        Requirement(
            "4.1", .must, "A copy that varies by credentials does not stand in for a request with other ones, under strict.",
            "CachePolicy/SharedRescue.swift varies", "may it stand in?"),
        Requirement(
            "4.1", .must,
            "Content that is stored in its coding goes to those only whose Accept-Encoding allows that; for others the upstream is asked.",
            "HTTPCore/ContentCoding.swift allows", "which clients may have content in a coding that cannot be taken off (RFC 9110 §12.5.3)"),
        Requirement(
            "4.1", .may, "White space, lists over several lines and the order of languages make no difference.",
            "CachePolicy/SelectingFields.swift preferences", "languages are compared by what they say (RFC 9110 §12.5.4)"),
        Requirement(
            "4.1", .must, "A field that is missing in one request matches only its absence in the other.",
            "CachePolicy/SelectingFields.swift values", "selecting fields leave out what is covered already, and values are told apart"),
        Requirement(
            "4.1", .must, "A 304 that brings another Vary: the stored answer is found by that from then on.",
            "ResponseCache/ResponseCache+Confirming.swift write",
            "a 304 or a HEAD that varies otherwise than the stored answer: by its Vary from then on"),
        Requirement(
            "4.1", .must, "Selecting fields are those of the request as the upstream got it, without what Connection names.",
            "HTTPCore/HopByHop.swift removingNamed",
            "who hides a field from the upstream by Connection does not store its answer for those who send it"),
        Requirement(
            "4.1", .must, "Vary with a star never matches, wherever the star stands.", "CachePolicy/SelectingFields.swift isStar",
            "by the answer"),
    ]

    private static let freshness = [
        Requirement(
            "4.2", .should,
            "Where freshness is said in several ways, the first or the most restrictive counts; what cannot be read is stale.",
            "CachePolicy/CacheControl.swift smaller", "lifetimes"),
        Requirement(
            "4.2", .should, "Dates are read in any case; a time zone other than GMT makes them invalid.", "HTTPCore/HTTPDate.swift parse",
            "the three forms are read"),
        Requirement(
            "4.2.1", .must, "s-maxage comes before max-age, that before Expires less Date.", "CachePolicy/Freshness.swift lifetime",
            "lifetimes"),
        Requirement(
            "4.2.2", .must, "No guess where a lifetime is given.", "CachePolicy/StoredHead.swift heuristic",
            "heuristic freshness is off unless asked for (§4.2.2)"),
        Requirement(
            "4.2.2", .should, "A guess is at most a tenth of the time since Last-Modified: it is off unless the operator says how much.",
            "CachePolicy/Freshness.swift heuristic", "heuristic freshness is off unless asked for (§4.2.2)"),
        Requirement(
            "4.2.3", .must, "The age takes in Age, Date, the delay of the answer and the time in the store.",
            "CachePolicy/Freshness.swift currentAge", "current age: apparent age or Age and delay, whichever is more, and the time since"),
        Requirement(
            "4.2.3", .must, "A confirmation counts for the age, also where it was not written down.",
            "CachePolicy/UnwrittenConfirmation.swift encode", "a 304 that was not written down counts all the same, for everyone who asks"),
        Requirement(
            "4.2.4", .may, "While disconnected, a later 404 or 410 goes out in the place of the copy that it came after.",
            "CachePolicy/GoneWatch.swift missing", "a 404 in JSON goes out in an outage, also after a restart, until the next 200 or 304"),
        Requirement(
            "4.2.4", .must,
            "No stale answer where no-cache, must-revalidate, proxy-revalidate or s-maxage forbids it (strict; rescue differs as Configuration/README.md says).",
            "CachePolicy/Reuse.swift forbiddance", "strict obeys what forbids stale answers, rescue does not"),
        Requirement(
            "4.2.4", .must, "No stale answer unless disconnected or allowed by the client or the answer.", "CachePolicy/Reuse.swift decide",
            "the rules and the reference agree at every step"),
    ]

    private static let validation = [
        Requirement(
            "4.3.1", .must, "A stored entity tag is sent with the request that validates.", "CachePolicy/Validation.swift addConditions",
            "a 304 confirms what is stored, and is never shown to a client that did not ask"),
        Requirement(
            "4.3.1", .should, "Last-Modified too.", "CachePolicy/Validation.swift ifModifiedSince",
            "a 304 confirms what is stored, and is never shown to a client that did not ask"),
        Requirement(
            "4.3.2", .must, "Conditions that only the upstream can judge (If-Match, If-Unmodified-Since) are left to it.",
            "CachePolicy/RequestUse.swift hasOtherConditions", "a precondition or content makes a GET go by the store"),
        Requirement(
            "4.3.2", .should, "If-None-Match is answered from the store with 304, before If-Modified-Since.",
            "CachePolicy/Preconditions.swift isNotModified", "the client's own conditions"),
        Requirement(
            "4.3.2", .should, "If-Modified-Since is held against Last-Modified, without it against Date.",
            "CachePolicy/Preconditions.swift isNotModified",
            "without Last-Modified the Date answers If-Modified-Since; an empty If-None-Match hides it still"),
        Requirement(
            "4.3.2", .should, "Range is answered from a stored whole, If-Range with it.", "CachePolicy/RangeRequest.swift RangeRequest",
            "a part of a stored whole (RFC 9110 §14.2)"),
        Requirement(
            "4.3.2", .must, "If-Range holds for a strong tag or a strong date only.", "CachePolicy/RangeRequest.swift isHeld", "If-Range"),
        Requirement(
            "4.3.3", .must, "A full answer to a validation takes the stored one's place.",
            "ResponseCache/ResponseCache+Storing.swift store",
            "without freshness the upstream is always asked first"),
        Requirement(
            "4.3.3", .may, "A 5xx counts as no answer: a copy that may be stale goes out.", "CachePolicy/LastGood.swift serverError",
            "with a copy it goes out exact, and the next good answer takes over"),
        Requirement(
            "4.3.4", .must, "A 304 is used for the stored answer whose validator it names, and for no other.",
            "CachePolicy/Validation.swift applies", "which 304 speaks of what is stored"),
        Requirement(
            "4.3.4", .must, "A 304 for what is not stored updates nothing: the upstream is asked again, without conditions.",
            "ReverseProxy/Fetch.swift askWithoutConditions",
            "a 304 with validators that are not stored: the upstream is asked for the whole"),
        Requirement(
            "4.3.4", .must,
            "A 304's fields are the stored one's from then on, the media type too, unless what was checked as JSON were none.",
            "CachePolicy/Validation.swift freshened", "what a 304 updates"),
        Requirement(
            "4.3.5", .should, "A HEAD that fits freshens the stored answer to GET: under strict also without a validator.",
            "CachePolicy/Validation.swift update", "what a HEAD tells of GET's copy"),
        Requirement(
            "4.3.4", .must, "A late 304 or HEAD updates nothing that was asked for after it.",
            "ResponseCache/ResponseCache+Confirming.swift base",
            "a late 304 does not bring back what was replaced, nor freshen what replaced it"),
        Requirement(
            "4.3.5", .should, "A HEAD that differs makes the stored answer stale.", "CachePolicy/Validation.swift fits",
            "HEAD that differs from the stored answer makes it stale (§4.3.5)"),
    ]

    private static let invalidation = [
        Requirement(
            "4.4", .must, "Never with the URIs of another origin, nor outside the upstream's base path.",
            "CachePolicy/Invalidation.swift UpstreamOrigin", "what is dropped, behind a base path"),
        Requirement(
            "4.4", .must, "A successful unsafe request makes its target invalid; an unknown method counts as unsafe.",
            "CachePolicy/Invalidation.swift targets",
            "the target, Location and Content-Location of the same origin, on success of an unsafe method"),
        Requirement(
            "4.4", .must, "What is stored for the target by a request's content (QUERY) is invalid too.",
            "ResponseCache/ResponseCache.swift invalidationPart", "what is stored by a request's content goes too"),
        Requirement(
            "4.4", .may, "Location and Content-Location too.", "CachePolicy/Invalidation.swift targets",
            "the target, Location and Content-Location of the same origin, on success of an unsafe method"),
        Requirement(
            "4.4", .must, "Never those of another origin.", "CachePolicy/Invalidation.swift path",
            "the target, Location and Content-Location of the same origin, on success of an unsafe method"),
    ]

    private static let fields = [
        Requirement(
            "5.1", .should, "Of several Age values the first counts; one that is no number is ignored.",
            "CachePolicy/Freshness.swift ageValue", "Age: the first member; what is no number is ignored"),
        Requirement(
            "5.2", .must, "Directives are passed on, whatever is done with them.", "HTTPCore/HopByHop.swift protected",
            "fields of the connection stop here, the forwarding fields are ours, overrides are dropped"),
        Requirement(
            "5.2", .should, "Names in any case, arguments as tokens and as quoted strings.",
            "CachePolicy/CacheDirective.swift isWellQuoted",
            "lifetimes"),
        Requirement(
            "5.2.1", .should, "max-age, max-stale, min-fresh and no-cache of requests are obeyed.", "CachePolicy/Reuse.swift decide",
            "by the request's directives, ten seconds later"),
        Requirement(
            "5.2.1.5", .must, "no-store of a request: nothing of it or its answer is kept.", "CachePolicy/Storing.swift requestNoStore",
            "request directives: no-cache asks, only-if-cached does not, no-store is not kept"),
        Requirement(
            "5.2.1.6", .should, "no-transform of a request: what is stored is not coded for it.",
            "CachePolicy/CacheControl.swift noTransform",
            "a request with no-transform gets stored content as it is (RFC 9111 §5.2.1.6)"),
        Requirement(
            "5.2.1.7", .should, "only-if-cached is answered from the store or with 504.", "Decisions/RequestDecision.swift onlyIfCached",
            "request directives: no-cache asks, only-if-cached does not, no-store is not kept"),
        Requirement(
            "5.2.2.2", .must, "must-revalidate: no stale answer; an error where the upstream is not reached (strict).",
            "CachePolicy/Reuse.swift mustRevalidate",
            "rescue goes against no-cache and must-revalidate; strict does not; no-store is absolute"),
        Requirement(
            "5.2.2.3", .should, "must-understand lets no-store be ignored where the status is understood.",
            "CachePolicy/Storing.swift mustUnderstand", "by the answer"),
        Requirement(
            "5.2.2.4", .must, "no-cache: not used without validation.", "CachePolicy/Reuse.swift noCache",
            "no-cache is never served unasked; a stale one that must be validated is not served for max-stale"),
        Requirement(
            "5.2.2.6", .must,
            "no-transform: nothing is transformed. Such content is kept in its coding (cache.store: any), or passed on and not stored.",
            "CachePolicy/Storing.swift noTransform", "by the answer"),
        Requirement(
            "5.2.2.8", .must, "proxy-revalidate: as must-revalidate, for shared caches.", "CachePolicy/Reuse.swift proxyRevalidate",
            "strict obeys what forbids stale answers, rescue does not"),
        Requirement(
            "5.2.2.10", .must, "s-maxage: comes before max-age and Expires, and means proxy-revalidate.",
            "CachePolicy/Reuse.swift sharedMaxAge",
            "strict obeys what forbids stale answers, rescue does not"),
        Requirement(
            "5.2.2.10", .must, "s-maxage and proxy-revalidate mean nothing to one user's own cache.",
            "CachePolicy/CacheControl.swift asRead",
            "what is said to shared caches is not for one user's own"),
        Requirement(
            "5.2.3", .must, "Unknown directives mean nothing.", "CachePolicy/CacheDirective.swift candidate",
            "by the request's directives, ten seconds later"),
        Requirement(
            "5.3", .must, "Expires that is no date is in the past, \"0\" above all.", "CachePolicy/Freshness.swift lifetime", "lifetimes"),
        Requirement(
            "5.3", .must, "Expires means nothing beside max-age or s-maxage.", "CachePolicy/Freshness.swift lifetime", "lifetimes"),
        Requirement(
            "5.4", .should, "Pragma: no-cache counts where there is no Cache-Control.", "CachePolicy/CacheControl.swift pragma",
            "request directives: no-cache asks, only-if-cached does not, no-store is not kept"),
        Requirement("5.5", .may, "Warning is obsolete: it is passed on, stored, and never made.", "", "Nothing to do."),
    ]

    private static let security = [
        Requirement(
            "7.1", .should, "What a client sends and the upstream may react to is in the key, or dropped.",
            "Forwarding/UpstreamRequestFields.swift knownOverrides",
            "fields of the connection stop here, the forwarding fields are ours, overrides are dropped"),
        Requirement(
            "7.3", .may, "What a 304 or a HEAD says of cookies is treated in the same way.",
            "ResponseCache/ResponseCache+Confirming.swift setCookie",
            "Set-Cookie in a 304 or an answer to HEAD is kept, stripped, or the update not stored, as the setting says"),
        Requirement(
            "7.3", .may, "Set-Cookie does not forbid storing; the answer is kept without it, with it, or not at all, as the operator says.",
            "CachePolicy/StoredHead.swift setCookie", "Set-Cookie out of the store: stripped, kept, or the answer is not stored"),
    ]
}
