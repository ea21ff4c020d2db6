// Deduplicates the shards' reports of failing Cluster servers: each failure is logged once.

import Engine

struct EngineWatch {
    typealias Shard = ObjectIdentifier

    enum News: Equatable {
        case fails(EngineServer, EngineFailure)
        case recovered(EngineServer)
        case dropped(EngineServer)
    }

    private struct Failing {
        var shards: [Shard: EngineFailure] = [:]
        /// When the failure was last logged: milliseconds of the loops' clock.
        var loggedAt: Int64?
        var isLogged = false
    }

    private var failing: [EngineServer: Failing] = [:]

    /// Maximum number of remembered servers; beyond it, servers that have not failed are forgotten.
    private static let limit = 256
    /// Minimum interval between two log lines about one failing server, in milliseconds.
    private static let restMilliseconds: Int64 = 60_000

    var count: Int { failing.count }

    /// - Parameter mayLog: whether no other message reports the server's failure.
    mutating func note(_ server: EngineServer, _ change: EngineServerChange, by shard: Shard, mayLog: Bool, now: Int64) -> News? {
        if failing.count >= Self.limit, failing[server] == nil { failing = failing.filter { !$0.value.shards.isEmpty } }
        switch change {
        case .fails(let failure):
            failing[server, default: Failing()].shards[shard] = failure
            return mayLog ? due(server, now) : nil
        case .recovered: return hasEnded(server, shard) ? .recovered(server) : nil
        case .dropped: return hasEnded(server, shard) ? .dropped(server) : nil
        }
    }

    /// Returns failures that the rate limit has delayed and that may be logged now.
    mutating func due(now: Int64, mayLog: (EngineServer) -> Bool) -> [News] {
        failing.keys.filter(mayLog).compactMap { due($0, now) }
    }

    private mutating func due(_ server: EngineServer, _ now: Int64) -> News? {
        guard let state = failing[server], let failure = state.shards.values.first, !state.isLogged,
            state.loggedAt.map({ now - $0 >= Self.restMilliseconds }) ?? true
        else { return nil }
        failing[server]?.loggedAt = now
        failing[server]?.isLogged = true
        return .fails(server, failure)
    }

    private mutating func hasEnded(_ server: EngineServer, _ shard: Shard) -> Bool {
        failing[server]?.shards[shard] = nil
        guard let state = failing[server], state.shards.isEmpty, state.isLogged else { return false }
        failing[server]?.isLogged = false
        return true
    }
}
