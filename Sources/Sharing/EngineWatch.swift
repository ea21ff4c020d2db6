// Deduplicates the shards' reports of failing Cluster servers: each failure is logged once.

import Engine

struct EngineWatch {
    typealias Shard = ObjectIdentifier

    enum News: Equatable {
        case fails(EngineServer, EngineFailure)
        case isWell(EngineServer)
        case dropped(EngineServer)
    }

    private struct Failing {
        var shards: [Shard: EngineFailure] = [:]
        /// When the failure was last logged: milliseconds of the loops' clock.
        var told: Int64?
        var isTold = false
    }

    private var failing: [EngineServer: Failing] = [:]

    /// Servers without a failure are forgotten beyond this number.
    private static let limit = 256
    /// A server that fails repeatedly is logged once a minute.
    private static let restMilliseconds: Int64 = 60_000

    var count: Int { failing.count }

    /// - Parameter mayTell: no other message reports the failure.
    mutating func note(_ server: EngineServer, _ change: EngineServerChange, by shard: Shard, mayTell: Bool, now: Int64) -> News? {
        if failing.count >= Self.limit, failing[server] == nil { failing = failing.filter { !$0.value.shards.isEmpty } }
        switch change {
        case .fails(let failure):
            failing[server, default: Failing()].shards[shard] = failure
            return mayTell ? due(server, now) : nil
        case .isWell: return hasEnded(server, shard) ? .isWell(server) : nil
        case .dropped: return hasEnded(server, shard) ? .dropped(server) : nil
        }
    }

    /// Failures that were not logged when they began because of the limit.
    mutating func due(now: Int64, mayTell: (EngineServer) -> Bool) -> [News] {
        failing.keys.filter(mayTell).compactMap { due($0, now) }
    }

    private mutating func due(_ server: EngineServer, _ now: Int64) -> News? {
        guard let state = failing[server], let failure = state.shards.values.first, !state.isTold,
            state.told.map({ now - $0 >= Self.restMilliseconds }) ?? true
        else { return nil }
        failing[server]?.told = now
        failing[server]?.isTold = true
        return .fails(server, failure)
    }

    private mutating func hasEnded(_ server: EngineServer, _ shard: Shard) -> Bool {
        failing[server]?.shards[shard] = nil
        guard let state = failing[server], state.shards.isEmpty, state.isTold else { return false }
        failing[server]?.isTold = false
        return true
    }
}
