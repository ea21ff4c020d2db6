// Tests of the state machine of an exchange: lists of events and expected actions. Without sockets.

import Decisions
import Testing

@testable import Upstream

@Suite("State machine of an exchange")
struct ExchangeMachineTests {
    private typealias Event = ExchangeMachine.Event
    private typealias Action = ExchangeMachine.Action

    private static let stop = FailureStop(scope: .address, cause: .junk, since: 0, wait: 1_000)

    /// Plays the events and expects their actions. Returns the final state.
    private func play(_ events: [(Event, Action)], mayJoin: Bool = true, _ place: SourceLocation = #_sourceLocation)
        -> ExchangeMachine.State
    {
        var machine = ExchangeMachine(mayJoin: mayJoin)
        for (index, (event, action)) in events.enumerated() {
            let actual = machine.handle(event)
            #expect(actual == action, "event \(index): \(event)", sourceLocation: place)
        }
        return machine.state
    }

    private static let asking: [(Event, Action)] = [
        (.begun, .consultFailureMemory), (.admitted(.go), .join), (.joined(.leader), .fetch(leads: true)),
    ]
    private static let waiting: [(Event, Action)] = [
        (.begun, .consultFailureMemory), (.admitted(.go), .join), (.joined(.follower), .wait),
    ]

    @Test("a request is fetched and its response is sent")
    func response() {
        #expect(play(Self.asking + [(.responseCame, .accept), (.sent, .nothing)]) == .finished)
        #expect(
            play(
                [(.begun, .consultFailureMemory), (.admitted(.go), .fetch(leads: false)), (.responseCame, .accept), (.sent, .nothing)],
                mayJoin: false) == .finished)
    }

    @Test("a streamed response is passed on to its end")
    func stream() {
        #expect(play(Self.asking + [(.streamBegan, .accept), (.streamEnded, .accept), (.clientLeft, .nothing)]) == .finished)
        let broken = Event.streamBroke(.transfer(.responseIncomplete), isTakenBack: false)
        #expect(play(Self.asking + [(.streamBegan, .accept), (broken, .accept), (broken, .nothing)]) == .finished)
    }

    @Test("a stream that broke before the client saw it can be replaced by a stored response")
    func takenBack() {
        let failure = FetchFailure.transfer(.responseIncomplete)
        #expect(
            play(
                Self.asking + [
                    (.streamBegan, .accept), (.streamBroke(failure, isTakenBack: true), .decide(.failed(failure))),
                    (.decided(.respond, of: .failed(failure)), .accept), (.sent, .nothing),
                ]) == .finished)
    }

    @Test("the failure memory stops the request: nothing is sent, and the outcome is decided")
    func stopped() {
        for admission in [FailureAdmission.refuse(Self.stop), .serveCopy(Self.stop, checksInBackground: true)] {
            #expect(play([(.begun, .consultFailureMemory), (.admitted(admission), .decide(.failed(.stopped(Self.stop))))]) == .ending)
        }
    }

    @Test("a follower waits and gets the response that the leader stored")
    func followed() {
        #expect(
            play(
                Self.waiting + [
                    (.flightEnded(.stored), .decide(.flight(.stored))), (.decided(.respond, of: .flight(.stored)), .accept),
                    (.sent, .nothing),
                ]) == .finished)
    }

    @Test("after the leader fails, the follower joins again once and then no more")
    func joinsOnceMore() {
        let failed = FlightOutcome.failed(.transfer(.connectionRefused))
        let again: [(Event, Action)] = [
            (.flightEnded(failed), .decide(.flight(failed))),
            (.decided(.fetchAgain(isLast: true), of: .flight(failed)), .consultFailureMemory), (.admitted(.go), .join),
            (.joined(.follower), .wait),
        ]
        #expect(play(Self.waiting + again) == .waiting(isLast: true))
        #expect(
            play(
                Self.waiting + again + [
                    (.flightEnded(failed), .decide(.flight(failed))), (.decided(.respond, of: .flight(failed)), .accept),
                ]) == .ending)
    }

    @Test("after two failed leaders, the failure memory is consulted again and the request is sent alone")
    func aloneAfterFailures() {
        let failed = FlightOutcome.failed(.transfer(.connectionRefused))
        let alone: [(Event, Action)] = [
            (.flightEnded(failed), .decide(.flight(failed))), (.decided(.fetchAlone, of: .flight(failed)), .consultFailureMemory),
        ]
        #expect(play(Self.waiting + alone + [(.admitted(.go), .fetch(leads: false))]) == .fetching)
        let stopped: [(Event, Action)] = [
            (.admitted(.serveCopy(Self.stop, checksInBackground: true)), .decide(.failed(.stopped(Self.stop))))
        ]
        #expect(play(Self.waiting + alone + stopped) == .ending)
    }

    @Test("a follower that waits long also becomes a leader, and other requests wait for both")
    func leadsToo() {
        #expect(play(Self.waiting + [(.leadsToo, .fetch(leads: true)), (.flightEnded(.stored), .nothing)]) == .fetching)
        #expect(play(Self.asking + [(.leadsToo, .nothing)]) == .fetching)
    }

    @Test("a follower that waits too long sends its request alone")
    func waitedTooLong() {
        #expect(
            play(Self.waiting + [(.waitedTooLong, .decide(.waitLimit)), (.decided(.fetchAlone, of: .waitLimit), .fetchInstead)])
                == .fetching)
        #expect(
            play(
                Self.waiting + [
                    (.flightEnded(.unshareable), .decide(.flight(.unshareable))),
                    (.decided(.fetchAlone, of: .flight(.unshareable)), .fetch(leads: false)),
                ]) == .fetching)
    }

    @Test("at the soft deadline the stored response is sent, and the fetch continues")
    func softDeadline() {
        for before in [Self.asking, Self.waiting] {
            #expect(
                play(
                    before + [
                        (.softDeadlinePassed, .decide(.softDeadline)), (.decided(.respond, of: .softDeadline), .leaveAndAccept),
                        (.responseCame, .nothing), (.sent, .nothing), (.flightEnded(.stored), .nothing),
                    ]) == .finished)
        }
    }

    @Test("without a usable stored response the soft deadline has no effect, but a follower sends its own request")
    func softDeadlineWithoutCopy() {
        let passed: [(Event, Action)] = [(.softDeadlinePassed, .decide(.softDeadline))]
        #expect(play(Self.asking + passed + [(.decided(.keepWaiting, of: .softDeadline), .nothing)]) == .fetching)
        #expect(play(Self.waiting + passed + [(.decided(.keepWaiting, of: .softDeadline), .fetchInstead)]) == .fetching)
    }

    @Test("a decision that arrives after the response has no effect")
    func late() {
        #expect(
            play(
                Self.asking + [
                    (.softDeadlinePassed, .decide(.softDeadline)), (.responseCame, .accept),
                    (.decided(.respond, of: .softDeadline), .nothing), (.sent, .nothing),
                ]) == .finished)
    }

    @Test("the client disconnects at any stage")
    func left() {
        for before in [Self.asking, Self.waiting, Self.asking + [(.streamBegan, .accept)]] {
            #expect(play(before + [(.clientLeft, .accept), (.clientLeft, .nothing), (.responseCame, .nothing)]) == .finished)
        }
    }

    @Test("on shutdown a waiting request gets a stored response or an error")
    func stops() {
        for before in [Self.asking, Self.waiting] {
            #expect(
                play(
                    before + [
                        (.mustRespond, .leaveAndDecide(.failed(.slow))), (.mustRespond, .nothing),
                        (.decided(.respond, of: .failed(.slow)), .accept), (.sent, .nothing),
                    ]) == .finished)
        }
    }
}
