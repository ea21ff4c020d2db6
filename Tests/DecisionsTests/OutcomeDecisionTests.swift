// A table of the second decision: the outcome of a fetch or a wait, the response that is stored by then, and the next step. Without
// sockets.

import CachePolicy
import Decisions
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
        OutcomeRow("a copy goes out", .failed(down), "rescue with found (own), age 100: connection_refused") {
            ($0.found, $0.current) = (copy, copy)
        },
        OutcomeRow("even where it was evicted meanwhile", .failed(down), "rescue with found (own), age 100: connection_refused") {
            $0.found = copy
        },
        OutcomeRow("a later one goes before it", .failed(down), "rescue with current (own), age 20: connection_refused") {
            ($0.found, $0.current) = (copy, newer)
        },
        OutcomeRow("an earlier one never", .failed(down), "rescue with found (own), age 20: connection_refused") {
            ($0.found, $0.current) = (newer, copy)
        },
        OutcomeRow("what another stored meanwhile rescues too", .failed(down), "rescue with current (own), age 20: connection_refused") {
            $0.current = newer
        },
        OutcomeRow("the last that was said is that it is gone", .failed(down), "rescue with gone (gone), age 5: connection_refused") {
            ($0.found, $0.gone) = (copy, metadata(age: 5, lifetime: nil, status: 404))
        },
        OutcomeRow(
            "a copy that may not go out", .failed(down), "refuse: connection_refused, forbidden(CachePolicy.NoRescueReason.storedError)"
        ) {
            $0.found = error
        },
        OutcomeRow(
            "nor one that the request does not want, to the letter", .failed(down),
            "refuse: connection_refused, forbidden(CachePolicy.NoRescueReason.requestNoCache)"
        ) { ($0.found, $0.asked, $0.strictness) = (copy, "no-cache", .strict) },
        OutcomeRow("but it does by default", .failed(down), "rescue with found (own), age 100: connection_refused") {
            ($0.found, $0.asked) = (copy, "no-cache")
        },
        OutcomeRow(
            "no copy goes out while it is recorded", .failed(down),
            "refuse: connection_refused, forbidden(CachePolicy.NoRescueReason.record)"
        ) { ($0.found, $0.mode) = (copy, .record) },
        OutcomeRow("nothing is stored", .failed(down), "refuse: connection_refused, nothingStored"),
        OutcomeRow(
            "the copy of those without credentials", .failed(down),
            "rescue with shared (sharedRescue(CachePolicy.SharedRescuePermission.isPublic)), age 7: connection_refused"
        ) { $0.sharedRescue = copy },
        OutcomeRow("never before one's own", .failed(down), "rescue with found (own), age 100: connection_refused") {
            ($0.found, $0.sharedRescue) = (copy, copy)
        },
        OutcomeRow(
            "why it may not go out", .failed(down),
            "refuse: connection_refused, sharedRescueForbidden(CachePolicy.NoSharedRescueReason.otherCookies)"
        ) { $0.sharedRescueForbidden = .otherCookies },
        OutcomeRow("a copy does not stand in for a stream", .failed(.tooManyStreams), "refuse: too_many_streams, nothingStored") {
            ($0.found, $0.current) = (copy, copy)
        },
        OutcomeRow("nor for those who waited with it", .flight(.failed(.tooManyStreams)), "refuse: too_many_streams, nothingStored") {
            $0.found = copy
        },
        OutcomeRow("what is junk counts as a failure", .failed(junk), "rescue with found (own), age 100: invalid_json") { $0.found = copy },
    ]

    private static let waits: [OutcomeRow] = [
        OutcomeRow("what another stored is shared", .flight(.stored), "share current, age 20") { $0.current = newer },
        OutcomeRow("where it fits this request", .flight(.stored), "ask alone"),
        OutcomeRow("to the letter only where it may be had unasked", .flight(.stored), "ask alone") {
            ($0.current, $0.strictness) = (newer, .strict)
        },
        OutcomeRow("and there it may", .flight(.stored), "share current, age 20") {
            ($0.current, $0.strictness) = (metadata(age: 20), .strict)
        },
        OutcomeRow("a later one was stored already", .flight(.outdated), "share current, age 20") {
            ($0.found, $0.current) = (copy, newer)
        },
        OutcomeRow("what was stored before this came is not what it waited for", .flight(.outdated), "ask anew, the last time") {
            ($0.found, $0.current) = (copy, copy)
        },
        OutcomeRow("the second time it asks for itself", .flight(.outdated), "ask alone") {
            ($0.found, $0.current, $0.hasWaited) = (copy, copy, true)
        },
        OutcomeRow("what is for the leader alone", .flight(.unshareable), "ask alone"),
        OutcomeRow("a write has overtaken it", .flight(.overtaken), "ask anew, the last time"),
        OutcomeRow("a write has overtaken the next too", .flight(.overtaken), "ask alone") { $0.hasWaited = true },
        OutcomeRow("the leader left", .flight(.abandoned), "ask anew"),
        OutcomeRow("the leader left, after another that had failed", .flight(.abandoned), "ask anew, the last time") {
            $0.hasWaited = true
        },
        OutcomeRow("the leader failed: each follower asks, at once", .flight(.failed(down)), "ask alone"),
        OutcomeRow("each follower gets what the upstream says to it", .flight(.failed(junk)), "ask alone"),
        OutcomeRow("though there is a copy of others", .flight(.failed(down)), "ask alone") { $0.sharedRescue = copy },
        OutcomeRow(
            "with a copy no request of the same client tries again", .flight(.failed(down)),
            "rescue with found (own), age 100: connection_refused"
        ) { $0.found = copy },
        OutcomeRow("another client's failure says nothing of this request", .flight(.failed(down)), "ask anew, the last time") {
            ($0.found, $0.isOfAnotherClient) = (copy, true)
        },
        OutcomeRow("nor does that of a third", .flight(.failed(down)), "ask alone") {
            ($0.found, $0.isOfAnotherClient, $0.hasWaited) = (copy, true, true)
        },
        OutcomeRow("the second failure is no other than the first", .flight(.failed(down)), "ask alone") { $0.hasWaited = true },
        OutcomeRow("waiting has an end", .wait, "ask alone") { $0.found = copy },
        OutcomeRow("the soft deadline", .softDeadline, "rescue with found (own), age 100: slow") { $0.found = copy },
        OutcomeRow("the soft deadline, and the copy may not go out any more", .softDeadline, "keep waiting") { $0.found = error },
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
            (.nothingStored, "and nothing is stored for this request."),
            (.forbidden(.staleFor), "and the stored response may not be served."),
            (.sharedRescueForbidden(.notPublic), "and nothing is stored for this request."),
            (.forbidden(.authorized), "and nothing is stored for this request."),
        ] as [(NoCopyReason, String)])
    func clauses(reason: NoCopyReason, clause: String) {
        #expect(Self.down.refusal(reason).sentence == "The upstream failed (connection_refused), \(clause)")
        let full = FetchFailure.transfer(.connectionLimitReached).refusal(reason)
        #expect(full.sentence == "Too many requests wait for the upstream, \(clause)")
    }
}
