// Tests of the state machine of a fetch: lists of events and expected actions. Without sockets.

import CachePolicy
import Decisions
import Testing

@testable import Upstream

@Suite("The machine of a fetch")
struct FetchMachineTests {
    private typealias Event = FetchMachine.Event
    private typealias Action = FetchMachine.Action

    /// Plays the events and expects their actions. Returns the final state.
    @discardableResult
    private func play(_ events: [(Event, Action)], _ place: SourceLocation = #_sourceLocation) -> FetchMachine.State {
        var machine = FetchMachine()
        for (index, (event, action)) in events.enumerated() {
            #expect(machine.handle(event) == action, "event \(index): \(event)", sourceLocation: place)
        }
        return machine.state
    }

    private static let collecting: [(Event, Action)] = [
        (.decided(.collect(.store)), .collect(.store)), (.contentArrived(bytes: 9, fits: true), .buffer),
    ]
    private static let examining: [(Event, Action)] =
        collecting + [(.transferEnded(isDelimited: true), .examine(.store, isDelimited: true))]
    private static let streaming: [(Event, Action)] = [(.decided(.stream(.noStore)), .stream(.noStore))]
    private static let confirming: [(Event, Action)] = [(.decided(.confirm), .nothing)]
    private static let misled: [(Event, Action)] = [(.decided(.askWithoutConditions), .nothing)]
    private static let discarding: [(Event, Action)] = [(.decided(.fail(.serverError)), .fail(.serverError))]
    private static let limit = FetchMachine.discardLimitBytes

    @Test("a good response is held, looked at, and handed to the cache once what that looks at is in memory")
    func stored() {
        #expect(play(Self.examining) == .examining(.store))
        #expect(play(Self.examining + [(.examined(.store), .load(.store))]) == .loading(.store))
        let stored: [(Event, Action)] = [(.examined(.store), .load(.store)), (.loaded, .updateCache(.store)), (.loaded, .nothing)]
        #expect(play(Self.examining + stored) == .ended)
    }

    @Test("what its content says against it decides: it goes out, is remembered as gone, or fails")
    func examined() {
        #expect(play(Self.examining + [(.examined(.passOn(.noStore, fault: nil)), .deliver(.noStore, fault: nil))]) == .ended)
        #expect(play(Self.examining + [(.examined(.fail(.invalidJSON)), .fail(.invalidJSON))]) == .ended)
        let gone = FetchMachine.CacheStep.rememberGone(.noStore)
        #expect(play(Self.examining + [(.examined(.rememberGone(.noStore)), .load(gone)), (.loaded, .updateCache(gone))]) == .ended)
        // A second result of the examination changes nothing.
        play(Self.examining + [(.examined(.store), .load(.store)), (.examined(.store), .nothing)])
    }

    @Test("a stream for which there is no room is given up, and what still comes of it is nobody's")
    func turnedAway() {
        #expect(play([(.decided(.turnAway), .rejectStream), (.contentArrived(bytes: 9, fits: true), .nothing)]) == .ended)
    }

    @Test("what becomes too long to be held is passed on from there")
    func tooLong() {
        let events: [(Event, Action)] =
            Self.collecting + [
                (.contentArrived(bytes: 9, fits: false), .forwardBuffered), (.contentArrived(bytes: 9, fits: false), .forward),
                (.transferEnded(isDelimited: false), .endStream),
            ]
        #expect(play(events) == .ended)
    }

    @Test("a response that is not kept is passed on as it comes, to its end or until it breaks off")
    func streamed() {
        let passed = Self.streaming + [(.contentArrived(bytes: 9, fits: true), .forward)]
        #expect(play(passed + [(.transferEnded(isDelimited: true), .endStream)]) == .ended)
        #expect(play(passed + [(.transferFailed(.responseIncomplete), .breakStream(.responseIncomplete))]) == .ended)
        #expect(play(passed + [(.unwanted, .stop), (.contentArrived(bytes: 9, fits: true), .nothing)]) == .ended)
    }

    @Test("a 304 confirms the copy, once that is in memory; what it may not bring is not looked at")
    func confirmed() {
        let events: [(Event, Action)] =
            Self.confirming + [
                (.contentArrived(bytes: 9, fits: true), .nothing), (.transferEnded(isDelimited: true), .load(.confirm)),
                (.loaded, .updateCache(.confirm)),
            ]
        #expect(play(events) == .ended)
    }

    @Test("a response to our own conditions is read to its end, and the request goes out again without them")
    func misled() {
        let again =
            Self.misled + [
                (.contentArrived(bytes: Self.limit, fits: true), .nothing), (.transferEnded(isDelimited: true), .retryWithoutConditions),
            ]
        #expect(play(again) == .awaitingHead)
        #expect(play(again + Self.streaming) == .streaming)
        #expect(play(again + [(.transferFailed(.connectionLimitReached), .failTransfer(.connectionLimitReached))]) == .ended)
    }

    @Test("of what nobody wants so much is read, and no more")
    func discarded() {
        let most: (Event, Action) = (.contentArrived(bytes: Self.limit, fits: true), .nothing)
        #expect(play(Self.discarding + [most]) == .discarding(bytes: Self.limit))
        #expect(play(Self.discarding + [most, (.transferEnded(isDelimited: true), .nothing)]) == .ended)
        #expect(play(Self.discarding + [most, (.transferFailed(.responseIncomplete), .nothing)]) == .ended)
        let more = Event.contentArrived(bytes: 1, fits: true)
        #expect(play(Self.discarding + [most, (more, .stop), (more, .nothing)]) == .ended)
        #expect(play(Self.misled + [most, (more, .failAndStop(.unexpectedStatus)), (more, .nothing)]) == .ended)
    }

    @Test("what breaks off before it has gone out fails, and the copy may go out")
    func failed() {
        let failure: (Event, Action) = (.transferFailed(.responseIncomplete), .failTransfer(.responseIncomplete))
        for before in [[], Self.collecting, Self.confirming, Self.misled] { #expect(play(before + [failure]) == .ended) }
    }

    @Test("without a client, what may fill the store goes on, and what is only passed on stops")
    func abandoned() {
        for mayBeStopped in [false, true] {
            let abandoned = Event.abandoned(mayBeStopped: mayBeStopped)
            for before in [Self.collecting, Self.examining, Self.confirming, Self.misled] { play(before + [(abandoned, .handOver)]) }
            play(Self.examining + [(.examined(.store), .load(.store)), (abandoned, .handOver), (.loaded, .updateCache(.store))])
            #expect(play(Self.streaming + [(abandoned, .stop)]) == .ended)
            play(Self.discarding + [(abandoned, .nothing), (.transferEnded(isDelimited: true), .nothing), (abandoned, .nothing)])
        }
    }

    @Test("a request that nobody would miss is not sent; any other goes on, and its response is dealt with as ever")
    func abandonedBefore() {
        #expect(play([(.abandoned(mayBeStopped: true), .stop)]) == .ended)
        #expect(play([(.abandoned(mayBeStopped: false), .handOver)] + Self.examining) == .examining(.store))
    }

    @Test("nothing follows an end")
    func ended() {
        let ended = Self.streaming + [(.transferEnded(isDelimited: true), .endStream)]
        let events: [Event] = [
            .decided(.collect(.store)), .contentArrived(bytes: 1, fits: true), .transferEnded(isDelimited: true),
            .transferFailed(.dnsError), .examined(.store), .loaded, .unwanted, .abandoned(mayBeStopped: true),
        ]
        #expect(play(ended + events.map { ($0, .nothing) }) == .ended)
    }
}
