// The process that goes on in this one's place, or in whose place this one goes on, as long as the old one still ends what it has begun: what changes here
// is told there, and no response to a write goes out before that has taken note.

import Dispatch
import Locking
import TakeOver

public final class PeerProcess: Sendable {
    private struct State {
        /// nil where there is none.
        var tell: (@Sendable (TakeOverMessage) -> Void)?
        /// It is the one that goes on.
        var isSuccessor = false
        /// It has all, and this process none of it.
        var hasAll = false
        /// Numbered messages that were told, and those of them that were followed.
        var told: UInt64 = 0
        var acknowledged: UInt64 = 0
        var waiting: [(number: UInt64, then: @Sendable () -> Void)] = []
        /// It was waited for in vain, and has acknowledged nothing since: nobody waits for it again.
        var isLate = false
        var hasFollowed = false
        /// Counts those that have been there.
        var session = 0
    }

    private let state = Mutex(State())

    /// Who has not heard by then goes on all the same: it is stuck, or gone.
    private static let patience = DispatchTimeInterval.milliseconds(1_000)

    init() {}

    /// Where this process does what the other one tells. What is done there is told nobody: both would tell each other for ever.
    public static func makeFollowingQueue() -> DispatchQueue {
        let queue = DispatchQueue(label: "cistern.following", qos: .userInitiated)
        queue.setSpecific(key: isFollowing, value: true)
        return queue
    }

    private static let isFollowing = DispatchSpecificKey<Bool>()

    /// - Parameters:
    ///   - isSuccessor: whether it is the one that goes on.
    ///   - tell: called in the order of the messages, by whoever tells: it does no more than queue.
    public func begin(isSuccessor: Bool, _ tell: @escaping @Sendable (TakeOverMessage) -> Void) {
        state.withLock { $0 = State(tell: tell, isSuccessor: isSuccessor, session: $0.session + 1) }
    }

    /// Whether one is there that goes on, or may soon: it is to know of all counts that anybody sees here.
    public var isSuccessor: Bool { state.withLock { $0.tell != nil && $0.isSuccessor } }

    /// Whether another process has all, and what is asked of an administrator is to be asked there.
    public var hasAll: Bool { state.withLock { $0.hasAll } }

    public func takeAll() { state.withLock { $0.hasAll = true } }

    /// Nothing where there is none.
    public func tell(_ message: TakeOverMessage) {
        guard DispatchQueue.getSpecific(key: Self.isFollowing) == nil else { return }
        state.withLock { state in
            guard let tell = state.tell else { return }
            if message.isNumbered { state.told += 1 }
            tell(message)
        }
    }

    public func noteAcknowledged(_ count: UInt64) {
        let ready = state.withLock { state in
            state.acknowledged = max(state.acknowledged, min(count, state.told))
            state.isLate = false
            state.hasFollowed = state.hasFollowed || count > 0
            return Self.takeReady(&state)
        }
        for then in ready { then() }
    }

    private static func takeReady(_ state: inout State) -> [@Sendable () -> Void] {
        let known = state.acknowledged
        let ready = state.waiting.filter { $0.number <= known }.map(\.then)
        state.waiting.removeAll { $0.number <= known }
        return ready
    }

    /// Nobody is there any more, or nobody has come to be: what waits goes on.
    public func end() {
        let waiting = state.withLock { state in
            defer { (state.tell, state.waiting, state.acknowledged) = (nil, [], state.told) }
            return state.waiting
        }
        for one in waiting { one.then() }
    }

    /// Whether something was told that has not been acknowledged.
    public var isAwaited: Bool { state.withLock { $0.told > $0.acknowledged && !$0.isLate } }

    /// Whether it has all, and was gone before it followed anything: then it has never served.
    public var isLost: Bool { state.withLock { $0.hasAll && $0.tell == nil && !$0.hasFollowed } }

    /// Calls `then` once all that was told until now has been acknowledged, or after a second: at once, or from any thread.
    public func whenKnown(_ then: @escaping @Sendable () -> Void) {
        let awaited = state.withLock { state -> (number: UInt64, session: Int)? in
            guard state.told > state.acknowledged, !state.isLate else { return nil }
            state.waiting.append((state.told, then))
            return (state.told, state.session)
        }
        guard let awaited else { return then() }
        DispatchQueue.global(qos: .userInitiated).asyncAfter(deadline: .now() + Self.patience) { [weak self] in
            self?.giveUp(awaited.number, awaited.session)
        }
    }

    private func giveUp(_ number: UInt64, _ session: Int) {
        let late = state.withLock { state -> [(number: UInt64, then: @Sendable () -> Void)] in
            guard state.session == session else { return [] }
            defer { state.waiting.removeAll { $0.number <= number } }
            let late = state.waiting.filter { $0.number <= number }
            if !late.isEmpty { state.isLate = true }
            return late
        }
        for one in late { one.then() }
    }
}
