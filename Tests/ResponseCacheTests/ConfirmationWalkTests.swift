// Random schedules of fetches, confirmations, purges, writes, evictions, restarts and crashes. After a crash, each stored response has the
// content of the last good one, and was confirmed at most one interval before the true time, never after it.

import CachePolicy
import Dispatch
import HTTPCore
import TestSupport
import Testing

@testable import CacheStore
@testable import ResponseCache

private struct ConfirmationWalk {
    /// Interval in which confirmations are written, in milliseconds.
    private static let interval: Int64 = 60_000
    /// Times of confirmations are rounded down to this number of milliseconds.
    private static let resolution: Int64 = 250
    private static let targets = (0..<6).map { "/\($0)" }

    /// The last good response of a target.
    private struct Good {
        var content: String
        /// When the upstream sent or confirmed it last.
        var confirmed: Int64
        /// `confirmed` when the notes were last written.
        var written: Int64
    }

    private let temporary = TestTools.temporaryDirectory()
    private var cache: ResponseCache
    private var good: [String: Good] = [:]
    private var now: Int64 = 1_795_000_000_000
    private var notesWrittenAt: Int64 = 1_795_000_000_000
    private var version = 0
    private(set) var counts: [String: Int] = [:]

    init() throws { cache = try Self.open(temporary.path) }

    private static func open(_ path: String) throws -> ResponseCache {
        var settings = StoreSettings(directory: path, capacityBytes: 4 << 20, segmentBytes: 1 << 20)
        settings.noteMilliseconds = Int(interval)
        let state = APICacheState(
            store: try ResponseStore(settings), sent: SentRequests(),
            settings: ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8))))
        return TestCache.other(state)
    }

    private var time: CacheTime { CacheTime(wall: Timestamp(milliseconds: now), monotonic: now) }

    /// Records written to the files: the position of the next one.
    private var position: Int {
        let writer = cache.store.writer
        return writer.serial.sync { Int(writer.position.segment) << 20 + writer.position.offset }
    }

    private func sent(_ target: String) throws -> StorableExchange {
        let head = TestCache.request(target)
        let finding = try cache.find(head)
        return StorableExchange(head, keys: finding.keys, found: finding.result.found)
    }

    private func recency() -> Recency {
        Recency(order: cache.state.sent.next(), isImported: false, requestTime: time.wall, responseTime: time.wall)
    }

    private func lines(_ isTagged: Bool) -> TestCache.Lines {
        [("Date", String(decoding: HTTPDate.format(now / 1000), as: UTF8.self)), ("X-Request-Id", "\(now)")]
            + (isTagged ? [("ETag", "\"\(version)\"")] : [])
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        let target = random.pick(Self.targets)
        switch random.below(100) {
        case ..<60: try request(target, isNew: false, &random)
        case ..<68: try request(target, isNew: true, &random)
        case ..<72: purge(target, isSoft: random.isTrue())
        case ..<75: evict()
        case ..<80: cache.store.flush()
        case ..<82: try restart()
        case ..<86: try check(crashed())
        default: try pass(random.pick([1, 300, 5_000, 20_000, 90_000]))
        }
    }

    /// Lets time pass. The writer writes all changed notes once in an interval.
    private mutating func pass(_ milliseconds: Int64) throws {
        let end = now + milliseconds
        while end >= notesWrittenAt + Self.interval {
            now = notesWrittenAt + Self.interval
            try check(crashed())
            try writeNotes()
        }
        now = end
    }

    private mutating func writeNotes() throws {
        let store = cache.store
        store.flush()
        let (waiting, before) = (store.statistics.notesWaiting, position)
        store.writer.writeNotesNow(store)
        let bytes = position - before
        try demand(waiting == 0 ? bytes == 0 : bytes <= RecordHeader.bytes * 2 + waiting * 32, "\(bytes) bytes for \(waiting) notes")
        noteWritten()
    }

    private mutating func noteWritten() {
        notesWrittenAt = now
        good = good.mapValues { Good(content: $0.content, confirmed: $0.confirmed, written: $0.confirmed) }
    }

    private mutating func request(_ target: String, isNew: Bool, _ random: inout SeededGenerator) throws {
        let request = try sent(target)
        guard let found = request.found, !isNew, let known = good[target] else { return store(target, request) }
        let content = String(decoding: found.content, as: UTF8.self)
        try demand(content == known.content, "\(target): \(content), not \(known.content)")
        try demand(found.metadata.responseTime.milliseconds <= known.confirmed, "\(target) is too young")
        let inserted = cache.store.statistics.inserted
        let wasStale = found.metadata.flags.contains(.markedStale)
        let tag = found.head[found.metadata.etag]
        let head = TestCache.response(304, lines(false) + [("ETag", String(decoding: tag, as: UTF8.self))])
        let result = cache.confirm(by: head, for: request, recency(), at: time)?.result
        try demand(result == .stored, "\(target): \(String(describing: result))")
        good[target]?.confirmed = now
        counts["confirmed", default: 0] += 1
        try demand(wasStale || cache.store.statistics.inserted == inserted, "\(target) was written again")
    }

    private mutating func store(_ target: String, _ request: StorableExchange) {
        version += 1
        let content = "{\"version\":\(version)}"
        let head = TestCache.response(200, lines(true))
        let whole = WholeResponse(head, cache.control(head), Array(content.utf8), isDecoded: false, recency())
        guard cache.store(whole, for: request, at: time).result == .stored else { return }
        good[target] = Good(content: content, confirmed: now, written: now)
        cache.store.flush()
        counts["stored", default: 0] += 1
    }

    private mutating func purge(_ target: String, isSoft: Bool) {
        guard let key = try? cache.find(TestCache.request(target)).result.found?.key else { return }
        if isSoft { _ = cache.store.markStale(cache.store.id(of: key)) } else { cache.store.remove(key.span) }
        if !isSoft { good[target] = nil }
        cache.store.flush()
        counts["purged", default: 0] += 1
    }

    /// Fills one segment, so that the oldest is evicted sometimes.
    private mutating func evict() {
        for _ in 0..<9 {
            version += 1
            let key = Array("filler-\(version)".utf8)
            cache.store.insert(
                NewItem(key: key, metadata: [], head: [], body: [UInt8](repeating: 1, count: 100_000), retention: .whenUsed))
        }
        cache.store.flush()
        for target in Self.targets where (try? cache.find(TestCache.request(target)).result.found) == nil { good[target] = nil }
    }

    /// An orderly stop loses nothing.
    private mutating func restart() throws {
        cache.state.close()
        cache = try Self.open(temporary.path)
        noteWritten()
        try check(cache)
        counts["restarted", default: 0] += 1
    }

    /// The cache after a crash at this moment.
    private mutating func crashed() throws -> ResponseCache {
        counts["crashed", default: 0] += 1
        let copy = TestTools.temporaryDirectory()
        TestTools.copyFiles(from: temporary.path, to: copy.path) { $0 != "lock" }
        return try withExtendedLifetime(copy) { try Self.open(copy.path) }
    }

    private mutating func check(_ other: ResponseCache) throws {
        for target in Self.targets {
            let found = try other.find(TestCache.request(target)).result.found
            let isEvicted = try cache.find(TestCache.request(target)).result.found == nil
            guard !isEvicted, let known = good[target] else {
                try demand(found == nil, "\(target) came back")
                good[target] = nil
                continue
            }
            guard let found else { throw ScheduleFailure("\(target) was lost") }
            try demand(String(decoding: found.content, as: UTF8.self) == known.content, "\(target) has other content")
            let confirmed = found.metadata.responseTime.milliseconds
            try demand(confirmed <= known.confirmed, "\(target) is \(confirmed - known.confirmed) ms too young")
            try demand(confirmed > known.written - Self.resolution, "\(target) is \(known.written - confirmed) ms too old")
        }
    }
}

@Suite("Confirmations in random schedules")
struct ConfirmationWalkTests {
    @Test("after a crash a response is as good as before, and at most one interval older", .slow)
    func walk() {
        var counts: [String: Int] = [:]
        let isDefault = RandomSchedules.run(10, steps: 200) { _ in
            try ConfirmationWalk()
        } step: {
            try $0.step(&$1)
        } end: {
            counts.merge($0.counts, uniquingKeysWith: +)
        }
        guard isDefault else { return }
        for name in ["confirmed", "stored", "purged", "restarted", "crashed"] { #expect((counts[name] ?? 0) > 20, "\(name)") }
    }
}
