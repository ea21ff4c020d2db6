// Tests of the time limit for one connection's input.

import Testing

@testable import Downstream

@Suite("Turns of HTTP/1.1 connections")
struct InputTurnTests {
    @Test(
        "a turn lasts a millisecond, and less in a batch that has lasted long",
        arguments: [(0, 1_000), (1_999, 100), (5_000, 100)] as [(Int64, Int64)])
    func limits(start: Int64, length: Int64) {
        var turn = InputTurn(batchBegan: 7)
        let times = [7 + start, 8 + start, 7 + start + length]
        #expect(times.map { turn.mayContinue(at: $0) } == [true, true, false])
    }

    @Test("the first two steps need no time")
    func firstSteps() {
        var turn = InputTurn(batchBegan: 0)
        let answers = [turn.mayContinue(), turn.mayContinue()]
        #expect(answers == [true, true])
    }
}
