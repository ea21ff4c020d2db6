// Tests how fetches, 304s and responses to HEAD are compared with the stored response.

import CachePolicy
import CacheStore
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: storing and confirming")
struct StoringAndConfirmingTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    @Test("the later request wins, whichever ends first, and the older one is reported as outdated")
    func order() throws {
        let test = try TestCache()
        let (first, second) = (try test.send("/a"), try test.send("/a"))
        #expect(test.complete(second, [Self.fresh], "new") == .allowed)
        #expect(test.complete(first, [Self.fresh], "old") == .forbidden(.outdated))
        #expect(try test.text("/a") == "new")
    }

    @Test("a confirmation with a different Vary is stored although its first attempt only stored the variant")
    func secondAttempt() throws {
        let test = try TestCache()
        try test.fetch("/a", [("X-F", "1")], [Self.fresh], "kept")
        let sent = try test.send("/a", [("X-F", "1")])
        let (keys, names) = (sent.request.keys, [Array("x-f".utf8)])
        let base = try #require(sent.request.found)
        var metadata = base.metadata
        metadata.order = sent.order
        let new = NewResponse(
            head: Array(base.head), metadata: metadata,
            body: .stored(base.content, ContentForm(coding: 0, plainBytes: base.content.count), owner: base.owner), names: names,
            request: sent.request.head.fields, sentAt: sent.time)
        // The variant was written, but its marker did not yet replace the stored response.
        var variant = keys.own
        let values = test.cache.selecting(names.map { $0[...] }, in: sent.request.head.fields)
        CacheKey.appendVariant(to: &variant, generation: sent.order.number, selecting: values)
        test.cache.store.insert(
            NewItem(key: variant, metadata: metadata.encoded(), head: new.head, body: new.body, retention: .mayRescue))
        #expect(
            test.cache.put(new, at: StorageLocation(key: keys.own, credentialFreeKeys: [keys.credentialFree]), replacing: base) == .stored)
        #expect(try test.text("/a", [("X-F", "1")]) == "kept")
        #expect(try test.found("/a", [("X-F", "2")]) == nil)
    }

    @Test("with store any, an error does not replace a success, even if none was stored when it was requested")
    func errorsDoNotReplace() throws {
        let html = ("Content-Type", "text/html")
        for strictness in Strictness.allCases {
            let test = try TestCache { ($0.policy.keepsAny, $0.policy.strictness) = (true, strictness) }
            let isKept = strictness == .rescue
            let (early, late) = (try test.send("/a"), try test.send("/a"))
            #expect(test.complete(early, [Self.fresh], "good") == .allowed)
            #expect(test.complete(late, [Self.fresh], "gone", status: 404) == (isKept ? .forbidden(.outdated) : .allowed))
            #expect(try test.text("/a") == (isKept ? "good" : "gone"))
            // Nor does it replace the marker of a successful variant.
            try test.fetch("/b", [("X-F", "1")], [Self.fresh, ("Vary", "X-F")], "good")
            for lines in [[Self.fresh], [Self.fresh, ("Vary", "X-G")]] {
                let other = try test.send("/b", [("X-F", "2")])
                #expect((test.complete(other, lines, "gone", status: 404) == .allowed) != isKept)
            }
            #expect((try test.text("/b", [("X-F", "1")]) == "good") == isKept)
            // It is stored as a separate variant.
            try test.fetch("/c", [("X-F", "1")], [Self.fresh, ("Vary", "X-F")], "good")
            let other = try test.send("/c", [("X-F", "2")])
            #expect(test.complete(other, [Self.fresh, ("Vary", "X-F")], "gone", status: 404) == .allowed)
            #expect(try test.text("/c", [("X-F", "1")]) == "good" && test.text("/c", [("X-F", "2")]) == "gone")
            // The stored response is compared with the new one.
            let known = try test.send("/a")
            #expect((test.complete(known, [Self.fresh, html], "page") == .allowed) != isKept)
            #expect(test.complete(known, [Self.fresh], "new") == .allowed)
        }
    }

    /// Status and type of the stored and the new response, and whether the stored one stays.
    private static let kinds: [(stored: (Status, String), new: (Status, String), stays: Bool)] = {
        let (json, page, text, nothing) = (
            (Status(200), "application/json"), (Status(200), "text/html"), (Status(200), "text/csv"), (Status(204), "")
        )
        return [
            (json, page, true), (json, nothing, true), (json, text, true), (json, json, false), (text, page, true), (text, nothing, true),
            (text, json, false), (text, text, false), (page, nothing, true), (page, page, false), (page, json, false),
            (nothing, page, false), (nothing, nothing, false), (json, (404, "application/json"), true),
        ]
    }()

    @Test("with store any, a worse response replaces neither variants nor responses stored since its request", arguments: kinds)
    func worseResponses(stored: (Status, String), new: (Status, String), stays: Bool) throws {
        func lines(_ kind: (Status, String), _ vary: String? = nil) -> TestCache.Lines {
            [Self.fresh] + (kind.1.isEmpty ? [] : [("Content-Type", kind.1)]) + (vary.map { [("Vary", $0)] } ?? [])
        }
        for strictness in Strictness.allCases {
            let test = try TestCache { ($0.policy.keepsAny, $0.policy.strictness) = (true, strictness) }
            let isKept = stays && strictness == .rescue
            let (early, late) = (try test.send("/a"), try test.send("/a"))
            #expect(test.complete(early, lines(stored), "good", status: stored.0) == .allowed)
            #expect(test.complete(late, lines(new), "new", status: new.0) == (isKept ? .forbidden(.outdated) : .allowed))
            #expect(try test.text("/a") == (isKept ? "good" : "new"))
            for (place, vary) in [("/b", nil), ("/c", "X-G")] {
                let known = try test.send(place, [("X-F", "1")])
                #expect(test.complete(known, lines(stored, "X-F"), "good", status: stored.0) == .allowed)
                let other = try test.send(place, [("X-F", "2")])
                #expect((test.complete(other, lines(new, vary), "new", status: new.0) == .allowed) != isKept)
                #expect((try test.text(place, [("X-F", "1")]) == "good") == isKept)
            }
        }
    }

    @Test("with store any, the best of several variants decides, even if it was requested before the others")
    func bestVariant() throws {
        let (page, vary) = (("Content-Type", "text/html"), ("Vary", "X-F"))
        let test = try TestCache { $0.policy.keepsAny = true }
        let early = try test.send("/a", [("X-F", "1")])
        #expect(test.complete(try test.send("/a", [("X-F", "2")]), [Self.fresh, page, vary], "page") == .allowed)
        #expect(test.complete(early, [Self.fresh, vary], "good") == .allowed)
        #expect(test.complete(try test.send("/a", [("X-F", "2")]), [Self.fresh, page, vary], "next") == .allowed)
        #expect(test.complete(try test.send("/a", [("X-F", "3")]), [Self.fresh, page], "login") == .forbidden(.outdated))
        #expect(try test.text("/a", [("X-F", "1")]) == "good" && test.text("/a", [("X-F", "2")]) == "next")
        // A user's own markers outlive a write; the responses that they lead to do not.
        let user = ("X-User", "a")
        #expect(test.complete(try test.send("/b", [user, ("X-F", "1")]), [Self.fresh, vary], "good") == .allowed)
        test.now += 1
        test.write("/b")
        test.now += 1
        #expect(test.complete(try test.send("/b", [user, ("X-F", "2")]), [Self.fresh, page], "page") == .allowed)
        #expect(try test.text("/b", [user, ("X-F", "1")]) == "page")
        for (place, lines) in [("/c", [vary]), ("/d", [page, vary])] {
            #expect(test.complete(try test.send(place, [user, ("X-F", "1")]), [Self.fresh, vary], "good") == .allowed)
            test.now += 1
            if place == "/d" { test.write(place) }
            test.now += 1
            #expect(test.complete(try test.send(place, [user, ("X-F", "2")]), [Self.fresh] + lines, "next") == .allowed)
            let isAllowed = test.complete(try test.send(place, [user, ("X-F", "3")]), [Self.fresh, page], "page") == .allowed
            #expect(isAllowed == (place == "/d"))
        }
    }

    @Test("a response is not stored if its target was written or purged after the request")
    func overtaken() throws {
        let test = try TestCache()
        let (write, purge) = (try test.send("/a"), try test.send("/b"))
        test.now += 1
        test.write("/a")
        #expect(test.complete(write, [Self.fresh]) == .forbidden(.invalidated))
        test.cache.beginPurge(at: test.time.wall)
        #expect(test.complete(purge, [Self.fresh]) == .forbidden(.invalidated))
        test.now += 1
        #expect(try test.fetch("/a") == .allowed)
        #expect(test.listed == ["/a"])
    }

    @Test("a response stored despite Authorization keeps that flag, and is removed when a 304 withdraws the permission")
    func authorized() throws {
        let test = try TestCache { $0.policy.credentials.fields = ["x-user"] }
        let authorization = [("Authorization", "Basic x")]
        #expect(try test.fetch("/a", authorization, [("Cache-Control", "max-age=60"), ("ETag", "\"1\"")]) == .forbidden(.authorized))
        #expect(try test.fetch("/a", authorization, [("Cache-Control", "public, max-age=60"), ("ETag", "\"1\"")]) == .allowed)
        let found = try #require(try test.found("/a"))
        #expect(found.metadata.flags.isSuperset(of: [.authorized, .isPublic]))
        test.now += 1
        let sent = try test.send("/a")
        #expect(test.confirm(sent, [("ETag", "\"1\""), ("Cache-Control", "max-age=60")]) == .unshareable)
        #expect(test.confirm(sent, [("ETag", "\"1\""), ("Cache-Control", "public, max-age=99")]) == .stored)
        #expect(try test.found("/a")?.metadata.freshnessLifetime == 99)
    }

    @Test("a 304 updates the stored response for all later lookups; one without a matching stored response is ignored")
    func confirming() throws {
        let test = try TestCache()
        try test.fetch("/a", [], [Self.fresh, ("ETag", "\"1\"")], "1")
        test.now += 30_000
        let sent = try test.send("/a")
        #expect(test.confirm(sent, [("ETag", "\"1\""), ("Cache-Control", "max-age=7")]) == .stored)
        let found = try #require(try test.found("/a"))
        #expect(found.metadata.freshnessLifetime == 7 && found.metadata.requestTime == test.time.wall)
        #expect(String(decoding: found.content, as: UTF8.self) == "1")
        #expect(test.confirm(try test.send("/b"), [("ETag", "\"1\"")]) == nil)
    }

    @Test("a 304 for a replaced response restores nothing, and makes a contradicting newer response stale")
    func contradiction() throws {
        let test = try TestCache()
        try test.fetch("/a", [], [Self.fresh, ("ETag", "\"1\"")], "1")
        let (early, between, late) = (try test.send("/a"), try test.send("/a"), try test.send("/a"))
        #expect(test.complete(between, [Self.fresh, ("ETag", "\"2\"")], "2") == .allowed)
        #expect(test.confirm(early, [("ETag", "\"1\"")]) == .outdated)
        #expect(try test.found("/a")?.metadata.flags.contains(.markedStale) == false)
        #expect(test.confirm(late, [("ETag", "\"1\"")]) == .outdated)
        #expect(try test.found("/a")?.metadata.flags.contains(.markedStale) == true)
        #expect(try test.text("/a") == "2")
    }

    @Test("a 304 without changes is noted in memory instead of written, and still updates the response time")
    func unwritten() throws {
        let test = try TestCache()
        try test.fetch("/a", [], [("ETag", "\"1\"")], "1")
        let written = test.cache.store.statistics.inserted
        for seconds: Int64 in [5, 10, 50, 600, 86_400] {
            test.now += seconds * 1_000
            #expect(test.confirm(try test.send("/a"), [("ETag", "\"1\""), ("X-Request-Id", "\(seconds)")]) == .stored)
            #expect(test.cache.store.statistics.inserted == written)
            #expect(try test.found("/a")?.metadata.responseTime == test.time.wall)
        }
    }

    @Test("a field that changed with a 304 is stored at most once in the interval; a changed rule is stored at once")
    func changedFields() throws {
        let test = try TestCache()
        try test.fetch("/a", [], [("ETag", "\"1\""), ("X-Version", "0")], "1")
        var written = test.cache.store.statistics.inserted
        func confirm(_ lines: TestCache.Lines, isWritten: Bool) throws {
            #expect(test.confirm(try test.send("/a"), [("ETag", "\"1\"")] + lines) == .stored)
            let now = test.cache.store.statistics.inserted
            #expect((now > written) == isWritten)
            written = now
        }
        for version in 1..<6 {
            test.now += 10_000
            try confirm([("X-Version", "\(version)")], isWritten: false)
        }
        test.now += 10_000
        try confirm([("X-Version", "6")], isWritten: true)
        test.now += 1_000
        try confirm([("X-Version", "6"), ("Cache-Control", "stale-if-error=0")], isWritten: true)
        #expect(try test.found("/a")?.metadata.staleIfError == 0)
        try confirm([("Cache-Control", "max-age=30")], isWritten: true)
        // Clients would receive the former field until the response is stale.
        try confirm([("X-Version", "7")], isWritten: true)
        test.now += 10_000
        try confirm([("X-Version", "7")], isWritten: false)
        #expect(try test.found("/a").map { Freshness.currentAge(of: $0.metadata, now: test.time.wall) } == 0)
    }

    @Test("equal data in different bytes is noted in memory instead of written")
    func sameData() throws {
        let test = try TestCache()
        let tag = "W/\"data\""
        test.complete(try test.send("/a"), [], "{ }", ownTag: tag)
        let written = test.cache.store.statistics.inserted
        test.now += 5_000
        #expect(test.complete(try test.send("/a"), [], "{}", ownTag: tag) == .allowed)
        #expect(test.cache.store.statistics.inserted == written)
        #expect(try test.text("/a") == "{ }")
        #expect(test.complete(try test.send("/a"), [], "[]", ownTag: "W/\"other\"") == .allowed)
        #expect(try test.text("/a") == "[]")
    }

    @Test("a HEAD response freshens a matching stored response, and makes a changed one stale")
    func head() throws {
        let test = try TestCache()
        try test.fetch("/a", [], [Self.fresh, ("ETag", "\"1\"")], "12")
        test.now += 1_000
        test.update(try test.send("/a", method: .head), [("ETag", "\"1\""), ("Cache-Control", "max-age=9"), ("Content-Length", "2")])
        #expect(try test.found("/a")?.metadata.freshnessLifetime == 9)
        test.update(try test.send("/a", method: .head), [("ETag", "\"2\""), ("Cache-Control", "max-age=9")])
        #expect(try test.found("/a")?.metadata.freshnessLifetime == 0)
        #expect(try test.text("/a") == "12")
    }

    @Test("a response to POST is stored for later GETs although the POST invalidates earlier responses")
    func post() throws {
        let test = try TestCache()
        let sent = try test.send("/a", method: .post, content: nil)
        test.now += 1_000
        test.write("/a", method: .post)
        let recency = Recency(order: sent.order, isImported: false, requestTime: sent.time, responseTime: test.time.wall)
        let keys = test.cache.keysOfGet(for: sent.request.head)
        let response = TestCache.response(200, [Self.fresh])
        let whole = WholeResponse(
            response, test.cache.control(response), Array("1".utf8), isDecoded: false, recency, isOfPOST: true)
        let stored = test.cache.store(whole, for: StorableExchange(sent.request.head, keys: keys, found: nil), at: test.time)
        #expect(stored.result == .stored && stored.metadata.ageValue == 1)
        #expect(try test.text("/a") == "1")
    }

    @Test("a response is stored under one of two possible keys and removed from the other")
    func oneKey() throws {
        let test = try TestCache()
        try test.fetch("/a?x=1", [], [Self.fresh], "1")
        #expect(test.listed == ["/a?x=1"])
        test.now += 1_000
        try test.fetch("/a?x=1", [], [Self.fresh, ("No-Vary-Search", "params")], "2")
        #expect(test.listed == ["/a"])
        test.now += 1_000
        try test.fetch("/a?x=1", [], [Self.fresh], "3")
        #expect(test.listed == ["/a?x=1"])
        #expect(try test.text("/a?x=1") == "3")
    }
}
