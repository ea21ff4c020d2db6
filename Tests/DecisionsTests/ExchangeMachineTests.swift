// Tests of the state machine of an exchange: lists of events and expected actions. Without sockets.

import Decisions
import Testing

@testable import Upstream

@Suite("The machine of an exchange")
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
        (.begun, .askFailureMemory), (.admitted(.go), .join), (.joined(.leader), .fetch(leads: true)),
    ]
    private static let waiting: [(Event, Action)] = [
        (.begun, .askFailureMemory), (.admitted(.go), .join), (.joined(.follower), .wait),
    ]

    @Test("it asks, and the response goes out")
    func response() {
        #expect(play(Self.asking + [(.responseCame, .accept), (.sent, .nothing)]) == .finished)
        #expect(
            play(
                [(.begun, .askFailureMemory), (.admitted(.go), .fetch(leads: false)), (.responseCame, .accept), (.sent, .nothing)],
                mayJoin: false) == .finished)
    }

    @Test("it passes on what comes, to its end")
    func stream() {
        #expect(play(Self.asking + [(.streamBegan, .accept), (.streamEnded, .accept), (.clientLeft, .nothing)]) == .finished)
        let broken = Event.streamBroke(.transfer(.responseIncomplete), isTakenBack: false)
        #expect(play(Self.asking + [(.streamBegan, .accept), (broken, .accept), (broken, .nothing)]) == .finished)
    }

    @Test("what the client has seen nothing of is taken back, and a copy may go out")
    func takenBack() {
        let failure = FetchFailure.transfer(.responseIncomplete)
        #expect(
            play(
                Self.asking + [
                    (.streamBegan, .accept), (.streamBroke(failure, isTakenBack: true), .decide(.failed(failure))),
                    (.decided(.respond, of: .failed(failure)), .accept), (.sent, .nothing),
                ]) == .finished)
    }

    @Test("the failure memory stops it: nothing is sent, and the outcome is decided")
    func stopped() {
        for admission in [FailureAdmission.refuse(Self.stop), .serveCopy(Self.stop, looksBehind: true)] {
            #expect(play([(.begun, .askFailureMemory), (.admitted(admission), .decide(.failed(.stopped(Self.stop))))]) == .ending)
        }
    }

    @Test("it waits, and takes what another stored")
    func followed() {
        #expect(
            play(
                Self.waiting + [
                    (.flightEnded(.stored), .decide(.flight(.stored))), (.decided(.respond, of: .flight(.stored)), .accept),
                    (.sent, .nothing),
                ]) == .finished)
    }

    @Test("the fetch that it waited for fails: it asks anew, and then no more")
    func anew() {
        let failed = FlightOutcome.failed(.transfer(.connectionRefused))
        let again: [(Event, Action)] = [
            (.flightEnded(failed), .decide(.flight(failed))),
            (.decided(.askAnew(isLast: true), of: .flight(failed)), .askFailureMemory), (.admitted(.go), .join),
            (.joined(.follower), .wait),
        ]
        #expect(play(Self.waiting + again) == .waiting(isLast: true))
        #expect(
            play(
                Self.waiting + again + [
                    (.flightEnded(failed), .decide(.flight(failed))), (.decided(.respond, of: .flight(failed)), .accept),
                ]) == .ending)
    }

    @Test("other clients' fetches fail twice: the failure memory is asked once more, and it asks for itself")
    func aloneAfterFailures() {
        let failed = FlightOutcome.failed(.transfer(.connectionRefused))
        let alone: [(Event, Action)] = [
            (.flightEnded(failed), .decide(.flight(failed))), (.decided(.askAlone, of: .flight(failed)), .askFailureMemory),
        ]
        #expect(play(Self.waiting + alone + [(.admitted(.go), .fetch(leads: false))]) == .asking)
        let stopped: [(Event, Action)] = [(.admitted(.serveCopy(Self.stop, looksBehind: true)), .decide(.failed(.stopped(Self.stop))))]
        #expect(play(Self.waiting + alone + stopped) == .ending)
    }

    @Test("it has waited long for another client's fetch: it asks too, and others wait for both")
    func leadsToo() {
        #expect(play(Self.waiting + [(.leadsToo, .fetch(leads: true)), (.flightEnded(.stored), .nothing)]) == .asking)
        #expect(play(Self.asking + [(.leadsToo, .nothing)]) == .asking)
    }

    @Test("it stops waiting: alone, and nobody else is to wait for that flight")
    func waitedTooLong() {
        #expect(
            play(Self.waiting + [(.waitedTooLong, .decide(.wait)), (.decided(.askAlone, of: .wait), .fetchInstead)]) == .asking)
        #expect(
            play(
                Self.waiting + [
                    (.flightEnded(.unshareable), .decide(.flight(.unshareable))),
                    (.decided(.askAlone, of: .flight(.unshareable)), .fetch(leads: false)),
                ]) == .asking)
    }

    @Test("the soft deadline: the copy goes out, and the fetch goes on")
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

    @Test("where no copy may go out any more, the upstream gets its time; who waited for another asks for itself")
    func softDeadlineWithoutCopy() {
        let passed: [(Event, Action)] = [(.softDeadlinePassed, .decide(.softDeadline))]
        #expect(play(Self.asking + passed + [(.decided(.keepWaiting, of: .softDeadline), .nothing)]) == .asking)
        #expect(play(Self.waiting + passed + [(.decided(.keepWaiting, of: .softDeadline), .fetchInstead)]) == .asking)
    }

    @Test("what is decided too late changes nothing: the response came while the store was read")
    func late() {
        #expect(
            play(
                Self.asking + [
                    (.softDeadlinePassed, .decide(.softDeadline)), (.responseCame, .accept),
                    (.decided(.respond, of: .softDeadline), .nothing), (.sent, .nothing),
                ]) == .finished)
    }

    @Test("the client leaves, whatever is under way")
    func left() {
        for before in [Self.asking, Self.waiting, Self.asking + [(.streamBegan, .accept)]] {
            #expect(play(before + [(.clientLeft, .accept), (.clientLeft, .nothing), (.responseCame, .nothing)]) == .finished)
        }
    }

    @Test("Cistern stops: who waits gets a copy, or an error")
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
