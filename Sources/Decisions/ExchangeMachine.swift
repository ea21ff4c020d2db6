// The state machine of a client's exchange that needs the upstream: it maps events to actions and performs nothing itself. `Exchange`
// drives it.
//
//     entering ► (failure memory) ► (flight) ► fetching ► streaming ► finished
//        ▲                             └─────► waiting ──┤
//        └─ (fetchAgain) ◄─ (OutcomeDecision) ◄──────────┴► ending ► finished
//
// Names in parentheses are not states.
//
// Every end without a response leads to `ending`. There the store is searched, possibly after a read from disk, and an `OutcomeDecision` is
// made.

import Upstream

public struct ExchangeMachine {
    public enum State: Sendable, Equatable {
        /// The failure memory and the collapsed requests are consulted.
        /// - Parameter isLast: the request has already waited for a fetch without a usable result. It may wait once more.
        case entering(isLast: Bool)
        /// Waiting for a collapsed fetch.
        case waiting(isLast: Bool)
        /// A fetch is running; no part of its response has been sent.
        case fetching
        /// Only the store is still needed: the response to send is looked up, or is being read from disk.
        case ending
        /// The upstream's response is forwarded as it arrives.
        case streaming
        /// The client has received its response, or has disconnected.
        case finished
    }

    public enum Event: Sendable, Equatable {
        case begun
        case admitted(FailureAdmission)
        case joined(FlightRole)
        case softDeadlinePassed
        case waitedTooLong
        /// The follower becomes a second leader. Followers wait for both fetches; the first to end wakes them.
        case leadsToo
        /// Another node's response has arrived after the fetch was started.
        case copyTaken
        case flightEnded(FlightOutcome)
        /// An `OutcomeDecision` was made for an ending.
        case decided(Next, of: Ending)
        /// The upstream's response is complete, or the stored response was confirmed.
        case responseCame
        case fetchFailed(FetchFailure)
        case streamBegan
        case streamEnded
        /// - Parameter isTakenBack: whether the client has received nothing of the response.
        case streamBroke(FetchFailure, isTakenBack: Bool)
        case sent
        case clientLeft
        /// Cistern is shutting down.
        case mustRespond
    }

    /// The meaning of an `OutcomeDecision` for this machine.
    public enum Next: Sendable, Equatable {
        case respond
        case fetchAgain(isLast: Bool)
        case fetchAlone
        case keepWaiting
    }

    public enum Action: Sendable, Equatable {
        case nothing
        case consultFailureMemory
        case join
        case wait
        /// - Parameter leads: whether followers wait for the result.
        case fetch(leads: Bool)
        /// Leave the flight and start a separate fetch. No further requests may join the flight.
        case fetchInstead
        /// Search the store and make an outcome decision.
        case decide(Ending)
        /// Leave the fetch, which continues without this exchange. Then search the store and make an outcome decision.
        case leaveAndDecide(Ending)
        /// Carry out the event: send a response, forward it, end it, or abort everything.
        case accept
        /// Carry out the event. The fetch continues without this exchange, and no further requests may join it.
        case leaveAndAccept
    }

    /// Whether the response to another request with this key may be used.
    private var mayJoin: Bool
    public private(set) var state = State.entering(isLast: false)

    public init(mayJoin: Bool) { self.mayJoin = mayJoin }

    public var isFinished: Bool { state == .finished }

    private var isWaiting: Bool { if case .waiting = state { true } else { false } }

    /// Whether the request has already waited for a fetch without a result.
    public var hasWaited: Bool { if case .waiting(isLast: true) = state { true } else { false } }

    /// Whether an ending still applies. Reading from disk takes time, and the state may have changed.
    public func expects(_ ending: Ending) -> Bool {
        switch ending {
        case .failed: state == .ending
        case .flight, .waitLimit: isWaiting
        case .softDeadline: isWaiting || state == .fetching
        case .copyTaken: state == .fetching
        }
    }

    public mutating func handle(_ event: Event) -> Action {
        switch event {
        case .begun: return .consultFailureMemory
        case .admitted(let admission): return admitted(admission)
        case .joined(let role): return joined(role)
        case .softDeadlinePassed: return expects(.softDeadline) ? .decide(.softDeadline) : .nothing
        case .copyTaken: return expects(.copyTaken) ? .decide(.copyTaken) : .nothing
        case .waitedTooLong: return expects(.waitLimit) ? .decide(.waitLimit) : .nothing
        case .leadsToo:
            guard isWaiting else { return .nothing }
            state = .fetching
            return .fetch(leads: true)
        case .flightEnded(let outcome): return expects(.flight(outcome)) ? .decide(.flight(outcome)) : .nothing
        case .decided(let next, let ending): return expects(ending) ? decided(next, ending) : .nothing
        case .responseCame: return handleFetch(.accept, then: .ending)
        case .fetchFailed(let failure): return handleFetch(.decide(.failed(failure)), then: .ending)
        case .streamBegan: return handleFetch(.accept, then: .streaming)
        case .streamEnded, .streamBroke(_, isTakenBack: false):
            guard state == .streaming else { return .nothing }
            state = .finished
            return .accept
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
            state = .fetching
            return .fetch(leads: false)
        case .serveCopy(let stop, checksInBackground: _), .refuse(let stop):
            state = .ending
            return .decide(.failed(.stopped(stop)))
        }
    }

    private mutating func joined(_ role: FlightRole) -> Action {
        guard case .entering(let isLast) = state else { return .nothing }
        switch role {
        case .follower:
            state = .waiting(isLast: isLast)
            return .wait
        case .leader, .alone:
            state = .fetching
            return .fetch(leads: role == .leader)
        }
    }

    private mutating func decided(_ next: Next, _ ending: Ending) -> Action {
        switch next {
        case .respond:
            state = .ending
            return ending == .softDeadline || ending == .copyTaken ? .leaveAndAccept : .accept
        case .fetchAgain(let isLast):
            state = .entering(isLast: isLast)
            return .consultFailureMemory
        case .keepWaiting where state == .fetching: return .nothing
        case .fetchAlone where ending.isFailure:
            // The awaited failures may have opened a failure scope that stops this request.
            (mayJoin, state) = (false, .entering(isLast: true))
            return .consultFailureMemory
        case .fetchAlone, .keepWaiting:
            state = .fetching
            if case .flight = ending { return .fetch(leads: false) }
            return .fetchInstead
        }
    }

    private mutating func handleFetch(_ action: Action, then next: State) -> Action {
        guard state == .fetching else { return .nothing }
        state = next
        return action
    }

    private mutating func mustRespond() -> Action {
        switch state {
        case .waiting, .fetching:
            state = .ending
            return .leaveAndDecide(.failed(.slow))
        // `Exchange` aborts a stream; the client may have received nothing of it.
        case .entering, .streaming, .ending, .finished: return .nothing
        }
    }
}

/// The role of a request among the requests for one key.
public enum FlightRole: Sendable, Equatable {
    case leader
    /// Notified once.
    case follower
    /// Sends its own request; no other request waits for it.
    case alone
}
