// Tests of the circuit breaker of a server: events and resulting states.

import Testing

@testable import Engine

@Suite("Circuit breaker of a server")
struct NodeBreakerTests {
    @Test("three consecutive failures open the breaker, and a reply in between resets the count")
    func failures() {
        var breaker = NodeBreaker(failures: 3)
        let steps = [breaker.noteFailure(at: 1), breaker.noteFailure(at: 2)]
        #expect(steps == [false, false] && breaker.isClosed)
        breaker.noteReply()
        let more = [breaker.noteFailure(at: 3), breaker.noteFailure(at: 4), breaker.noteFailure(at: 5), breaker.noteFailure(at: 6)]
        #expect(more == [false, false, true, false] && !breaker.isClosed)
        // Late replies arrive together and say nothing about the next command.
        breaker.noteReply()
        #expect(!breaker.isClosed)
        let closes = [breaker.noteProbe(), breaker.noteProbe()]
        #expect(closes == [true, false] && breaker.isClosed && breaker.failuresInRow == 0)
    }

    @Test("timeouts of commands that were sent together count once")
    func timeOuts() {
        var breaker = NodeBreaker(failures: 3)
        for _ in 0..<100 { #expect(breaker.noteTimeOut(sent: 100, at: 110) == false) }
        #expect(breaker.failuresInRow == 1)
        #expect(breaker.noteTimeOut(sent: 109, at: 119) == false && breaker.failuresInRow == 1)
        #expect(breaker.noteTimeOut(sent: 110, at: 120) == false && breaker.failuresInRow == 2)
        #expect(breaker.noteTimeOut(sent: 120, at: 130) && !breaker.isClosed)
    }

    @Test("silence opens the breaker at once")
    func silence() {
        var breaker = NodeBreaker(failures: 3)
        let opened = [breaker.open(), breaker.open()]
        #expect(opened == [true, false] && !breaker.isClosed)
    }
}
