// Tests of the basis of a finding: while it holds, another look-up would find the remembered response. Each row is a change that could make
// the response wrong. The change happens in another cache on the store, as on another shard.

import CachePolicy
import CacheStore
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: the basis of a finding")
struct FindingBasisTests {
    struct Row: CustomTestStringConvertible {
        let testDescription: String
        let user: String?
        let holds: Bool
        let change: @Sendable (TestCache) throws -> Void

        /// - Parameter user: the user who owns the response.
        init(_ sentence: String, of user: String? = nil, holds: Bool = false, _ change: @escaping @Sendable (TestCache) throws -> Void) {
            (testDescription, self.user, self.holds, self.change) = (sentence, user, holds, change)
        }
    }

    private static let stored = [("Cache-Control", "max-age=60"), ("ETag", "\"1\""), ("Cache-Groups", "\"g\""), ("Cache-Tag", "t")]
    private static let target = "/list?x=1"

    private static func purge(_ selection: EntrySelection) -> @Sendable (TestCache) -> Void {
        { _ = $0.cache.purge(.selection(selection), isSoft: false) }
    }

    static let rows = [
        Row("a later response is stored") { try $0.fetch(target, [], stored, "2") },
        Row("a later response with Vary is stored") { try $0.fetch(target, [], stored + [("Vary", "Accept")], "2") },
        Row("purged by its target", purge(EntrySelection(target: .init(target, ArgumentTable())))),
        Row("purged by a prefix", purge(EntrySelection(prefix: .init("/li")))),
        Row("purged by its tag", purge(EntrySelection(tag: "t"))),
        Row("everything is purged") { _ = $0.cache.purge(.all, isSoft: false) },
        Row("everything is soft-purged") { _ = $0.cache.purge(.all, isSoft: true) },
        Row("soft-purged by its tag") { _ = $0.cache.purge(.selection(EntrySelection(tag: "t")), isSoft: true) },
        Row("purged by its id") { test in
            _ = test.cache.list(EntrySelection(), limit: 1).entries.first.map { test.cache.purge(.id($0.id), isSoft: false) }
        },
        Row("a write to its target") { $0.write(target) },
        Row("a write to its target, for a user's own response", of: "u") { $0.write(target) },
        Row("a write to a member of its collection") { $0.write("/list/7", withCollection: true) },
        Row("a write that names its group") { $0.write("/other", [("Cache-Group-Invalidation", "\"g\"")]) },
        Row("a write that names the group of a user's own response", of: "u") {
            $0.write("/other", [("Cache-Group-Invalidation", "\"g\"")])
        },
        Row("a 304 updates it") { test in
            test.now += 2_000
            let sent = try test.send(target)
            #expect(test.confirm(sent, [("ETag", "\"1\""), ("Cache-Control", "max-age=7")]) == .stored)
        },
        Row("a 304 that is noted in memory only") { test in
            test.now += 2_000
            let sent = try test.send(target)
            #expect(test.confirm(sent, [("ETag", "\"1\"")]) == .stored)
        },
        Row("a HEAD response shows that it changed") { test in
            test.now += 2_000
            test.update(try test.send(target, method: .head), [("ETag", "\"2\""), ("Cache-Control", "max-age=60")])
        },
        Row("a later response is stored under fewer arguments") { test in
            test.now += 2_000
            try test.fetch("/list?x=2", [], stored + [("No-Vary-Search", "params")], "2")
        },
        Row("it is evicted") { test in
            let content = String(repeating: "x", count: 100_000)
            for number in 0..<300 { try test.fetch("/filling/\(number)", [], stored, content) }
            test.cache.store.flush()
        },
        Row("another target is stored", holds: true) { try $0.fetch("/other", [], stored, "2") },
        Row("another user's response is stored", holds: true) { try $0.fetch(target, [("X-User", "v")], stored, "2") },
        Row("a write to another target", holds: true) { $0.write("/other") },
        Row("another tag is purged", holds: true, purge(EntrySelection(tag: "u"))),
        Row("waiting items are written", holds: true) { $0.cache.store.flush() },
        Row("time passes", holds: true) { $0.now += 1_000_000 },
    ]

    @Test("a basis holds until another response, or none, could be found", arguments: rows)
    func changes(_ row: Row) throws {
        // In one of about a thousand stores, the keys collide in the store's table of change counters. The test then repeats with another
        // store.
        var holds = try isHeld(after: row)
        for _ in 0..<2 where row.holds && !holds { holds = try isHeld(after: row) }
        #expect(holds == row.holds)
    }

    private func isHeld(after row: Row) throws -> Bool {
        let test = try TestCache { $0.checksCollections = true }
        let credentials = row.user.map { [("X-User", $0)] } ?? []
        try test.fetch(Self.target, credentials, Self.stored, "1")
        let shard = TestCache.other(test.cache.state)
        let finding = try shard.find(TestCache.request(Self.target, credentials))
        #expect(finding.result.found != nil && finding.basis.selecting.isEmpty && shard.state.holds(finding.basis, now: shard.now))
        try row.change(test)
        return shard.state.holds(finding.basis, now: shard.now)
    }

    @Test("the basis of a variant includes its marker and the variant, and names the selecting fields")
    func variants() throws {
        let varied = Self.stored + [("Vary", "Accept-Language, X-Kind")]
        let changes: [(String, Bool, (TestCache) throws -> Void)] = [
            ("another variant brings the marker up to date", false, { try $0.fetch("/a", [("Accept-Language", "fr")], varied, "2") }),
            ("it varies by an additional field", false, { try $0.fetch("/a", [("X", "1")], Self.stored + [("Vary", "X")], "2") }),
            ("a write", false, { $0.write("/a") }),
            ("another target", true, { try $0.fetch("/b", [], varied) }),
        ]
        for (what, holds, change) in changes {
            let test = try TestCache()
            try test.fetch("/a", [("Accept-Language", "de")], varied, "1")
            let finding = try test.cache.find(TestCache.request("/a", [("Accept-Language", "de")]))
            #expect(finding.result.found != nil)
            #expect(finding.basis.selecting.map { String(decoding: $0, as: UTF8.self) } == ["accept-language", "x-kind"])
            try change(test)
            #expect(test.cache.state.holds(finding.basis, now: test.cache.now) == holds, "\(what)")
        }
    }

    @Test("the basis of a finding under No-Vary-Search includes the stored No-Vary-Search record")
    func searchVariance() throws {
        let says = { (names: String) in Self.stored + [("No-Vary-Search", "params=(\(names))")] }
        let test = try TestCache()
        try test.fetch("/a?x=1&y=1", [], says("\"x\""), "1")
        let finding = try test.cache.find(TestCache.request("/a?x=2&y=1"))
        #expect(finding.result.found != nil && test.cache.state.holds(finding.basis, now: test.cache.now))
        try test.fetch("/b?x=1", [], says("\"x\""), "1")
        #expect(test.cache.state.holds(finding.basis, now: test.cache.now))
        test.now += 2_000
        try test.fetch("/a?x=1&y=2", [], says("\"x\" \"y\""), "2")
        #expect(!test.cache.state.holds(finding.basis, now: test.cache.now))
    }
}
