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

    @Test("a response is found under any equivalent spelling of its target, and only with its credentials")
    func keys() throws {
        let test = try TestCache()
        #expect(try test.fetch("/a?b=1&a=%7E", [("X-User", "u")], [Self.fresh], "1") == .allowed)
        #expect(try test.text("/a?a=~&b=1", [("X-User", "u")]) == "1")
        #expect(try test.text("/a?a=~&b=1") == nil)
        #expect(try test.text("/a?a=~&b=1", [("X-User", "v")]) == nil)
        #expect(try test.text("/a?a=~&b=2", [("X-User", "u")]) == nil)
        #expect(try test.found("/a?b=1&a=%7E", [("X-User", "u")], method: .head) != nil)
    }

    @Test("a variant is found by its selecting fields; other variants are reported as such")
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
        #expect(result.flightKey(TargetKeys(own: [], credentialFree: [])) == key)
        // A response without Vary replaces all variants.
        try test.fetch("/a", [], [Self.fresh], "all")
        #expect(try test.text("/a", [("Accept-Language", "de")]) == "all")
    }

    @Test("No-Vary-Search takes effect when the upstream sends it, and responses under its earlier value are no longer found")
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

    @Test("with a key by content, other content is another response, and a write invalidates all of them")
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

    @Test("a response stored with a content coding is used only if the request accepts it")
    func coded() throws {
        let test = try TestCache { $0.policy.keepsAny = true }
        try test.fetch("/a", [("Accept-Encoding", "gzip")], [Self.fresh, ("Content-Encoding", "gzip")], "coded")
        #expect(try test.text("/a", [("Accept-Encoding", "gzip")]) == "coded")
        #expect(try test.text("/a", [("Accept-Encoding", "identity")]) == nil)
    }

    @Test("a private cache has no partitions, and secrets in selecting fields are not readable in its keys")
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

    @Test("on an event loop, an item on disk throws once for each record, and is found after loading")
    func onDisk() throws {
        let residency = ScriptedResidency()
        let test = try TestCache(residency: residency)
        try test.fetch("/a", [("Accept", "x")], [Self.fresh, ("Vary", "Accept")], "1")
        test.cache.store.flush()
        residency.takeAway()
        let onLoop = TestCache.other(test.cache.state, mayWait: false)
        let request = TestCache.request("/a", [("Accept", "x")])
        var reads = 0
        while true {
            do throws(NotInMemory) {
                #expect(try onLoop.find(request).result.found != nil)
                break
            } catch {
                reads += 1
                let isThere = DispatchSemaphore(value: 0)
                onLoop.load(error) { isThere.signal() }
                isThere.wait()
            }
        }
        #expect(reads == 2)
        residency.takeAway(isForgetful: true)
        #expect(throws: NotInMemory.self) { try onLoop.find(request) }
        #expect(try onLoop.waiting { () throws(NotInMemory) in try onLoop.find(request) }.result.found != nil)
    }
}
