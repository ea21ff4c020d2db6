// State machine of the new process in a take-over. Until the old process has committed, any failure ends the new one, which has written
// nothing.

public struct TakingOver: Sendable {
    public enum State: Sendable, Equatable {
        /// The old process is handing over.
        case receiving
        case preparing
        /// The new process has reported that it is prepared.
        case waiting
        /// The new process owns everything. The old one finishes its last step.
        case committed
        /// The new process serves, and the old one completes its active requests.
        case serving
        /// The old process has ended.
        case alone
        case refused
    }

    public enum Event: Sendable, Equatable {
        case received(TakeOverMessage)
        case garbled
        /// No message was received in time.
        case silent
        /// The other process has closed the connection.
        case gone
        /// Preparation is complete, with these listeners.
        case isPrepared(listeners: [Int])
        /// Preparation has failed.
        case isImpossible(String)
    }

    public enum Action: Sendable, Equatable {
        case nothing
        /// Keep a part of the hand-over.
        case keep(TakeOverMessage)
        case prepare
        case say(TakeOverMessage)
        /// Apply a change: in order after the commit, or at once if that has happened.
        case follow(TakeOverMessage)
        /// Take over the directory, and continue writing after the old process's records.
        case own(HandedPosition)
        case serve
        case noteAcknowledged(UInt64)
        /// Record that the other process has ended and sends no more messages.
        case noteAlone
        /// End the process with this message. It has written nothing.
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
        case .received(.offered):
            state = .preparing
            return .prepare
        case .received(.refused(let reason)): return end(reason)
        case .received(let message) where message.isHandedOver: return .keep(message)
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
        case .received(.committed(let position)):
            state = .committed
            return .own(position)
        case .received(let message) where message.isNumbered: return .follow(message)
        default: return end(event)
        }
    }

    /// Serves regardless of what happens to the old process, because no other process serves.
    private mutating func committed(_ event: Event) -> Action {
        if case .received(let message) = event, message.isNumbered { return .follow(message) }
        state = .serving
        return .serve
    }

    private mutating func serving(_ event: Event) -> Action {
        switch event {
        case .received(let message) where message.isNumbered: return .follow(message)
        case .received(.acknowledged(let count)): return .noteAcknowledged(count)
        case .silent: return .nothing
        default:
            state = .alone
            return .noteAlone
        }
    }

    private mutating func end(_ event: Event) -> Action {
        switch event {
        case .received(.refused(let reason)): end(reason)
        case .silent: end("the running process sent no message for \(TakeOverMessage.patienceMilliseconds / 1_000) s")
        case .gone: end("the running process has ended, or has cancelled the take-over")
        default: end("the running process sent an unexpected message")
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
        case .listener, .activated, .store, .takeOverListener, .ticketKeys: true
        default: false
        }
    }
}
