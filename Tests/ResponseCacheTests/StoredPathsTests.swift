// Tests that a write leaves a mark only where a response is stored or a request is pending. Writes to other targets thus never evict
// anything.

import CachePolicy
import CacheStore
import HTTPCore
import TestSupport
import Testing

@testable import ResponseCache

@Suite("The cache: writes to targets that are not stored")
struct StoredPathsTests {
    private static let user = [("X-User", "u")]
    private static let fresh = ("Cache-Control", "max-age=600")

    private func restarted(_ test: TestCache) -> ResponseCache {
        let state = APICacheState(store: test.cache.store, sent: SentRequests(), settings: test.cache.state.settings)
        while !state.storeMemory.paths.isComplete {}
        return ResponseCache(state, mayWait: true) { test.time }
    }

    private func write(_ target: String, _ cache: ResponseCache, _ test: TestCache, group: String = "none") {
        let response = TestCache.response(200, [("Cache-Group-Invalidation", "\"\(group)\"")])
        cache.invalidate(after: response, to: TestCache.request(target, method: .post), withCollection: true, at: test.time.wall)
    }

    @Test("writes to sixty thousand unstored targets evict no stored response, also after a restart", .slow)
    func crowd() throws {
        let test = try TestCache { $0.checksCollections = true }
        let content = "\"" + String(repeating: "x", count: 20_000) + "\""
        for number in 0..<300 { try test.fetch("/kept/\(number)", Self.user, [Self.fresh], content) }
        test.cache.store.flush()
        let before = test.cache.store.statistics
        #expect(test.listed.count == 300 && before.evicted == 0)
        for cache in [test.cache, restarted(test)] {
            for number in 0..<30_000 { write("/none/\(number)?x", cache, test, group: "g\(number)") }
        }
        test.cache.store.flush()
        #expect(test.listed.count == 300 && test.cache.store.statistics.inserted == before.inserted)
    }

    @Test(
        "a write invalidates responses stored in any partition, host, variant, content or arguments, with groups and collections",
        arguments: [false, true])
    func stored(isRestarted: Bool) throws {
        let test = try TestCache {
            ($0.checksCollections, $0.isKeyedByHost, $0.policy.keyFields) = (true, true, [ConnectionField.scheme])
        }
        let https = Self.user + [(ConnectionField.scheme, "https")]
        try test.fetch("/user", https)
        try test.fetch("/variant", Self.user, [Self.fresh, ("Vary", "Accept-Language")])
        try test.fetch("/said?x=1", Self.user, [Self.fresh, ("No-Vary-Search", "params")])
        test.complete(try test.send("/content", Self.user, method: .query, content: "1"), [Self.fresh])
        try test.fetch("/list?page=2", Self.user)
        try test.fetch("/member", Self.user, [Self.fresh, ("Cache-Groups", "\"g\"")])
        let cache = isRestarted ? restarted(test) : test.cache
        test.now += 1
        for target in ["/user", "/variant", "/said?x=9", "/content", "/list/7"] { write(target, cache, test, group: "g") }
        #expect(cache.list(EntrySelection(), limit: 10).entries.isEmpty)
        #expect(try cache.find(TestCache.request("/user", https)).result.found == nil)
        let query = TestCache.request("/content", Self.user, method: .query)
        #expect(try cache.find(query, content: Array("1".utf8)).result.found == nil)
        #expect(try cache.find(TestCache.request("/list?page=2", Self.user)).result.found == nil)
    }

    @Test("a write prevents storing of responses in progress, also keyed by content, and importing of earlier archived ones")
    func inFlight() throws {
        let test = try TestCache { $0.checksCollections = true }
        let sent = try [
            test.send("/a", Self.user), test.send("/a", [(ConnectionField.scheme, "https")]), test.send("/a", method: .query, content: "1"),
        ]
        let entries = test.cache.store.statistics.entries
        test.now += 1
        write("/a", test.cache, test)
        #expect(test.cache.store.statistics.entries == entries)
        for one in sent { #expect(test.complete(one, [Self.fresh]) == .forbidden(.invalidated)) }
        #expect(test.take("/a", [], [Self.fresh], secondsAgo: 60) == .invalidated)
        #expect(try test.fetch("/a", Self.user, [Self.fresh]) == .allowed)
    }

    @Test("a write answered by a login page prevents storing of responses in progress, and marks nothing")
    func ambiguousWrite() throws {
        let test = try TestCache()
        let sent = try test.send("/a", Self.user)
        let inserted = test.cache.store.statistics.inserted
        test.now += 1
        test.write("/a", [("Location", "/login")], status: 302)
        // Only the time of the last redirected write is stored.
        #expect(test.cache.store.statistics.inserted == inserted + 1)
        #expect(test.complete(sent, [Self.fresh]) == .forbidden(.invalidated))
        #expect(try test.fetch("/a", Self.user, [Self.fresh]) == .allowed)
        #expect(try test.found("/a", Self.user)?.metadata.flags.contains(.markedStale) == false)
    }

    private struct Walk {
        private static let targets = ["/a", "/a?x=1", "/b", "/b/1"]
        private static let requests: [TestCache.Lines] = [[], StoredPathsTests.user, [(ConnectionField.scheme, "https")]]

        let tests: StoredPathsTests
        let test: TestCache
        var cache: ResponseCache
        var underWay: [(sent: TestCache.Sent, number: Int)] = []
        var lastWrites: [String: Int] = [:]
        var number = 0

        init(_ tests: StoredPathsTests) throws {
            self.tests = tests
            test = try TestCache { $0.checksCollections = true }
            cache = test.cache
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            number += 1
            test.now += random.pick([0, 0, 1, 1_000, -500])
            let (target, lines, isQuery) = (random.pick(Self.targets), random.pick(Self.requests), random.isTrue(oneIn: 4))
            switch random.below(100) {
            case ..<40:
                let sent = try test.send(target, lines, method: isQuery ? .query : .get, content: isQuery ? "1" : nil, by: cache)
                underWay.append((sent, number))
            case ..<75:
                guard !underWay.isEmpty else { break }
                let (sent, number) = underWay.remove(at: random.below(underWay.count))
                let vary = random.isTrue() ? [("Vary", "Accept-Language")] : []
                test.complete(sent, [StoredPathsTests.fresh] + vary, "\(number)", by: cache)
            case ..<90:
                tests.write(target, cache, test)
                lastWrites[target] = number
            case ..<92:
                // No fetch outlives the process.
                (cache, underWay) = (tests.restarted(test), [])
            default:
                let head = TestCache.request(target, lines, method: isQuery ? .query : .get)
                guard let found = try cache.find(head, content: isQuery ? Array("1".utf8) : nil).result.found else { break }
                let asked = Int(String(decoding: found.content, as: UTF8.self)) ?? 0
                try demand(asked > lastWrites[target] ?? 0, target)
            }
        }
    }

    @Test("random schedules: no response requested before a successful write to its target is found", .slow)
    func walk() {
        RandomSchedules.run(9, steps: 1_000) { _ in
            try Walk(self)
        } step: {
            try $0.step(&$1)
        }
    }
}
