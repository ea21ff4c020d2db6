// Tests that an import stores a response as a fetch does.

import CachePolicy
import CacheStore
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: importing")
struct ImportingTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    /// All stored records, without times and order numbers.
    private func records(of test: TestCache) -> [String] {
        var records: [String] = []
        test.cache.store.visitAll { listed in
            let item = listed.item
            let kind = StoredMetadata.kind(of: item.metadata.span)
            var metadata = StoredMetadata(item.metadata.span) ?? StoredMetadata(item.metadata.span, as: .gone)
            metadata?.requestTime = Timestamp(seconds: 0)
            metadata?.responseTime = Timestamp(seconds: 0)
            metadata?.date = Timestamp(seconds: 0)
            metadata?.order = .unknown
            metadata?.flags.remove(.imported)
            let key = StoredKey(Array(listed.key))
            let place = key.map { key in
                "\(key.readableTarget) \(key.partition.isEmpty) \(String(decoding: key.extra.prefix(12), as: UTF8.self)) "
                    + (key.variant.map { "\($0.selecting)" } ?? "-")
            }
            let content = String(decoding: item.body, as: UTF8.self)
            let head = kind == .cookieOrigins ? "" : String(decoding: item.head, as: UTF8.self)
            records.append("\(String(describing: kind)) \(place ?? "beside") \(head) \(content) \(String(describing: metadata))")
        }
        return records.sorted()
    }

    @Test(
        "an imported response has the same key, flags and entity tag as a fetched one",
        arguments: [
            ([], [("ETag", "\"x\""), fresh]), ([("Accept-Language", "de")], [("Vary", "Accept-Language"), fresh]),
            ([], [("No-Vary-Search", "params=(\"x\")"), fresh]), ([], [("Cache-Groups", "\"g\""), fresh]),
            ([("Authorization", "Basic x")], [("Cache-Control", "public, max-age=60")]), ([("X-User", "u")], [fresh]),
            ([], [("Location", "http://upstream.test/b"), ("Cache-Control", "must-revalidate, immutable, no-transform, max-age=1")]),
            ([], [("Via", "1.1 gateway"), ("CDN-Cache-Control", "max-age=7")]),
        ] as [(TestCache.Lines, TestCache.Lines)])
    func equal(request: TestCache.Lines, response: TestCache.Lines) throws {
        func make() throws -> TestCache {
            try TestCache {
                $0.policy.credentials.fields = ["x-user"]
                $0.via = Array("cistern".utf8)
            }
        }
        let (fetched, imported) = (try make(), try make())
        let target = "/a?x=1&y=2"
        let tag = response.contains { $0.0 == "ETag" } ? nil : "W/\"data\""
        #expect(fetched.complete(try fetched.send(target, request), response, "{\"a\":1}", ownTag: tag) == .allowed)
        #expect(imported.take(target, request, response, "{\"a\":1}", ownTag: tag) == .stored)
        #expect(!records(of: fetched).isEmpty && records(of: fetched) == records(of: imported))
        #expect(try imported.text(target, request) == "{\"a\":1}")
        #expect(fetched.listed == imported.listed)
    }

    @Test("responses that are unstorable, too long, faulty or older than the stored one are not imported")
    func leftOut() throws {
        let test = try TestCache { $0.contentLimitBytes = 4 }
        #expect(test.take("/a", [], [("Cache-Control", "no-store")]) == .notStored(.noStore))
        #expect(test.take("/a", status: 404) == .notStored(.status))
        #expect(test.take("/a", [], [], "12345") == .notStored(.tooLarge))
        #expect(test.take("/a", fault: .invalidJSON) == .notStored(UpstreamFault.invalidJSON.notStored))
        try test.fetch("/a", [], [Self.fresh], "new")
        #expect(test.take("/a", [], [], "old", secondsAgo: 1) == .olderThanStored)
        #expect(try test.text("/a") == "new")
    }

    @Test("a response that a later write invalidated, also by collection or group, is not imported; a purge does not matter")
    func invalidated() throws {
        let test = try TestCache { $0.checksCollections = true }
        test.write("/users/1", [("Cache-Group-Invalidation", "\"g\"")], withCollection: true)
        #expect(test.take("/users/1", secondsAgo: 1) == .invalidated)
        #expect(test.take("/users?page=2", secondsAgo: 1) == .invalidated)
        #expect(test.take("/b", [], [("Cache-Groups", "\"g\"")], secondsAgo: 1) == .invalidated)
        #expect(test.take("/b", secondsAgo: 1) == .stored)
        _ = test.cache.purge(.all, isSoft: false)
        test.cache.beginPurge(at: test.time.wall)
        #expect(test.take("/b", secondsAgo: 1) == .stored)
    }

    @Test("an imported 410 or JSON 404 is remembered beside the stored response, and a later response removes it")
    func gone() throws {
        let test = try TestCache()
        for target in ["/a", "/b", "/c", "/d"] { #expect(test.take(target, [], [Self.fresh], secondsAgo: 60) == .stored) }
        #expect(test.take("/a", status: 410, [], "", secondsAgo: 30) == .rememberedAsGone)
        #expect(test.take("/b", status: 404, [], "{\"gone\":1}", secondsAgo: 30) == .rememberedAsGone)
        #expect(test.take("/c", status: 404, [("Content-Type", "text/html")], "<p>", secondsAgo: 30) == .notStored(.status))
        #expect(test.take("/d", status: 404, [], "{", secondsAgo: 30, fault: .invalidJSON) == .notStored(.status))
        // An older 410 says nothing about a newer response, and is not stored without a response.
        #expect(test.take("/d", status: 410, [], "", secondsAgo: 90) == .notStored(.status))
        #expect(test.take("/e", status: 410, [], "") == .notStored(.status))
        func gone(_ target: String) throws -> String? {
            let found = try #require(try test.found(target))
            return try test.cache.gone(beside: found).map { String(decoding: $0.content, as: UTF8.self) }
        }
        #expect(try ["/a", "/b", "/c", "/d"].map(gone) == ["", "{\"gone\":1}", nil, nil])
        #expect(test.take("/b", [], [Self.fresh], "back") == .stored)
        #expect(try gone("/b") == nil)
    }

    @Test("with store any, an imported error does not replace a stored response; a 404 is remembered beside it")
    func errors() throws {
        let test = try TestCache { $0.policy.keepsAny = true }
        for target in ["/a", "/b"] { #expect(test.take(target, [], [Self.fresh], target, secondsAgo: 60) == .stored) }
        #expect(test.take("/a", status: 404, [Self.fresh], "{\"gone\":1}") == .rememberedAsGone)
        #expect(test.take("/b", status: 301, [Self.fresh], "") == .notStored(.status))
        #expect(test.take("/c", status: 404, [Self.fresh], "{}") == .stored)
        #expect(try ["/a", "/b"].map { try test.text($0) } == ["/a", "/b"])
    }

    @Test("fetched and imported 410 and 404 have the same record, and many imported 404s do not count as lost routes")
    func goneEqual() throws {
        let (fetched, imported) = (try TestCache(), try TestCache())
        for test in [fetched, imported] { try test.fetch("/a") }
        for test in [fetched, imported] { test.now += 1_000 }
        #expect(fetched.lose(try fetched.send("/a"), status: 404))
        #expect(imported.take("/a", status: 404, [], "{\"gone\":1}") == .rememberedAsGone)
        #expect(records(of: fetched) == records(of: imported))
        for number in 0..<50 { try imported.fetch("/\(number)") }
        imported.now += 1_000
        for number in 0..<49 { #expect(imported.take("/\(number)", status: 404) == .rememberedAsGone) }
        #expect(imported.lose(try imported.send("/49"), status: 404))
    }
}
