// Tests of the conditions of purges: their text, credentials of users, and that a purge removes exactly the responses that meet all
// conditions.

import CachePolicy
import CacheStore
import HTTPCore
import Identity
import TestSupport
import Testing

@testable import ResponseCache

func criteria(_ change: (inout PurgeCriteria) -> Void) -> PurgeCriteria {
    var criteria = PurgeCriteria()
    change(&criteria)
    return criteria
}

@Suite("The cache: conditions of purges")
struct PurgeCriteriaTests {
    private static let rows: [PurgeCriteria] = [
        criteria { _ in }, criteria { $0.target = "/a?b=ü&c" }, criteria { ($0.prefix, $0.tag) = ("/a%", "one=two") },
        criteria { ($0.matching, $0.except) = ("/orders/*/items", ["/orders/1/**", "/x"]) },
        criteria { ($0.partition, $0.before) = ("db4456e0", Timestamp(milliseconds: 1_795_000_000_001)) },
        criteria { ($0.user, $0.erases) = (.init(shared: [[1, 2], [255]], sealed: [0, 16]), true) },
        criteria { $0.user = .init(shared: [], sealed: []) },
    ]

    @Test("criteria survive the fleet's log; criteria of a newer version are rejected", arguments: rows)
    func text(_ criteria: PurgeCriteria) {
        #expect(PurgeCriteria(text: criteria.text) == criteria)
        let selection = FleetSelection(criteria, apis: ["a"])
        #expect(FleetSelection(selection.bytes) == selection && selection.criteria == criteria)
        let newer = FleetSelection(.criteria, criteria.text + "&color=red")
        #expect(FleetSelection(newer.bytes) == nil)
    }

    struct CredentialRow: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let text: String
        /// Fields of each request that may present it, or the problem.
        let expected: Result<[String], UserCredential.Problem>

        init(_ sentence: String, _ text: String, _ expected: [String]) {
            (testDescription, self.text, self.expected) = (sentence, text, .success(expected))
        }

        init(_ sentence: String, _ text: String, _ problem: UserCredential.Problem) {
            (testDescription, self.text, expected) = (sentence, text, .failure(problem))
        }
    }

    @Test(arguments: [
        CredentialRow("a token", "abc.def\n", ["authorization: Bearer abc.def", "x-key: abc.def"]),
        CredentialRow("a token with padding", " YWJj== ", ["authorization: Bearer YWJj==", "x-key: YWJj=="]),
        CredentialRow("a cookie", "sid=1a2b", ["authorization: Bearer sid=1a2b", "x-key: sid=1a2b", "cookie: sid=1a2b"]),
        CredentialRow("two cookies", "sid=1; b=2", ["cookie: sid=1; b=2"]),
        CredentialRow("a value of Authorization", "Basic dTpw", ["authorization: Basic dTpw"]),
        CredentialRow("a field", "X-Key:  k ", ["x-key: k"]),
        CredentialRow(
            "two fields, in any combination", "Authorization: Bearer t\r\nCookie: a=b\n",
            ["authorization: Bearer t", "cookie: a=b", "authorization: Bearer t, cookie: a=b"]),
        CredentialRow(
            "a host, which all requests have", "Host: a.test\nX-Key: k\nCookie: a=b",
            ["host: a.test, x-key: k", "host: a.test, cookie: a=b", "host: a.test, x-key: k, cookie: a=b"]),
        CredentialRow("a host alone", "Host: a.test", []),
        CredentialRow("two hosts", "Host: a.test\nX-Key: k\nhost: b.test", .severalHosts),
        CredentialRow("nothing", " \n", .empty), CredentialRow("too long", String(repeating: "a", count: 16_385), .tooLong),
        CredentialRow("too many", "A: 1\nB: 2\nC: 3\nD: 4\nE: 5", .tooManyFields),
        CredentialRow("two tokens", "abc\ndef", .malformed), CredentialRow("a control character", "a\u{1}b", .malformed),
    ])
    func credentials(_ row: CredentialRow) {
        let result = Result { () throws(UserCredential.Problem) in
            try UserCredential(Array(row.text.utf8)).requests(["authorization", "cookie", "x-key", "x-*"]).map { fields in
                fields.entries.map { entry in
                    String(decoding: fields.bytes[entry.nameRange] + Array(": ".utf8) + fields.bytes[entry.valueRange], as: UTF8.self)
                }.joined(separator: ", ")
            }
        }
        #expect(result == row.expected)
    }

    @Test("a credential selects the partitions of its user, and none if no rule recognizes it")
    func partitions() throws {
        let test = try TestCache()
        func partitions(_ text: String) throws -> [[UInt8]] { test.cache.partitions(of: try UserCredential(Array(text.utf8))).partitions }
        for lines in [[("Authorization", "Bearer t")], [("Cookie", "sid=1")], [("Authorization", "Bearer t"), ("X-User", "u")]] {
            try test.fetch("/a", lines)
        }
        let stored = Set(test.cache.list(EntrySelection(), limit: 9).entries.map(\.key.partition))
        let ofToken = Set(try partitions("Authorization: Bearer t\nX-User: u"))
        #expect(stored.count == 3 && ofToken.intersection(stored).count == 2)
        #expect(Set(try partitions("t")).intersection(stored).count == 1)
        #expect(Set(try partitions("sid=1")).intersection(stored).count == 1)
        #expect(try partitions("X-Other: u").isEmpty)
        let ignoring = try TestCache { settings in
            var rules = CredentialRules()
            rules.areIgnored = true
            settings.credentials = CredentialTable(PathTable(rest: rules))
        }
        #expect(ignoring.cache.partitions(of: try UserCredential(Array("t".utf8))).partitions.isEmpty)
    }

    @Test("if each host may identify another user, a credential selects the user of the host that it names, and none without one")
    func hosts() throws {
        var asked = LookUpSettings()
        (asked.path, asked.pointers) = ("/me", ["/id"])
        let identities = LookedUpIdentities(asked)
        let test = try TestCache { settings in
            var rules = CredentialRules()
            rules.lookUp = 0
            (settings.credentials, settings.lookUps) = (CredentialTable(PathTable(rest: rules)), [identities])
            settings.isKeyedByHost = true
        }
        let lines = [("Host", "A.test"), ("Authorization", "Bearer t")]
        let head = TestCache.request("/a", lines)
        guard case .lookedUp(let identity) = try test.cache.find(head).basis.identity else { throw ScheduleFailure("no look-up") }
        let token = try #require(test.cache.keyMaker.token(of: head.fields))
        let partition = test.cache.keyMaker.partition(identity: [1], by: asked, of: head.fields, without: token.carrier)
        let started = try #require(identities.begin(identity.hash, token: token.hash, now: test.now))
        identities.end(started, .lookedUp(partition: partition), now: test.now)
        try test.fetch("/a", lines)
        for (text, isFound) in [
            ("t", false), ("Authorization: Bearer t", false), ("Host: b.test\nAuthorization: Bearer t", false),
            ("Host: a.test\nAuthorization: Bearer t", true),
        ] {
            let found = test.cache.partitions(of: try UserCredential(Array(text.utf8)))
            #expect(found.partitions.contains(partition) == isFound && (found.doubt == nil) == isFound, "\(text)")
        }
    }

    @Test("a look-up result for one line does not complete the purge of a user with two lines")
    func parts() throws {
        var asked = LookUpSettings()
        (asked.path, asked.pointers) = ("/me", ["/id"])
        let identities = LookedUpIdentities(asked)
        let test = try TestCache { settings in
            var rules = CredentialRules()
            rules.lookUp = 0
            (settings.credentials, settings.lookUps) = (CredentialTable(PathTable(rest: rules)), [identities])
        }
        let head = TestCache.request("/a", [("Authorization", "Bearer t")])
        guard case .lookedUp(let identity) = try test.cache.find(head).basis.identity else { throw ScheduleFailure("no look-up") }
        let token = try #require(test.cache.keyMaker.token(of: head.fields))
        let partition = test.cache.keyMaker.partition(identity: [1], by: asked, of: head.fields, without: token.carrier)
        let started = try #require(identities.begin(identity.hash, token: token.hash, now: test.now))
        identities.end(started, .lookedUp(partition: partition), now: test.now)
        for (text, isWhole) in [
            ("t", true), ("Authorization: Bearer t", true), ("Authorization: Bearer t\nCookie: account=2", false),
        ] {
            let found = test.cache.partitions(of: try UserCredential(Array(text.utf8)))
            #expect(found.partitions.contains(partition) && (found.doubt == nil) == isWhole, "\(text)")
        }
    }

    // MARK: The property

    private final class World {
        struct Stored: Hashable {
            let target: String
            let user: Int
            let tag: String
            let time: Int64
        }

        let test: TestCache
        /// The response of each target and user.
        var model: [String: Stored] = [:]

        static let targets = ["/a", "/a/1", "/a/2/items", "/b/1/items?x=1", "/b/2/items", "/c%2fd", "/a?x=2"]

        init() throws { test = try TestCache() }

        static func fields(_ user: Int) -> TestCache.Lines { user == 0 ? [] : [("Authorization", "Bearer t\(user)")] }

        func check() throws {
            for target in Self.targets {
                for user in 0..<3 {
                    let isStored = model["\(user) \(target)"] != nil
                    try demand((try test.found(target, Self.fields(user)) != nil) == isStored, "\(target) of user \(user)")
                }
            }
            try demand(test.listed.count == model.count, "the list")
        }
    }

    private static func matches(_ criteria: PurgeCriteria, user: Int?, _ stored: World.Stored) -> Bool {
        let path = stored.target.prefix { $0 != "?" }
        if let prefix = criteria.prefix, !stored.target.hasPrefix(prefix) { return false }
        if let tag = criteria.tag, tag != stored.tag { return false }
        if let user, user != stored.user { return false }
        if let before = criteria.before, stored.time >= before.milliseconds { return false }
        switch criteria.matching {
        case "/*/*/items"?: return path.hasSuffix("/items")
        case "/a/**"?: return path == "/a" || path.hasPrefix("/a/")
        case "/c/d"?: return path == "/c%2fd"
        default: return true
        }
    }

    @Test("random purges: nothing that meets the conditions is found, listed or on the disk, and everything else stays")
    func walk() {
        RandomSchedules.run(40, steps: 30) { _ in
            try World()
        } step: { world, random in
            world.test.now += 1 + Int64(random.below(1_000))
            if random.chance(60) {
                let (target, user, tag) = (random.pick(World.targets), random.below(3), random.pick(["one", "two"]))
                let (fields, time) = (World.fields(user), world.test.now)
                try world.test.fetch(target, fields, [("Cache-Control", "max-age=3600"), ("Cache-Tag", tag)], "{\"t\":\(time)}")
                world.model["\(user) \(target)"] = World.Stored(target: target, user: user, tag: tag, time: time)
                return try world.check()
            }
            var criteria = PurgeCriteria()
            if random.chance(30) { criteria.prefix = random.pick(["/a", "/b/", "/c"]) }
            if random.chance(30) { criteria.tag = random.pick(["one", "two"]) }
            if random.chance(40) { criteria.matching = random.pick(["/*/*/items", "/a/**", "/c/d"]) }
            if random.chance(30) { criteria.before = Timestamp(milliseconds: world.test.now - Int64(random.below(8_000))) }
            let user = random.chance(40) ? 1 + random.below(2) : nil
            let credential = try user.map { try UserCredential(Array("t\($0)".utf8)) }
            world.test.cache.beginPurge(at: world.test.time.wall)
            let wanted = PurgeSelection.selection(criteria.selection(in: world.test.cache, credential: credential))
            let doomed = world.model.filter { Self.matches(criteria, user: user, $0.value) }
            try demand(world.test.cache.purge(wanted, isSoft: false) == doomed.count, "\(criteria) of \(user ?? 0)")
            for name in doomed.keys { world.model[name] = nil }
            try world.check()
            guard random.chance(30) else { return }
            _ = try CacheGroup([world.test.cache], meaning: [0]).erase([wanted])
            try world.check()
        }
    }
}
