// The link to the other process of a take-over while both run: sends this process's changes and waits for their acknowledgement. The
// response to a write waits for it too.

import Dispatch
import Reactor
import TakeOver

public final class PeerProcess: Sendable {
    private struct State {
        /// Sends a message; nil if there is no other process.
        var send: (@Sendable (TakeOverMessage) -> Void)?
        /// True if the other process is the new one.
        var isSuccessor = false
        /// True if the other process owns the store and the listeners, and this one owns nothing.
        var hasAll = false
        /// Number of numbered messages sent, and of those acknowledged.
        var sent: UInt64 = 0
        var acknowledged: UInt64 = 0
        var waiting: [(number: UInt64, then: @Sendable () -> Void)] = []
        /// True after a timeout, until the other process acknowledges again. No request waits for it meanwhile.
        var isLate = false
        var hasFollowed = false
        /// Number of sessions so far.
        var session = 0
    }

    private let state = Mutex(State())

    /// Maximum wait for an acknowledgement, in milliseconds. A process that does not acknowledge is blocked or has ended.
    private static let patience = DispatchTimeInterval.milliseconds(1_000)

    init() {}

    /// Creates a queue for applying the other process's changes. Changes made on this queue are not sent back, to prevent an endless loop.
    public static func makeFollowingQueue() -> DispatchQueue {
        let queue = DispatchQueue(label: "cistern.following", qos: .userInitiated)
        queue.setSpecific(key: isFollowing, value: true)
        return queue
    }

    private static let isFollowing = DispatchSpecificKey<Bool>()

    /// Starts a session.
    /// - Parameters:
    ///   - isSuccessor: whether the other process is the new one.
    ///   - send: sends a message. Called in the order of the messages, on any thread; it must only enqueue.
    public func begin(isSuccessor: Bool, _ send: @escaping @Sendable (TakeOverMessage) -> Void) {
        state.withLock { $0 = State(send: send, isSuccessor: isSuccessor, session: $0.session + 1) }
    }

    /// Whether the other process is the new one, or is about to become it. Counts must reach it before clients see them in responses.
    public var isSuccessor: Bool { state.withLock { $0.send != nil && $0.isSuccessor } }

    /// Whether the other process owns the store and the listeners. Administrators' requests must be forwarded to it.
    public var hasAll: Bool { state.withLock { $0.hasAll } }

    public func takeAll() { state.withLock { $0.hasAll = true } }

    /// Sends a message. Does nothing if there is no other process.
    public func send(_ message: TakeOverMessage) {
        guard DispatchQueue.getSpecific(key: Self.isFollowing) == nil else { return }
        state.withLock { state in
            guard let send = state.send else { return }
            if message.isNumbered { state.sent += 1 }
            send(message)
        }
    }

    public func noteAcknowledged(_ count: UInt64) {
        let ready = state.withLock { state in
            state.acknowledged = max(state.acknowledged, min(count, state.sent))
            state.isLate = false
            state.hasFollowed = state.hasFollowed || count > 0
            return Self.takeWaiting(for: state.acknowledged, &state)
        }
        for then in ready { then() }
    }

    /// Removes and returns what waits for messages up to this number.
    private static func takeWaiting(for number: UInt64, _ state: inout State) -> [@Sendable () -> Void] {
        let taken = state.waiting.filter { $0.number <= number }.map(\.then)
        state.waiting.removeAll { $0.number <= number }
        return taken
    }

    /// Ends the session. All waits end.
    public func end() {
        let waiting = state.withLock { state in
            defer { (state.send, state.waiting, state.acknowledged) = (nil, [], state.sent) }
            return state.waiting
        }
        for one in waiting { one.then() }
    }

    /// Whether a sent message has not been acknowledged, and a request should wait for that.
    public var isAwaited: Bool { state.withLock { $0.sent > $0.acknowledged && !$0.isLate } }

    /// Whether the other process took over and ended before it acknowledged any message, so that it never served.
    public var isLost: Bool { state.withLock { $0.hasAll && $0.send == nil && !$0.hasFollowed } }

    /// Calls `then` once all messages sent so far have been acknowledged, or after a second. Calls it immediately or later on any thread.
    public func whenKnown(_ then: @escaping @Sendable () -> Void) {
        let awaited = state.withLock { state -> (number: UInt64, session: Int)? in
            guard state.sent > state.acknowledged, !state.isLate else { return nil }
            state.waiting.append((state.sent, then))
            return (state.sent, state.session)
        }
        guard let awaited else { return then() }
        DispatchQueue.global(qos: .userInitiated).asyncAfter(deadline: .now() + Self.patience) { [weak self] in
            self?.giveUp(awaited.number, awaited.session)
        }
    }

    private func giveUp(_ number: UInt64, _ session: Int) {
        let late = state.withLock { state -> [@Sendable () -> Void] in
            guard state.session == session else { return [] }
            let late = Self.takeWaiting(for: number, &state)
            if !late.isEmpty { state.isLate = true }
            return late
        }
        for then in late { then() }
    }
}
