// Which servers of a Cluster fail, as all shards together see it: one says so, and not each of them.

import Engine

struct EngineWatch {
    typealias Shard = ObjectIdentifier

    /// What is to be told.
    enum News: Equatable {
        case fails(EngineServer, EngineFailure)
        case isWell(EngineServer)
        case dropped(EngineServer)
    }

    private struct Failing {
        /// Who does not ask it, and why.
        var shards: [Shard: EngineFailure] = [:]
        /// When it was told of last: milliseconds of the loops' clock.
        var told: Int64?
        var isTold = false
    }

    private var failing: [EngineServer: Failing] = [:]

    /// Servers that come and go are not remembered for ever. Those that fail are in use, of which a client has a limit.
    private static let limit = 256
    /// One that fails again and again is told of once a minute.
    private static let restMilliseconds: Int64 = 60_000

    /// Servers that are remembered.
    var count: Int { failing.count }

    /// - Parameter mayTell: nobody else tells that it fails.
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

    /// What still fails, and was not told when that began, as it had been told a moment before.
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

    /// Whether it fails for nobody any more, and it was told that it does.
    private mutating func hasEnded(_ server: EngineServer, _ shard: Shard) -> Bool {
        failing[server]?.shards[shard] = nil
        guard let state = failing[server], state.shards.isEmpty, state.isTold else { return false }
        failing[server]?.isTold = false
        return true
    }
}
