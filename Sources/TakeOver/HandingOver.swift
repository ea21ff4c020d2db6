// The old process's side of the dialogue, as a machine. Until it has committed, every end means that it goes on as if nothing had been; from then on none
// does. It alone decides, and once.

public struct HandingOver: Sendable {
    public enum State: Sendable, Equatable {
        /// Somebody has come.
        case greeted
        /// All has been offered.
        case offering
        /// The new one may have read it.
        case committed
        case over
    }

    public enum Event: Sendable, Equatable {
        case came(TakeOverMessage)
        /// Something came that is no message, or not for now.
        case garbled
        /// Nothing came in time.
        case silent
        /// The other side has ended.
        case gone
        /// The kernel has not taken the word that commits: nobody can have read it.
        case notCommitted
    }

    public enum Action: Sendable, Equatable {
        case nothing
        /// The other side hears why, and that is all.
        case refuse(String)
        /// All is handed over.
        case offer(Greeting)
        /// What has changed meanwhile, then the word itself.
        /// - Parameter listeners: the places of those with which the new one goes on.
        case commit(listeners: [Int])
        /// It goes on as before.
        case takeBack(String)
        case noteAcknowledged(UInt64)
        /// The new one has changed something.
        case follow(TakeOverMessage)
        /// Nobody acknowledges any more.
        case goAlone
    }

    public private(set) var state = State.greeted
    private let storeFormat: UInt32
    private let version: String
    /// How many listeners are offered.
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
        guard case .came(.hello(let greeting)) = event else {
            state = .over
            return event == .gone ? .nothing : .refuse("it said nothing that this process understands")
        }
        guard greeting.dialogue == Greeting.dialogue else {
            state = .over
            return .refuse("version \(greeting.version) cannot take over from version \(version): the two hand over in different ways")
        }
        guard greeting.storeFormat == storeFormat else {
            state = .over
            return .refuse("version \(greeting.version) keeps responses in another format than version \(version)")
        }
        state = .offering
        return .offer(greeting)
    }

    private mutating func offering(_ event: Event) -> Action {
        switch event {
        case .came(.prepared(let places)) where places.allSatisfy({ (0..<listeners).contains($0) }):
            state = .committed
            return .commit(listeners: places)
        case .came(.failed(let sentence)): return end(sentence)
        case .silent: return end("it was not ready within \(TakeOverMessage.patienceMilliseconds / 1_000) s")
        case .gone: return end("it ended before it was ready")
        case .came, .garbled, .notCommitted: return end("it said something that does not belong here")
        }
    }

    private mutating func end(_ reason: String) -> Action {
        state = .over
        return .takeBack(reason)
    }

    private mutating func committed(_ event: Event) -> Action {
        switch event {
        case .came(.acknowledged(let count)): return .noteAcknowledged(count)
        case .came(let message) where message.isNumbered: return .follow(message)
        case .notCommitted:
            state = .over
            return .takeBack("it ended before it could be told to begin")
        // It has nothing to say for as long as nothing changes.
        case .silent: return .nothing
        case .came, .garbled, .gone:
            state = .over
            return .goAlone
        }
    }
}
