// Tests that the list has exactly the responses that look-ups can find, in random schedules of storing and invalidating.

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
    private static let tags = ["t", "u"]

    let test: TestCache
    private(set) var counts = (listed: 0, hidden: 0, purged: 0)

    init(_ configure: @escaping (inout ResponseCacheSettings) -> Void) throws {
        test = try TestCache {
            $0.checksCollections = true
            configure(&$0)
        }
    }

    private static func lines(_ user: String, _ language: String, isSecure: Bool) -> TestCache.Lines {
        [("Host", "h")] + (user.isEmpty ? [] : [("X-User", user)]) + (language.isEmpty ? [] : [("Accept-Language", language)])
            + (isSecure ? [(ConnectionField.scheme, "https")] : [])
    }

    /// Fields of a random request of this schedule.
    private func lines(_ random: inout SeededGenerator) -> TestCache.Lines {
        Self.lines(random.pick(["", "u"]), random.pick(Self.languages), isSecure: random.isTrue())
    }

    mutating func step(_ random: inout SeededGenerator) throws {
        test.now += random.pick([0, 1, 1_000])
        let target = random.pick(Self.targets)
        switch random.below(100) {
        case ..<80: try fetch(target, &random)
        case ..<92:
            let groups = [("Cache-Group-Invalidation", "\"\(random.pick(["g", "h", "none"]))\"")]
            // The write uses http or https.
            let lines = random.isTrue() ? [("Host", "h"), (ConnectionField.scheme, "https")] : [("Host", "h")]
            test.write(target, method: random.pick([.put, .post]), from: lines, groups, withCollection: random.isTrue())
        case ..<95: _ = test.take(target, lines(&random), response(&random), secondsAgo: random.pick([0, 2]))
        default: try purge(target, &random)
        }
        // Look-ups remove invalid responses, so several steps pass between comparisons.
        if random.isTrue(oneIn: 5) { try demand(compare()) }
    }

    private func response(_ random: inout SeededGenerator) -> TestCache.Lines {
        var lines = [("Cache-Control", "max-age=60")]
        if random.isTrue() { lines.append(("Vary", "Accept-Language")) }
        if random.pick([true, false, false]) { lines.append(("No-Vary-Search", random.pick(["params=(\"x\")", "params", "key-order"]))) }
        if random.isTrue() { lines.append(("Cache-Groups", random.pick(["\"g\"", "\"g\", \"h\""]))) }
        if random.isTrue() { lines.append(("Cache-Tag", random.pick(Self.tags))) }
        return lines
    }

    /// Purges, and checks that purged responses are gone or stale, and all others unchanged.
    private mutating func purge(_ target: String, _ random: inout SeededGenerator) throws {
        let (tag, isSoft) = (random.pick(Self.tags), random.isTrue())
        let isTagged = { (found: FoundResponse) in
            StoredHead.parse(found.head.span).map { CacheTags.tags(of: $0.fields).contains(tag) } ?? false
        }
        let selections: [(PurgeSelection, (FoundResponse) -> Bool)] = [
            (.selection(EntrySelection(tag: tag)), isTagged),
            (
                .selection(EntrySelection(prefix: .init(target))),
                { StoredKey($0.key)?.target.starts(with: Array(target.utf8)) ?? false }
            ),
            (.all, { _ in true }),
        ]
        let (selection, isMeant) = selections[random.pick([0, 0, 0, 0, 0, 1, 1, 1, 2])]
        let before = try found()
        let meant = before.filter { isMeant($0.value) }
        try demand(test.cache.purge(selection, isSoft: isSoft) == meant.count)
        counts.purged += meant.count
        let after = try found()
        for (id, response) in before where meant[id] == nil || isSoft {
            let isStale = response.metadata.flags.contains(.markedStale) || meant[id] != nil
            try demand(after[id]?.metadata.flags.contains(.markedStale) == isStale)
        }
        try demand(isSoft || after.keys.allSatisfy { meant[$0] == nil })
        // Every record with the tag is removed, even one that no look-up finds.
        if case .selection(let entries) = selection, entries.tag != nil, !isSoft {
            var isLeft = false
            test.cache.store.visitAll { listed in
                guard let key = StoredKey(Array(listed.key)), let entry = StoredEntry(listed, Array(listed.key), key) else { return }
                if entry.tags.contains(tag) { isLeft = true }
            }
            try demand(!isLeft)
        }
    }

    private func fetch(_ target: String, _ random: inout SeededGenerator) throws {
        let content = random.pick(Self.contents)
        let sent = try test.send(target, lines(&random), method: content == nil ? .get : .query, content: content)
        test.complete(sent, response(&random))
    }

    /// All responses that requests of this schedule can find, under all of their keys.
    private func found() throws -> [StoredItemID: FoundResponse] {
        var all: [StoredItemID: FoundResponse] = [:]
        for target in Self.targets {
            for (user, isSecure) in [("", false), ("u", false), ("", true), ("u", true)] {
                for language in Self.languages {
                    for content in Self.contents {
                        for one in try found(target, Self.lines(user, language, isSecure: isSecure), content) {
                            all[test.cache.store.id(of: one.key)] = one
                        }
                    }
                }
            }
        }
        return all
    }

    private func found(_ target: String, _ lines: TestCache.Lines, _ content: String?) throws -> [FoundResponse] {
        let cache = test.cache
        let head = TestCache.request(target, lines, method: content == nil ? .get : .query)
        var keys = [try cache.find(head, content: content.map { Array($0.utf8) }).keys]
        if content == nil {
            keys.append(cache.keysOfGet(for: head))
            if let said = cache.variances?.variance(of: cache.pathKey(of: head.pathAndQuery, for: head)) {
                keys.append(cache.keys(for: head, target: Array(head.pathAndQuery), said, unknown: nil))
            }
        }
        return try keys.compactMap { try cache.findExact(head, at: $0).found }
    }

    mutating func compare() throws -> Bool {
        var all = 0
        test.cache.store.visitAll { if StoredMetadata.kind(of: $0.item.metadata.span) == .response { all += 1 } }
        let listed = Set(test.cache.list(EntrySelection(), limit: 1_000).entries.map(\.id.item))
        counts.listed += listed.count
        counts.hidden += all - listed.count
        return listed == Set(try found().keys)
    }
}

@Suite("The cache: listing")
struct ListingTests {
    @Test(
        "random schedules: exactly the responses that lookups can find are listed, and each purge removes what it names", .slow,
        arguments: [
            { _ in },
            {
                $0.isKeyedByHost = true
                $0.policy.keyFields = ["accept-language", "x-other"]
            },
            { $0.policy.keyFields = [ConnectionField.scheme, "accept-language"] },
        ] as [@Sendable (inout ResponseCacheSettings) -> Void])
    func walk(configure: @escaping @Sendable (inout ResponseCacheSettings) -> Void) {
        var counts = (listed: 0, hidden: 0, purged: 0)
        let isWhole = RandomSchedules.run(3, steps: 500) { _ in
            try ListingWalk(configure)
        } step: {
            try $0.step(&$1)
        } end: { walk in
            counts = (counts.listed + walk.counts.listed, counts.hidden + walk.counts.hidden, counts.purged + walk.counts.purged)
        }
        #expect(!isWhole || (counts.listed > 1_000 && counts.hidden > 100 && counts.purged > 100), "\(counts)")
    }

    @Test("responses stored for another upstream or other key fields are not listed")
    func settings() throws {
        let test = try TestCache()
        try test.fetch("/a", [("X-User", "u")])
        var settings = test.cache.settings
        func listed() -> Int {
            let shared = APICacheState(store: test.cache.store, sent: SentRequests(), settings: settings)
            return TestCache.other(shared).list(EntrySelection(), limit: 10).entries.count
        }
        #expect(listed() == 1)
        settings.upstream = UpstreamOrigin(Array("http://other.test".utf8))
        #expect(listed() == 0)
        settings = test.cache.settings
        settings.policy.keyFields = ["x-more"]
        #expect(listed() == 0)
    }

    @Test("pages are listed in order, even if the last entry of a page was removed")
    func pages() throws {
        let test = try TestCache()
        for number in 0..<10 { try test.fetch("/\(number)") }
        var (targets, after): ([String], EntryCursor?) = ([], nil)
        repeat {
            let page = test.cache.list(EntrySelection(), after: after, limit: 3)
            targets += page.entries.map(\.key.readableTarget)
            after = page.next
            if let after { _ = test.cache.purge(.id(after.id), isSoft: false) }
        } while after != nil
        #expect(targets == (0..<10).map { "/\($0)" })
        #expect(EntryCursor("nonsense") == nil && EntryCursor("\(String(repeating: "0", count: 32))~/a")?.target == "/a")
    }

    @Test("pages of long targets with equal beginnings list each response once, and their positions are short")
    func longTargets() throws {
        let test = try TestCache()
        let targets = ["/a", "/b"] + (0..<10).map { "/c?d=" + String(repeating: "word", count: 800) + "\($0)" }
        for target in targets { try test.fetch(target) }
        var (found, after): ([String], EntryCursor?) = ([], nil)
        repeat {
            let page = test.cache.list(EntrySelection(), after: after, limit: 1)
            found += page.entries.map(\.key.readableTarget)
            if let next = page.next {
                #expect(next.text.utf8.count <= 161 && EntryCursor(next.text) == next)
            }
            after = page.next.flatMap { EntryCursor($0.text) }
        } while after != nil
        #expect(found.sorted() == targets && Array(found.prefix(2)) == ["/a", "/b"])
    }
}
