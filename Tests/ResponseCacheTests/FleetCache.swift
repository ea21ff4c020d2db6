// A cache of a fleet node. Its records are kept in memory, where other caches find them without a network.

import CachePolicy
import CacheStore
import HTTPCore

@testable import ResponseCache

final class FleetCache {
    let test: TestCache
    let logLink = FleetLogLink(blindLimit: 30_000, afterGap: .stale, since: 0)
    let given = GivenRecords()
    /// Marks that other nodes receive for writes.
    var told: [[UInt8]] { given.told.map(\.mark) }

    final class GivenRecords: FleetStorage {
        let (isShared, isAwaited, lastAnnounced) = (true, false, UInt64(0))
        var contentLimitBytes = 1_000
        fileprivate(set) var records: [[UInt8]: (record: FleetRecord, recency: Recency)] = [:]
        /// Marks of each write.
        fileprivate(set) var writes: [(marks: [[UInt8]], isDoubtful: Bool)] = []
        var told: [(mark: [UInt8], isDoubtful: Bool)] { writes.flatMap { one in one.marks.map { ($0, one.isDoubtful) } } }

        var isOpen = true
        /// Hashes of the tokens of each write.
        fileprivate(set) var announced: [[[UInt8]]] = []

        func mayOffer() -> Bool { isOpen }
        func obstacle(for keys: TargetKeys) -> FleetObstacle? { nil }
        func search(_ lookUp: FleetLookUp, in cache: ResponseCache, wait: Int64?, for waiter: any FleetWaiter) {}
        func isForEachRequest(_ key: [UInt8]) -> Bool { false }
        func ended(_ key: [UInt8], _ end: LeaseEnd, by client: UInt64) {}
        func whenPropagated(since former: UInt64, _ then: @escaping (_ isTold: Bool) -> Void) { then(true) }

        func offer(_ item: NewItem, as key: [UInt8], _ recency: Recency) {
            records[key] = (FleetRecord(key: key, metadata: item.metadata, head: item.head, body: item.body), recency)
        }

        func invalidated(_ marks: [[UInt8]], isDoubtful: Bool) { writes.append((marks, isDoubtful)) }
        func invalidated(identitiesOf tokens: [[UInt8]], isLost: Bool) { announced.append(tokens) }
    }

    /// - Parameter secrets: secrets of the fleet. New records use the first one.
    init(_ secrets: [String] = ["fleet"], named name: String? = nil, _ configure: (inout ResponseCacheSettings) -> Void = { _ in }) throws {
        let hashes = secrets.map { secret -> CredentialHash in { parts in Self.hash(parts, secret) } }
        test = try TestCache(named: name) { [logLink] settings in
            settings.fleet = FleetMembership(hashes, logLink)
            configure(&settings)
        }
        logLink.see(until: Timestamp(milliseconds: .max))
        test.cache.level = given
    }

    /// A hash of 16 bytes. It need not be secure.
    private static func hash(_ parts: [UInt8], _ secret: String) -> [UInt8] {
        var hasher: UInt64 = 14_695_981_039_346_656_037
        for byte in Array(secret.utf8) + parts { hasher = (hasher ^ UInt64(byte)) &* 1_099_511_628_211 }
        return withUnsafeBytes(of: hasher) { Array($0) + Array($0) }
    }

    func lookUp(
        _ target: String, _ lines: TestCache.Lines = [], method: HTTPCore.Method = .get, good: GoodResponse = GoodResponse(),
        kept: GoodResponse = GoodResponse()
    ) throws -> FleetLookUp? {
        let head = TestCache.request(target, lines, method: method)
        return test.cache.fleetLookUp(for: head, at: try test.cache.find(head).keys, good: good, kept: kept)
    }

    /// Applies the invalidations of another node.
    func follow(_ other: FleetCache) {
        for one in other.given.told { test.cache.state.follow(mark: one.mark, isDoubtful: one.isDoubtful, at: test.time.wall) }
    }

    /// Takes the records of another node, following markers, as a look-up does.
    /// - Returns: the results of the records that exist.
    @discardableResult
    func take(
        _ target: String, _ lines: TestCache.Lines = [], from other: FleetCache, good: GoodResponse = GoodResponse(),
        kept: GoodResponse = GoodResponse()
    ) throws -> [TakingResult] {
        guard let lookUp = try lookUp(target, lines, good: good, kept: kept) else { return [] }
        var (places, results) = (lookUp.locations, [TakingResult]())
        var next = 0
        while next < places.count {
            let place = places[next]
            next += 1
            guard let (record, recency) = other.given.records[place.key] else { continue }
            let time = recency.responseTime.milliseconds - other.test.now + test.now
            let result = test.cache.takeFromNode(record, of: Timestamp(milliseconds: time), at: place, for: lookUp)
            results.append(result)
            if case .leads(let variant) = result, !places.contains(variant) { places.append(variant) }
        }
        return results
    }
}
