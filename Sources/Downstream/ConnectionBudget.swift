// How many client connections all shards together may have open, in all and of one client address, and how much memory their unsent responses
// may take. The kernel spreads connections over the shards unevenly, so a limit for each would turn clients away while there is room
// elsewhere.

import Addresses
import CSystem
import Locking

public final class ConnectionBudget: Sendable {
    /// Taken by each shard's listener, given back by its connections.
    private let state: Mutex<State>

    private struct State {
        var limits: DownstreamSettings
        var open = 0
        /// The most of both since memory was last returned.
        var mostOpen = 0
        var mostUnsentBytes = 0
        /// Only kept where there is a limit.
        var byAddress: [UInt128: Int] = [:]
        var turnedAway = 0
        var unsentBytes = 0
        var cut = 0

        func counted(_ peer: PeerAddress) -> UInt128? {
            limits.connectionsPerAddress > 0 ? peer.place.counted(besides: limits.trustedProxies) : nil
        }
    }

    public init(_ settings: DownstreamSettings) { state = Mutex(State(limits: settings)) }

    /// From now on these are the limits. What is open stays open. Where others count together than before, addresses are counted from now on.
    public func use(_ settings: DownstreamSettings) {
        state.withLock { state in
            let former = state.limits
            state.limits = settings
            let wasCounted = former.connectionsPerAddress > 0
            let isCounted = settings.connectionsPerAddress > 0
            if wasCounted != isCounted || former.trustedProxies != settings.trustedProxies { state.byAddress = [:] }
        }
    }

    public var limit: Int { state.withLock { $0.limits.maximumConnections } }

    /// Connections that were ended because too much waited to be sent.
    public var cut: Int { state.withLock { $0.cut } }

    /// Memory that unsent responses take, in bytes.
    public var unsentBytes: Int { state.withLock { $0.unsentBytes } }

    /// Connections that were closed because their address had too many.
    public var turnedAway: Int { state.withLock { $0.turnedAway } }

    /// So many of administrators have room beyond the limit: they may be the ones who can do something about it.
    public static let reserve = 32

    /// Returns false where the limit is reached.
    func take(isReserved: Bool = false) -> Bool {
        state.withLock { state in
            guard state.open < state.limits.maximumConnections + (isReserved ? Self.reserve : 0) else { return false }
            state.open += 1
            state.mostOpen = max(state.mostOpen, state.open)
            return true
        }
    }

    /// Connections, and bytes that were not sent, that leave behind what is worth being returned: about 30 MB.
    public static let crowd = 500
    public static let heap = 32 << 20

    /// Whether most of so much is gone since this was last true.
    public func hasMemoryToReturn() -> Bool {
        state.withLock { state in
            let hasCrowdLeft = state.mostOpen - state.open >= Self.crowd && state.open <= state.mostOpen / 2
            let hasHeapGone = state.mostUnsentBytes - state.unsentBytes >= Self.heap && state.unsentBytes <= state.mostUnsentBytes / 2
            guard hasCrowdLeft || hasHeapGone else { return false }
            (state.mostOpen, state.mostUnsentBytes) = (state.open, state.unsentBytes)
            return true
        }
    }

    /// Memory that is free goes back to the system: the allocator keeps what was left behind, though nobody else may ever need it. Not on a loop.
    public static func returnFreeMemory() { csystem_return_free_memory() }

    /// Whether one more of this address may stay.
    func admit(_ peer: PeerAddress) -> Bool {
        state.withLock { state in
            guard let client = state.counted(peer) else { return true }
            guard state.byAddress[client, default: 0] < state.limits.connectionsPerAddress else {
                state.turnedAway += 1
                return false
            }
            state.byAddress[client, default: 0] += 1
            return true
        }
    }

    /// Of one connection, so many more bytes wait to be sent, or fewer.
    /// - Returns: false where there is no room for them: the connection has to go.
    func hold(_ change: Int) -> Bool {
        state.withLock { state in
            state.unsentBytes += change
            state.mostUnsentBytes = max(state.mostUnsentBytes, state.unsentBytes)
            let limit = state.limits.unsentLimitBytes
            guard change > 0, limit > 0, state.unsentBytes > limit else { return true }
            state.cut += 1
            return false
        }
    }

    /// Whether a connection that holds so much of a response may hold more of it, so that the upstream need not wait for its client. Half of
    /// the memory is for that, and of what is left of it no one may have more than a sixteenth: the slow ones of many share it.
    func mayReadAhead(holding bytes: Int) -> Bool {
        state.withLock { state in
            guard state.limits.unsentLimitBytes > 0 else { return true }
            let left = state.limits.unsentLimitBytes / 2 - state.unsentBytes
            return left > 0 && bytes <= left / 16
        }
    }

    /// - Parameter peer: of an admitted connection; nil where none came of what was taken.
    func giveBack(_ peer: PeerAddress? = nil) {
        state.withLock { state in
            state.open -= 1
            guard let client = peer.flatMap({ state.counted($0) }), let count = state.byAddress[client] else { return }
            state.byAddress[client] = count > 1 ? count - 1 : nil
        }
    }
}
