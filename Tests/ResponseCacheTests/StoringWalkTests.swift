// Random schedules of concurrent fetches, confirmations, HEAD, imports, writes, purges and restarts, through the production code. The cache
// must agree with a reference at every step, and responses must never become older.

import CachePolicy
import CacheStore
import Dispatch
import Glibc
import HTTPCore
import TestSupport
import Testing

@testable import ResponseCache

/// The real cache, called as the proxy calls it.
private final class WalkedStore {
    private let temporary = TestTools.temporaryDirectory()
    private let contentBytes: Int
    private(set) var cache: ResponseCache

    init(contentBytes: Int) throws {
        self.contentBytes = contentBytes
        cache = try Self.open(temporary.path)
    }

    deinit { cache.store.close() }

    private static func open(_ directory: String) throws -> ResponseCache {
        let store = try ResponseStore(StoreSettings(directory: directory, capacityBytes: 4 << 20))
        var settings = ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8)))
        // Responses differ by Vary only.
        settings.policy.harmlessFields += ["x-a", "x-b"]
        return TestCache.other(APICacheState(store: store, sent: SentRequests(), settings: settings))
    }

    /// - Parameter keepsIndex: if false, the next start scans all segments.
    func restart(keepsIndex: Bool) throws {
        cache.state.close()
        if !keepsIndex { unlink(temporary.path + "/index") }
        cache = try Self.open(temporary.path)
    }

    private static func request(_ question: WalkQuestion, _ method: HTTPCore.Method = .get) -> RequestHead {
        var fields = Fields()
        if !question.user.isEmpty { fields.append(name: "x-user", value: question.user) }
        for (name, value) in question.values.sorted(by: { $0.key < $1.key }) { fields.append(name: name, value: value) }
        return RequestHead(method: method, target: Array(question.target.utf8)[...], version: .http11, fields: fields)
    }

    private func lookedUp(_ question: WalkQuestion, _ method: HTTPCore.Method = .get, found: FoundResponse? = nil) -> StorableExchange {
        let head = Self.request(question, method)
        return StorableExchange(head, keys: cache.keysOfGet(for: head), found: found)
    }

    private func time(_ recency: Recency) -> CacheTime {
        CacheTime(wall: recency.responseTime, monotonic: recency.responseTime.milliseconds)
    }

    func find(_ question: WalkQuestion) throws -> FoundResponse? { try cache.find(Self.request(question)).result.found }

    private static func head(_ version: String, _ names: [String], status: Status = 200) -> ResponseHead {
        var fields = Fields()
        fields.append(name: "etag", value: "\"\(version)\"")
        fields.append(name: "content-type", value: "application/json")
        fields.append(name: "cache-control", value: "max-age=1000000")
        if !names.isEmpty { fields.append(name: "vary", value: names.joined(separator: ", ")) }
        return ResponseHead(status: status, fields: fields)
    }

    func store(_ response: WalkResponse, _ recency: Recency, for question: WalkQuestion) -> StoringResult {
        let head = Self.head(response.version, response.names)
        let whole = WholeResponse(head, cache.control(head), [UInt8](repeating: 1, count: contentBytes), isDecoded: false, recency)
        return cache.store(whole, for: lookedUp(question), at: time(recency)).result
    }

    func confirm(_ found: FoundResponse, _ recency: Recency, for question: WalkQuestion) {
        let version = String(decoding: found.head[found.metadata.etag].dropFirst().dropLast(), as: UTF8.self)
        let response = Self.head(version, [], status: 304)
        _ = cache.confirm(by: response, for: lookedUp(question, found: found), recency, at: time(recency))
    }

    /// Handles a response to HEAD.
    func compare(_ version: String, _ recency: Recency, for question: WalkQuestion) {
        cache.update(by: Self.head(version, []), for: lookedUp(question, .head), recency, now: recency.responseTime)
    }

    func write(_ target: String, at now: Timestamp) {
        let head = Self.request(WalkQuestion(target: target, user: "", values: [:]))
        var marks: [[UInt8]] = []
        cache.invalidate(target: Array(target.utf8), for: head, at: now, &marks)
    }

    func purge(isSoft: Bool, at now: Timestamp) {
        cache.beginPurge(at: now)
        if isSoft { cache.store.markAllStale() } else { cache.state.removeAll() }
    }
}

private struct StoringWalk {
    /// A sent request, with the response that was found for it.
    struct Flight {
        var question: WalkQuestion
        var order: SentOrder
        var times: WalkTimes
        var found: FoundResponse?
        var expected: WalkResponse?
        var version: String
    }

    private static let targets = ["/a", "/b"]
    private static let fields: [[String]] = [[], [], ["x-a"], ["x-b"], ["x-a", "x-b"]]

    /// Random numbers of the current step.
    private var random = SeededGenerator(seed: 0)
    let real: WalkedStore
    var reference = ReferenceStore()
    /// If false, responses may be evicted, which the reference does not model.
    let isExact: Bool
    private var flights: [Flight] = []
    private var now = 1_795_000_000_000
    private var run = 0
    private var number = 0
    private var version = 0
    private var names: [String] = []
    /// Most recent response that was found for a request.
    private var seen: [WalkQuestion: [Int]] = [:]
    private(set) var counts: [String: Int] = [:]

    init(contentBytes: Int, isExact: Bool) throws {
        real = try WalkedStore(contentBytes: contentBytes)
        self.isExact = isExact
    }

    private mutating func chance(_ percent: Int) -> Bool { random.chance(percent) }
    private mutating func pick<T>(_ from: [T]) -> T { random.pick(from) }

    private mutating func question() -> WalkQuestion {
        var question = WalkQuestion(target: pick(Self.targets), user: chance(30) ? "u" : "", values: [:])
        if chance(70) { question.values["x-a"] = pick(["1", "2"]) }
        if chance(70) { question.values["x-b"] = pick(["1", "2"]) }
        return question
    }

    private static func recency(_ flight: Flight) -> Recency { recency(flight.order, flight.times) }

    private static func recency(_ order: SentOrder, _ times: WalkTimes) -> Recency {
        Recency(
            order: order, isImported: times.isImported, requestTime: Timestamp(milliseconds: Int64(times.asked)),
            responseTime: Timestamp(milliseconds: Int64(times.came)))
    }

    mutating func step(_ random: SeededGenerator) throws {
        self.random = random
        now += pick([0, 0, 1, 7])
        if chance(4) { version += 1 }
        if chance(3) { names = pick(Self.fields) }
        switch self.random.below(1_000) {
        case ..<440: try begin()
        case ..<900: try end()
        case ..<960: try importOne()
        case ..<985: write()
        case ..<993: purge()
        case ..<995: try restart()
        default: real.cache.store.flush()
        }
        try look(question())
    }

    private mutating func begin() throws {
        guard flights.count < 8 else { return try end() }
        let question = question()
        number += 1
        let times = WalkTimes(run: run, number: number, asked: now, came: now)
        let expected = isExact ? reference.find(question) : nil
        flights.append(
            Flight(
                question: question, order: real.cache.state.sent.next(), times: times, found: try real.find(question), expected: expected,
                version: "\(version)"))
    }

    private mutating func end() throws {
        guard !flights.isEmpty else { return }
        var flight = flights.remove(at: random.below(flights.count))
        flight.times.came = now
        if chance(50) { flight.version = "\(version)" }
        if let found = flight.found, chance(35) {
            real.confirm(found, Self.recency(flight), for: flight.question)
            if let expected = flight.expected { reference.confirm(expected, flight.times, for: flight.question) }
            counts["confirmed", default: 0] += 1
            return
        }
        if chance(15) {
            real.compare(flight.version, Self.recency(flight), for: flight.question)
            reference.compare(flight.version, flight.times, for: flight.question)
            counts["compared", default: 0] += 1
            return
        }
        try store(WalkResponse(version: flight.version, names: names, times: flight.times), flight.order, flight.question)
    }

    private mutating func store(_ response: WalkResponse, _ order: SentOrder, _ question: WalkQuestion) throws {
        let result = real.store(response, Self.recency(order, response.times), for: question)
        let expected = reference.store(response, for: question)
        counts["\(result)", default: 0] += 1
        try demand(!isExact || "\(result)" == "\(expected)", "\(result), not \(expected), for \(response) to \(question)")
    }

    private mutating func importOne() throws {
        number += 1
        let asked = now - pick([0, 1, 5, 30])
        let times = WalkTimes(run: run, number: number, asked: asked, came: min(now, asked + pick([0, 1, 5])), isImported: true)
        try store(WalkResponse(version: "\(version)", names: names, times: times), real.cache.state.sent.next(), question())
    }

    private mutating func write() {
        let target = pick(Self.targets)
        real.write(target, at: Timestamp(milliseconds: Int64(now)))
        reference.write(target, now: now)
        for question in seen.keys where question.target == target { seen[question] = nil }
    }

    private mutating func purge() {
        let isSoft = chance(60)
        real.purge(isSoft: isSoft, at: Timestamp(milliseconds: Int64(now)))
        reference.purge(isSoft: isSoft, now: now)
        if !isSoft { seen = [:] }
    }

    private mutating func restart() throws {
        flights = []
        try real.restart(keepsIndex: chance(50))
        reference.restart()
        run += 1
    }

    private mutating func look(_ question: WalkQuestion) throws {
        let found = try real.find(question)
        if isExact {
            let expected = reference.find(question)
            try demand(
                Self.isSame(found, expected), "\(String(describing: found?.metadata)), not \(String(describing: expected)), for \(question)"
            )
        }
        guard let found else { return }
        counts["found", default: 0] += 1
        let metadata = found.metadata
        let rank = [Int(metadata.requestTime.milliseconds), metadata.flags.contains(.imported) ? 0 : Int(metadata.order.number >> 1)]
        if let last = seen[question] {
            let isOlder =
                last[0] > rank[0] || (last[0] == rank[0] && run == lastRun[question] && (1..<(1 << 31)).contains(last[1] - rank[1]))
            try demand(!isOlder, "\(rank) is older than \(last), for \(question)")
        }
        (seen[question], lastRun[question]) = (rank, run)
    }

    private var lastRun: [WalkQuestion: Int] = [:]

    private static func isSame(_ found: FoundResponse?, _ expected: WalkResponse?) -> Bool {
        guard let found, let expected else { return found == nil && expected == nil }
        let metadata = found.metadata
        return found.head[metadata.etag].elementsEqual("\"\(expected.version)\"".utf8)
            && metadata.requestTime.milliseconds == Int64(expected.times.asked)
            && metadata.responseTime.milliseconds == Int64(expected.times.came)
            && metadata.flags.contains(.markedStale) == expected.isMarkedStale
            && (metadata.freshnessLifetime == 0) == expected.hasChanged
    }
}

@Suite("Storing in the order in which requests were sent", .slow)
struct StoringWalkTests {
    /// Returns the number of each outcome; nil after a failure, or if the number of schedules is not the usual one.
    private func walk(_ schedules: Int, contentBytes: Int, isExact: Bool) -> [String: Int]? {
        var counts: [String: Int] = [:]
        let isWhole = RandomSchedules.run(schedules, steps: 1_000) { _ in
            try StoringWalk(contentBytes: contentBytes, isExact: isExact)
        } step: {
            try $0.step($1)
        } end: {
            counts.merge($0.counts) { $0 + $1 }
        }
        return isWhole ? counts : nil
    }

    @Test("random schedules: overlapping fetches, confirmations, HEAD, imports, writes, purges and restarts agree with the reference")
    func agree() {
        guard let counts = walk(30, contentBytes: 10, isExact: true) else { return }
        for word in ["stored", "outdated", "invalidated", "confirmed", "compared", "found"] {
            #expect(counts[word, default: 0] > 150, "\(word)")
        }
    }

    @Test("random schedules: responses never become older, also under heavy eviction")
    func evicting() {
        guard let counts = walk(20, contentBytes: 30_000, isExact: false) else { return }
        #expect(counts["found", default: 0] > 1_000)
    }

    @Test("many threads storing under one key keep the latest response, and no reader sees an older one again")
    func threads() throws {
        let temporary = TestTools.temporaryDirectory()
        let store = try ResponseStore(StoreSettings(directory: temporary.path, capacityBytes: 4 << 20))
        defer { store.close() }
        var random = SeededGenerator(seed: 4711)
        let numbers = (1...4_000).map { UInt64($0) }.shuffled(using: &random)
        let settings = ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8)))
        let shared = APICacheState(store: store, sent: SentRequests(), settings: settings)
        let keys = TargetKeys(own: [1], credentialFree: [1])
        let request = RequestHead(method: .get, target: [0x2f], version: .http11, fields: Fields())
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            let cache = TestCache.other(shared, mayWait: false)
            var last: UInt64 = 0
            for number in numbers[(thread * 1_000)..<(thread * 1_000 + 1_000)] {
                var metadata = StoredMetadata(
                    requestTime: Timestamp(seconds: 1), responseTime: Timestamp(seconds: 1), date: Timestamp(seconds: 1))
                metadata.order = SentOrder(number: number)
                let new = NewResponse(
                    head: [], metadata: metadata, body: .bytes([]), names: number % 2 == 0 ? [] : [Array("x-a".utf8)], request: Fields(),
                    sentAt: metadata.requestTime)
                _ = cache.put(new, at: StorageLocation(key: [1], credentialFreeKeys: [[1]]))
                guard let found = cache.findWaiting(request, at: keys).found?.metadata.order.number else { continue }
                #expect(found >= last)
                last = found
            }
        }
        let cache = TestCache.other(shared, mayWait: false)
        #expect(cache.findWaiting(request, at: keys).found?.metadata.order.number == 4_000)
    }
}
