// Makes room at the limit on client connections: connections that wait for their client are closed, over all shards. The address that has most
// connections goes first, and of its connections those that have been idle for longest.
//
// Tricky: each shard knows its own connections only. So a round has two steps: every shard names its candidates, and then every shard closes
// those of its own that were chosen from all of them. A shard whose loop ends meanwhile counts as one without candidates.

import Addresses
import Figures
import Locking
import Reactor

/// What a connection waits for while it can be closed to make room.
struct ClientWait: Equatable {
    enum Kind: Int {
        /// A request. No byte of one has come.
        case request
        /// The end of a handshake, of a request's head, or of the connection.
        case opening
        /// The client to send a request's content, or to take a response.
        case slow
    }

    var kind: Kind
    /// When the wait times out, in milliseconds of the loops' clock: what has waited for longest times out first.
    var deadline: Int64
}

/// What came of a round, for the log.
public struct RoomReport: Sendable, Equatable {
    /// Why no connection could be accepted.
    public enum Cause: Sendable { case connections, descriptors }

    public var cause: Cause
    public var open: Int
    /// Connections of the address that has most; 0 if no address counts.
    public var most: Int
    /// That address, or its network; nil if no address counts.
    public var address: String?
    /// Connections that this round closes.
    public var closed: Int
}

/// A round over all shards. Its shares and the budget refer to it.
final class RoomRound: Sendable {
    struct Candidate: Sendable {
        /// Connections of its address; 0 if the address does not count.
        let count: Int
        let kind: ClientWait.Kind
        let deadline: Int64
        /// The table that has it.
        let table: ObjectIdentifier
        let descriptor: Int32
        let connection: ObjectIdentifier

        /// Whether this one is closed before another.
        func precedes(_ other: Candidate) -> Bool {
            if count != other.count { return count > other.count }
            if kind != other.kind { return kind.rawValue < other.kind.rawValue }
            return deadline < other.deadline
        }
    }

    /// Connections by address when the round began.
    private let byAddress: [UInt128: Int]
    private let trustedProxies: NetworkList
    /// Candidates to close at most.
    let wanted: Int
    /// Connections of one address from which on also those that are slow can go.
    private let crowd: Int
    private let state: Mutex<(left: Int, candidates: [Candidate])>
    private let whenNamed: @Sendable ([Candidate]) -> Void

    /// An address with this part of all connections loses slow ones too.
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

    /// The connection as a candidate; nil if it has to stay.
    func candidate(_ connection: any AcceptedConnection, of table: ObjectIdentifier) -> Candidate? {
        guard let wait = connection.clientWait else { return nil }
        let count = connection.peer.place.counted(besides: trustedProxies).map { byAddress[$0, default: 0] } ?? 0
        if wait.kind == .slow, count < crowd { return nil }
        return Candidate(
            count: count, kind: wait.kind, deadline: wait.deadline, table: table, descriptor: connection.descriptor,
            connection: ObjectIdentifier(connection))
    }

    /// The first of them, in the order in which they go.
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

    /// What one shard names. Told to the round when nobody holds it any more: also if the shard's loop has ended.
    /// `@unchecked Sendable` because one loop at a time touches it.
    final class Share: @unchecked Sendable {
        private let round: RoomRound
        var candidates: [Candidate] = []

        init(_ round: RoomRound) { self.round = round }

        deinit { round.add(candidates) }
    }
}

extension ClientConnections {
    /// Connections that are looked at, and closed, in one go.
    private static let lookLimit = 4_096
    private static let closeLimit = 32

    /// Names this table's candidates, some in each round of the loop.
    func nameCandidates(for round: RoomRound, _ share: RoomRound.Share, from first: Int = 0) {
        loop.assertOnLoop()
        let own = ObjectIdentifier(self)
        let (some, next) = connections(from: first, count: Self.lookLimit)
        share.candidates = round.first(of: share.candidates + some.compactMap { round.candidate($0, of: own) })
        guard let next else { return }
        loop.inNextRound { [self] in nameCandidates(for: round, share, from: next) }
    }

    /// Closes those of this table, and lets its listeners accept again.
    func close(_ candidates: ArraySlice<RoomRound.Candidate>) {
        loop.assertOnLoop()
        for candidate in candidates.prefix(Self.closeLimit) {
            guard let connection = connection(candidate.descriptor), ObjectIdentifier(connection) == candidate.connection,
                connection.clientWait != nil
            else { continue }
            counters[.connectionsClosedForRoom] += 1
            connection.giveUpRoom()
        }
        let left = candidates.dropFirst(Self.closeLimit)
        if !left.isEmpty { loop.inNextRound { [self] in close(left) } }
        resumeAccepting()
    }
}
