// A table of the first decision: facts about a request, and how it is handled. Without sockets.

import CachePolicy
import Decisions
import Forwarding
import HTTPCore
import Testing

struct RequestRow: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var method = Method.get
    var found: StoredMetadata?
    var gone: StoredMetadata?
    var hasOtherVariant = false
    var asked = ""
    var mode = ServingMode.live
    var strictness = Strictness.rescue
    var refusal: RequestRefusal?
    var isForPart = false
    var isKeptByContent = false
    var isRefreshDue = false
    var wantsStream = false
    let expected: String

    init(_ name: String, _ expected: String, _ change: (inout RequestRow) -> Void = { _ in }) {
        testDescription = name
        self.expected = expected
        change(&self)
    }

    private var result: LookUpFacts<Stored>.Result {
        if let found { return .found(Stored("copy"), found) }
        return hasOtherVariant ? .otherVariant : .nothing
    }

    var decision: RequestDecision<Stored> {
        var lookedUp = LookUpFacts<Stored>(result, KeyedTarget(keys: TargetKeys(own: [1], credentialFree: [1]), flight: [2]))
        lookedUp.isForPart = isForPart
        lookedUp.isKeptByContent = isKeptByContent
        lookedUp.isRefreshDue = isRefreshDue
        lookedUp.gone = gone.map { .found(Stored("gone"), $0) } ?? .nothing
        var facts = RequestFacts<Stored>(method, strictness: strictness, now: noon)
        facts.storeUse = .lookedUp(lookedUp)
        facts.directives = directives(asked)
        facts.mode = mode
        facts.refusal = refusal
        facts.wantsStream = wantsStream
        return facts.decide()
    }
}

@Suite("Decisions on a request")
struct RequestDecisionTests {
    private static let fresh = metadata(age: 10)
    private static let stale = metadata(age: 100)
    private static let revalidatable = metadata(age: 100, staleWhileRevalidate: 60)

    private static func negative(age: Int64) -> StoredMetadata {
        var error = metadata(age: age, lifetime: 10, status: 404)
        error.lifetimeSource = .negative
        return error
    }

    private static let live: [RequestRow] = [
        RequestRow("a fresh response is served", "serve copy: fresh, age 10, 50 left") { $0.found = fresh },
        RequestRow("a rarely requested fresh response is not refreshed", "serve copy: fresh, age 59, 1 left") {
            $0.found = metadata(age: 59)
        },
        RequestRow("a frequently requested response is refreshed ahead", "serve copy: fresh, age 59, 1 left, then refresh_ahead, repeated")
        {
            ($0.found, $0.isRefreshDue) = (metadata(age: 59), true)
        },
        RequestRow("an immutable response is not refreshed ahead", "serve copy: fresh, age 59, 1 left") {
            ($0.found, $0.isRefreshDue) = (metadata(age: 59, .immutable), true)
        },
        RequestRow("a request with directives does not refresh ahead", "serve copy: fresh, age 59, 1 left") {
            ($0.found, $0.isRefreshDue, $0.asked) = (metadata(age: 59), true, "max-age=60")
        },
        RequestRow("HEAD also refreshes ahead, by a GET", "serve copy: fresh, age 59, 1 left, then refresh_ahead, repeated") {
            ($0.found, $0.isRefreshDue, $0.method) = (metadata(age: 59), true, .head)
        },
        RequestRow("a fresh negative response is served instead of a stale response", "serve gone: fresh, age 5, 5 left") {
            ($0.found, $0.gone) = (stale, negative(age: 5))
        },
        RequestRow(
            "a stale negative response is not served", "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), repeated"
        ) {
            ($0.found, $0.gone) = (stale, negative(age: 10))
        },
        RequestRow("a fresh negative response is not served instead of a fresh response", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.gone) = (fresh, negative(age: 5))
        },
        RequestRow("max-stale: a stale response is served", "serve copy: fresh, age 100, -40 left") {
            ($0.found, $0.asked) = (stale, "max-stale")
        },
        RequestRow(
            "stale-while-revalidate: a stale response is served and validated in the background",
            "serve copy: staleWhileRevalidate, age 100, -40 left, then stale_while_revalidate, repeated"
        ) { $0.found = revalidatable },
        RequestRow(
            "stale-while-revalidate also applies to HEAD, and a GET validates",
            "serve copy: staleWhileRevalidate, age 100, -40 left, then stale_while_revalidate, repeated"
        ) {
            ($0.found, $0.method) = (revalidatable, .head)
        },
        RequestRow(
            "stale-while-revalidate does not apply to QUERY",
            "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), collapsed"
        ) {
            ($0.found, $0.method, $0.isKeptByContent) = (revalidatable, .query, true)
        },
        RequestRow(
            "stale-while-revalidate: a newer 404 prevents it",
            "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), repeated"
        ) {
            ($0.found, $0.gone) = (revalidatable, metadata(age: 5, lifetime: nil, status: 404))
        },
        RequestRow("stale-while-revalidate: a newer fresh negative response is served", "serve gone: fresh, age 5, 5 left") {
            ($0.found, $0.gone) = (revalidatable, negative(age: 5))
        },
        RequestRow("max-stale: a newer 404 that it accepts is served", "serve gone: fresh, age 5, -5 left") {
            ($0.found, $0.gone, $0.asked) = (stale, metadata(age: 5, lifetime: nil, status: 404), "max-stale=60")
        },
        RequestRow(
            "max-stale: a newer 404 that is too stale prevents serving",
            "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), none"
        ) {
            ($0.found, $0.gone, $0.asked) = (metadata(age: 65), metadata(age: 50, lifetime: nil, status: 404), "max-stale=40")
        },
        RequestRow("max-stale: a fresh response takes precedence over a newer 404", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.gone, $0.asked) = (fresh, metadata(age: 5, lifetime: nil, status: 404), "max-stale")
        },
        RequestRow("a stale response is validated", "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), repeated") {
            $0.found = stale
        },
        RequestRow(
            "no-cache in the request: a fresh response is validated",
            "validate copy (may rescue): request(CachePolicy.ValidationReason.requestNoCache), none"
        ) { ($0.found, $0.asked) = (fresh, "no-cache") },
        RequestRow(
            "no-cache in the request: a stale response is validated",
            "validate copy (may rescue): stale(CachePolicy.ValidationReason.requestNoCache), none"
        ) { ($0.found, $0.asked) = (stale, "no-cache") },
        RequestRow(
            "a response that may not rescue is validated",
            "validate copy (may not rescue): stale(CachePolicy.ValidationReason.stale), repeated"
        ) { ($0.found, $0.strictness) = (metadata(age: 100, .mustRevalidate), .strict) },
        RequestRow(
            "a stored error never rescues", "validate copy (may not rescue): stale(CachePolicy.ValidationReason.stale), repeated"
        ) { $0.found = metadata(age: 100, status: 503) },
        RequestRow("nothing is stored", "forward: nothingStored, repeated"),
        RequestRow("only another variant is stored", "forward: otherVariant, repeated") { $0.hasOtherVariant = true },
        RequestRow("HEAD is not collapsed", "forward: nothingStored, none") { $0.method = .head },
        RequestRow("a request for a stream is not collapsed", "forward: nothingStored, none") { $0.wantsStream = true },
        RequestRow("QUERY requests with the same content are collapsed", "forward: nothingStored, collapsed") {
            ($0.method, $0.isKeptByContent) = (.query, true)
        },
        RequestRow("QUERY with a request directive is not collapsed", "forward: nothingStored, none") {
            ($0.method, $0.isKeptByContent, $0.asked) = (.query, true, "no-store")
        },
        RequestRow("only-if-cached, and nothing is stored", "refuse: onlyIfCached") { $0.asked = "only-if-cached" },
        RequestRow("only-if-cached, the stored response is stale", "refuse: onlyIfCached") {
            ($0.found, $0.asked) = (stale, "only-if-cached")
        },
        RequestRow("only-if-cached, the stored response is fresh", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.asked) = (fresh, "only-if-cached")
        },
        RequestRow("a loop", "refuse: request(Forwarding.RequestRefusal.loop)") { $0.refusal = .loop },
        RequestRow("a loop, the stored response is fresh", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.refusal) = (fresh, .loop)
        },
    ]

    private static let parts: [RequestRow] = [
        RequestRow("a range of a fresh response", "serve copy: fresh, age 10, 50 left") { ($0.found, $0.isForPart) = (fresh, true) },
        RequestRow("a range of a stale response is forwarded", "part beside copy (may rescue)") {
            ($0.found, $0.isForPart) = (stale, true)
        },
        RequestRow(
            "stale-while-revalidate also applies to ranges",
            "serve copy: staleWhileRevalidate, age 100, -40 left, then stale_while_revalidate, repeated"
        ) {
            ($0.found, $0.isForPart) = (revalidatable, true)
        },
        RequestRow("a range of an unstored response", "part") { $0.isForPart = true },
        RequestRow("a range, only another variant is stored", "part") { ($0.hasOtherVariant, $0.isForPart) = (true, true) },
    ]

    private static let modes: [RequestRow] = [
        RequestRow("offline: a stale response is served", "serve copy: mode(CachePolicy.ServingMode.offline), age 100, -40 left") {
            ($0.found, $0.mode) = (stale, .offline)
        },
        RequestRow("offline: nothing is stored", "refuse: offline") { $0.mode = .offline },
        RequestRow("offline: a stored error is not served", "refuse: offline") {
            ($0.found, $0.mode) = (metadata(age: 100, status: 503), .offline)
        },
        RequestRow("offline: a stored error with stale-while-revalidate is not served", "refuse: offline") {
            ($0.found, $0.mode) = (metadata(age: 100, staleWhileRevalidate: 60, status: 503), .offline)
        },
        RequestRow(
            "offline: a newer 404 is served instead of a stale response",
            "serve gone: gone(CachePolicy.ServingMode.offline), age 5, -5 left"
        ) {
            ($0.found, $0.gone, $0.mode) = (stale, metadata(age: 5, lifetime: 0, status: 404), .offline)
        },
        RequestRow(
            "offline: a newer 404 is served instead of a stale response that max-stale accepts",
            "serve gone: gone(CachePolicy.ServingMode.offline), age 5, -5 left"
        ) {
            ($0.found, $0.gone, $0.mode, $0.asked) = (stale, metadata(age: 5, lifetime: 0, status: 404), .offline, "max-stale")
        },
        RequestRow("offline: max-stale does not make a stored error servable", "refuse: offline") {
            ($0.found, $0.mode, $0.asked) = (metadata(age: 100, status: 503), .offline, "max-stale")
        },
        RequestRow(
            "offline: a fresh response takes precedence over a newer 404",
            "serve copy: mode(CachePolicy.ServingMode.offline), age 10, 50 left"
        ) {
            ($0.found, $0.gone, $0.mode) = (fresh, metadata(age: 5, lifetime: 0, status: 404), .offline)
        },
        RequestRow("replay: a stale response is served", "serve copy: mode(CachePolicy.ServingMode.replay), age 100, -40 left") {
            ($0.found, $0.mode) = (stale, .replay)
        },
        RequestRow("replay: a request without a stored response is forwarded", "forward: nothingStored, repeated") { $0.mode = .replay },
        RequestRow(
            "record: a fresh response is validated, not collapsed, and does not rescue", "validate copy (may not rescue): record, none"
        ) { ($0.found, $0.mode) = (fresh, .record) },
        RequestRow("record: nothing is stored", "forward: nothingStored, none") { $0.mode = .record },
    ]

    @Test("a request that was looked up gets the expected decision", arguments: live + parts + modes)
    func lookedUp(_ row: RequestRow) {
        #expect(row.decision.text == row.expected)
    }

    @Test(
        "a request that bypasses the store is passed or refused",
        arguments: [
            (Method.get, nil, "", "pass: no store"), (.get, nil, "only-if-cached", "pass: no store"),
            (.post, .method, "", "pass: method"), (.post, .method, "only-if-cached", "pass: method"),
            (.query, .method, "only-if-cached", "refuse: onlyIfCached, method"),
            (.get, .precondition, "only-if-cached", "refuse: onlyIfCached, precondition"),
        ] as [(Method, BypassReason?, String, String)])
    func bypassed(method: Method, reason: BypassReason?, asked: String, expected: String) {
        var facts = RequestFacts<Stored>(method, strictness: .rescue, now: noon)
        if let reason { facts.storeUse = .bypassed(reason) }
        facts.directives = directives(asked)
        #expect(facts.decide().text == expected)
        facts.mode = .offline
        #expect(facts.decide().text == "refuse: offline" + (reason.map { ", \($0)" } ?? ""))
        facts.refusal = .loop
        #expect(facts.decide().text == "refuse: request(Forwarding.RequestRefusal.loop)")
    }

    @Test("the forward reason uses the tokens of Cache-Status (RFC 9211 §2.2)")
    func tokens() {
        func token(_ change: (inout RequestRow) -> Void) -> String { "\(RequestRow("", "", change).decision.forwardToken)" }
        #expect(token { _ in } == "uri-miss")
        #expect(token { $0.hasOtherVariant = true } == "vary-miss")
        #expect(token { $0.found = Self.stale } == "stale")
        #expect(token { ($0.found, $0.asked) = (Self.fresh, "no-cache") } == "request")
        #expect(token { ($0.found, $0.asked) = (Self.stale, "no-cache") } == "stale")
        #expect(token { ($0.found, $0.mode) = (Self.fresh, .record) } == "bypass")
        #expect(token { $0.isForPart = true } == "bypass")
        #expect("\(RequestDecision<Stored>.pass(.method).forwardToken)" == "method")
        #expect("\(RequestDecision<Stored>.pass(nil).forwardToken)" == "bypass")
    }

    @Test("only misses and stale responses have a key to store under; parts, fresh hits and offline requests have none")
    func keysToStore() {
        func place(_ change: (inout RequestRow) -> Void) -> [UInt8]? { RequestRow("", "", change).decision.fetchTarget?.flight.bytes }
        #expect(place { _ in } == [2])
        #expect(place { $0.found = Self.stale } == [2])
        #expect(place { $0.found = Self.revalidatable } == [2])
        #expect(place { ($0.found, $0.isForPart) = (Self.stale, true) } == nil)
        #expect(place { $0.found = Self.fresh } == nil)
        #expect(place { $0.mode = .offline } == nil)
    }
}
