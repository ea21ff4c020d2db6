// What is told of a purge that is several messages.

import Fleet
import ResponseCache
import Testing

@testable import Sharing

/// What became of each message, and what the purge is answered.
struct PurgeSumRow: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let outcomes: [LogWriter.Outcome]
    let expected: PurgeReach

    init(_ sentence: String, _ outcomes: [LogWriter.Outcome], _ expected: PurgeReach) {
        (testDescription, self.outcomes, self.expected) = (sentence, outcomes, expected)
    }
}

@Suite("A purge of several messages")
struct PurgeSumTests {
    @Test(arguments: [
        PurgeSumRow("without a message there is nothing to wait for", [], .durable),
        PurgeSumRow("all durable", [.durable, .durable], .durable),
        PurgeSumRow("one waits for a replica", [.durable, .pending(.notReplicated)], .pending(reason: "not_replicated")),
        PurgeSumRow(
            "no replica is better than one that is late", [.pending(.noReplica), .pending(.notReplicated)],
            .pending(reason: "not_replicated")),
        PurgeSumRow(
            "what the engine does not take is worse than that", [.pending(.noReplica), .pending(.refused)], .pending(reason: "refused")),
        PurgeSumRow(
            "what was not tried is the worst of what waits", [.pending(.refused), .pending(.notReached)], .pending(reason: "not_reached")),
        PurgeSumRow("the process ends before one was told", [.pending(.noReplica), .later], .pending(reason: "not_reached")),
        PurgeSumRow("one that too many wait before is not told at all", [.pending(.notReached), .refused], .local),
    ])
    func worst(_ row: PurgeSumRow) {
        // Whichever is known first.
        for outcomes in [row.outcomes, row.outcomes.reversed()] {
            var told: [PurgeReach] = []
            let sum = PurgeSum(outcomes.count) { told.append($0) }
            for outcome in outcomes { sum.add(outcome) }
            #expect(told == [row.expected])
        }
    }
}
