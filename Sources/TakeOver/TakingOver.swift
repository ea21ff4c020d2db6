// The new process's side of the dialogue, as a machine. Until the old one has committed, every end means that it goes away and has written nothing.

public struct TakingOver: Sendable {
    public enum State: Sendable, Equatable {
        /// What is handed over comes.
        case receiving
        case preparing
        /// It has said that it is prepared.
        case waiting
        /// All is its own; the old one has a last thing to do.
        case committed
        /// It serves, and the old one finishes what it has begun.
        case serving
        /// There is no old one any more.
        case alone
        case refused
    }

    public enum Event: Sendable, Equatable {
        case came(TakeOverMessage)
        case garbled
        /// Nothing came in time.
        case silent
        /// The other side has ended.
        case gone
        /// All is there to begin, with these listeners.
        case isPrepared(listeners: [Int])
        /// It cannot be done.
        case isImpossible(String)
    }

    public enum Action: Sendable, Equatable {
        case nothing
        /// It belongs to what is handed over.
        case keep(TakeOverMessage)
        case prepare
        case say(TakeOverMessage)
        /// Followed once all is committed, in the order in which it came; or at once.
        case follow(TakeOverMessage)
        /// The directory is written to from here on, behind what the old one has written.
        case own(HandedPosition)
        case serve
        case noteAcknowledged(UInt64)
        /// Nothing more comes.
        case noteAlone
        /// It ends, with this sentence. It has written nothing.
        case end(String)
    }

    public private(set) var state = State.receiving

    public init() {}

    public mutating func handle(_ event: Event) -> Action {
        switch state {
        case .receiving: receiving(event)
        case .preparing: preparing(event)
        case .waiting: waiting(event)
        case .committed: committed(event)
        case .serving: serving(event)
        case .alone, .refused: .nothing
        }
    }

    private mutating func receiving(_ event: Event) -> Action {
        switch event {
        case .came(.offered):
            state = .preparing
            return .prepare
        case .came(.refused(let reason)): return end(reason)
        case .came(let message) where message.isHandedOver: return .keep(message)
        default: return end(event)
        }
    }

    private mutating func preparing(_ event: Event) -> Action {
        switch event {
        case .isPrepared(let listeners):
            state = .waiting
            return .say(.prepared(listeners: listeners))
        case .isImpossible(let reason):
            state = .refused
            return .say(.failed(reason))
        default: return end(event)
        }
    }

    private mutating func waiting(_ event: Event) -> Action {
        switch event {
        case .came(.committed(let position)):
            state = .committed
            return .own(position)
        case .came(let message) where message.isNumbered: return .follow(message)
        default: return end(event)
        }
    }

    /// Whatever becomes of the old one: nobody else serves.
    private mutating func committed(_ event: Event) -> Action {
        if case .came(let message) = event, message.isNumbered { return .follow(message) }
        state = .serving
        return .serve
    }

    private mutating func serving(_ event: Event) -> Action {
        switch event {
        case .came(let message) where message.isNumbered: return .follow(message)
        case .came(.acknowledged(let count)): return .noteAcknowledged(count)
        case .silent: return .nothing
        default:
            state = .alone
            return .noteAlone
        }
    }

    private mutating func end(_ event: Event) -> Action {
        switch event {
        case .came(.refused(let reason)): end(reason)
        case .silent: end("the running process said nothing for \(TakeOverMessage.patienceMilliseconds / 1_000) s")
        case .gone: end("the running process went away, or on without us")
        default: end("the running process said something that does not belong here")
        }
    }

    private mutating func end(_ reason: String) -> Action {
        state = .refused
        return .end(reason)
    }
}

extension TakeOverMessage {
    fileprivate var isHandedOver: Bool {
        switch self {
        case .listener, .handed, .store, .door, .ticketKeys: true
        default: false
        }
    }
}
