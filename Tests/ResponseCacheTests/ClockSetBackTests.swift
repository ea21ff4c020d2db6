// Tests of a wall clock that is set back, or was ahead for a while: invalidations stay in effect, and storing continues.

import CachePolicy
import HTTPCore
import Reactor
import TakeOver
import Testing

@testable import ResponseCache

@Suite("The cache: a clock that is set back")
struct ClockSetBackTests {
    private static let user = [("X-User", "u")]
    private static let fresh = [("Cache-Control", "max-age=600")]

    /// Events that invalidate the stored response of /a, or follow from its invalidation.
    private static let changes: [(name: String, make: @Sendable (TestCache) -> Void)] = [
        ("a write", { $0.write("/a") }),
        (
            "a mark of another node",
            { test in
                let head = TestCache.request("/a")
                let key = ResponseCache.invalidationKey(test.cache.keysOfGet(for: head).credentialFree)
                test.cache.state.follow(mark: key, at: test.time.wall)
            }
        ),
    ]

    @Test("a response stored before is no longer used, in any partition; a new fetch is stored", arguments: changes.indices)
    func stored(change: Int) throws {
        let test = try TestCache()
        try test.fetch("/a", Self.user, Self.fresh, "\"before\"")
        test.now -= 5_000
        Self.changes[change].make(test)
        #expect(try test.found("/a", Self.user) == nil)
        #expect(try test.fetch("/a", Self.user, Self.fresh, "\"after\"") == .allowed)
        #expect(try test.text("/a", Self.user) == "\"after\"")
        test.now += 10_000
        #expect(try test.text("/a", Self.user) == "\"after\"")
    }

    @Test("a response in progress when the clock is set back is not stored", arguments: [false, true])
    func inFlight(isPurge: Bool) throws {
        let test = try TestCache()
        let sent = try test.send("/a")
        test.now -= 5_000
        if isPurge { test.cache.beginPurge(at: test.time.wall) } else { test.write("/a") }
        #expect(test.complete(sent, Self.fresh) == .forbidden(.invalidated))
        #expect(try test.fetch("/a", [], Self.fresh) == .allowed)
    }

    @Test("a purge or write while the clock was ahead does not prevent later storing", arguments: [false, true])
    func ahead(isPurge: Bool) throws {
        let test = try TestCache()
        test.now += 7_200_000
        if isPurge { test.cache.beginPurge(at: test.time.wall) } else { test.write("/a") }
        test.now -= 7_200_000
        #expect(try test.fetch("/a", [], Self.fresh) == .allowed)
        #expect(try test.found("/a") != nil)
        let found = try #require(try test.found("/a"))
        #expect(Freshness.currentAge(of: found.metadata, now: test.time.wall) == 0)
    }

    @Test("after a restart, a write while the clock was ahead prevents storing of the first response only")
    func restarted() throws {
        let test = try TestCache()
        try test.fetch("/a")
        test.now += 7_200_000
        test.write("/a")
        test.now -= 7_200_000
        let state = APICacheState(store: test.cache.store, sent: SentRequests(), settings: test.cache.state.settings)
        let times = (0..<2).map { _ in state.times.ofRequest(test.time.wall) }
        #expect(times == [test.time.wall, test.time.wall])
        let cache = TestCache.other(state)
        let key = ResponseCache.invalidationKey(cache.keysOfGet(for: TestCache.request("/a")).credentialFree)
        #expect(cache.isMarkedNow(key, since: times[0]))
        #expect(!cache.isMarkedNow(key, since: state.times.ofRequest(test.time.wall)))
    }

    @Test(
        "a write after a restart invalidates older responses in any partition and collection, even if the clock lags",
        arguments: [false, true])
    func writtenAfterRestart(isClosed: Bool) throws {
        let test = try TestCache { $0.checksCollections = true }
        try test.fetch("/list", Self.user, Self.fresh)
        test.now += 20_000
        try test.fetch("/list/1", Self.user, Self.fresh)
        test.now -= 3_600_000
        if isClosed { test.cache.state.storeMemory.times.writeExactTime() }
        let state = APICacheState(store: test.cache.store, sent: SentRequests(), settings: test.cache.state.settings)
        let cache = ResponseCache(state, mayWait: true) { test.time }
        let write = TestCache.request("/list/1", method: .put)
        cache.invalidate(after: TestCache.response(200, []), to: write, withCollection: true, at: test.time.wall)
        for target in ["/list", "/list/1"] {
            #expect(try cache.find(TestCache.request(target, Self.user)).result.found == nil, "\(target)")
        }
        // Storing continues.
        let sent = state.times.ofRequest(test.time.wall)
        let key = ResponseCache.invalidationKey(cache.keysOfGet(for: TestCache.request("/list/1")).credentialFree)
        #expect(!cache.isMarkedNow(key, since: sent))
    }

    @Test("after a take-over, a purge by either process does not give later requests a time in the future")
    func takenOver() throws {
        let test = try TestCache()
        let old = test.cache.state
        try test.fetch("/a")
        let new = APICacheState(store: old.store, isInherited: true, sent: SentRequests(), settings: old.settings)
        let changes = Mutex<[PassedChange]>([])
        _ = old.pass { change in changes.withLock { $0.append(change) } }
        new.storeMemory.times.readAgain()
        test.now += 1_000
        try test.fetch("/b")
        test.cache.beginPurge(at: test.time.wall)
        for change in changes.withLock({ $0 }) { new.follow(change) }
        ResponseCache(new, mayWait: true) { test.time }.beginPurge(at: test.time.wall)
        for state in [old, new] { #expect(state.times.ofRequest(test.time.wall).milliseconds == test.now + 1) }
    }

    @Test("a cache replaced by a reload stores nothing more")
    func replaced() throws {
        let test = try TestCache()
        let sent = try test.send("/a")
        test.cache.state.replace()
        #expect(test.complete(sent, Self.fresh) == .forbidden(.storeRefused))
        #expect(try test.found("/a") == nil)
    }
}
