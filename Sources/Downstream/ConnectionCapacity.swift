// Closes connections that wait for their client when the connection limit is reached, on all shards. The address with the most connections
// loses connections first, beginning with those idle for the longest time. Tricky: a shard has access to its own connections only, so a
// round has two steps. Each shard names candidates; then each shard closes its own connections among the selected candidates. A shard
// whose loop ends meanwhile counts as having no candidates.

import Addresses
import Figures
import Reactor

/// What a connection waits for from its client. Such a connection may be closed at the connection limit.
struct ClientWait: Equatable {
    enum Kind: Int {
        /// Waits for a request of which no byte has been received.
        case request
        /// Waits for the end of a handshake, of a request's head, or of the connection.
        case opening
        /// Waits for a request's content, or for the client to read the response.
        case slow
    }

    var kind: Kind
    /// Time at which the wait times out, in milliseconds of the loops' clock. The longest wait has the earliest deadline.
    var deadline: Int64
}

/// Result of a round, for the log.
public struct CapacityReport: Sendable, Equatable {
    /// Why no connection could be accepted.
    public enum Cause: Sendable { case connections, descriptors }

    public var cause: Cause
    public var open: Int
    /// Number of connections of the address with the most connections; 0 if no address is counted.
    public var most: Int
    /// That address or network; nil if no address is counted.
    public var address: String?
    /// Number of connections that this round closes.
    public var closed: Int
}

/// A round over all shards. Retained by its shares and by the budget.
final class ClosingRound: Sendable {
    struct Candidate: Sendable {
        /// Number of connections of its address; 0 if the address is not counted.
        let count: Int
        let kind: ClientWait.Kind
        let deadline: Int64
        /// The table that holds the connection.
        let table: ObjectIdentifier
        let descriptor: Int32
        let connection: ObjectIdentifier

        /// Whether this candidate is closed before another.
        func precedes(_ other: Candidate) -> Bool {
            if count != other.count { return count > other.count }
            if kind != other.kind { return kind.rawValue < other.kind.rawValue }
            return deadline < other.deadline
        }
    }

    /// Connections by address at the start of the round.
    private let byAddress: [UInt128: Int]
    private let trustedProxies: NetworkList
    /// Maximum number of connections to close.
    let wanted: Int
    /// Number of connections of one address from which slow connections may be closed too.
    private let crowd: Int
    private let state: Mutex<(left: Int, candidates: [Candidate])>
    private let whenNamed: @Sendable ([Candidate]) -> Void

    /// Divisor of the connection limit. If an address has at least this share of the limit, its slow connections may be closed too.
    static let crowdPart = 4

    init(
        byAddress: [UInt128: Int], _ limits: DownstreamSettings, wanted: Int, tables: Int,
        whenNamed: @escaping @Sendable ([Candidate]) -> Void
    ) {
        (self.byAddress, self.wanted, self.whenNamed) = (byAddress, wanted, whenNamed)
        trustedProxies = limits.trustedProxies
        crowd = max(1, limits.maximumConnections / Self.crowdPart)
        state = Mutex((tables, []))
    }

    /// Returns the connection as a candidate; nil if it must not be closed.
    func candidate(_ connection: any AcceptedConnection, of table: ObjectIdentifier) -> Candidate? {
        guard let wait = connection.clientWait else { return nil }
        let count = connection.peer.clientAddress.counted(besides: trustedProxies).map { byAddress[$0, default: 0] } ?? 0
        if wait.kind == .slow, count < crowd { return nil }
        return Candidate(
            count: count, kind: wait.kind, deadline: wait.deadline, table: table, descriptor: connection.descriptor,
            connection: ObjectIdentifier(connection))
    }

    /// Returns the candidates to close, in order.
    func first(of candidates: [Candidate]) -> [Candidate] {
        Array(candidates.sorted { $0.precedes($1) }.prefix(wanted))
    }

    fileprivate func add(_ candidates: [Candidate]) {
        let all = state.withLock { state -> [Candidate]? in
            state.candidates += candidates
            state.left -= 1
            return state.left == 0 ? state.candidates : nil
        }
        if let all { whenNamed(first(of: all)) }
    }

    /// The candidates of one shard. Reported to the round when the object is released, also if the shard's loop has ended. `@unchecked
    /// Sendable` because one loop at a time uses it.
    final class Share: @unchecked Sendable {
        private let round: ClosingRound
        var candidates: [Candidate] = []

        init(_ round: ClosingRound) { self.round = round }

        deinit { round.add(candidates) }
    }
}

extension ClientConnections {
    /// Maximum number of descriptors visited, and of connections closed, in one round of the loop.
    private static let checkLimit = 4_096
    private static let closeLimit = 32

    /// Collects this table's candidates, over several rounds of the loop.
    func nameCandidates(for round: ClosingRound, _ share: ClosingRound.Share, from first: Int = 0) {
        loop.assertOnLoop()
        let own = ObjectIdentifier(self)
        let (some, next) = connections(from: first, count: Self.checkLimit)
        share.candidates = round.first(of: share.candidates + some.compactMap { round.candidate($0, of: own) })
        guard let next else { return }
        loop.inNextRound { [self] in nameCandidates(for: round, share, from: next) }
    }

    /// Closes the selected connections of this table, and lets its listeners accept again.
    func close(_ candidates: ArraySlice<ClosingRound.Candidate>) {
        loop.assertOnLoop()
        for candidate in candidates.prefix(Self.closeLimit) {
            guard let connection = connection(candidate.descriptor), ObjectIdentifier(connection) == candidate.connection,
                connection.clientWait != nil
            else { continue }
            counters[.connectionsEvicted] += 1
            connection.closeForOthers()
        }
        let left = candidates.dropFirst(Self.closeLimit)
        if !left.isEmpty { loop.inNextRound { [self] in close(left) } }
        resumeAccepting()
    }
}
