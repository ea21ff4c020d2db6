// Tests of the records that a cache shares with its fleet, and of those that it takes from other nodes.

import CachePolicy
import CacheStore
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("The cache: sharing with other nodes")
struct SharingTests {
    private static let fresh = ("Cache-Control", "max-age=60")
    private static let byLanguage = [("Vary", "Accept-Language"), fresh]

    // MARK: Giving

    @Test("a stored response is shared once, under a key without node-specific parts")
    func sharedOnce() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        for cache in [one, other] { try cache.test.fetch("/a?b=1", [("X-User", "alice")], [Self.fresh]) }
        #expect(one.given.records.count == 1)
        #expect(Array(one.given.records.keys) == Array(other.given.records.keys))
        #expect(one.given.records.keys.first.map { $0.firstRange(of: Array("alice".utf8)) == nil } == true)
    }

    @Test("negative, imported, oversized and unstored responses are not shared, nor those for other methods or without receivers")
    func notShared() throws {
        var rules = FreshnessRules()
        rules.negative = 60
        let cache = try FleetCache { [rules] in $0.freshness = PathTable(rest: rules) }
        #expect(cache.test.take("/imported", [], [Self.fresh]) == .stored)
        try cache.test.fetch("/private", [], [("Cache-Control", "no-store")])
        try cache.test.fetch("/long", [], [Self.fresh], "\"" + String(repeating: "x", count: 2_000) + "\"")
        cache.test.complete(try cache.test.send("/404"), [Self.fresh], status: 404)
        cache.test.complete(try cache.test.send("/head", method: .head), [Self.fresh])
        cache.test.complete(
            try cache.test.send("/options", [("Origin", "http://a.test"), ("Access-Control-Request-Method", "PUT")], method: .options),
            [("Access-Control-Allow-Origin", "*"), ("Access-Control-Max-Age", "60")], "", status: 204)
        cache.given.isOpen = false
        try cache.test.fetch("/closed")
        cache.given.isOpen = true
        #expect(cache.given.records.isEmpty)
        try cache.test.fetch("/a")
        #expect(cache.given.records.count == 1)
    }

    @Test("a response from another node is not shared back until the upstream confirms it")
    func notSharedBack() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        try one.test.fetch("/a", [], [Self.fresh, ("ETag", "\"v\"")])
        #expect(try other.take("/a", from: one) == [.taken])
        #expect(other.given.records.isEmpty)
        for cache in [one, other] { cache.test.now += 61_000 }
        #expect(other.test.confirm(try other.test.send("/a"), [Self.fresh, ("ETag", "\"v\"")]) == .stored)
        #expect(other.given.records.count == 1)
        #expect(try one.take("/a", from: other) == [.taken])
        let found = try #require(try one.test.found("/a"))
        #expect(Freshness.currentAge(of: found.metadata, now: one.test.time.wall) == 0)
    }

    @Test("a write is propagated at once with its target, groups and collection")
    func writePropagated() throws {
        let cache = try FleetCache { $0.checksCollections = true }
        cache.test.write("/users/1", [("Cache-Group-Invalidation", "\"g\"")], withCollection: true)
        #expect(cache.given.writes.count == 1)
        let letters = cache.told.compactMap(\.last)
        #expect(letters.contains(UInt8(ascii: "I")) && letters.contains(UInt8(ascii: "C")) && cache.told.contains(Array("Tg".utf8)))
    }

    // MARK: Taking

    @Test(
        "a response from another node is found with its age, whatever that node's clock says",
        arguments: [0, 3_600_000, -3_600_000] as [Int64])
    func taken(ahead: Int64) throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        one.test.now += ahead
        try one.test.fetch("/a", [], [Self.fresh, ("Age", "7")], "\"one\"")
        for cache in [one, other] { cache.test.now += 10_000 }
        #expect(try other.take("/a", from: one) == [.taken])
        #expect(try other.test.text("/a") == "\"one\"")
        let found = try #require(try other.test.found("/a"))
        #expect(Freshness.currentAge(of: found.metadata, now: other.test.time.wall) == 17)
        #expect(Reuse.isFresh(found.metadata, now: other.test.time.wall))
        other.test.now += 44_000
        #expect(!Reuse.isFresh(found.metadata, now: other.test.time.wall))
    }

    @Test("a shared record is stored without transient fields, and its validator still works")
    func momentary() throws {
        // A node with this policy stores such fields. Its key is replaced, because nodes with different policies do not share.
        let (one, other) = (try FleetCache { $0.policy.strictness = .strict }, try FleetCache())
        let lines = [Self.fresh, ("RateLimit-Remaining", "5"), ("Server-Timing", "db"), ("ETag", "\"a\""), ("X-Kept", "1")]
        try one.test.fetch("/a", [], lines, "\"one\"")
        let lookUp = try #require(try other.lookUp("/a"))
        let (location, given) = (lookUp.locations[0], try #require(one.given.records.values.first))
        let record = FleetRecord(key: location.key, metadata: given.record.metadata, head: given.record.head, body: given.record.body)
        #expect(other.test.cache.takeFromNode(record, of: given.recency.responseTime, at: location, for: lookUp) == .taken)
        let found = try #require(try other.test.found("/a"))
        let head = String(decoding: Array(found.head), as: UTF8.self)
        #expect(!head.contains("RateLimit") && !head.contains("Server-Timing") && head.contains("X-Kept: 1\r\n"))
        #expect(Array(found.head[found.metadata.etag]) == Array("\"a\"".utf8))
    }

    @Test("a newer local response is kept, and an older one is replaced by another node's")
    func newer() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        try one.test.fetch("/a", [], [Self.fresh], "\"old\"")
        for cache in [one, other] { cache.test.now += 1_000 }
        try other.test.fetch("/a", [], [Self.fresh], "\"new\"")
        #expect(try other.take("/a", from: one) == [.notTaken])
        #expect(try other.test.text("/a") == "\"new\"")
        #expect(try one.take("/a", from: other) == [.taken])
        #expect(try one.test.text("/a") == "\"new\"")
    }

    @Test("a shared response that a local write invalidated is rejected, and one requested later is accepted")
    func invalid() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        try one.test.fetch("/a", [], [Self.fresh], "\"old\"")
        for cache in [one, other] { cache.test.now += 1_000 }
        other.test.write("/a")
        #expect(try other.take("/a", from: one) == [.notTaken])
        #expect(try other.test.found("/a") == nil)
        for cache in [one, other] { cache.test.now += 1_000 }
        try one.test.fetch("/a", [], [Self.fresh], "\"new\"")
        #expect(try other.take("/a", from: one) == [.taken])
    }

    @Test("a mark from another node removes stored responses and is not propagated again", arguments: ["/users/1", "/users"])
    func followed(target: String) throws {
        let (one, other) = (try FleetCache { $0.checksCollections = true }, try FleetCache { $0.checksCollections = true })
        try other.test.fetch(target, [], [Self.fresh, ("Cache-Groups", "\"g\"")])
        try other.test.fetch("/else", [], [Self.fresh])
        for cache in [one, other] { cache.test.now += 1_000 }
        one.test.write("/users/1", withCollection: true)
        for mark in one.told { other.test.cache.state.follow(mark: mark, at: other.test.time.wall) }
        #expect(try other.test.found(target) == nil && other.told.isEmpty)
        #expect(try other.test.found("/else") != nil)
        one.test.write("/none", [("Cache-Group-Invalidation", "\"g\"")])
        try other.test.fetch(target, [], [Self.fresh, ("Cache-Groups", "\"g\"")])
        other.test.now += 1
        for mark in one.told { other.test.cache.state.follow(mark: mark, at: other.test.time.wall) }
        #expect(try other.test.found(target) == nil)
    }

    @Test(
        "a login page or captive portal in answer to another node's write makes responses stale; strict mode removes them",
        arguments: Strictness.allCases)
    func ambiguousWrite(strictness: Strictness) throws {
        let nodes = try (0..<2).map { _ in
            try FleetCache { ($0.checksCollections, $0.policy.strictness) = (true, strictness) }
        }
        let (one, other) = (nodes[0], nodes[1])
        let (user, german) = ([("X-User", "u")], [("Accept-Language", "de")])
        for lines in [[], user] { try other.test.fetch("/users/1", lines, [Self.fresh]) }
        try other.test.fetch("/users/1?v", german, [Self.fresh, ("Vary", "Accept-Language")])
        try other.test.fetch("/users", [], [Self.fresh])
        try other.test.fetch("/else", [], [Self.fresh])
        for cache in nodes { cache.test.now += 1_000 }
        for target in ["/users/1", "/users/1?v"] { one.test.write(target, [("Location", "/login")], status: 302, withCollection: true) }
        other.follow(one)
        func isStale(_ target: String, _ lines: TestCache.Lines = []) throws -> Bool? {
            try other.test.found(target, lines)?.metadata.flags.contains(.markedStale)
        }
        for (target, lines) in [("/users/1", []), ("/users/1", user), ("/users/1?v", german), ("/users", [])] {
            #expect(try isStale(target, lines) == (strictness == .rescue ? true : nil), "\(target)")
        }
        #expect(try isStale("/else") == false && other.told.isEmpty)
        // A response that is fetched afterwards is fresh. An older record of the writing node is rejected.
        other.test.now += 1_000
        try other.test.fetch("/users/1", [], [Self.fresh])
        #expect(try isStale("/users/1") == false)
    }

    @Test("a shared Vary marker leads to its variant although nodes number generations separately")
    func variants() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        // More sent requests give this node other generation numbers.
        for _ in 0..<5 { _ = try other.test.send("/x") }
        let (german, english) = ([("Accept-Language", "de")], [("Accept-Language", "en")])
        try one.test.fetch("/a", german, Self.byLanguage, "\"de\"")
        one.test.now += 10
        other.test.now += 10
        try one.test.fetch("/a", english, Self.byLanguage, "\"en\"")
        for (lines, text) in [(german, "\"de\""), (english, "\"en\"")] {
            let results = try other.take("/a", lines, from: one)
            #expect(results.count == 2 && results.last == .taken)
            #expect(try other.test.text("/a", lines) == text)
        }
        #expect(try other.test.found("/a", [("Accept-Language", "fr")]) == nil)
        // In the other direction as well: the node's own marker leads to the variant, and the other node finds its record.
        other.test.now += 10
        one.test.now += 10
        try other.test.fetch("/a", [("Accept-Language", "fr")], Self.byLanguage, "\"fr\"")
        #expect(try one.take("/a", [("Accept-Language", "fr")], from: other).last == .taken)
        #expect(try one.test.text("/a", [("Accept-Language", "fr")]) == "\"fr\"")
        #expect(try one.test.text("/a", german) == "\"de\"")
    }

    @Test("a marker without its variant replaces nothing, so that stored responses remain usable")
    func markerAlone() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        try other.test.fetch("/a", [], [Self.fresh], "\"any\"")
        for cache in [one, other] { cache.test.now += 61_000 }
        try one.test.fetch("/a", [("Accept-Language", "en")], Self.byLanguage, "\"en\"")
        let results = try other.take("/a", [("Accept-Language", "de")], from: one)
        #expect(results.count == 1 && results.first != .taken && results.first != .notTaken)
        #expect(try other.test.text("/a", [("Accept-Language", "de")]) == "\"any\"")
        // With its variant, the marker is taken.
        #expect(try other.take("/a", [("Accept-Language", "en")], from: one).last == .taken)
        #expect(try other.test.text("/a", [("Accept-Language", "en")]) == "\"en\"")
        #expect(try other.test.found("/a", [("Accept-Language", "de")]) == nil)
    }

    @Test("a mark from another node invalidates responses stored under No-Vary-Search, in each API")
    func followedForOtherAPI() throws {
        let said = ("No-Vary-Search", "params=(\"x\")")
        let (one, node) = (try FleetCache(named: "two"), try FleetCache(named: "one"))
        let two = node.test.other(named: "two")
        // The response belongs to the node's second API.
        #expect(try node.test.store("/a?x=1", [Self.fresh, said], in: two) == .allowed)
        #expect(try two.find(TestCache.request("/a?x=2")).result.found != nil)
        for cache in [one, node] { cache.test.now += 1_000 }
        one.test.write("/a?x=1")
        for mark in one.told { node.test.cache.state.follow(mark: mark, at: node.test.time.wall) }
        #expect(try two.find(TestCache.request("/a?x=1")).result.found == nil && two.find(TestCache.request("/a?x=2")).result.found == nil)
    }

    @Test(
        "one user's shared response is never found by another user or without credentials",
        arguments: ["X-User", "Authorization", "Cookie"])
    func users(field: String) throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        func who(_ name: String) -> TestCache.Lines { name.isEmpty ? [] : [(field, field == "Cookie" ? "session=\(name)" : name)] }
        try one.test.fetch("/me", who("alice"), [Self.fresh], "\"alice\"")
        #expect(one.given.records.count == 1)
        for name in ["bob", ""] {
            #expect(try other.take("/me", who(name), from: one).isEmpty)
            #expect(try other.test.found("/me", who(name)) == nil)
        }
        #expect(try other.take("/me", who("alice"), from: one) == [.taken])
        #expect(try other.test.text("/me", who("alice")) == "\"alice\"")
        for name in ["bob", ""] { #expect(try other.test.found("/me", who(name)) == nil) }
    }

    @Test("a record under the wrong key, a record that is no response, and a damaged record are rejected")
    func wrong() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        try one.test.fetch("/a", [], [Self.fresh], "\"a\"")
        let lookUp = try #require(try other.lookUp("/a"))
        let (key, given) = try #require(one.given.records.first)
        let now = other.test.time.wall
        func result(_ change: (inout FleetRecord) -> Void) -> TakingResult {
            var record = given.record
            change(&record)
            return other.test.cache.takeFromNode(record, of: now, at: lookUp.locations[0], for: lookUp)
        }
        #expect(result { $0.key = key + [0] } == .notTaken)
        #expect(result { $0.metadata = [] } == .notTaken)
        #expect(result { $0.metadata = StoredMetadata.invalidation(at: now) } == .notTaken)
        #expect(result { $0.head = Array("no head".utf8) } == .notTaken)
        // Records of older versions are shorter.
        let older = [StoredMetadata.encodedBytes, StoredMetadata.encodedBytes + 8]
        for count in given.record.metadata.indices where !older.contains(count) {
            #expect(result { $0.metadata = Array($0.metadata[..<count]) } == .notTaken)
        }
        #expect(try other.test.found("/a") == nil)
        #expect(result { _ in } == .taken)
    }

    @Test("during secret rotation, records under the old secret are found with the new one")
    func secrets() throws {
        let (old, both, new) = (try FleetCache(["old"]), try FleetCache(["new", "old"]), try FleetCache(["new"]))
        let alice = [("X-User", "alice")]
        try old.test.fetch("/me", alice, [Self.fresh])
        #expect(try new.take("/me", alice, from: old).isEmpty)
        #expect(try both.take("/me", alice, from: old) == [.taken])
        try both.test.fetch("/other", alice, [Self.fresh])
        #expect(try new.take("/other", alice, from: both) == [.taken])
    }

    @Test("unsafe requests and unshared caches have no shared lookup")
    func noLookup() throws {
        let cache = try FleetCache()
        #expect(try cache.lookUp("/a", method: .head)?.locations.count == 1)
        #expect(try cache.lookUp("/a", method: .post) == nil && cache.lookUp("/a", method: .options) == nil)
        let alone = try TestCache()
        let head = TestCache.request("/a")
        #expect(alone.cache.fleetLookUp(for: head, at: try alone.cache.find(head).keys) == nil)
    }

    @Test(
        "a target with a known No-Vary-Search has no shared lookup, because the record could match other targets"
    )
    func varied() throws {
        let said = ("No-Vary-Search", "params=(\"x\")")
        let (one, other) = (try FleetCache(), try FleetCache())
        try other.test.fetch("/a?x=9", [], [Self.fresh, said], "\"9\"")
        // The record of No-Vary-Search outlives the response.
        other.test.cache.store.remove(try other.test.cache.find(TestCache.request("/a?x=9")).keys.own.span)
        #expect(try other.test.found("/a?x=9") == nil && other.given.records.isEmpty)
        // The upstream no longer sends the field.
        try one.test.fetch("/a?x=1", [], [Self.fresh], "\"1\"")
        #expect(one.given.records.count == 1)
        #expect(try other.lookUp("/a?x=1") == nil)
        #expect(try other.take("/a?x=1", from: one).isEmpty)
        #expect(try other.test.found("/a?x=2") == nil)
        // Other paths are not affected, and neither is a node that stores this path under its full target.
        try one.test.fetch("/b?x=1", [], [Self.fresh], "\"b\"")
        #expect(try other.take("/b?x=1", from: one) == [.taken])
        for cache in [one, other] { cache.test.now += 1_000 }
        try other.test.fetch("/a?x=1", [], [Self.fresh], "\"2\"")
        #expect(try other.lookUp("/a?x=1")?.locations.map(\.key) == other.given.records.keys.map { $0 })
        #expect(try one.take("/a?x=1", from: other) == [.taken])
    }

    @Test(
        "a key derived from the target alone equals the key derived with the fleet's secret",
        arguments: ["/a", "/a?b=1&a=2", "/a?x=1&c=%7e"])
    func plain(target: String) throws {
        let cache = try FleetCache()
        let maker = try #require(cache.test.cache.fleetKeyMakers.first)
        let head = TestCache.request(target)
        var own: [UInt8] = []
        let path = head.pathAndQuery
        let rules = cache.test.cache.settings.arguments.specialRules(for: path)
        let keys = maker.keys(for: head, target: path.span, rules: rules, content: nil, unknown: nil, in: &own).keys
        let shared = try #require(cache.test.cache.sharingRules).named(keys.own, for: head)
        #expect(try cache.lookUp(target)?.locations.map(\.key) == [shared])
        // With credentials the key is different.
        #expect(try cache.lookUp(target, [("X-User", "alice")])?.locations.map(\.key) != [shared])
    }

    // MARK: Sight

    /// A stored response confirmed at `time`, the node's connection to the log, and the expected state at `now`.
    struct SightRow: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var limit: Int64? = 30
        var afterGap = FleetLogLink.AfterGap.stale
        /// Events in order: nil is a connection to the log, a number the time of its loss.
        var history: [Int64?] = []
        let time: Int64
        let now: Int64
        let expected: FleetLogLink.Judgement
    }

    @Test(arguments: [
        SightRow(testDescription: "connected: responses count as they are", history: [nil], time: 0, now: 1_000, expected: .counts),
        SightRow(testDescription: "before the first connection: an older response is stale", time: 99, now: 101, expected: .isStale),
        SightRow(testDescription: "before the first connection: a newer response counts", time: 100, now: 101, expected: .counts),
        SightRow(
            testDescription: "before the first connection: a newer response past the limit is stale", time: 100, now: 130,
            expected: .isStale),
        SightRow(
            testDescription: "disconnected: a response younger than the limit counts", history: [nil, 200], time: 180, now: 209,
            expected: .counts),
        SightRow(
            testDescription: "disconnected: a response as old as the limit is stale", history: [nil, 200], time: 180, now: 210,
            expected: .isStale),
        SightRow(
            testDescription: "disconnected: a response confirmed since then", history: [nil, 200], time: 300, now: 329, expected: .counts),
        SightRow(
            testDescription: "disconnected: a response from the future is stale (clock set back)", history: [nil, 200], time: 211, now: 210,
            expected: .isStale),
        SightRow(
            testDescription: "disconnected: the clock is set back to before the loss", history: [nil, 200], time: 150, now: 190,
            expected: .isStale),
        SightRow(testDescription: "reconnected: responses count", history: [nil, 200, nil], time: 0, now: 500, expected: .counts),
        SightRow(
            testDescription: "disconnected twice: the first loss determines the time", afterGap: .drop, history: [nil, 200, 300], time: 250,
            now: 400,
            expected: .isStale),
        SightRow(
            testDescription: "shortly before the connection's validity ends", history: [nil], time: 1_960, now: 1_999, expected: .counts),
        SightRow(
            testDescription: "the connection's validity has ended without a reported loss", history: [nil], time: 1_960, now: 2_000,
            expected: .isStale),
        SightRow(
            testDescription: "the connection's validity has ended: a response confirmed since counts", history: [nil], time: 1_990,
            now: 2_000, expected: .counts),
        SightRow(testDescription: "no limit: all responses count", limit: nil, time: 0, now: 1_000, expected: .counts),
        SightRow(
            testDescription: "drop: disconnected for as long as the limit", afterGap: .drop, history: [nil, 200], time: 190, now: 230,
            expected: .isGone),
        SightRow(
            testDescription: "drop: disconnected for less than the limit", afterGap: .drop, history: [nil, 200], time: 190, now: 229,
            expected: .isStale),
        SightRow(
            testDescription: "drop: a response received while disconnected is stale, not dropped", afterGap: .drop, history: [nil, 200],
            time: 201, now: 240,
            expected: .isStale),
    ])
    func logLink(_ row: SightRow) {
        let logLink = FleetLogLink(blindLimit: row.limit, afterGap: row.afterGap, since: 100)
        for moment in row.history {
            if let moment { logLink.lose(at: Timestamp(milliseconds: moment)) } else { logLink.see(until: Timestamp(milliseconds: 2_000)) }
        }
        #expect(logLink.judge(Timestamp(milliseconds: row.time), now: Timestamp(milliseconds: row.now)) == row.expected)
        #expect(
            logLink.isDisconnected(at: Timestamp(milliseconds: row.now)) == (row.history.last.map { $0 != nil } ?? true || row.now >= 2_000)
        )
    }

    @Test("a disconnected node's old response is stale and usable for rescue, and absent with the drop setting")
    func blind() throws {
        let cache = try FleetCache()
        try cache.test.fetch("/a", [], [("Cache-Control", "max-age=600")])
        cache.test.now += 29_000
        cache.logLink.lose(at: Timestamp(milliseconds: cache.test.now - 1_000))
        #expect(try cache.test.found("/a").map { Reuse.isFresh($0.metadata, now: cache.test.time.wall) } == true)
        let bases = try ["/a", "/none"].map { try cache.test.cache.find(TestCache.request($0)).basis }
        #expect(bases.map { cache.test.cache.state.holds($0, now: cache.test.cache.now) } == [true, false])
        cache.test.now += 1_000
        #expect(bases.map { cache.test.cache.state.holds($0, now: cache.test.cache.now) } == [false, false])
        let found = try #require(try cache.test.found("/a"))
        #expect(!Reuse.isFresh(found.metadata, now: cache.test.time.wall) && Reuse.mayRescue(found.metadata, strictness: .rescue))
        cache.logLink.see(until: Timestamp(milliseconds: .max))
        #expect(try cache.test.found("/a").map { Reuse.isFresh($0.metadata, now: cache.test.time.wall) } == true)
    }

    // MARK: Purges by other nodes

    @Test(
        "a selection is decoded as it was encoded, and undecodable ones may mean anything",
        arguments: [
            FleetSelection(.everything), FleetSelection(.everything, apis: ["users", "orders"]), FleetSelection(.target, "/a?b=ü"),
            FleetSelection(.prefix, "/a/", apis: ["users"]), FleetSelection(.tag, ""), FleetSelection(.nothing),
        ])
    func selections(_ selection: FleetSelection) {
        #expect(FleetSelection(selection.bytes) == selection)
        for count in 0..<selection.bytes.count { #expect(FleetSelection(Array(selection.bytes[..<count])) != selection) }
        #expect(FleetSelection([9] + selection.bytes.dropFirst()) == nil && FleetSelection([]) == nil)
        #expect(FleetSelection(selection.bytes + [1]) == nil)
    }

    @Test(
        "a purge selection matches exactly the shared records it covers",
        arguments: [
            (FleetSelection(.everything), true), (FleetSelection(.nothing), false), (FleetSelection(.target, "/users/1"), true),
            (FleetSelection(.target, "/users/2"), false), (FleetSelection(.prefix, "/users/"), true),
            (FleetSelection(.prefix, "/orders/"), false),
            (FleetSelection(.everything, apis: ["other"]), false), (FleetSelection(.tag, "t"), true), (FleetSelection(.tag, "u"), false),
        ] as [(FleetSelection, Bool)])
    func selectionMatches(_ selection: FleetSelection, isMeant: Bool) throws {
        let cache = try FleetCache()
        try cache.test.fetch("/users/1", [], [Self.fresh, ("Cache-Tag", "s, t")])
        let record = try #require(cache.given.records.values.first).record
        let isPurged = cache.test.cache.purges(of: record, for: try #require(try cache.lookUp("/users/1")), within: PurgeBudget())
        #expect(isPurged(selection.bytes) == isMeant)
        #expect(isPurged([77]))
    }
}
