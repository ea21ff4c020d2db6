// What a write makes invalid, in every partition and for every variant (RFC 9111 §4.4, RFC 9875).

import CachePolicy
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: invalidating")
struct InvalidatingTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    private func cache() throws -> TestCache { try TestCache { $0.checksCollections = true } }

    @Test("a write drops its target for everybody, whatever it varies by and wherever it lies, and nothing else")
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

    @Test("so do the targets that Location and Content-Location name; a failed or safe request drops nothing")
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

    @Test("a group, for all that belongs to it; what is asked for afterwards is well")
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

    @Test("a collection, with whatever arguments, where the route says so")
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

    @Test("more groups than are read: nobody knows which, so it is not stored; a write to too many drops those that are read")
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
