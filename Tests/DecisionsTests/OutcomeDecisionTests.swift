// A table of the second decision: the outcome of a fetch or a wait, the response that is stored by then, and the next step. Without
// sockets.

import CachePolicy
import Decisions
import Forwarding
import HTTPCore
import Testing
import Upstream

struct OutcomeRow: CustomTestStringConvertible, Sendable {
    var testDescription: String
    let ending: Ending
    /// The stored response when the request arrived, and the stored response now.
    var found: StoredMetadata?
    var current: StoredMetadata?
    var gone: StoredMetadata?
    var sharedRescue: StoredMetadata?
    var sharedRescueForbidden: NoSharedRescueReason?
    var asked = ""
    var mode = ServingMode.live
    var strictness = Strictness.rescue
    var hasWaited = false
    var isOfAnotherClient = false
    var bypass: BypassReason?
    let expected: String

    init(_ name: String, _ ending: Ending, _ expected: String, _ change: (inout OutcomeRow) -> Void = { _ in }) {
        testDescription = name
        self.ending = ending
        self.expected = expected
        change(&self)
    }

    var decision: OutcomeDecision<Stored> {
        var facts = OutcomeFacts<Stored>(directives(asked), mode, strictness: strictness, now: noon)
        (facts.hasWaited, facts.isOfAnotherClient) = (hasWaited, isOfAnotherClient)
        facts.bypass = bypass
        facts.stored.found = found.map { (Stored("found"), $0) }
        facts.stored.current = current.map { (Stored("current"), $0) }
        facts.stored.gone = gone.map { (Stored("gone"), $0) }
        if sharedRescue != nil {
            facts.stored.sharedRescue = .allowed(Rescue(Stored("shared"), age: 7, ttl: nil, .sharedRescue(.isPublic)))
        }
        if let sharedRescueForbidden { facts.stored.sharedRescue = .forbidden(sharedRescueForbidden) }
        return facts.decide(ending)
    }
}

@Suite("Decisions after a fetch or a wait")
struct OutcomeDecisionTests {
    private static let copy = metadata(age: 100, order: 1)
    private static let newer = metadata(age: 20, lifetime: 5, order: 2)
    private static let error = metadata(age: 100, status: 503, order: 1)
    private static let down = FetchFailure.transfer(.connectionRefused)
    private static let junk = FetchFailure.fault(.invalidJSON, 200)

    private static let failures: [OutcomeRow] = [
        OutcomeRow("fetch failed: the stored response rescues", .failed(down), "rescue with found (own), age 100: connection_refused") {
            ($0.found, $0.current) = (copy, copy)
        },
        OutcomeRow(
            "fetch failed: the stored response rescues after its eviction", .failed(down),
            "rescue with found (own), age 100: connection_refused"
        ) {
            $0.found = copy
        },
        OutcomeRow(
            "fetch failed: a newer stored response takes precedence", .failed(down), "rescue with current (own), age 20: connection_refused"
        ) {
            ($0.found, $0.current) = (copy, newer)
        },
        OutcomeRow(
            "fetch failed: an older stored response does not take precedence", .failed(down),
            "rescue with found (own), age 20: connection_refused"
        ) {
            ($0.found, $0.current) = (newer, copy)
        },
        OutcomeRow(
            "fetch failed: a response stored meanwhile by another request rescues", .failed(down),
            "rescue with current (own), age 20: connection_refused"
        ) {
            $0.current = newer
        },
        OutcomeRow(
            "fetch failed: a newer 404 takes precedence over the stored response", .failed(down),
            "rescue with gone (gone), age 5: connection_refused"
        ) {
            ($0.found, $0.gone) = (copy, metadata(age: 5, lifetime: nil, status: 404))
        },
        OutcomeRow(
            "fetch failed: a stored error does not rescue", .failed(down),
            "refuse: connection_refused, forbidden(CachePolicy.NoRescueReason.storedError)"
        ) {
            $0.found = error
        },
        OutcomeRow(
            "fetch failed with no-cache in the request: no rescue in strict mode", .failed(down),
            "refuse: connection_refused, forbidden(CachePolicy.NoRescueReason.requestNoCache)"
        ) { ($0.found, $0.asked, $0.strictness) = (copy, "no-cache", .strict) },
        OutcomeRow(
            "fetch failed with no-cache in the request: rescue by default", .failed(down),
            "rescue with found (own), age 100: connection_refused"
        ) {
            ($0.found, $0.asked) = (copy, "no-cache")
        },
        OutcomeRow(
            "fetch failed in mode record: no rescue", .failed(down),
            "refuse: connection_refused, forbidden(CachePolicy.NoRescueReason.record)"
        ) { ($0.found, $0.mode) = (copy, .record) },
        OutcomeRow("fetch failed, nothing is stored", .failed(down), "refuse: connection_refused, nothingStored"),
        OutcomeRow(
            "fetch failed, the request bypasses the store", .failed(down),
            "refuse: connection_refused, bypassed(CachePolicy.BypassReason.precondition)"
        ) { $0.bypass = .precondition },
        OutcomeRow(
            "fetch failed: a public response rescues", .failed(down),
            "rescue with shared (sharedRescue(CachePolicy.SharedRescuePermission.isPublic)), age 7: connection_refused"
        ) { $0.sharedRescue = copy },
        OutcomeRow(
            "fetch failed: the user's own response takes precedence over a public one", .failed(down),
            "rescue with found (own), age 100: connection_refused"
        ) {
            ($0.found, $0.sharedRescue) = (copy, copy)
        },
        OutcomeRow(
            "fetch failed: the reason why a public response does not rescue", .failed(down),
            "refuse: connection_refused, sharedRescueForbidden(CachePolicy.NoSharedRescueReason.otherCookies)"
        ) { $0.sharedRescueForbidden = .otherCookies },
        OutcomeRow(
            "too many streams: a stored response does not replace a stream", .failed(.tooManyStreams),
            "refuse: too_many_streams, nothingStored"
        ) {
            ($0.found, $0.current) = (copy, copy)
        },
        OutcomeRow(
            "too many streams: a stored response does not rescue a follower", .flight(.failed(.tooManyStreams)),
            "refuse: too_many_streams, nothingStored"
        ) {
            $0.found = copy
        },
        OutcomeRow("invalid JSON counts as a failure", .failed(junk), "rescue with found (own), age 100: invalid_json") { $0.found = copy },
    ]

    private static let waits: [OutcomeRow] = [
        OutcomeRow("leader stored a response: followers share it", .flight(.stored), "share current, age 20") { $0.current = newer },
        OutcomeRow("leader stored a response for another variant: the follower asks", .flight(.stored), "ask alone"),
        OutcomeRow("strict mode: a stale response of the leader is not shared", .flight(.stored), "ask alone") {
            ($0.current, $0.strictness) = (newer, .strict)
        },
        OutcomeRow("strict mode: a fresh response of the leader is shared", .flight(.stored), "share current, age 20") {
            ($0.current, $0.strictness) = (metadata(age: 20), .strict)
        },
        OutcomeRow("leader's response is outdated: the newer stored response is shared", .flight(.outdated), "share current, age 20") {
            ($0.found, $0.current) = (copy, newer)
        },
        OutcomeRow(
            "leader's response is outdated: a response stored before the wait is not shared", .flight(.outdated), "ask anew, the last time"
        ) {
            ($0.found, $0.current) = (copy, copy)
        },
        OutcomeRow("leader's response is outdated a second time: the follower asks alone", .flight(.outdated), "ask alone") {
            ($0.found, $0.current, $0.hasWaited) = (copy, copy, true)
        },
        OutcomeRow("leader's response cannot be shared: the follower asks alone", .flight(.unshareable), "ask alone"),
        OutcomeRow("a write overtook the leader: the follower waits once more", .flight(.overtaken), "ask anew, the last time"),
        OutcomeRow("writes overtook two leaders: the follower asks alone", .flight(.overtaken), "ask alone") { $0.hasWaited = true },
        OutcomeRow("the leader disconnected", .flight(.abandoned), "ask anew"),
        OutcomeRow("the leader disconnected after a first wait", .flight(.abandoned), "ask anew, the last time") {
            $0.hasWaited = true
        },
        OutcomeRow("the leader failed, nothing is stored: each follower asks at once", .flight(.failed(down)), "ask alone"),
        OutcomeRow("the leader received an invalid response: each follower asks alone", .flight(.failed(junk)), "ask alone"),
        OutcomeRow("the leader failed, only a public response is stored: the follower asks alone", .flight(.failed(down)), "ask alone") {
            $0.sharedRescue = copy
        },
        OutcomeRow(
            "the leader of the same client failed: the stored response rescues", .flight(.failed(down)),
            "rescue with found (own), age 100: connection_refused"
        ) { $0.found = copy },
        OutcomeRow("the leader of another client failed: the follower waits once more", .flight(.failed(down)), "ask anew, the last time") {
            ($0.found, $0.isOfAnotherClient) = (copy, true)
        },
        OutcomeRow("leaders of two other clients failed: the follower asks alone", .flight(.failed(down)), "ask alone") {
            ($0.found, $0.isOfAnotherClient, $0.hasWaited) = (copy, true, true)
        },
        OutcomeRow("a second leader failed: the follower asks alone", .flight(.failed(down)), "ask alone") { $0.hasWaited = true },
        OutcomeRow("the wait timed out", .waitLimit, "ask alone") { $0.found = copy },
        OutcomeRow("the soft deadline expired", .softDeadline, "rescue with found (own), age 100: slow") { $0.found = copy },
        OutcomeRow("the soft deadline expired, the stored response may not rescue", .softDeadline, "keep waiting") { $0.found = error },
    ]

    @Test("each outcome leads to the expected decision", arguments: failures + waits)
    func ending(_ row: OutcomeRow) {
        #expect(row.decision.text == row.expected)
    }

    @Test("a failure without a usable response gives the expected error status and sentence")
    func refusals() {
        func told(_ failure: FetchFailure) -> OwnRefusal { failure.refusal(.nothingStored) }
        #expect(told(Self.down).status == 502)
        #expect(told(Self.down).proxyError == "connection_refused")
        let full = told(.transfer(.connectionLimitReached))
        #expect((full.status, full.retryAfter) == (503, 1))
        #expect(told(Self.junk).sentence == "The upstream's response (200) cannot be used.")
        #expect(told(.slow).status == 504)
    }

    @Test(
        "the error sentence mentions only a response stored for this request",
        arguments: [
            (.nothingStored, "and no response is stored for this request."),
            (.bypassed(.precondition), "and only the upstream can evaluate the request's preconditions."),
            (.bypassed(.method), "and no response is stored for this request."),
            (.forbidden(.staleFor), "and the stored response may not be served."),
            (.sharedRescueForbidden(.notPublic), "and no response is stored for this request."),
            (.forbidden(.authorized), "and no response is stored for this request."),
        ] as [(NoCopyReason, String)])
    func clauses(reason: NoCopyReason, clause: String) {
        #expect(Self.down.refusal(reason).sentence == "The upstream failed (connection_refused), \(clause)")
        let full = FetchFailure.transfer(.connectionLimitReached).refusal(reason)
        #expect(full.sentence == "Too many requests are waiting for the upstream, \(clause)")
    }

    @Test(
        "a refusal without the upstream names the request's preconditions",
        arguments: [
            (.offline(nil), "Cistern is in offline mode, and no stored response may be served for this request."),
            (.offline(.precondition), "Cistern is in offline mode, and only the upstream can evaluate the request's preconditions."),
            (.onlyIfCached(nil), "The request has only-if-cached, and no suitable response is stored for it."),
            (
                .onlyIfCached(.precondition),
                "The request has only-if-cached, and only the upstream can evaluate the request's preconditions."
            ),
        ] as [(Refusal, String)])
    func refusedWithoutUpstream(refusal: Refusal, sentence: String) {
        let response = refusal.response(accept: nil, name: "cistern")
        #expect(response.status == 504 && String(decoding: response.content, as: UTF8.self).contains(sentence))
    }
}
