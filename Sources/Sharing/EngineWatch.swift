// Which servers of the engine fail, as all shards together see it: one says so, and not each of them.

import Engine

struct EngineWatch {
    private struct Failing {
        var shards = 0
        /// Milliseconds of the loops' clock.
        var told: Int64?
        var isTold = false
    }

    private var failing: [EngineServer: Failing] = [:]

    /// Servers that come and go are not remembered for ever.
    private static let limit = 256
    private static let restMilliseconds: Int64 = 60_000

    /// A shard asks a server no more, or (nil) does so again.
    /// - Returns: whether that is to be told.
    mutating func note(_ server: EngineServer, _ failure: EngineFailure?, now: Int64) -> Bool {
        if failing.count >= Self.limit, failing[server] == nil { failing = failing.filter { $0.value.shards > 0 } }
        var state = failing[server] ?? Failing()
        defer { failing[server] = state }
        guard failure != nil else {
            state.shards = max(0, state.shards - 1)
            guard state.shards == 0, state.isTold else { return false }
            state.isTold = false
            return true
        }
        state.shards += 1
        // One that fails again and again is told of once a minute.
        guard state.shards == 1, state.told.map({ now - $0 >= Self.restMilliseconds }) ?? true else { return false }
        (state.told, state.isTold) = (now, true)
        return true
    }
}
