// Tests of purging responses of an API that is not currently served. When it is served again, purged responses must stay purged.

import CachePolicy
import CacheStore
import HTTPCore
import TestSupport
import Testing

@testable import ResponseCache

@Suite("The cache: purging responses of unserved APIs")
struct UnservedAPITests {
    private static let fresh = ("Cache-Control", "max-age=60")

    private func store(_ target: String, tag: String, in cache: ResponseCache, _ test: TestCache) throws {
        #expect(try test.store(target, [Self.fresh, ("Cache-Tag", tag)], in: cache) == .allowed)
    }

    private func isStale(_ target: String, in cache: ResponseCache) throws -> Bool? {
        try cache.find(TestCache.request(target), content: nil).result.found?.metadata.flags.contains(.markedStale)
    }

    private func selection(_ cache: ResponseCache, target: String) -> PurgeSelection {
        .selection(EntrySelection(target: .init(target, cache.state.settings.arguments)))
    }

    /// Two APIs have stored responses. The second one is not served when the purge runs.
    /// - Returns: for each response of the second API, whether it is stale; nil if it was removed.
    private func left(isSoft: Bool = false, _ select: (ResponseCache) -> PurgeSelection) throws -> (count: Int, a: Bool?, b: Bool?) {
        let test = try TestCache()
        let (orders, users) = (test.other(named: "orders"), test.other(named: "users"))
        try store("/a/1?x=1", tag: "one", in: orders, test)
        try store("/a/1?x=1", tag: "one", in: users, test)
        try store("/b/1", tag: "two", in: users, test)
        let count = CacheGroup([orders], meaning: [0]).purge([select(orders)], isSoft: isSoft)
        return (count, try isStale("/a/1?x=1", in: users), try isStale("/b/1", in: users))
    }

    @Test("a purge by prefix, tag or target includes unserved APIs; other arguments of the target become stale")
    func allAPIs() throws {
        #expect(try left { _ in .selection(EntrySelection(prefix: .init("/a"))) } == (1, nil, false))
        #expect(try left { _ in .selection(EntrySelection(tag: "one")) } == (1, nil, false))
        #expect(try left { _ in .selection(EntrySelection(tag: "two")) } == (0, false, nil))
        #expect(try left { selection($0, target: "/a/1?x=1") } == (1, nil, false))
        #expect(try left { selection($0, target: "/a/1?x=2") } == (0, true, false))
        #expect(try left(isSoft: true) { _ in .selection(EntrySelection(prefix: .init("/a"))) } == (1, true, false))
        #expect(try left(isSoft: true) { _ in .selection(EntrySelection(tag: "two")) } == (0, false, true))
    }

    @Test("a purge by tag includes responses of a single API stored under another name")
    func formerName() throws {
        let test = try TestCache()
        let former = test.other(named: "users")
        try store("/a", tag: "one", in: former, test)
        #expect(test.cache.purge(.selection(EntrySelection(tag: "one")), isSoft: false) == 0)
        #expect(try isStale("/a", in: former) == nil)
    }

    @Test("a purge by API names removes responses of those APIs and no others", arguments: ["users", "else"])
    func named(name: String) throws {
        let test = try TestCache()
        let (orders, users) = (test.other(named: "orders"), test.other(named: "users"))
        try store("/a", tag: "one", in: orders, test)
        try store("/a", tag: "one", in: users, test)
        #expect(CacheGroup([orders], meaning: [], named: [name]).purge([.all], isSoft: false) == 0)
        #expect(try isStale("/a", in: users) == (name == "users" ? nil : false))
        #expect(try isStale("/a", in: orders) == false)
    }

    @Test("a purge does not remove responses of other served APIs that it did not select")
    func othersStay() throws {
        let test = try TestCache()
        let (orders, users) = (test.other(named: "orders"), test.other(named: "users"))
        try store("/a", tag: "one", in: orders, test)
        try store("/a", tag: "one", in: users, test)
        let wanted = PurgeSelection.selection(EntrySelection(prefix: .init("/a")))
        #expect(CacheGroup([orders, users], meaning: [0]).purge([wanted, wanted], isSoft: false) == 1)
        #expect(try isStale("/a", in: users) == false)
    }
}
