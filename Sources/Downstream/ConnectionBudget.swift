// Process-wide limits on client connections, in total and per client address, and on the memory of unsent responses. The kernel distributes
// connections unevenly over the shards, so a limit per shard would reject clients while other shards have few.

import Addresses
import CSystem
import Reactor

public final class ConnectionBudget: Sendable {
    /// Shared by all shards: listeners reserve connections, and ended connections release them.
    private let state: Mutex<State>

    private struct State {
        var limits: DownstreamSettings
        var open = 0
        /// Maximum of `open` and `unsentBytes` since memory was last returned to the system.
        var mostOpen = 0
        var mostUnsentBytes = 0
        /// Open connections by client address.
        var byAddress: [UInt128: Int] = [:]
        var rejectedConnections = 0
        var unsentBytes = 0
        /// The part of `unsentBytes` that each address holds.
        var unsentByAddress: [UInt128: Int] = [:]
        var cut = 0
        /// Number of requests by client address with content that is being discarded.
        var discarding: [UInt128: Int] = [:]
        /// The tables of all shards that use this budget. Other loops only queue work on the table's own loop.
        var tables: [LoopBound<ClientConnections>] = []
        var isMakingSpace = false

        func counted(_ peer: PeerAddress) -> UInt128? { peer.clientAddress.counted(besides: limits.trustedProxies) }

        /// Returns the unsent bytes of the address after the change; 0 if its connections are not counted.
        mutating func holdUnsent(_ change: Int, _ peer: PeerAddress) -> Int {
            unsentBytes += change
            mostUnsentBytes = max(mostUnsentBytes, unsentBytes)
            guard let client = counted(peer) else { return 0 }
            // Bytes counted before a change of the trusted proxies are not counted for any address.
            let own = max(0, unsentByAddress[client, default: 0] + change)
            unsentByAddress[client] = own > 0 ? own : nil
            return own
        }
    }

    /// Called from any shard's loop, once for each round (`ClosingRound`), even if it closes no connections.
    public let onFull: @Sendable (CapacityReport) -> Void

    public init(_ settings: DownstreamSettings, onFull: @escaping @Sendable (CapacityReport) -> Void = { _ in }) {
        state = Mutex(State(limits: settings))
        self.onFull = onFull
    }

    /// Applies new limits. Open connections stay open. If the trusted proxies change, counting by address restarts at zero.
    public func use(_ settings: DownstreamSettings) {
        state.withLock { state in
            let former = state.limits
            state.limits = settings
            if former.trustedProxies != settings.trustedProxies { (state.byAddress, state.unsentByAddress) = ([:], [:]) }
        }
    }

    public var limit: Int { state.withLock { $0.limits.maximumConnections } }

    /// Number of open client connections.
    public var open: Int { state.withLock { $0.open } }

    /// Limit on `unsentBytes`; 0 for no limit.
    public var unsentLimitBytes: Int { state.withLock { $0.limits.unsentLimitBytes } }

    /// Number of connections that were aborted because too many unsent bytes waited.
    public var cut: Int { state.withLock { $0.cut } }

    /// Memory of unsent responses, in bytes.
    public var unsentBytes: Int { state.withLock { $0.unsentBytes } }

    /// Number of connections that were closed because their address had too many.
    public var rejectedConnections: Int { state.withLock { $0.rejectedConnections } }

    /// Number of connections to admin listeners that are accepted above the limit, so that administrators can act while the limit is
    /// reached.
    public static let reserve = 32

    /// Reserves a connection. Returns false at the limit.
    func take(isReserved: Bool = false) -> Bool {
        state.withLock { state in
            guard state.open < state.limits.maximumConnections + (isReserved ? Self.reserve : 0) else { return false }
            state.open += 1
            state.mostOpen = max(state.mostOpen, state.open)
            return true
        }
    }

    /// Decrease in connections or unsent bytes after which memory is returned to the system: about 30 MB.
    public static let crowd = 500
    public static let heap = 32 << 20

    /// Whether at least half of the connections or of the unsent bytes, and at least `crowd` or `heap`, ended since this function last
    /// returned true.
    public func hasMemoryToReturn() -> Bool {
        state.withLock { state in
            let hasCrowdLeft = state.mostOpen - state.open >= Self.crowd && state.open <= state.mostOpen / 2
            let hasHeapGone = state.mostUnsentBytes - state.unsentBytes >= Self.heap && state.unsentBytes <= state.mostUnsentBytes / 2
            guard hasCrowdLeft || hasHeapGone else { return false }
            (state.mostOpen, state.mostUnsentBytes) = (state.open, state.unsentBytes)
            return true
        }
    }

    /// Returns free memory to the system, because the allocator keeps it. Must not be called on an event loop.
    public static func returnFreeMemory() { csystem_return_free_memory() }

    /// Counts a connection for its address. Returns false if the address has too many.
    func admit(_ peer: PeerAddress) -> Bool {
        state.withLock { state in
            guard let client = state.counted(peer) else { return true }
            let (count, limit) = (state.byAddress[client, default: 0], state.limits.connectionsPerAddress)
            guard limit == 0 || count < limit else {
                state.rejectedConnections += 1
                return false
            }
            state.byAddress[client] = count + 1
            return true
        }
    }

    /// Records a change of the unsent bytes of a connection. An address may hold as much memory as remains free, so one address alone may
    /// hold half. Memory thus remains for other clients, even if one client reads slowly on many connections.
    /// - Returns: false if the limit is exceeded, so that the connection must be aborted.
    func hold(_ change: Int, of peer: PeerAddress) -> Bool {
        state.withLock { state in
            let own = state.holdUnsent(change, peer)
            let limit = state.limits.unsentLimitBytes
            guard change > 0, limit > 0, state.unsentBytes > limit - own else { return true }
            state.cut += 1
            return false
        }
    }

    /// Whether a connection that holds this many bytes of a response may buffer more, so that the upstream does not wait for a slow
    /// client. Half of the memory is for reading ahead. A connection may use a sixteenth of the free part of it, and an address as much as
    /// remains free.
    func mayReadAhead(holding bytes: Int, for peer: PeerAddress) -> Bool {
        state.withLock { state in
            guard state.limits.unsentLimitBytes > 0 else { return true }
            let left = state.limits.unsentLimitBytes / 2 - state.unsentBytes
            let own = state.counted(peer).map { state.unsentByAddress[$0, default: 0] } ?? 0
            return left > 0 && bytes <= left / 16 && own <= left
        }
    }

    /// Releases a reserved connection.
    /// - Parameter peer: the address of an admitted connection; nil if the connection was not admitted.
    func giveBack(_ peer: PeerAddress? = nil) {
        state.withLock { state in
            state.open -= 1
            guard let client = peer.flatMap({ state.counted($0) }), let count = state.byAddress[client] else { return }
            state.byAddress[client] = count > 1 ? count - 1 : nil
        }
    }
    // MARK: Discarded content

    /// Permission to discard the content of one request. Released with the object.
    final class Discarding: Sendable {
        private let budget: ConnectionBudget
        private let client: UInt128?

        fileprivate init(_ budget: ConnectionBudget, _ client: UInt128?) { (self.budget, self.client) = (budget, client) }

        deinit {
            guard let client else { return }
            budget.state.withLock { state in
                guard let count = state.discarding[client] else { return }
                state.discarding[client] = count > 1 ? count - 1 : nil
            }
        }
    }

    /// Permits discarding of one more request's content; nil if the address has reached its limit.
    func discard(for client: ClientAddress) -> Discarding? {
        state.withLock { state in
            guard let client = client.counted(besides: state.limits.trustedProxies) else { return Discarding(self, nil) }
            let count = state.discarding[client, default: 0]
            guard count < state.limits.discarding.perAddress else { return nil }
            state.discarding[client] = count + 1
            return Discarding(self, client)
        }
    }

    // MARK: The connection limit

    /// Adds a table. Rounds may close its connections while its loop runs.
    func enter(_ table: ClientConnections) { state.withLock { $0.tables.append(LoopBound(value: table)) } }

    func leave(_ table: ClientConnections) { state.withLock { $0.tables.removeAll { $0.value === table } } }

    /// Maximum number of connections that one round closes, as a divisor of the limit and as an absolute number.
    private static let roundPart = 64
    private static let roundLimit = 256

    /// Closes connections that wait for their client, if there are any. Only one round runs at a time; calls during a round have no effect.
    func makeSpace(_ cause: CapacityReport.Cause) {
        let begun = state.withLock { state -> (round: ClosingRound, tables: [LoopBound<ClientConnections>])? in
            guard !state.isMakingSpace, !state.tables.isEmpty else { return nil }
            state.isMakingSpace = true
            let (byAddress, tables, open) = (state.byAddress, state.tables, state.open)
            let wanted = max(1, min(Self.roundLimit, state.limits.maximumConnections / Self.roundPart))
            let round = ClosingRound(byAddress: byAddress, state.limits, wanted: wanted, tables: tables.count) { [self] chosen in
                let most = byAddress.max { $0.value < $1.value }
                let address = most.map { IPAddress.text(ofClient: $0.key) }
                onFull(CapacityReport(cause: cause, open: open, most: most?.value ?? 0, address: address, closed: chosen.count))
                end(chosen, tables)
            }
            return (round, tables)
        }
        guard let begun else { return }
        for one in begun.tables {
            let share = ClosingRound.Share(begun.round)
            one.value.loop.execute { one.value.nameCandidates(for: begun.round, share) }
        }
    }

    private func end(_ chosen: [ClosingRound.Candidate], _ tables: [LoopBound<ClientConnections>]) {
        state.withLock { $0.isMakingSpace = false }
        guard !chosen.isEmpty else { return }
        for one in tables {
            let own = ObjectIdentifier(one.value)
            let candidates = chosen.filter { $0.table == own }
            one.value.loop.execute { one.value.close(candidates[...]) }
        }
    }
}
