// Tests that a purge removes the named responses in all variants and partitions, and records that they are gone.

import CachePolicy
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: purging")
struct PurgingTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    private func filled() throws -> TestCache {
        let test = try TestCache()
        try test.fetch("/a?x=1", [], [Self.fresh, ("Surrogate-Key", "one two")])
        try test.fetch("/a?x=1", [("X-User", "u")], [Self.fresh, ("Vary", "Accept")])
        try test.fetch("/a/b", [], [Self.fresh, ("Cache-Tag", "two")])
        try test.fetch("/n?y=1", [], [Self.fresh, ("No-Vary-Search", "params")])
        return test
    }

    private func selection(_ test: TestCache, target: String) -> PurgeSelection {
        .selection(EntrySelection(target: .init(target, test.cache.state.settings.arguments)))
    }

    @Test("a purge by target, prefix, tag or of everything counts the responses that clients could get")
    func selections() throws {
        func left(_ select: (TestCache) -> PurgeSelection) throws -> (Int, [String]) {
            let test = try filled()
            let count = test.cache.purge(select(test), isSoft: false)
            return (count, test.listed)
        }
        #expect(try left { selection($0, target: "/a?x=%31") } == (2, ["/a/b", "/n"]))
        #expect(try left { selection($0, target: "/n?y=7") } == (1, ["/a/b", "/a?x=1", "/a?x=1"]))
        #expect(try left { _ in .selection(EntrySelection(prefix: .init("/a"))) } == (3, ["/n"]))
        #expect(try left { _ in .selection(EntrySelection(tag: "two")) } == (2, ["/a?x=1", "/n"]))
        #expect(try left { _ in .all } == (4, []))
        #expect(try left { _ in .selection(EntrySelection(tag: "none")) }.0 == 0)
    }

    @Test(
        "responses over https, with host and key fields, of one or several APIs, are purged, also after a write",
        arguments: [(false, false), (true, false), (false, true), (true, true)], [false, true])
    func schemes(_ settings: (isKeyedByMore: Bool, isOneOfSeveral: Bool), isSoft: Bool) throws {
        let test = try TestCache(named: settings.isOneOfSeveral ? "orders" : nil) {
            guard settings.isKeyedByMore else { return }
            ($0.isKeyedByHost, $0.policy.keyFields) = (true, ["x-key", ConnectionField.scheme])
        }
        let requests: [TestCache.Lines] = [[], [("X-User", "u")]].flatMap { (lines: TestCache.Lines) in
            [lines, lines + [(ConnectionField.scheme, "https")]].map { [("Host", "h"), ("X-Key", "k")] + $0 }
        }
        func fill() throws {
            for lines in requests {
                for target in ["/a", "/a/b?x=1"] {
                    #expect(try test.fetch(target, lines, [Self.fresh, ("Surrogate-Key", "one")]) == .allowed)
                }
            }
        }
        try fill()
        test.now += 1
        test.write("/a", from: [("Host", "h"), ("X-Key", "k")])
        #expect(test.listed == ["/a/b?x=1", "/a/b?x=1", "/a/b?x=1", "/a/b?x=1"])
        for select in [
            { .selection(EntrySelection(tag: "one")) }, { .selection(EntrySelection(prefix: .init("/a"))) }, { .all },
        ] as [() -> PurgeSelection] {
            test.now += 1
            try fill()
            #expect(test.listed.count == 8 && test.cache.purge(select(), isSoft: isSoft) == 8)
            for lines in requests {
                for target in ["/a", "/a/b?x=1"] {
                    let found = try test.found(target, lines)
                    #expect(found.map { $0.metadata.flags.contains(.markedStale) } == (isSoft ? true : nil))
                }
            }
        }
        #expect(test.cache.purge(selection(test, target: "/a"), isSoft: isSoft) == (isSoft ? 4 : 0))
    }

    @Test("a purge by tag removes all responses with the tag, including those stored under other settings")
    func unfound() throws {
        let test = try TestCache()
        try test.fetch("/a", [], [Self.fresh, ("Cache-Tag", "one")])
        try test.fetch("/b", [], [Self.fresh, ("Cache-Tag", "two")])
        var settings = test.cache.state.settings
        settings.policy.keyFields = ["x-key"]
        let other = TestCache.other(APICacheState(beside: test.cache.state, settings: settings))
        #expect(other.purge(.selection(EntrySelection(tag: "one")), isSoft: false) == 0)
        #expect(test.listed == ["/b"])
    }

    @Test("a response can be purged by its ID; a soft purge keeps it as stale")
    func one() throws {
        let test = try TestCache()
        try test.fetch("/a")
        let id = try #require(test.cache.list(EntrySelection(), limit: 1).entries.first?.id)
        #expect(try #require(EntryID(id.description)) == id)
        #expect(test.cache.purge(.id(id), isSoft: true) == 1)
        #expect(test.cache.entry(id)?.metadata.flags.contains(.markedStale) == true)
        #expect(try test.found("/a")?.metadata.flags.contains(.markedStale) == true)
        #expect(test.cache.purge(.id(id), isSoft: false) == 1)
        #expect(test.cache.purge(.id(id), isSoft: false) == 0 && test.cache.entry(id) == nil)
    }

    @Test("a purge also removes the record that the resource is gone, before the next response is stored")
    func gone() throws {
        let test = try TestCache()
        try test.fetch("/a")
        test.now += 1_000
        #expect(test.lose(try test.send("/a"), status: 410))
        let id = try #require(test.cache.list(EntrySelection(), limit: 1).entries.first?.id)
        _ = test.cache.purge(.id(id), isSoft: false)
        #expect(test.take("/a", secondsAgo: 60) == .stored)
        #expect(try test.cache.gone(beside: try #require(try test.found("/a"))) == nil)
    }
}
