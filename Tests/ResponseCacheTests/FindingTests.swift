// Tests which stored response is found for a request.

import CachePolicy
import CacheStore
import Dispatch
import HTTPCore
import TestSupport
import Testing

@testable import ResponseCache

@Suite("The cache: finding")
struct FindingTests {
    private static let fresh = ("Cache-Control", "max-age=60")

    @Test("what was stored for a target is found in any spelling of it, and for nobody else's credentials")
    func keys() throws {
        let test = try TestCache()
        #expect(try test.fetch("/a?b=1&a=%7E", [("X-User", "u")], [Self.fresh], "1") == .allowed)
        #expect(try test.text("/a?a=~&b=1", [("X-User", "u")]) == "1")
        #expect(try test.text("/a?a=~&b=1") == nil)
        #expect(try test.text("/a?a=~&b=1", [("X-User", "v")]) == nil)
        #expect(try test.text("/a?a=~&b=2", [("X-User", "u")]) == nil)
        #expect(try test.found("/a?b=1&a=%7E", [("X-User", "u")], method: .head) != nil)
    }

    @Test("by the selecting fields; what is stored for other values is told as that")
    func vary() throws {
        let test = try TestCache()
        let varied = [Self.fresh, ("Vary", "Accept-Language")]
        try test.fetch("/a", [("Accept-Language", "de")], varied, "de")
        try test.fetch("/a", [("Accept-Language", "fr")], varied, "fr")
        #expect(try test.text("/a", [("Accept-Language", "de")]) == "de")
        #expect(try test.text("/a", [("Accept-Language", "fr")]) == "fr")
        let result = try test.cache.find(TestCache.request("/a", [("Accept-Language", "en")])).result
        guard case .otherVariant(let key) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(result.flightKey(TargetKeys(own: [], shared: [])) == key)
        // A response without Vary replaces all variants.
        try test.fetch("/a", [], [Self.fresh], "all")
        #expect(try test.text("/a", [("Accept-Language", "de")]) == "all")
    }

    @Test("under what the upstream says of the arguments, once it says so; what it said before is not found any more")
    func searchVariance() throws {
        let test = try TestCache()
        let says = { (names: String) in [Self.fresh, ("No-Vary-Search", "params=(\(names))")] }
        try test.fetch("/a?x=1&y=1", [], says("\"x\""), "1")
        #expect(try test.text("/a?x=2&y=1") == "1")
        #expect(try test.text("/a?x=2&y=2") == nil)
        test.now += 2_000
        try test.fetch("/a?x=1&y=2", [], says("\"x\" \"y\""), "2")
        #expect(try test.text("/a?x=7&y=7") == "2")
        test.now += 2_000
        // A response without the field is stored under its exact target only. The response that it replaces is removed.
        try test.fetch("/a?x=3&y=3", [], [Self.fresh], "3")
        #expect(try test.text("/a?x=3&y=3") == "3")
        #expect(try test.text("/a?x=7&y=7") == nil)
    }

    @Test("a key by a request's content: another content is another response, and a write leaves all of them behind")
    func content() throws {
        let test = try TestCache()
        let sent = try test.send("/search", method: .query, content: "a")
        #expect(test.complete(sent, [Self.fresh], "1") == .allowed)
        #expect(try test.found("/search", method: .query, content: "a") != nil)
        #expect(try test.found("/search", method: .query, content: "b") == nil)
        #expect(try test.found("/search") == nil)
        #expect(test.listed == ["/search"])
        test.now += 1
        test.write("/search")
        #expect(try test.found("/search", method: .query, content: "a") == nil)
        #expect(test.listed.isEmpty)
    }

    @Test("what is stored in a coding is for those who allow it")
    func coded() throws {
        let test = try TestCache { $0.policy.keepsAny = true }
        try test.fetch("/a", [("Accept-Encoding", "gzip")], [Self.fresh, ("Content-Encoding", "gzip")], "coded")
        #expect(try test.text("/a", [("Accept-Encoding", "gzip")]) == "coded")
        #expect(try test.text("/a", [("Accept-Encoding", "identity")]) == nil)
    }

    @Test("one user's own cache has no partitions, and a selecting field with a secret is not readable in its keys")
    func privateCache() throws {
        let test = try TestCache {
            $0.policy.isPrivate = true
            $0.policy.credentials.fields = ["x-user"]
        }
        try test.fetch("/a", [("X-User", "secret")], [Self.fresh, ("Vary", "X-User")], "1")
        #expect(try test.text("/a", [("X-User", "secret")]) == "1")
        #expect(try test.text("/a", [("X-User", "other")]) == nil)
        let entry = try #require(test.cache.list(EntrySelection(), limit: 1).entries.first)
        #expect(entry.key.partition.isEmpty && entry.key.variant?.selecting.first?.value?.contains("secret") == false)
    }

    @Test("what has to be brought in first is thrown on a loop, once for each record, and found when it is there")
    func onDisk() throws {
        let residency = ScriptedResidency()
        let test = try TestCache(residency: residency)
        try test.fetch("/a", [("Accept", "x")], [Self.fresh, ("Vary", "Accept")], "1")
        test.cache.store.flush()
        residency.takeAway()
        let onLoop = TestCache.other(test.cache.shared, mayWait: false)
        let request = TestCache.request("/a", [("Accept", "x")])
        var reads = 0
        while true {
            do throws(NotAtHand) {
                #expect(try onLoop.find(request).result.found != nil)
                break
            } catch {
                reads += 1
                let isThere = DispatchSemaphore(value: 0)
                onLoop.bringIn(error) { isThere.signal() }
                isThere.wait()
            }
        }
        #expect(reads == 2)
        residency.takeAway(isForgetful: true)
        #expect(throws: NotAtHand.self) { try onLoop.find(request) }
        #expect(try onLoop.waiting { () throws(NotAtHand) in try onLoop.find(request) }.result.found != nil)
    }
}
