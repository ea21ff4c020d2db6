// The log as one node follows and writes it, with a real server of Redis, and without a proxy: nothing is stored, and all that others say is obeyed at
// once. What the node says in its own log can be read.

import CacheStore
import Engine
import Fleet
import Locking
import Logging
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

final class FleetLogPlay {
    let redis: RedisProcess
    let node: FleetNode
    let said = SaidLines()
    let handed = HandedOrders()
    private let temporary = TestTools.temporaryDirectory()
    private var isStopped = false

    private struct Obedient: FleetFollowing {
        let hasStored = false
        let mayKeepPosition = true
        let handed: HandedOrders

        func obey(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void, kept: @escaping @Sendable () -> Void) {
            handed.add(orders.count, kept)
            done()
        }
        func finish() {}
    }

    init(_ redis: RedisProcess) throws {
        RealTimeTrait.expect()
        self.redis = redis
        let secrets = try FleetSecrets(file: Array(FleetPlay.secret.utf8))
        var settings = FleetSettings(
            engine: EngineSettings(servers: [.host("127.0.0.1", port: redis.port)]), name: "play", secrets: secrets)
        // A busy machine is no slow engine.
        settings.timeout = 10_000
        let logger = Logger(label: "play") { [said] _ in LineHandler(said: said) }
        node = FleetNode(settings, beside: StorePlace(directory: temporary.path, capacityBytes: 16 << 20), logger)
        node.start(Obedient(handed: handed))
    }

    deinit { stop() }

    func stop() {
        guard !isStopped else { return }
        isStopped = true
        let ended = Gate()
        node.log.stop { ended.open() }
        ended.pass()
    }

    /// Plays to the end, with a node that sees.
    static func run(_ body: (FleetLogPlay) throws -> Void) throws {
        let redis = try RedisProcess()
        #expect(!redis.direct.ask("PING").isEmpty)
        let play = try FleetLogPlay(redis)
        #expect(try eventually { play.node.isSeeing })
        try body(play)
        play.stop()
    }

    var figures: LogFigures { node.log.publishedFigures }

    var directory: String { temporary.path }

    var files: FleetFiles { FleetFiles(beside: StorePlace(directory: temporary.path, capacityBytes: 16 << 20)) }

    /// Says that targets were purged, all of them as one purge.
    /// - Returns: what is told of it, once it is.
    func purge(_ targets: [String]) -> Told {
        let told = Told()
        node.announce(targets.map { LogMessage(.target, argument: Array($0.utf8)) }).tell { told.put($0) }
        return told
    }

    final class Told: Sendable {
        private let reach = Mutex<PurgeReach?>(nil)

        var now: PurgeReach? { reach.withLock { $0 } }

        func put(_ reach: PurgeReach) { self.reach.withLock { $0 = reach } }
    }
}

/// How many orders were handed over each time, shared by the log's loop and the play.
final class HandedOrders: Sendable {
    private struct State {
        var counts: [Int] = []
        /// Who waits for the disk; nil: it is quick.
        var waiting: [@Sendable () -> Void]?
    }

    private let state = Mutex(State())

    func add(_ count: Int, _ kept: @escaping @Sendable () -> Void) {
        let isKept = state.withLock { state in
            state.counts.append(count)
            state.waiting?.append(kept)
            return state.waiting == nil
        }
        if isKept { kept() }
    }

    var all: [Int] { state.withLock { $0.counts } }

    /// From now on nothing comes to the disk.
    func hold() { state.withLock { $0.waiting = [] } }

    /// All comes to the disk, the last first.
    func release() {
        let waiting = state.withLock { state in
            defer { state.waiting = nil }
            return state.waiting ?? []
        }
        for kept in waiting.reversed() { kept() }
    }
}

extension RedisProcess {
    /// So many entries that no node has made.
    /// - Parameter areOld: they are as old as an entry can be.
    func append(_ count: Int, value: String = "v", areOld: Bool = false) {
        let script = "for i = 1, \(count) do redis.call('XADD', KEYS[1], \(areOld ? "i .. '-1'" : "'*'"), 'k', ARGV[1]) end"
        let words = ["EVAL", script, "1", "cistern:play:{log}", value]
        direct.ask(words.map { Array($0.utf8) })
        #expect(logLength == count)
    }

    var logLength: Int { Int(direct.ask("XLEN cistern:play:{log}").drop { $0 == ":" }.prefix { $0.isNumber }) ?? -1 }
}
