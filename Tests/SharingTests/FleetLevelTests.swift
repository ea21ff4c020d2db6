// Tests of the shared level of one shard, without a proxy.

import CachePolicy
import CacheStore
import Engine
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import ResponseCache
@testable import Sharing

/// Records the outcome of a look-up. Written on the level's loop, read by the test.
private final class Waiter: FleetWaiter, Sendable {
    private let outcome = Mutex<FleetOutcome?>(nil)
    let clientNumber: UInt64 = 1

    var told: FleetOutcome? { outcome.withLock { $0 } }

    func fleetLookUpEnded(_ outcome: FleetOutcome, _ refusal: FleetRefusal?) -> Bool {
        self.outcome.withLock { $0 = outcome }
        return false
    }

    func fleetWaits() {}
    func fleetResponseCameLate() {}
}

@Suite(
    "The shared level of a shard", .play, .realTime, .serialized,
    .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
struct FleetLevelTests {
    /// A cache of this node, and the look-up of a target in its shared level.
    private static func lookUp(_ node: FleetNode, _ directory: String, _ level: FleetLevel) throws -> (ResponseCache, FleetLookUp) {
        let store = try ResponseStore(StoreSettings(directory: directory, capacityBytes: 16 << 20))
        var settings = ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8)))
        settings.fleet = node.membership
        let cache = ResponseCache(APICacheState(store: store, sent: SentRequests(), settings: settings), mayWait: true) {
            CacheTime(wall: Timestamp(milliseconds: SystemTime.shared.wallMilliseconds), monotonic: SystemTime.shared.monotonicMilliseconds)
        }
        cache.level = level
        let head = RequestHead(method: .get, target: Array("/a".utf8)[...], version: .http11, fields: Fields())
        return (cache, try #require(cache.fleetLookUp(for: head, at: try cache.find(head).keys)))
    }

    @Test("a lookup that waits for another node's fetch ends when its level closes, and leaks nothing")
    func closed() throws {
        try FleetLogPlay.run { play in
            let loop = EventLoop(label: "shard", time: SystemTime.shared)
            loop.start()
            var level: FleetLevel? = FleetLevel(play.node, on: loop)
            let left = Left(level: level)
            let waiter = Waiter()
            try Self.rest(play, level, loop, waiter)
            onLoop(loop) { [level] in level?.close() }
            #expect(waiter.told == .late)
            level = nil
            #expect(try eventually { left.level == nil })
            let ended = Gate()
            loop.stop { ended.open() }
            ended.pass()
        }
    }

    /// Starts a look-up, and returns after two reads have found no record.
    private static func rest(_ play: FleetLogPlay, _ level: FleetLevel?, _ loop: EventLoop, _ waiter: Waiter) throws {
        let level = try #require(level)
        let temporary = TestTools.temporaryDirectory()
        let (cache, lookUp) = try lookUp(play.node, temporary.path, level)
        defer { cache.store.close() }
        let name = play.node.settings.secrets.first.name(of: lookUp.locations[0].key)
        let lease = play.node.keys.recordKeys(of: name).lease
        // The number of another node, with less than the longest time that a lease has.
        let words = [Array("SET".utf8), Array(lease.bytes)] + ["ab12", "PX", "1900"].map { Array($0.utf8) }
        #expect(play.redis.direct.ask(words).contains("OK"))
        let before = Self.asked(play)
        let box = Carried(cache: cache, lookUp: lookUp)
        onLoop(loop) {
            level.start()
            level.search(box.lookUp, in: box.cache, wait: 60_000, for: waiter)
        }
        #expect(try eventually { Self.asked(play) >= before + 2 })
        cache.level = NoFleetStorage.instance
    }

    /// Number of reads of records and leases.
    private static func asked(_ play: FleetLogPlay) -> Int {
        let name = "cmdstat_get:calls="
        let line = play.redis.direct.ask("INFO commandstats").split(separator: "\r\n").first { $0.hasPrefix(name) } ?? ""
        return Int(line.dropFirst(name.count).prefix { $0.isNumber }) ?? 0
    }
}

private struct Left {
    weak var level: FleetLevel?
}

/// `@unchecked Sendable` because it is passed to the loop once and used there only.
private struct Carried: @unchecked Sendable {
    let cache: ResponseCache
    let lookUp: FleetLookUp
}

/// Runs the closure on the loop and waits for it.
private func onLoop(_ loop: EventLoop, _ body: @escaping @Sendable () -> Void) {
    let done = Gate()
    loop.execute {
        body()
        done.open()
    }
    done.pass()
}
