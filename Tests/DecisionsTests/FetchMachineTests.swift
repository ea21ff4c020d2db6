// Tests of the state machine of a fetch: lists of events and expected actions. Without sockets.

import CachePolicy
import Decisions
import Testing

@testable import Upstream

@Suite("State machine of a fetch")
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
    private static let misled: [(Event, Action)] = [(.decided(.fetchUnconditionally), .nothing)]
    private static let discarding: [(Event, Action)] = [(.decided(.fail(.serverError)), .fail(.serverError))]
    private static let limit = FetchMachine.discardLimitBytes

    @Test("a good response is collected, examined, and stored once the needed entry is in memory")
    func stored() {
        #expect(play(Self.examining) == .examining(.store))
        #expect(play(Self.examining + [(.examined(.store), .load(.store))]) == .loading(.store))
        let stored: [(Event, Action)] = [(.examined(.store), .load(.store)), (.loaded, .updateCache(.store)), (.loaded, .nothing)]
        #expect(play(Self.examining + stored) == .ended)
    }

    @Test("the examination's result decides: pass on, remember as gone, or fail")
    func examined() {
        #expect(play(Self.examining + [(.examined(.passOn(.noStore, fault: nil)), .deliver(.noStore, fault: nil))]) == .ended)
        #expect(play(Self.examining + [(.examined(.fail(.invalidJSON)), .fail(.invalidJSON))]) == .ended)
        let gone = FetchMachine.CacheStep.rememberGone(.noStore)
        #expect(play(Self.examining + [(.examined(.rememberGone(.noStore)), .load(gone)), (.loaded, .updateCache(gone))]) == .ended)
        // A second result of the examination changes nothing.
        play(Self.examining + [(.examined(.store), .load(.store)), (.examined(.store), .nothing)])
    }

    @Test("a stream above the stream limit is rejected, and its remaining content is ignored")
    func rejectedConnections() {
        #expect(play([(.decided(.refuseStream), .rejectStream), (.contentArrived(bytes: 9, fits: true), .nothing)]) == .ended)
    }

    @Test("content above the buffer limit is passed on from there")
    func tooLong() {
        let events: [(Event, Action)] =
            Self.collecting + [
                (.contentArrived(bytes: 9, fits: false), .forwardBuffered(isStream: false)),
                (.contentArrived(bytes: 9, fits: false), .forward),
                (.transferEnded(isDelimited: false), .endStream),
            ]
        #expect(play(events) == .ended)
    }

    @Test("content that shows a stream is passed on from there")
    func recognized() {
        let stream: (Event, Action) = (.recognizedAsStream, .forwardBuffered(isStream: true))
        let passed = Self.collecting + [stream, (.contentArrived(bytes: 9, fits: true), .forward)]
        #expect(play(passed + [(.recognizedAsStream, .nothing)]) == .streaming)
        #expect(play(passed + [(.transferEnded(isDelimited: true), .endStream)]) == .ended)
        for before in [[], Self.examining, Self.confirming, Self.discarding] { play(before + [(.recognizedAsStream, .nothing)]) }
    }

    @Test("a response that is not stored is streamed to its end or until it breaks off")
    func streamed() {
        let passed = Self.streaming + [(.contentArrived(bytes: 9, fits: true), .forward)]
        #expect(play(passed + [(.transferEnded(isDelimited: true), .endStream)]) == .ended)
        #expect(play(passed + [(.transferFailed(.responseIncomplete), .breakStream(.responseIncomplete))]) == .ended)
        #expect(play(passed + [(.unwanted, .stop), (.contentArrived(bytes: 9, fits: true), .nothing)]) == .ended)
    }

    @Test("a 304 confirms the stored response once it is in memory, and its content is ignored")
    func confirmed() {
        let events: [(Event, Action)] =
            Self.confirming + [
                (.contentArrived(bytes: 9, fits: true), .nothing), (.transferEnded(isDelimited: true), .load(.confirm)),
                (.loaded, .updateCache(.confirm)),
            ]
        #expect(play(events) == .ended)
    }

    @Test("a response that answers only our conditions is read to its end, and the request is repeated without them")
    func misled() {
        let again =
            Self.misled + [
                (.contentArrived(bytes: Self.limit, fits: true), .nothing), (.transferEnded(isDelimited: true), .retryWithoutConditions),
            ]
        #expect(play(again) == .awaitingHead)
        #expect(play(again + Self.streaming) == .streaming)
        #expect(play(again + [(.transferFailed(.connectionLimitReached), .failTransfer(.connectionLimitReached))]) == .ended)
    }

    @Test("discarded content is read up to a limit")
    func discarded() {
        let most: (Event, Action) = (.contentArrived(bytes: Self.limit, fits: true), .nothing)
        #expect(play(Self.discarding + [most]) == .discarding(bytes: Self.limit))
        #expect(play(Self.discarding + [most, (.transferEnded(isDelimited: true), .nothing)]) == .ended)
        #expect(play(Self.discarding + [most, (.transferFailed(.responseIncomplete), .nothing)]) == .ended)
        let more = Event.contentArrived(bytes: 1, fits: true)
        #expect(play(Self.discarding + [most, (more, .stop), (more, .nothing)]) == .ended)
        #expect(play(Self.misled + [most, (more, .failAndStop(.unexpectedStatus)), (more, .nothing)]) == .ended)
    }

    @Test("a transfer that breaks off before delivery fails, so the stored response may be used")
    func failed() {
        let failure: (Event, Action) = (.transferFailed(.responseIncomplete), .failTransfer(.responseIncomplete))
        for before in [[], Self.collecting, Self.confirming, Self.misled] { #expect(play(before + [failure]) == .ended) }
    }

    @Test("after the client left, a storable response is still read, and a stream stops")
    func abandoned() {
        for mayBeStopped in [false, true] {
            let abandoned = Event.abandoned(mayBeStopped: mayBeStopped)
            for before in [Self.collecting, Self.examining, Self.confirming, Self.misled] { play(before + [(abandoned, .handOver)]) }
            play(Self.examining + [(.examined(.store), .load(.store)), (abandoned, .handOver), (.loaded, .updateCache(.store))])
            #expect(play(Self.streaming + [(abandoned, .stop)]) == .ended)
            play(Self.discarding + [(abandoned, .nothing), (.transferEnded(isDelimited: true), .nothing), (abandoned, .nothing)])
        }
    }

    @Test("an unsent request is cancelled if permitted; otherwise its response is handled as usual")
    func abandonedBefore() {
        #expect(play([(.abandoned(mayBeStopped: true), .stop)]) == .ended)
        #expect(play([(.abandoned(mayBeStopped: false), .handOver)] + Self.examining) == .examining(.store))
    }

    @Test("no event has an effect after the end")
    func ended() {
        let ended = Self.streaming + [(.transferEnded(isDelimited: true), .endStream)]
        let events: [Event] = [
            .decided(.collect(.store)), .contentArrived(bytes: 1, fits: true), .transferEnded(isDelimited: true),
            .transferFailed(.dnsError), .examined(.store), .loaded, .unwanted, .abandoned(mayBeStopped: true),
        ]
        #expect(play(ended + events.map { ($0, .nothing) }) == .ended)
    }
}
