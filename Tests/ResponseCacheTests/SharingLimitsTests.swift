// Tests of what nodes do not share, so that no user sees another user's data and no good response is lost. Also tests what a purge by
// another node removes.

import CachePolicy
import CacheStore
import HTTPCore
import Identity
import JSON
import TestSupport
import Testing

@testable import ResponseCache

@Suite("The cache: responses not shared with other nodes")
struct SharingLimitsTests {
    private static let fresh = ("Cache-Control", "max-age=60")
    private static let html = [("Content-Type", "text/html"), fresh]

    // MARK: Identity

    /// A node that looks up users at the upstream.
    private struct Asking {
        let node: FleetCache
        private let identities: LookedUpIdentities

        init() throws {
            var asked = LookUpSettings()
            (asked.path, asked.pointers) = ("/me", ["/tenant"])
            var rules = CredentialRules()
            rules.lookUp = 0
            identities = LookedUpIdentities(asked)
            node = try FleetCache { [identities, rules] in
                ($0.credentials, $0.lookUps) = (CredentialTable(PathTable(rest: rules)), [identities])
            }
        }

        /// The upstream names the tenant of these credentials.
        func tell(_ tenant: String, of lines: TestCache.Lines) throws {
            let basis = try node.test.cache.find(TestCache.request("/a", lines)).basis
            guard case .lookedUp(let identity) = basis.identity else {
                Issue.record("no lookup is needed")
                return
            }
            let (head, maker) = (TestCache.request("/a", lines), node.test.cache.keyMaker)
            let token = try #require(maker.token(of: head.fields))
            let started = try #require(identities.begin(identity.hash, token: token.hash, now: node.test.now))
            let partition = maker.partition(
                identity: Array(tenant.utf8), by: identities.settings, of: head.fields, without: token.carrier)
            identities.end(started, .lookedUp(partition: partition), now: node.test.now)
        }
    }

    @Test("a write announces its tokens with each secret, so that nodes with another first secret find them; their number is limited")
    func announced() throws {
        let (one, other) = (try FleetCache(["a", "b"]), try FleetCache(["b", "a"]))
        func announce(_ lines: TestCache.Lines) -> Fields {
            let head = TestCache.request("/login", lines, method: .post)
            let cache = one.test.cache
            cache.announceWrite(of: head, tokens: cache.keyMaker.tokens(of: head.fields), isLost: false)
            return head.fields
        }
        let fields = announce([("Cookie", "sid=moving0123456789abcdef; theme=dark")])
        let told = try #require(one.given.announced.first)
        #expect(Set(told).count == 4 && told.allSatisfy { $0.count == FleetMembership.tokenBytes })
        for node in [one, other] {
            let token = try #require(node.test.cache.keyMaker.token(of: fields))
            #expect(told.contains(token.hash))
        }
        _ = announce([])
        #expect(one.given.announced.count == 1)
        _ = announce([("Cookie", (0..<2_000).map { "c\($0)=x" }.joined(separator: "; "))])
        #expect(one.given.announced.last?.count == 256)
    }

    @Test("responses of a user identified by the upstream are neither shared nor looked up, because credentials may change owners")
    func lookedUp() throws {
        let (one, other) = (try Asking(), try Asking())
        let (moving, staying) = ([("Authorization", "moving")], [("Authorization", "staying")])
        // Before the look-up, each token counts as a separate user. No node knows of the writes at the others that may have changed it.
        try one.node.test.fetch("/a", moving, [Self.fresh], "\"of X\"")
        #expect(try other.node.take("/a", moving, from: one.node).isEmpty)
        for asking in [one, other] {
            try asking.tell("X", of: moving)
            try asking.tell("Y", of: staying)
        }
        try one.node.test.fetch("/b", moving, [Self.fresh], "\"of X\"")
        #expect(one.node.given.records.isEmpty)
        #expect(try other.node.lookUp("/b", moving) == nil)
        // The token then belongs to the other user. Records in the engine under its former key are not served.
        let head = TestCache.request("/a", moving)
        let before = try other.node.test.cache.find(head).keys
        for asking in [one, other] { asking.node.test.now += 600_000 }
        try other.tell("Y", of: moving)
        #expect(other.node.test.cache.fleetLookUp(for: head, at: before) == nil)
        #expect(try other.node.take("/a", moving, from: one.node).isEmpty)
        #expect(try other.node.test.found("/a", staying) == nil)
        // The look-up result has expired, so the token counts as a separate user again.
        for asking in [one, other] { asking.node.test.now += 3_600_000 }
        #expect(other.node.test.cache.fleetLookUp(for: head, at: before) == nil)
        try one.node.test.fetch("/c", moving, [Self.fresh], "\"its own\"")
        #expect(try other.node.take("/c", moving, from: one.node).isEmpty)
    }

    /// Differences in the identity rules of two nodes.
    private static let otherRules: [(name: String, change: @Sendable (inout ResponseCacheSettings) -> Void)] = [
        ("credential fields", { $0.policy.credentials.fields.removeLast() }),
        ("cookies that count", { $0.policy.credentials.cookies = ["session"] }),
        ("cookies that do not", { $0.policy.credentials.ignoredCookies.append("theme") }),
        ("key fields", { $0.policy.keyFields = ["x-tenant"] }),
        (
            "ignored credentials",
            {
                var rules = CredentialRules()
                rules.areIgnored = true
                $0.credentials = CredentialTable(PathTable([(RoutePattern("/a"), rules)], rest: CredentialRules()))
            }
        ),
        ("policy: strict", { $0.policy.strictness = .strict }), ("set_cookie: keep", { $0.policy.setCookie = .keep }),
        ("stored errors", { ($0.policy.keepsAny, $0.policy.keepsAnyError) = (true, true) }),
        ("targeted fields", { $0.policy.targetedFields = [] }),
        ("ignored private", { $0.freshness = Self.ignoring(.privateResponse) }),
        ("ignored no-store", { $0.freshness = Self.ignoring(.noStore) }), ("ignored Vary", { $0.freshness = Self.ignoring(.vary) }),
        (
            "fields that the upstream gets from the operator",
            {
                var rules = FreshnessRules()
                rules.unforwarded = [Array("x-tenant".utf8)]
                $0.freshness = PathTable([(RoutePattern("/a"), rules)], rest: FreshnessRules())
            }
        ),
        (
            "fixed values of such fields",
            {
                var rules = FreshnessRules()
                rules.fixed = [7]
                $0.freshness = PathTable([(RoutePattern("/a"), rules)], rest: FreshnessRules())
            }
        ),
        ("ignored arguments", { $0.arguments = Self.arguments { $0.ignore = [ArgumentPattern("account")] } }),
        ("the only arguments", { $0.arguments = Self.arguments { $0.only = [ArgumentPattern("page")] } }),
        ("removed arguments", { $0.arguments = Self.arguments { $0.drop = [ArgumentPattern("utm_*")] } }),
        ("arguments without case", { $0.arguments = Self.arguments { $0.ignoresCase = true } }),
        ("arguments in order", { $0.arguments = Self.arguments { $0.sorts = false } }),
        ("empty queries", { $0.arguments = Self.arguments { $0.keepsEmptyQuery = true } }),
    ]

    private static func ignoring(_ directive: IgnoredDirective) -> PathTable<FreshnessRules> {
        var rules = FreshnessRules()
        rules.ignored = [directive]
        return PathTable([(RoutePattern("/a"), rules)], rest: FreshnessRules())
    }

    private static func arguments(_ change: (inout ArgumentRules) -> Void) -> ArgumentTable {
        var rules = ArgumentRules()
        change(&rules)
        return ArgumentTable(PathTable([(RoutePattern("/a"), rules)], rest: ArgumentRules()))
    }

    /// Rules that have no effect on sharing.
    private static let otherTimes: [@Sendable (inout ResponseCacheSettings) -> Void] = [
        { $0.freshness = Self.ignoring(.maxAge) }, { $0.freshness = Self.ignoring(.noCache) },
        {
            var rules = FreshnessRules()
            (rules.standard, rules.staleFor) = (60, 60)
            $0.freshness = PathTable(rest: rules)
        },
        { $0.arguments = ArgumentTable(PathTable([(RoutePattern("/b"), ArgumentRules())], rest: ArgumentRules())) },
        { $0.policy.makesEntityTags = false }, { $0.policy.keepsAny = true },
    ]

    @Test("rules for lifetimes and other paths do not separate nodes", arguments: otherTimes.indices)
    func times(row: Int) throws {
        let (usual, other) = (try FleetCache(), try FleetCache { Self.otherTimes[row](&$0) })
        try other.test.fetch("/a", [], [Self.fresh])
        #expect(try usual.take("/a", from: other) == [.taken])
    }

    @Test("a response that this node does not store is not taken from a node that does")
    func types() throws {
        let (usual, any) = (try FleetCache(), try FleetCache { $0.policy.keepsAny = true })
        let html = ("Content-Type", "text/html")
        try any.test.fetch("/page", [], [Self.fresh, html])
        try any.test.fetch("/a", [], [Self.fresh])
        #expect(try usual.take("/page", from: any) == [.notTaken] && usual.test.found("/page") == nil)
        #expect(try usual.take("/a", from: any) == [.taken])
    }

    @Test("nodes with different rules for telling users apart do not share responses", arguments: otherRules.indices)
    func foreign(row: Int) throws {
        let change = Self.otherRules[row].change
        let (usual, one, other) = (try FleetCache(), try FleetCache { change(&$0) }, try FleetCache { change(&$0) })
        for node in [usual, one] { try node.test.fetch("/a", [("X-User", "alice")], [Self.fresh]) }
        for node in [usual, one] { try node.test.fetch("/a", [], [Self.fresh]) }
        for lines in [[], [("X-User", "alice")]] {
            #expect(try usual.take("/a", lines, from: one).isEmpty, "\(Self.otherRules[row].name)")
            #expect(try one.take("/a", lines, from: usual).isEmpty, "\(Self.otherRules[row].name)")
        }
        #expect(try other.take("/a", from: one) == [.taken])
    }

    @Test("a private cache neither shares nor looks up responses, whatever other settings say")
    func ownCache() throws {
        let node = try FleetCache { $0.policy.isPrivate = true }
        #expect(try node.test.fetch("/a", [("X-User", "alice")], [("Cache-Control", "private, max-age=60")]) == .allowed)
        #expect(try node.given.records.isEmpty && node.lookUp("/a") == nil)
    }

    @Test("a path whose credentials are ignored does not prevent sharing of other paths")
    func otherPath() throws {
        let (one, other) = (try FleetCache(), try FleetCache { Self.otherRules[4].change(&$0) })
        try one.test.fetch("/b", [], [Self.fresh])
        #expect(try other.take("/b", from: one) == [.taken])
    }

    // MARK: Good responses

    /// A response of another node, and a stale stored response at this node.
    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var copy: (lines: TestCache.Lines, content: String)? = ([SharingLimitsTests.fresh], "[1,2,3,4,5,6,7,8,9]")
        let lines: TestCache.Lines
        var content = "[1]"
        var status: Status = 200
        var strictness = Strictness.rescue
        var good = GoodResponse()
        var kept = GoodResponse()
        let expected: TakingResult
    }

    private static var demanding: GoodResponse {
        var good = GoodResponse()
        good.shrinkLimit = 50
        return good
    }

    private static var having: GoodResponse {
        var good = GoodResponse()
        good.mustHave = [JSONPointer("/items")!]
        return good
    }

    private static let rows: [Row] = [
        Row(testDescription: "a shorter response replaces the stored one", lines: [fresh], expected: .taken),
        Row(
            testDescription: "a response below its route's minimum does not replace the stored one", lines: [fresh], good: demanding,
            expected: .notGood),
        Row(
            testDescription: "a response below its route's minimum, nothing is stored", copy: nil, lines: [fresh], good: demanding,
            expected: .taken),
        Row(testDescription: "HTML does not replace JSON", lines: html, content: "<p>", expected: .notGood),
        Row(testDescription: "HTML replaces JSON in strict mode", lines: html, content: "<p>", strictness: .strict, expected: .taken),
        Row(testDescription: "HTML replaces HTML", copy: (html, "<b>"), lines: html, content: "<p>", expected: .taken),
        Row(testDescription: "HTML, nothing is stored", copy: nil, lines: html, content: "<p>", expected: .taken),
        Row(testDescription: "an empty response does not replace content", lines: [fresh], content: "", status: 204, expected: .notGood),
        Row(
            testDescription: "a response without a required member, nothing is stored", copy: nil, lines: [fresh], good: having,
            expected: .notGood),
        Row(
            testDescription: "a response with the required member", copy: nil, lines: [fresh], content: #"{"items":[]}"#, good: having,
            expected: .taken),
        Row(testDescription: "a response that its route does not store", copy: nil, lines: [fresh], kept: having, expected: .notGood),
        Row(
            testDescription: "a response that its route does not store, with a stored one", lines: [fresh], kept: having, expected: .notGood
        ),
        Row(testDescription: "a response that its route stores", lines: [fresh], content: #"{"items":[]}"#, kept: having, expected: .taken),
        Row(testDescription: "a response shorter than its route stores", lines: [fresh], kept: demanding, expected: .notGood),
    ]

    @Test("a worse response from another node does not replace the last good stored response", arguments: rows)
    func bad(_ row: Row) throws {
        let nodes = try (0..<2).map { _ in
            try FleetCache {
                ($0.policy.contentTypes, $0.policy.keepsAny, $0.policy.strictness) = (ContentTypes(["*"]), true, row.strictness)
            }
        }
        let (one, other) = (nodes[0], nodes[1])
        if let copy = row.copy { try other.test.fetch("/a", [], copy.lines, copy.content) }
        for node in nodes { node.test.now += 61_000 }
        #expect(one.test.complete(try one.test.send("/a"), row.lines, row.content, status: row.status) == .allowed)
        #expect(try other.take("/a", from: one, good: row.good, kept: row.kept) == [row.expected])
        #expect(try other.test.text("/a") == (row.expected == .taken ? row.content : row.copy?.content))
    }

    @Test("encoded content from another node is decoded before it is checked", arguments: [#"{"items":[]}"#, #"{"other":[]}"#])
    func coded(content: String) throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        try one.test.fetch("/a", [], [Self.fresh], content)
        var (record, recency) = try #require(one.given.records.values.first)
        let coded = try TestContent.gzip(content)
        record.body = .coded(coded, ContentForm(coding: 1, plainBytes: content.utf8.count))
        let lookUp = try #require(try other.lookUp("/a", good: Self.having))
        let result = other.test.cache.takeFromNode(record, of: recency.responseTime, at: lookUp.locations[0], for: lookUp)
        #expect(result == (content.contains("items") ? .taken : .notGood))
        record.body = .coded([1, 2, 3], ContentForm(coding: 1, plainBytes: 3))
        #expect(other.test.cache.takeFromNode(record, of: recency.responseTime, at: lookUp.locations[0], for: lookUp) == .notGood)
    }

    // MARK: Purges

    /// A preflight for a target, as a browser sends it.
    private static let asking = [("Origin", "http://a.test"), ("Access-Control-Request-Method", "PUT")]

    private func identity(_ target: String) throws -> [UInt8] {
        let head = TestCache.request(target, Self.asking, method: .options)
        return try #require(Preflight(head, content: .none, credentials: CredentialNames([]))).identity
    }

    private func store(preflightFor target: String, in test: TestCache) throws {
        let identity = String(decoding: try identity(target), as: UTF8.self)
        let sent = try test.send(target, Self.asking, method: .options, content: identity)
        let lines = [("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Methods", "PUT"), ("Access-Control-Max-Age", "60")]
        #expect(test.complete(sent, lines, "", status: 204) == .allowed)
    }

    private func isFound(preflightFor target: String, in test: TestCache) throws -> Bool {
        let head = TestCache.request(target, Self.asking, method: .options)
        return try test.cache.find(head, content: try identity(target)).result.found != nil
    }

    @Test("a purge of a target at another node removes its preflight responses, and a write does not")
    func preflights() throws {
        let (one, other) = (try FleetCache(), try FleetCache())
        for target in ["/a?b=1", "/b"] { try store(preflightFor: target, in: other.test) }
        for cache in [one, other] { cache.test.now += 1_000 }
        one.test.write("/a?b=1")
        for mark in one.told { other.test.cache.state.follow(mark: mark, at: other.test.time.wall) }
        #expect(try isFound(preflightFor: "/a?b=1", in: other.test))
        for mark in try #require(one.test.cache.marks(ofTarget: "/a?b=1")) {
            other.test.cache.state.follow(mark: mark, at: other.test.time.wall)
        }
        #expect(other.test.listed == ["/b"])
        #expect(try !isFound(preflightFor: "/a?b=1", in: other.test) && isFound(preflightFor: "/b", in: other.test))
        try store(preflightFor: "/a?b=1", in: other.test)
        #expect(try isFound(preflightFor: "/a?b=1", in: other.test))
    }

    @Test(
        "a purge by selection may concern APIs that this node does not serve",
        arguments: [
            ([nil], [], false), (["a"], [], true), (["a"], ["a"], false), (["a"], ["a", "b"], true), (["a", "b"], ["b"], false),
            ([nil], ["a"], true),
        ] as [([String?], [String], Bool)])
    func otherAPIs(served: [String?], apis: [String], expected: Bool) {
        let settings = served.map { name in
            ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://a".utf8)), name: name.map { StoredKey.name(ofAPI: $0) })
        }
        #expect(FleetSelection(.target, "/a", apis: apis).mayMeanOthers(than: settings) == expected)
    }
}
