// Tests of invalidation by writes, in every partition and for every variant (RFC 9111 §4.4, RFC 9875).

import CachePolicy
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: invalidating")
struct InvalidatingTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    private func cache() throws -> TestCache { try TestCache { $0.checksCollections = true } }

    @Test("a write invalidates all stored responses of its target, in any variant and partition, and no others")
    func target() throws {
        let test = try cache()
        try test.fetch("/a")
        try test.fetch("/a", [("X-User", "u")])
        try test.fetch("/v", [("Accept-Language", "de")], [Self.fresh, ("Vary", "Accept-Language")])
        try test.fetch("/n?x=1", [], [Self.fresh, ("No-Vary-Search", "params")])
        try test.fetch("/b")
        test.now += 1
        for target in ["/a", "/v", "/n?x=2"] { test.write(target) }
        #expect(try test.found("/a") == nil)
        #expect(try test.found("/a", [("X-User", "u")]) == nil)
        #expect(try test.found("/v", [("Accept-Language", "de")]) == nil)
        #expect(try test.found("/n?x=1") == nil)
        #expect(try test.found("/b") != nil)
        #expect(test.listed == ["/b"])
    }

    private static let html = ("Content-Type", "text/html; charset=utf-8")

    /// Responses to writes, with the fields of the request, and whether stored responses stay as stale ones.
    private static let answers: [(status: Status, lines: TestCache.Lines, request: TestCache.Lines, stays: Bool)] = [
        (302, [("Location", "/login?next=%2Fa")], [], true),
        (303, [("Location", "https://portal.test/welcome")], [], true),
        (307, [("Location", "http://upstream.test/oauth/authorize")], [], true),
        (200, [html], [], true),
        (200, [html], [("Accept", "*/*")], true),
        (302, [("Location", "/maintenance")], [], true),
        (304, [], [], true),
        (200, [("Content-Type", "application/problem+json")], [], true),
        (201, [html], [("Accept", "text/html, */*;q=0.8")], false),
        (303, [("Location", "/a/1")], [], false),
        (302, [("Location", "http://upstream.test/done")], [], false),
        (301, [], [], false),
        (204, [], [], false),
        (200, [], [], false),
    ]

    @Test(
        "a write answered by a login page, captive portal or failing gateway makes responses stale; strict mode removes them",
        arguments: answers.indices, Strictness.allCases)
    func ambiguousWrite(row: Int, strictness: Strictness) throws {
        let row = Self.answers[row]
        let test = try TestCache {
            $0.checksCollections = true
            $0.policy.strictness = strictness
        }
        let (user, https, german) = ([("X-User", "u")], [(ConnectionField.scheme, "https")], [("Accept-Language", "de")])
        func fill() throws {
            for lines in [[], user, https] { try test.fetch("/a/1", lines) }
            try test.fetch("/a/1?v", german, [Self.fresh, ("Vary", "Accept-Language")])
            try test.fetch("/n?x=1", user, [Self.fresh, ("No-Vary-Search", "params")])
            try test.fetch("/a", user)
            try test.fetch("/b")
        }
        try fill()
        test.complete(try test.send("/a/1", method: .query, content: "1"), [Self.fresh])
        test.now += 1
        for target in ["/a/1", "/a/1?v", "/n?x=2"] {
            test.write(target, from: row.request, row.lines, status: row.status, withCollection: true)
        }
        let stays = row.stays && strictness == .rescue
        let restarted = TestCache.other(
            APICacheState(store: test.cache.store, sent: SentRequests(), settings: test.cache.state.settings))
        for cache in [test.cache, restarted] {
            func isStale(_ target: String, _ lines: TestCache.Lines, _ content: [UInt8]? = nil) throws -> Bool? {
                let head = TestCache.request(target, lines, method: content == nil ? .get : .query)
                return try cache.find(head, content: content).result.found?.metadata.flags.contains(.markedStale)
            }
            for (target, lines) in [("/a/1", []), ("/a/1", user), ("/a/1", https), ("/a/1?v", german), ("/n?x=3", user), ("/a", user)] {
                #expect(try isStale(target, lines) == (stays ? true : nil), "\(target)")
            }
            #expect(try isStale("/a/1", [], Array("1".utf8)) == (stays ? true : nil))
            #expect(try isStale("/b", []) == false)
            let listed = cache.list(EntrySelection(), limit: 100).entries
            #expect(listed.count == (stays ? 8 : 1) && listed.count { $0.metadata.flags.contains(.markedStale) } == (stays ? 7 : 0))
        }
        // Responses stored after the write are fresh.
        test.now += 1
        try fill()
        #expect(try test.found("/a/1", user)?.metadata.flags.contains(.markedStale) == false)
        #expect(try test.found("/a/1?v", german)?.metadata.flags.contains(.markedStale) == false)
    }

    @Test(
        "a write whose outcome is unclear makes responses stale, also in strict mode and in its collection", arguments: Strictness.allCases)
    func unclearWrite(strictness: Strictness) throws {
        for (status, isUnclear) in [
            (nil, true), (500, true), (502, true), (503, true), (504, true), (400, false), (412, false), (501, false),
        ]
            as [(Status?, Bool)]
        {
            let test = try TestCache {
                $0.checksCollections = true
                $0.policy.strictness = strictness
            }
            for target in ["/a/1", "/a", "/b"] { try test.fetch(target) }
            test.now += 1
            for method in [HTTPCore.Method.get, .other(Array("REPORT".utf8)), .put] {
                #expect(try test.found("/a/1")?.metadata.flags.contains(.markedStale) == false)
                test.cache.invalidate(
                    after: status.map { TestCache.response($0, []) }, to: TestCache.request("/a/1", method: method), withCollection: true,
                    at: test.time.wall)
            }
            for target in ["/a/1", "/a"] {
                #expect(try test.found(target)?.metadata.flags.contains(.markedStale) == isUnclear, "\(status?.rawValue ?? 0)")
            }
            #expect(try test.found("/b")?.metadata.flags.contains(.markedStale) == false)
        }
    }

    @Test("a write also invalidates the targets of Location and Content-Location; failed and safe requests remove nothing")
    func named() throws {
        let test = try cache()
        for target in ["/a", "/b", "/c"] { try test.fetch(target) }
        test.now += 1
        test.write("/new", method: .post, [("Location", "/a"), ("Content-Location", "http://upstream.test/b")])
        #expect(test.listed == ["/c"])
        test.write("/c", method: .get)
        let failed = TestCache.response(500, [])
        test.cache.invalidate(after: failed, to: TestCache.request("/c", method: .put), withCollection: true, at: test.time.wall)
        #expect(test.listed == ["/c"])
    }

    @Test("a group is invalidated for all its members, and later responses are stored")
    func groups() throws {
        let test = try cache()
        let member = [Self.fresh, ("Cache-Groups", "\"people\", \"all\"")]
        try test.fetch("/a", [], member)
        try test.fetch("/b", [("X-User", "u")], member)
        try test.fetch("/c", [], [Self.fresh, ("Cache-Groups", "\"other\"")])
        test.now += 1
        test.write("/x", [("Cache-Group-Invalidation", "\"people\"")])
        #expect(test.listed == ["/c"])
        #expect(try test.found("/a") == nil)
        #expect(try test.found("/b", [("X-User", "u")]) == nil)
        test.now += 1
        try test.fetch("/a", [], member)
        #expect(test.listed == ["/a", "/c"])
    }

    @Test("a collection is invalidated with any arguments if the route enables it")
    func collection() throws {
        let test = try cache()
        for target in ["/users", "/users?page=1", "/users/1", "/userstories"] { try test.fetch(target) }
        test.now += 1
        test.write("/users/2")
        #expect(test.listed.count == 4)
        test.write("/users/1", withCollection: true)
        #expect(test.listed == ["/userstories"])
        for target in ["/users", "/users?page=1", "/users/1"] { #expect(try test.found(target) == nil) }
    }

    @Test("a response with too many groups is not stored; a write with too many invalidates those within the limit")
    func manyGroups() throws {
        let test = try TestCache { $0.policy.memberLimit = 2 }
        let groups = (1...3).map { "\"g\($0)\"" }.joined(separator: ", ")
        #expect(try test.fetch("/a", [], [Self.fresh, ("Cache-Groups", groups)]) == .forbidden(.tooManyMembers))
        try test.fetch("/b", [], [Self.fresh, ("Cache-Groups", "\"g1\"")])
        try test.fetch("/c", [], [Self.fresh, ("Cache-Groups", "\"g3\"")])
        test.now += 1
        test.write("/x", [("Cache-Group-Invalidation", groups)])
        #expect(test.listed == ["/c"])
    }
}
