// State machine of the old process in a take-over. It alone decides to commit, and does so once. Before the commit, any failure lets it
// continue as before. After the commit it cannot return.

public struct HandingOver: Sendable {
    public enum State: Sendable, Equatable {
        /// A process has connected.
        case greeted
        /// All parts have been offered.
        case offering
        /// The new process may have received the commit message.
        case committed
        case over
    }

    public enum Event: Sendable, Equatable {
        case received(TakeOverMessage)
        /// An invalid or unexpected message was received.
        case garbled
        /// No message was received in time.
        case silent
        /// The other process has closed the connection.
        case gone
        /// The kernel did not accept the commit message, so the other process cannot have received it.
        case notCommitted
    }

    public enum Action: Sendable, Equatable {
        case nothing
        /// Send the reason to the other process and end the dialogue.
        case refuse(String)
        /// Hand over all parts.
        case offer(Greeting)
        /// Send the changes made since the offer, then the commit message.
        /// - Parameter listeners: indices of the listeners that the new process uses.
        case commit(listeners: [Int])
        /// Cancel the take-over and continue as before.
        case takeBack(String)
        case noteAcknowledged(UInt64)
        /// Apply a change of the new process.
        case follow(TakeOverMessage)
        /// Continue without the other process, which acknowledges no more changes.
        case goAlone
    }

    public private(set) var state = State.greeted
    private let storeFormat: UInt32
    private let version: String
    /// Number of offered listeners.
    public var listeners = 0

    public init(storeFormat: UInt32, version: String) { (self.storeFormat, self.version) = (storeFormat, version) }

    public mutating func handle(_ event: Event) -> Action {
        switch state {
        case .greeted: greeted(event)
        case .offering: offering(event)
        case .committed: committed(event)
        case .over: .nothing
        }
    }

    private mutating func greeted(_ event: Event) -> Action {
        guard case .received(.hello(let greeting)) = event else {
            state = .over
            return event == .gone ? .nothing : .refuse("it sent no valid message")
        }
        guard greeting.dialogue == Greeting.dialogue else {
            state = .over
            return .refuse("version \(greeting.version) cannot take over from version \(version): their take-over protocols differ")
        }
        guard greeting.storeFormat == storeFormat else {
            state = .over
            return .refuse("version \(greeting.version) stores responses in another format than version \(version)")
        }
        state = .offering
        return .offer(greeting)
    }

    private mutating func offering(_ event: Event) -> Action {
        switch event {
        case .received(.prepared(let indexes)) where indexes.allSatisfy({ (0..<listeners).contains($0) }):
            state = .committed
            return .commit(listeners: indexes)
        case .received(.failed(let sentence)): return end(sentence)
        case .silent: return end("it was not ready within \(TakeOverMessage.patienceMilliseconds / 1_000) s")
        case .gone: return end("it ended before it was ready")
        case .received, .garbled, .notCommitted: return end("it sent an unexpected message")
        }
    }

    private mutating func end(_ reason: String) -> Action {
        state = .over
        return .takeBack(reason)
    }

    private mutating func committed(_ event: Event) -> Action {
        switch event {
        case .received(.acknowledged(let count)): return .noteAcknowledged(count)
        case .received(let message) where message.isNumbered: return .follow(message)
        case .notCommitted:
            state = .over
            return .takeBack("it ended before it could be started")
        // Receiving no message is normal while nothing changes.
        case .silent: return .nothing
        case .received, .garbled, .gone:
            state = .over
            return .goAlone
        }
    }
}
