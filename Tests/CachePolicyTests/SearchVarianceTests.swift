// Tests of No-Vary-Search: parsing by the draft's data model, and the effect on cache keys.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("No-Vary-Search (draft-ietf-httpbis-no-vary-search-10)")
struct SearchVarianceTests {
    private func parsed(_ value: String) -> SearchVariance? {
        var fields = Fields()
        fields.append(name: "No-Vary-Search", value: value)
        return SearchVariance(fields)
    }

    private func key(_ target: String, _ variance: SearchVariance, _ rules: ArgumentRules = ArgumentRules()) -> [UInt8] {
        var key: [UInt8] = []
        CacheKey.append(to: &key, authority: [], target: Array(target.utf8).span, rules: rules.with(variance))
        return key
    }

    @Test(
        "an invalid or ineffective No-Vary-Search is treated as absent",
        arguments: [
            "", "unknown-key", "key-order=\"x\"", "key-order=1", "params=\"a\"", "params=a", "params=(a)", "params=(\"a\" 1)",
            "params=(\"a\"), except=(\"x\")", "params=(), except=()", "params=?0, except=(\"x\")", "params, except=(x)",
            "params, except=\"x\"", "params, except=?1", "except=(\"x\")", "except=()", "params=?0", "params=()", "key-order=?0",
            "params=(\"a\"", "key-order,", "key-order, params=(\"%zz\")", "params, except=(\"a;b\")", "params, except=(\"%FF\")",
            "params, except=(\"%25\")", "KEY-ORDER",
        ])
    func nothing(value: String) {
        #expect(parsed(value) == nil)
    }

    @Test("a No-Vary-Search above the size limit is ignored")
    func tooLong() {
        #expect(parsed("params=(\"" + String(repeating: "a", count: 1_100) + "\")") == nil)
    }

    @Test(
        "targets that differ only in ignored arguments have the same key",
        arguments: [
            ("key-order", "/a?x=1&y=2", "/a?y=2&x=1"), ("params", "/a?x=1", "/a?y=2"), ("params", "/a?x=1", "/a"),
            ("params=?1", "/a?x=1", "/a"), ("params=(\"utm\")", "/a?x=1&utm=2", "/a?x=1"), ("params=(\"utm\")", "/a?utm", "/a"),
            ("params=(\"a\" \"b\");q=1, later=2", "/?a=1&b=2&c=3", "/?c=3"),
            ("params, except=(\"x\")", "/a?x=1&y=2", "/a?z=3&x=1"), ("params, except=()", "/a?x=1", "/a"),
            ("params=(\"%C3%A9+%E6%B0%97\")", "/?%C3%A9%20%e6%b0%97=1", "/?%C3%A9+%E6%B0%97=2"),
            ("params=(\"a\"), params=(\"b\")", "/?b=1", "/?b=2"),
        ])
    func same(value: String, left: String, right: String) throws {
        let variance = try #require(parsed(value))
        #expect(key(left, variance) == key(right, variance))
    }

    @Test(
        "targets that differ in relevant arguments have different keys",
        arguments: [
            ("key-order", "/a?x=1", "/a?x=2"), ("key-order", "/a?x=1&x=2", "/a?x=2&x=1"), ("params", "/a?x=1", "/b?x=1"),
            ("params=(\"utm\")", "/a?utm_x=1", "/a?utm_x=2"), ("params=(\"utm\")", "/a?UTM=1", "/a?UTM=2"),
            ("params=(\"utm\")", "/a?x=1&utm=1", "/a?x=2&utm=1"), ("params, except=(\"x\")", "/a?x=1", "/a?x=2"),
            ("params=(\"a\"), params=(\"b\")", "/?a=1", "/?a=2"),
        ])
    func different(value: String, left: String, right: String) throws {
        let variance = try #require(parsed(value))
        #expect(key(left, variance) != key(right, variance))
    }

    @Test("argument order matters if the route says so, unless the upstream declares it irrelevant")
    func order() throws {
        var rules = ArgumentRules()
        rules.sorts = false
        let left = "/a?x=1&y=2"
        let right = "/a?y=2&x=1"
        let (silent, free) = (try #require(parsed("params=(\"u\")")), try #require(parsed("key-order")))
        #expect(key(left, silent, rules) != key(right, silent, rules))
        #expect(key(left, free, rules) == key(right, free, rules))
    }

    @Test(
        "a decoded variance equals the encoded one",
        arguments: ["key-order", "params", "params=(\"b\" \"a\" \"b\" \"\")", "params, except=(\"x y\")"])
    func encoded(value: String) throws {
        let variance = try #require(parsed(value))
        let (encoded, short) = (variance.encoded, Array("kP".utf8))
        #expect(SearchVariance(encoded: encoded.span) == variance)
        #expect(SearchVariance(encoded: short.span) == nil)
    }
}
