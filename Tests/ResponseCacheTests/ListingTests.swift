// What is listed is what a look-up can find, exactly: held against each other in a random walk over all that stores and invalidates.

import CachePolicy
import CacheStore
import HTTPCore
import TestSupport
import Testing

@testable import ResponseCache

private struct ListingWalk {
    private static let targets = ["/a", "/a?x=1", "/a?x=1&y=1", "/a/1", "/a/1?x=2", "/b"]
    private static let languages = ["", "de", "fr"]
    private static let contents: [String?] = [nil, "1", "2"]

    let test: TestCache
    var random: SeededGenerator
    private(set) var counts = (listed: 0, hidden: 0)

    init(seed: UInt64, _ configure: @escaping (inout ResponseCacheSettings) -> Void) throws {
        random = SeededGenerator(seed: seed)
        test = try TestCache {
            $0.checksCollections = true
            configure(&$0)
        }
    }

    private mutating func pick<T>(_ from: [T]) -> T { from[Int.random(in: 0..<from.count, using: &random)] }

    private static func lines(_ user: String, _ language: String) -> TestCache.Lines {
        [("Host", "h")] + (user.isEmpty ? [] : [("X-User", user)]) + (language.isEmpty ? [] : [("Accept-Language", language)])
    }

    mutating func step() throws {
        test.now += pick([0, 1, 1_000])
        let target = pick(Self.targets)
        switch Int.random(in: 0..<100, using: &random) {
        case ..<80: try fetch(target)
        case ..<94:
            let groups = [("Cache-Group-Invalidation", "\"\(pick(["g", "h", "none"]))\"")]
            test.write(target, method: pick([.put, .post]), groups, withCollection: pick([true, false]))
        case ..<97: _ = test.take(target, Self.lines(pick(["", "u"]), pick(Self.languages)), response(), secondsAgo: pick([0, 2]))
        default: _ = test.cache.purge(.selection(EntrySelection(prefix: .init(target))), isSoft: pick([true, false]))
        }
    }

    private mutating func response() -> TestCache.Lines {
        var lines = [("Cache-Control", "max-age=60")]
        if pick([true, false]) { lines.append(("Vary", "Accept-Language")) }
        if pick([true, false, false]) { lines.append(("No-Vary-Search", pick(["params=(\"x\")", "params", "key-order"]))) }
        if pick([true, false]) { lines.append(("Cache-Groups", pick(["\"g\"", "\"g\", \"h\""]))) }
        return lines
    }

    private mutating func fetch(_ target: String) throws {
        let content = pick(Self.contents)
        let sent = try test.send(
            target, Self.lines(pick(["", "u"]), pick(Self.languages)), method: content == nil ? .get : .query, content: content)
        test.complete(sent, response())
    }

    /// All that the requests of this walk can find, in whichever of their places.
    private func findable() throws -> Set<StoredItemID> {
        var ids: Set<StoredItemID> = []
        for target in Self.targets {
            for user in ["", "u"] {
                for language in Self.languages {
                    for content in Self.contents { ids.formUnion(try findable(target, Self.lines(user, language), content)) }
                }
            }
        }
        return ids
    }

    private func findable(_ target: String, _ lines: TestCache.Lines, _ content: String?) throws -> [StoredItemID] {
        let cache = test.cache
        let head = TestCache.request(target, lines, method: content == nil ? .get : .query)
        var keys = [try cache.find(head, content: content.map { Array($0.utf8) }).keys]
        if content == nil {
            keys.append(cache.keysOfGet(for: head))
            if let said = cache.variances?.variance(of: cache.pathKey(of: head.pathAndQuery, for: head)) {
                keys.append(cache.keys(for: head, target: Array(head.pathAndQuery), said, unknown: nil))
            }
        }
        return try keys.compactMap { try cache.find(head, at: $0).found.map { cache.store.id(of: $0.key) } }
    }

    mutating func compare() throws -> Bool {
        var all = 0
        test.cache.store.visitAll { if StoredMetadata.kind(of: $0.item.metadata) == .response { all += 1 } }
        let listed = Set(test.cache.list(EntrySelection(), limit: 1_000).entries.map(\.id.item))
        counts.listed += listed.count
        counts.hidden += all - listed.count
        return listed == (try findable())
    }
}

@Suite("The cache: listing")
struct ListingTests {
    @Test(
        "random walk: exactly what a look-up can find is listed", .slow,
        arguments: [
            { _ in },
            {
                $0.isKeyedByHost = true
                $0.policy.keyFields = ["accept-language", "x-other"]
            },
        ] as [@Sendable (inout ResponseCacheSettings) -> Void])
    func walk(configure: @escaping @Sendable (inout ResponseCacheSettings) -> Void) throws {
        var walk = try ListingWalk(seed: 7, configure)
        for step in 0..<1_500 {
            try walk.step()
            // Looking takes what is invalid out of the store: several steps come between.
            guard try step % 5 != 0 || walk.compare() else {
                Issue.record("step \(step)")
                return
            }
        }
        #expect(walk.counts.listed > 1_000 && walk.counts.hidden > 100)
    }

    @Test("what was stored for another upstream, or under other key fields, is not listed")
    func settings() throws {
        let test = try TestCache()
        try test.fetch("/a", [("X-User", "u")])
        var settings = test.cache.settings
        func listed() -> Int {
            let shared = SharedCacheState(store: test.cache.store, sent: SentRequests(), settings: settings)
            return TestCache.other(shared).list(EntrySelection(), limit: 10).entries.count
        }
        #expect(listed() == 1)
        settings.upstream = UpstreamOrigin(Array("http://other.test".utf8))
        #expect(listed() == 0)
        settings = test.cache.settings
        settings.policy.keyFields = ["x-more"]
        #expect(listed() == 0)
    }

    @Test("page by page, in order, also where what a page ended with is gone")
    func pages() throws {
        let test = try TestCache()
        for number in 0..<10 { try test.fetch("/\(number)") }
        var (targets, after): ([String], EntryPlace?) = ([], nil)
        repeat {
            let page = test.cache.list(EntrySelection(), after: after, limit: 3)
            targets += page.entries.map(\.key.readableTarget)
            after = page.next
            if let after { _ = test.cache.purge(.id(after.id), isSoft: false) }
        } while after != nil
        #expect(targets == (0..<10).map { "/\($0)" })
        #expect(EntryPlace("nonsense") == nil && EntryPlace("\(String(repeating: "0", count: 32))~/a")?.target == "/a")
    }
}
