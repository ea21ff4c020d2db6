// The machine of one client's exchange that asks the upstream: an event in, an action out, nothing done. Its shell is `Exchange`.
//
//     entering ► (failure memory) ► (flight) ► asking  ► streaming ► finished
//        ▲                             └─────► waiting ┤
//        └───── asks anew ◄── OutcomeDecision ◄────────┴► ending ► finished
//
// Whatever ends without a response goes to `ending`: there the store is looked into, perhaps after a read from the disk, and `OutcomeDecision` is made.

import Upstream

public struct ExchangeMachine {
    public enum State: Sendable, Equatable {
        /// The failure memory, and those who ask for the same, are asked.
        /// - Parameter isLast: it has waited for another's fetch that failed: not twice.
        case entering(isLast: Bool)
        /// Another's fetch for the same is under way.
        case waiting(isLast: Bool)
        /// The upstream has been asked; nothing of its response has gone out.
        case asking
        /// Nothing is waited for any more but the store: what goes out is looked for, or is being read in.
        case ending
        /// The upstream's response is passed on as it comes.
        case streaming
        /// The client has its response, or is gone.
        case finished
    }

    public enum Event: Sendable, Equatable {
        case begun
        case admitted(FailureAdmission)
        case joined(FlightPlace)
        case softDeadlinePassed
        case waitedTooLong
        /// The follower becomes a second leader. Followers wait for both fetches; the first to end wakes them.
        case leadsToo
        /// Another node's response has come after the upstream was asked.
        case copyTaken
        case flightEnded(FlightOutcome)
        /// An `OutcomeDecision` has been made of an ending.
        case decided(Next, of: Ending)
        /// What the upstream sent has come whole, or was confirmed.
        case responseCame
        case fetchFailed(FetchFailure)
        case streamBegan
        case streamEnded
        /// - Parameter isTakenBack: the client has seen nothing of it.
        case streamBroke(FetchFailure, isTakenBack: Bool)
        case sent
        case clientLeft
        /// Cistern stops.
        case mustRespond
    }

    /// What an `OutcomeDecision` means for the machine.
    public enum Next: Sendable, Equatable {
        case respond
        case askAnew(isLast: Bool)
        case askAlone
        case keepWaiting
    }

    public enum Action: Sendable, Equatable {
        case nothing
        case askFailureMemory
        case join
        case wait
        /// - Parameter leads: others wait for what it brings.
        case fetch(leads: Bool)
        /// The same; the flight that was waited for is left, and nobody else is to wait for it.
        case fetchInstead
        /// The store is looked into, and the outcome decided.
        case decide(Ending)
        /// The same; a fetch goes on without this exchange.
        case leaveAndDecide(Ending)
        /// What the event brought is done: a response goes out or is passed on, its end too, or all is given up.
        case accept
        /// The same; the fetch, or that of another, goes on without this exchange, and nobody else is to wait for it.
        case leaveAndAccept
    }

    /// The response to another request for the same would do.
    private var mayJoin: Bool
    public private(set) var state = State.entering(isLast: false)

    public init(mayJoin: Bool) { self.mayJoin = mayJoin }

    public var isFinished: Bool { state == .finished }

    private var isWaiting: Bool { if case .waiting = state { true } else { false } }

    /// Whether it has waited for a fetch that brought it nothing.
    public var hasWaited: Bool { if case .waiting(isLast: true) = state { true } else { false } }

    /// Whether an ending still is one: what is stored may have been read in meanwhile.
    public func expects(_ ending: Ending) -> Bool {
        switch ending {
        case .failed: state == .ending
        case .flight, .wait: isWaiting
        case .softDeadline: isWaiting || state == .asking
        case .copyTaken: state == .asking
        }
    }

    public mutating func handle(_ event: Event) -> Action {
        switch event {
        case .begun: return .askFailureMemory
        case .admitted(let admission): return admitted(admission)
        case .joined(let place): return joined(place)
        case .softDeadlinePassed: return expects(.softDeadline) ? .decide(.softDeadline) : .nothing
        case .copyTaken: return expects(.copyTaken) ? .decide(.copyTaken) : .nothing
        case .waitedTooLong: return expects(.wait) ? .decide(.wait) : .nothing
        case .leadsToo:
            guard isWaiting else { return .nothing }
            state = .asking
            return .fetch(leads: true)
        case .flightEnded(let outcome): return expects(.flight(outcome)) ? .decide(.flight(outcome)) : .nothing
        case .decided(let next, let ending): return expects(ending) ? decided(next, ending) : .nothing
        case .responseCame: return asked(.accept, then: .ending)
        case .fetchFailed(let failure): return asked(.decide(.failed(failure)), then: .ending)
        case .streamBegan: return asked(.accept, then: .streaming)
        case .streamEnded: return streamed(.accept)
        case .streamBroke(_, isTakenBack: false): return streamed(.accept)
        case .streamBroke(let failure, isTakenBack: true):
            guard state == .streaming else { return .nothing }
            state = .ending
            return .decide(.failed(failure))
        case .sent:
            state = .finished
            return .nothing
        case .clientLeft:
            guard !isFinished else { return .nothing }
            state = .finished
            return .accept
        case .mustRespond: return mustRespond()
        }
    }

    private mutating func admitted(_ admission: FailureAdmission) -> Action {
        switch admission {
        case .go:
            guard !mayJoin else { return .join }
            state = .asking
            return .fetch(leads: false)
        case .serveCopy(let stop, looksBehind: _), .refuse(let stop):
            state = .ending
            return .decide(.failed(.stopped(stop)))
        }
    }

    private mutating func joined(_ place: FlightPlace) -> Action {
        guard case .entering(let isLast) = state else { return .nothing }
        switch place {
        case .follower:
            state = .waiting(isLast: isLast)
            return .wait
        case .leader, .alone:
            state = .asking
            return .fetch(leads: place == .leader)
        }
    }

    private mutating func decided(_ next: Next, _ ending: Ending) -> Action {
        switch next {
        case .respond:
            state = .ending
            return ending == .softDeadline || ending == .copyTaken ? .leaveAndAccept : .accept
        case .askAnew(let isLast):
            state = .entering(isLast: isLast)
            return .askFailureMemory
        case .keepWaiting where state == .asking: return .nothing
        case .askAlone where ending.isFailure:
            // The awaited failures may have opened a scope that stops this request.
            (mayJoin, state) = (false, .entering(isLast: true))
            return .askFailureMemory
        case .askAlone, .keepWaiting:
            state = .asking
            if case .flight = ending { return .fetch(leads: false) }
            return .fetchInstead
        }
    }

    private mutating func asked(_ action: Action, then next: State) -> Action {
        guard state == .asking else { return .nothing }
        state = next
        return action
    }

    private mutating func streamed(_ action: Action) -> Action {
        guard state == .streaming else { return .nothing }
        state = .finished
        return action
    }

    private mutating func mustRespond() -> Action {
        switch state {
        case .waiting, .asking:
            state = .ending
            return .leaveAndDecide(.failed(.slow))
        // The shell breaks the stream: perhaps the client has seen nothing of it yet.
        case .streaming: return .nothing
        case .entering, .ending, .finished: return .nothing
        }
    }
}

/// The place of a request among those for the same.
public enum FlightPlace: Sendable, Equatable {
    case leader
    /// It is woken once.
    case follower
    /// The last response could not be shared.
    case alone
}
