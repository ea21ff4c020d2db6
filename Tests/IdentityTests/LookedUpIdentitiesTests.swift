// Tests of look-up results: the user that the upstream's response names, and how long it is valid.

import HTTPCore
import Testing

@testable import Identity

@Suite("Identity lookups at the upstream")
struct LookedUpIdentitiesTests {
    private static var settings: LookUpSettings {
        var settings = LookUpSettings()
        (settings.path, settings.pointers, settings.fields) = ("/me", ["/id", "/roles"], ["x-scopes"])
        return settings
    }

    private static func values(_ content: String, scopes: String? = "read", status: Status = 200) -> [UInt8]? {
        var fields = Fields()
        if let scopes { fields.append(name: "X-Scopes", value: scopes) }
        return settings.values(status: status, fields, content: Array(content.utf8))
    }

    @Test("equal values give the same user whatever their position and spelling; different values give another")
    func same() {
        let ann = Self.values(#"{"id":7,"roles":["a","b"],"seen":1}"#)
        #expect(ann != nil)
        #expect(Self.values(#"{ "seen":2, "roles":["a","\u0062"], "id":7 }"#) == ann)
        for other in [#"{"id":"7","roles":["a","b"]}"#, #"{"id":7,"roles":["a"]}"#, #"{"id":7,"roles":["ab"]}"#, #"{"id":7,"roles":"a"}"#] {
            #expect(Self.values(other) != nil && Self.values(other) != ann, "\(other)")
        }
        #expect(Self.values(#"{"id":7,"roles":["a","b"]}"#, scopes: "write") != ann)
    }

    @Test(
        "missing, empty or ambiguous values give no identity",
        arguments: [
            "", "[]", "{}", #"{"id":7}"#, #"{"id":"","roles":["a"]}"#, #"{"id":null,"roles":["a"]}"#, #"{"id":true,"roles":["a"]}"#,
            #"{"id":{"a":1},"roles":["a"]}"#, #"{"id":7,"roles":[]}"#, #"{"id":7,"roles":[""]}"#, #"{"id":7,"roles":[["a"]]}"#,
            #"{"id":7,"id":8,"roles":["a"]}"#, #"{"id":7,"roles":["a"]"#,
        ])
    func nothing(_ content: String) {
        #expect(Self.values(content) == nil)
    }

    @Test("numbers without an exact double representation give no identity, so no users are merged")
    func inexactNumbers() {
        func told(_ id: String) -> [UInt8]? { Self.values("{\"id\":\(id),\"roles\":[\"a\"]}") }
        for id in [
            "18446744073709551615", "18446744073709551614", "9007199254740992", "-9007199254740992", "1e400", "1.5", "7.00000000000000001",
            "1e-400",
        ] {
            #expect(told(id) == nil, "\(id)")
        }
        #expect(Self.values(#"{"id":7,"roles":["a",18446744073709551615]}"#) == nil)
        #expect(told("9007199254740991") != nil && told("9007199254740991") != told("9007199254740990"))
        #expect(told("-7") != nil && told("-7") != told("7"))
        #expect(told("7.0") == told("7") && told("70e-1") == told("7"))
    }

    @Test("a missing or empty field, or a status other than 200, gives no identity")
    func otherResponses() {
        let content = #"{"id":7,"roles":["a"]}"#
        #expect(Self.values(content, scopes: nil) == nil && Self.values(content, scopes: " ") == nil)
        #expect(Self.values(content, status: 203) == nil && Self.values(content, status: 401) == nil)
    }

    @Test("one request performs the lookup, and its result is renewed at half of its lifetime")
    func course() throws {
        let told = LookedUpIdentities(Self.settings)
        let hash: [UInt8] = [1]
        func begin(_ now: Int64) -> StartedLookUp? { told.begin(hash, token: [2], now: now) }
        #expect(told.find(hash, now: 0).isDue)
        let first = try #require(begin(0))
        #expect(begin(1) == nil)
        #expect(!told.find(hash, now: 1).isDue)
        told.end(first, .lookedUp(partition: [9]), now: 1_000)
        let found = told.find(hash, now: 2_000)
        #expect(found.partition == [9] && found.isCurrent && !found.isDue && found.ends == 601_000)
        #expect(told.find(hash, now: 301_000).isDue)
        let second = try #require(begin(301_000))
        // The look-up failed. The earlier result stays valid, and afterwards serves for rescues only.
        told.end(second, .failed, now: 302_000)
        #expect(!told.find(hash, now: 303_000).isDue && told.find(hash, now: 332_000).isDue)
        let late = told.find(hash, now: 601_000)
        #expect(late.partition == [9] && !late.isCurrent && late.isDue)
        // The upstream no longer knows these credentials.
        told.end(try #require(begin(601_000)), .nothing, now: 601_000)
        let gone = told.find(hash, now: 602_000)
        #expect(gone.partition == nil && !gone.isDue && told.find(hash, now: 631_000).isDue)
    }

    @Test("after the clock was set back, a result is used for rescues only, until another lookup")
    func clockSetBack() throws {
        let told = LookedUpIdentities(Self.settings)
        let hash: [UInt8] = [1]
        told.end(try #require(told.begin(hash, token: [2], now: 9_000_000)), .lookedUp(partition: [9]), now: 9_000_000)
        let found = told.find(hash, now: 5_000_000)
        #expect(found.partition == [9] && !found.isCurrent && found.isDue)
        let second = try #require(told.begin(hash, token: [2], now: 5_000_000))
        #expect(told.begin(hash, token: [2], now: 5_000_001) == nil && !told.find(hash, now: 5_000_001).isCurrent)
        told.end(second, .failed, now: 5_000_001)
        #expect(told.find(hash, now: 5_000_002).partition == [9] && !told.find(hash, now: 5_000_002).isCurrent)
        let third = try #require(told.begin(hash, token: [2], now: 5_030_001))
        told.end(third, .lookedUp(partition: [8]), now: 5_030_001)
        #expect(told.find(hash, now: 5_030_000).isCurrent)
    }

    @Test("a write is followed by a lookup at once; one without effect changes nothing", arguments: [true, false])
    func afterWrite(isWithoutEffect: Bool) throws {
        let told = LookedUpIdentities(Self.settings)
        let hash: [UInt8] = [1]
        told.end(try #require(told.begin(hash, token: [2], now: 0)), .lookedUp(partition: [9]), now: 0)
        var write: IdentityWrite? = IdentityWrite([[2]], in: [told])
        #expect(told.find(hash, now: 1).partition == nil && told.find(hash, now: 1).isAfterWrite)
        write?.isWithoutEffect = isWithoutEffect
        write = nil
        let found = told.find(hash, now: 2)
        #expect(found.partition == (isWithoutEffect ? [9] : nil))
        #expect(found.isDue == !isWithoutEffect && found.isAfterWrite == !isWithoutEffect)
        guard !isWithoutEffect else { return }
        // Until the upstream answers, the reason is the write.
        told.end(try #require(told.begin(hash, token: [2], now: 2)), .failed, now: 3)
        #expect(told.find(hash, now: 4).isAfterWrite && !told.find(hash, now: 4).isDue)
        told.end(try #require(told.begin(hash, token: [2], now: 40_000)), .lookedUp(partition: [8]), now: 40_000)
        #expect(told.find(hash, now: 40_001).partition == [8] && !told.find(hash, now: 40_001).isAfterWrite)
    }

    @Test("credentials without a known user get another partition after a write with effect, and in another process")
    func ownPartition() throws {
        let (told, other) = (LookedUpIdentities(Self.settings), LookedUpIdentities(Self.settings))
        func own(_ tokens: [[UInt8]], in table: LookedUpIdentities? = nil) -> LookedUpIdentity {
            (table ?? told).find([1], tokens: tokens, now: 0)
        }
        let first = own([[2], [3]])
        #expect(first.ownPartition([1]).starts(with: [1]) && first.ownPartition([1]) != own([[2], [3]], in: other).ownPartition([1]))
        IdentityWrite([[3]], in: [told]).isWithoutEffect = true
        #expect(first.isUnchanged && own([[2], [3]]).ownPartition([1]) == first.ownPartition([1]))
        _ = IdentityWrite([[3]], in: [told])
        #expect(!first.isUnchanged && own([[2], [3]]).ownPartition([1]) != first.ownPartition([1]))
        #expect(own([[2]]).isUnchanged && own([[2]]).ownPartition([1]) == first.ownPartition([1]))
        // A request without a token that another user's write has numbered does not find what was stored with it.
        let former = own([[2], [3]])
        _ = IdentityWrite([[2]], in: [told])
        #expect(own([[2]]).ownPartition([1]) != former.ownPartition([1]) && own([[2], [3]]).ownPartition([1]) != former.ownPartition([1]))
        // A write without a response counts at its loss, and again when it must have ended.
        let before = own([[2]])
        #expect(IdentityWrite([[2]], in: [told]).noteLoss(now: 0).count == 1)
        let during = own([[2]])
        #expect(!before.isUnchanged && during.ownPartition([1]) != before.ownPartition([1]))
        #expect(told.endLosses(now: IdentityWrite.lossMilliseconds) == nil && !during.isUnchanged)
    }

    @Test("lost writes with equal tokens have one record, which the last one extends; the token is suspended until then")
    func lostWrites() throws {
        let told = LookedUpIdentities(Self.settings)
        let tokens = (0..<128).map { [UInt8]([2, $0]) }
        func begin() -> StartedLookUp? { told.begin([1], token: tokens[0], now: 0) }
        told.end(try #require(begin()), .lookedUp(partition: [9]), now: 0)
        let calls = (0..<9_000).map { Int64($0) }.filter { !IdentityWrite(tokens, in: [told]).noteLoss(now: $0).isEmpty }
        #expect(calls == [0] && told.lostTokens == 128)
        // Another set of known tokens needs no further record.
        #expect(IdentityWrite([tokens[0], [3]], in: [told]).noteLoss(now: 20_000).isEmpty && told.lostTokens == 129)
        #expect(told.endLosses(now: 38_998) == 1_000 && told.lostTokens == 129)
        #expect(told.endLosses(now: 38_999) == 11_001 && told.lostTokens == 2)
        #expect(told.find([1], now: 1).partition == nil && begin() == nil)
        #expect(told.endLosses(now: 50_000) == nil && told.lostTokens == 0)
        told.end(try #require(begin()), .lookedUp(partition: [8]), now: 0)
        #expect(told.find([1], now: 1).partition == [8])
    }

    @Test("a common identity ends the terms of those that had it, also of a lookup that found it shortly after; it counts for an hour")
    func common() throws {
        let told = LookedUpIdentities(Self.settings)
        func begin(_ number: UInt8, _ now: Int64) throws -> StartedLookUp { try #require(told.begin([number], token: [number], now: now)) }
        func partition(_ number: UInt8, _ now: Int64 = 2) -> [UInt8]? { told.find([number], now: now).partition }
        for (number, user) in [(UInt8(1), UInt8(9)), (2, 8)] { told.end(try begin(number, 0), .lookedUp(partition: [user]), now: 0) }
        let before = told.find([1], now: 1)
        let (third, fourth) = (try begin(3, 1), try begin(4, 1))
        #expect(told.dependsOnToken([9], third, now: 1) == nil && told.dependsOnToken([9], fourth, now: 1) == nil)
        #expect(told.end(third, .common(partition: [9]), now: 2))
        #expect(told.dependsOnToken([9], fourth, now: 2) == false)
        #expect(!told.end(fourth, .lookedUp(partition: [9]), now: 2))
        #expect(!before.isUnchanged && partition(1) == nil && partition(2) == [8] && partition(3) == nil && partition(4) == nil)
        // Guests are not looked up more often than users. The former result of others serves for rescues.
        #expect(!told.find([3], now: 100_000).isDue && told.find([3], now: 301_000).isDue)
        told.end(try begin(2, 301_000), .common(partition: [9]), now: 301_000)
        #expect(partition(2, 301_001) == [8] && !told.find([2], now: 301_001).isCurrent)
        let later = try begin(3, 3_700_000)
        #expect(told.dependsOnToken([9], later, now: 3_700_000) == nil)
        told.end(later, .lookedUp(partition: [9]), now: 3_700_000)
        #expect(partition(3, 3_700_001) == [9])
    }

    @Test("known users are passed to the next process, for rescues, but not those of tokens that a write has or may have changed")
    func restart() throws {
        let hashes = (0..<5).map { [UInt8](repeating: $0, count: 16) }
        let told = LookedUpIdentities(Self.settings)
        for hash in hashes {
            told.end(try #require(told.begin(hash, token: hash, now: 0)), .lookedUp(partition: hash), now: 0)
        }
        told.forget([hashes[1]])
        _ = IdentityWrite([hashes[2]], in: [told])
        let active = IdentityWrite([hashes[3]], in: [told])
        IdentityWrite([hashes[4]], in: [told]).isWithoutEffect = true
        let next = LookedUpIdentities(Self.settings)
        next.adopt(told.remembered()[...], now: 5)
        withExtendedLifetime(active) {}
        #expect(hashes.map { next.find($0, now: 5).partition != nil } == [true, false, false, false, true])
        let found = next.find(hashes[0], now: 5)
        #expect(found.partition == hashes[0] && !found.isCurrent && found.isDue)
        _ = IdentityWrite([hashes[0]], in: [next])
        #expect(next.find(hashes[0], now: 5).partition == nil)
        next.end(try #require(next.begin(hashes[4], token: hashes[4], now: 5)), .lookedUp(partition: hashes[4]), now: 5)
        #expect(next.find(hashes[4], now: 5).isCurrent)
    }

    @Test("a lookup during which a write began is repeated at once")
    func overtakenLookUp() throws {
        let told = LookedUpIdentities(Self.settings)
        let lookUp = try #require(told.begin([1], token: [2], now: 0))
        let write = IdentityWrite([[2]], in: [told])
        write.isWithoutEffect = true
        told.end(lookUp, .lookedUp(partition: [9]), now: 1)
        #expect(told.find([1], now: 2).partition == nil && told.find([1], now: 2).isDue)
    }
}
