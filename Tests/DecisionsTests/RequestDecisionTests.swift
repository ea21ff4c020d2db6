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
        RequestRow("and not asked for anew, as long as it is not asked for often", "serve copy: fresh, age 59, 1 left") {
            $0.found = metadata(age: 59)
        },
        RequestRow("a hit that is asked for often is refreshed", "serve copy: fresh, age 59, 1 left, then refresh_ahead, repeated") {
            ($0.found, $0.isRefreshDue) = (metadata(age: 59), true)
        },
        RequestRow("but not what is immutable", "serve copy: fresh, age 59, 1 left") {
            ($0.found, $0.isRefreshDue) = (metadata(age: 59, .immutable), true)
        },
        RequestRow("nor where the request says more than a plain GET", "serve copy: fresh, age 59, 1 left") {
            ($0.found, $0.isRefreshDue, $0.asked) = (metadata(age: 59), true, "max-age=60")
        },
        RequestRow("nor for HEAD", "serve copy: fresh, age 59, 1 left") {
            ($0.found, $0.isRefreshDue, $0.method) = (metadata(age: 59), true, .head)
        },
        RequestRow("an error that is kept for a moment goes out in the place of a stale copy", "serve gone: fresh, age 5, 5 left") {
            ($0.found, $0.gone) = (stale, negative(age: 5))
        },
        RequestRow("but not once it is stale", "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), repeated") {
            ($0.found, $0.gone) = (stale, negative(age: 10))
        },
        RequestRow("nor in the place of a fresh one", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.gone) = (fresh, negative(age: 5))
        },
        RequestRow("max-stale takes it as it is", "serve copy: fresh, age 100, -40 left") {
            ($0.found, $0.asked) = (stale, "max-stale")
        },
        RequestRow(
            "what allows it is served stale while it is validated",
            "serve copy: staleWhileRevalidate, age 100, -40 left, then stale_while_revalidate, repeated"
        ) { $0.found = revalidatable },
        RequestRow(
            "only a GET can be asked without its client", "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), none"
        ) {
            ($0.found, $0.method) = (revalidatable, .head)
        },
        RequestRow("what is stale is validated", "validate copy (may rescue): stale(CachePolicy.ValidationReason.stale), repeated") {
            $0.found = stale
        },
        RequestRow(
            "the request's no-cache makes the difference",
            "validate copy (may rescue): request(CachePolicy.ValidationReason.requestNoCache), none"
        ) { ($0.found, $0.asked) = (fresh, "no-cache") },
        RequestRow(
            "and none where it would have been validated anyway",
            "validate copy (may rescue): stale(CachePolicy.ValidationReason.requestNoCache), none"
        ) { ($0.found, $0.asked) = (stale, "no-cache") },
        RequestRow(
            "a copy that must not rescue is validated all the same",
            "validate copy (may not rescue): stale(CachePolicy.ValidationReason.stale), repeated"
        ) { ($0.found, $0.strictness) = (metadata(age: 100, .mustRevalidate), .strict) },
        RequestRow(
            "a stored error never rescues", "validate copy (may not rescue): stale(CachePolicy.ValidationReason.stale), repeated"
        ) { $0.found = metadata(age: 100, status: 503) },
        RequestRow("nothing is stored", "forward: nothingStored, repeated"),
        RequestRow("nothing for these selecting fields", "forward: otherVariant, repeated") { $0.hasOtherVariant = true },
        RequestRow("HEAD is asked for alone", "forward: nothingStored, none") { $0.method = .head },
        RequestRow("who wants a stream waits for nobody else's", "forward: nothingStored, none") { $0.wantsStream = true },
        RequestRow("QUERY may wait for another with the same content", "forward: nothingStored, collapsed") {
            ($0.method, $0.isKeptByContent) = (.query, true)
        },
        RequestRow("but not with directives of its own", "forward: nothingStored, none") {
            ($0.method, $0.isKeptByContent, $0.asked) = (.query, true, "no-store")
        },
        RequestRow("only-if-cached, and nothing is stored", "refuse: onlyIfCached") { $0.asked = "only-if-cached" },
        RequestRow("only-if-cached, and what is stored is stale", "refuse: onlyIfCached") {
            ($0.found, $0.asked) = (stale, "only-if-cached")
        },
        RequestRow("only-if-cached, and what is stored is fresh", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.asked) = (fresh, "only-if-cached")
        },
        RequestRow("a loop", "refuse: request(Forwarding.RequestRefusal.loop)") { $0.refusal = .loop },
        RequestRow("a loop, but what is stored is fresh", "serve copy: fresh, age 10, 50 left") {
            ($0.found, $0.refusal) = (fresh, .loop)
        },
    ]

    private static let parts: [RequestRow] = [
        RequestRow("a part of what is fresh", "serve copy: fresh, age 10, 50 left") { ($0.found, $0.isForPart) = (fresh, true) },
        RequestRow("a part of what is stale is asked for", "part beside copy (may rescue)") {
            ($0.found, $0.isForPart) = (stale, true)
        },
        RequestRow("also where it allows to be served stale: a part brings nothing that could be stored", "part beside copy (may rescue)") {
            ($0.found, $0.isForPart) = (revalidatable, true)
        },
        RequestRow("a part of what is not stored", "part") { $0.isForPart = true },
        RequestRow("a part of another variant", "part") { ($0.hasOtherVariant, $0.isForPart) = (true, true) },
    ]

    private static let modes: [RequestRow] = [
        RequestRow("offline: what is stale goes out", "serve copy: mode(CachePolicy.ServingMode.offline), age 100, -40 left") {
            ($0.found, $0.mode) = (stale, .offline)
        },
        RequestRow("offline: nothing is stored", "refuse: offline") { $0.mode = .offline },
        RequestRow("offline: what must not go out does not", "refuse: offline") {
            ($0.found, $0.mode) = (metadata(age: 100, status: 503), .offline)
        },
        RequestRow("offline: not even where it is to be validated behind", "refuse: offline") {
            ($0.found, $0.mode) = (metadata(age: 100, staleWhileRevalidate: 60, status: 503), .offline)
        },
        RequestRow(
            "offline: the last that was said is that it is gone", "serve gone: gone(CachePolicy.ServingMode.offline), age 5, -5 left"
        ) {
            ($0.found, $0.gone, $0.mode) = (stale, metadata(age: 5, lifetime: 0, status: 404), .offline)
        },
        RequestRow("offline: what is fresh is not gone", "serve copy: mode(CachePolicy.ServingMode.offline), age 10, 50 left") {
            ($0.found, $0.gone, $0.mode) = (fresh, metadata(age: 5, lifetime: 0, status: 404), .offline)
        },
        RequestRow("replay: what is stale goes out", "serve copy: mode(CachePolicy.ServingMode.replay), age 100, -40 left") {
            ($0.found, $0.mode) = (stale, .replay)
        },
        RequestRow("replay: what is not stored is asked for", "forward: nothingStored, repeated") { $0.mode = .replay },
        RequestRow(
            "record: what is fresh is asked for all the same, alone, and does not rescue", "validate copy (may not rescue): record, none"
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
            (.query, .method, "only-if-cached", "refuse: onlyIfCached"),
            (.get, .precondition, "only-if-cached", "refuse: onlyIfCached"),
        ] as [(Method, BypassReason?, String, String)])
    func bypassed(method: Method, reason: BypassReason?, asked: String, expected: String) {
        var facts = RequestFacts<Stored>(method, strictness: .rescue, now: noon)
        if let reason { facts.storeUse = .bypassed(reason) }
        facts.directives = directives(asked)
        #expect(facts.decide().text == expected)
        facts.mode = .offline
        #expect(facts.decide().text == "refuse: offline")
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
    func places() {
        func place(_ change: (inout RequestRow) -> Void) -> [UInt8]? { RequestRow("", "", change).decision.fetchTarget?.flight.bytes }
        #expect(place { _ in } == [2])
        #expect(place { $0.found = Self.stale } == [2])
        #expect(place { $0.found = Self.revalidatable } == [2])
        #expect(place { ($0.found, $0.isForPart) = (Self.stale, true) } == nil)
        #expect(place { $0.found = Self.fresh } == nil)
        #expect(place { $0.mode = .offline } == nil)
    }
}
