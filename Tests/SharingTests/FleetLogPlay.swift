// The fleet log of one node with a real Redis server and without a proxy. Nothing is stored, and all entries of other nodes are applied at
// once. The node's log lines can be read.

import CacheStore
import Engine
import Fleet
import Logging
import Reactor
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

final class FleetLogPlay {
    let redis: RedisProcess
    let node: FleetNode
    let said = CapturedLines()
    let handed = HandedOrders()
    private let temporary = TestTools.temporaryDirectory()
    private var isStopped = false

    private struct Obedient: FleetOrderReceiver {
        let hasStored = false
        let mayKeepPosition = true
        let handed: HandedOrders

        func follow(_ marks: ArraySlice<FleetOrder>) { if !marks.isEmpty { handed.add(marks.count) } }
        func apply(_ orders: [FleetOrder], done: @escaping @Sendable () -> Void) {
            handed.add(orders.count)
            done()
        }
        func synchronize() { handed.waitForDisk() }
        func finish() {}
    }

    init(_ redis: RedisProcess, _ change: (inout FleetSettings) -> Void = { _ in }) throws {
        RealTimeTrait.expect()
        self.redis = redis
        let secrets = try FleetSecrets(file: Array(FleetPlay.secret.utf8))
        var settings = FleetSettings(
            engine: EngineSettings(servers: [.host("127.0.0.1", port: redis.port)]), name: "play", secrets: secrets)
        // A long timeout, for busy machines.
        settings.timeout = 10_000
        change(&settings)
        let logger = Logger(label: "play") { [said] _ in LineHandler(said: said) }
        node = FleetNode(settings, beside: StoreLocation(directory: temporary.path, capacityBytes: 16 << 20), logger)
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

    /// Runs a test with a node that is in sync, and stops it afterwards.
    static func run(_ body: (FleetLogPlay) throws -> Void) throws {
        let redis = try RedisProcess()
        #expect(!redis.direct.ask("PING").isEmpty)
        let play = try FleetLogPlay(redis)
        #expect(try eventually { play.node.isUpToDate })
        try body(play)
        play.stop()
    }

    var figures: LogFigures { node.log.publishedFigures }

    var directory: String { temporary.path }

    var files: FleetFiles { FleetFiles(beside: StoreLocation(directory: temporary.path, capacityBytes: 16 << 20)) }

    /// Announces the purge of several targets as one purge.
    /// - Returns: the outcome, once it is known.
    func purge(_ targets: [String]) -> Told {
        let told = Told()
        node.announce(LogMessage(marks: targets.map { Array($0.utf8) })).publish { told.put($0) }
        return told
    }

    final class Told: Sendable {
        private let reach = Mutex<PurgeReach?>(nil)

        var now: PurgeReach? { reach.withLock { $0 } }

        func put(_ reach: PurgeReach) { self.reach.withLock { $0 = reach } }
    }
}

/// Number of orders in each batch that was passed to the node.
final class HandedOrders: Sendable {
    private let counts = Mutex<[Int]>([])
    /// nil: the disk responds at once.
    private let gate = Mutex<Gate?>(nil)

    func add(_ count: Int) { counts.withLock { $0.append(count) } }

    var all: [Int] { counts.withLock { $0 } }

    func waitForDisk() { gate.withLock { $0 }?.pass() }

    /// Holds all further writes to the disk.
    func hold() { gate.withLock { $0 = Gate() } }

    /// Lets all writes to the disk finish.
    func release() {
        gate.withLock { gate in
            gate?.open()
            gate = nil
        }
    }
}

extension RedisProcess {
    /// Appends entries that no node has written.
    /// - Parameter areOld: whether they have the oldest possible IDs.
    func append(_ count: Int, value: String = "v", areOld: Bool = false) {
        let script = "for i = 1, \(count) do redis.call('XADD', KEYS[1], \(areOld ? "i .. '-1'" : "'*'"), 'k', ARGV[1]) end"
        let words = ["EVAL", script, "1", "cistern:play:{log}", value]
        direct.ask(words.map { Array($0.utf8) })
        #expect(logLength == count)
    }

    var logLength: Int { Int(direct.ask("XLEN cistern:play:{log}").drop { $0 == ":" }.prefix { $0.isNumber }) ?? -1 }
}
