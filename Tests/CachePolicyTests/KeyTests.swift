// Tests that equivalent requests have equal cache keys, and different requests never do.

import HTTPCore
import Testing

@testable import CachePolicy

private func key(
    _ target: String, authority: String = "http://a", partition: [UInt8] = [], extra: [UInt8] = [], rules: ArgumentRules? = nil
) -> [UInt8] {
    var key: [UInt8] = []
    let bytes = Array(target.utf8)
    let prefix = CacheKey.prefix(authority: Array(authority.utf8), partition: partition, extra: extra)
    CacheKey.append(to: &key, prefix: prefix, target: bytes.span, rules: rules)
    return key
}

@Suite("Cache keys (RFC 9111 §2)")
struct KeyTests {
    @Test(
        "equivalent targets have the same key",
        arguments: [
            ("/a?x=1&y=2", "/a?y=2&x=1"), ("/a?x=a+b", "/a?x=a%20b"), ("/%7Ea", "/~a"), ("/a%2fb", "/a%2Fb"), ("/%c3%a4", "/%C3%A4"),
            ("/a?%78=1", "/a?x=1"), ("/a?x=*", "/a?x=%2A"), ("/a?x=%252F", "/a?x=%25%32F"), ("/a?x=%7e", "/a?x=~"),
            ("/a?v=1&w=0&v=2", "/a?v=1&v=2&w=0"), ("/a?", "/a"), ("/?", "/"), ("/a?5&x=1&3", "/a?5&3&x=1"), ("/a?5&3&x=1", "/a?x=1&5&3"),
        ])
    func same(left: String, right: String) {
        #expect(key(left) == key(right))
    }

    @Test(
        "different targets have different keys",
        arguments: [
            ("/a", "/A"), ("/a", "/a/"), ("/a", "//a"), ("/a?x", "/a?x="), ("/a", "/a??"), ("/a", "/a?="), ("/a", "/a?&"), ("/a", "/a%3F"),
            ("/a%2Fb", "/a/b"), ("/a;b", "/a%3Bb"),
            ("/a?v=1&v=2", "/a?v=2&v=1"), ("/a?5&3", "/a?3&5"), ("/a?x=1&b&a", "/a?a&x=1&b"), ("/a?&x", "/a?x&"), ("/a?b=&a", "/a?b&a="),
            ("/a?x=%26y=1", "/a?x=&y=1"), ("/a?x=%2B", "/a?x=+"), ("/a+b", "/a%20b"), ("/a/../b", "/b"), ("/a/./b", "/a/b"),
            ("/a?x=1", "/a?x=1&"),
            ("/a?a=1;b=2", "/a?a=1&b=2"), ("/a?x%3D1", "/a?x=1"), ("/a%3Fx=1", "/a?x=1"), ("/a%00", "/a"), ("/a?ab=c", "/a?a=bc"),
            ("/a?X=1", "/a?x=1"), ("/a%%32%46b", "/a%2Fb"), ("/a?x=%%32%46", "/a?x=%2F"), ("/a?x=%zz", "/a?x=%25zz"),
            ("/a%", "/a%25"), ("/a%%25", "/a%25%25"), ("/a%%25", "/a%25%"), ("/a?%%", "/a?%25%25"), ("/a?x=1&%", "/a?x=1&%25"),
        ])
    func different(left: String, right: String) {
        #expect(key(left) != key(right))
    }

    @Test("under rfc9111 an empty query differs from no query (RFC 3986 §6.2.3)")
    func emptyQuery() {
        var rules = ArgumentRules()
        rules.keepsEmptyQuery = true
        let keys = ["/a", "/a?"].map { target in
            var key: [UInt8] = []
            CacheKey.append(to: &key, authority: [], target: Array(target.utf8).span, rules: rules)
            return key
        }
        #expect(keys[0] != keys[1])
        #expect(rules.isSpecial)
    }

    @Test(
        "an ignored argument counts if a server could read another argument in it",
        arguments: [
            ("/a?q=a", "/a?q=a&utm_x=1", true), ("/a?q=a", "/a?utm_x&q=a&utm_x=1&utm_y=%26q%3Devil", true),
            ("/a?q=a", "/a?q=a&utm_x=1;q=evil", false), ("/a?q=a", "/a?q=a&utm_x=1%3bq=evil", false),
            ("/a?q=a", "/a?q=a&utm_x;q=evil", false),
            ("/a?q=a", "/a?utm_x=%00&q=a", false), ("/a?q=a", "/a?utm_%00=1&q=a", false), ("/a?q=a", "/a?q=a&UTM_x=1", false),
            ("/a?q=a", "/a?q=a&drop=1;q=evil", true), ("/a?q=a", "/a?%64rop&q=a", true), ("/a?q=a", "/a?q=a&;utm_x=1", false),
        ])
    func ignored(_ left: String, _ right: String, _ isSame: Bool) {
        var rules = ArgumentRules()
        (rules.ignore, rules.drop) = ([ArgumentPattern("utm_*")], [ArgumentPattern("drop")])
        #expect((key(left, rules: rules) == key(right, rules: rules)) == isSame, "\(right)")
    }

    @Test(
        "an unlisted argument counts if a server could read it as a listed one",
        arguments: [
            ("x=1", false), ("qq=1", false), ("q_=1", false), ("q", true), ("Q=1", true), ("q[]=1", true), ("q%5B%5D=1", true),
            ("q.x=1", true),
            ("+q=1", true), ("%20q=1", true), ("q%00x=1", true), ("q[a][b]=1", true), ("x=1;q=1", true), ("a.b=1", true), ("A%20b=1", true),
            ("f_x=1", true), ("F.y=1", true), ("g=1", false),
        ])
    func only(_ argument: String, _ counts: Bool) throws {
        var rules = ArgumentRules()
        rules.only = [ArgumentPattern("q"), ArgumentPattern("a_b"), ArgumentPattern("f_*")]
        #expect((key("/a?" + argument, rules: rules) != key("/a", rules: rules)) == counts)
        // No-Vary-Search of the upstream is subject to these rules too.
        var fields = Fields()
        fields.append(name: "no-vary-search", value: "params, except=(\"q\" \"a_b\" \"f_x\" \"f_y\")")
        let variance = try #require(SearchVariance(fields))
        let said = ArgumentRules().with(variance)
        #expect((key("/a?" + argument, rules: said) != key("/a", rules: said)) == counts)
    }

    @Test(
        "dropped arguments are removed from the upstream target and from the key",
        arguments: [
            ("/a", nil), ("/a?x=1", nil), ("/a?x=1&gclid=2", "/a?x=1"), ("/a?gclid=2&utm_a&x=1&&y", "/a?x=1&&y"), ("/a?utm_a=1", "/a"),
            ("/a?%67clid=1&x=%2f+", "/a?x=%2f+"), ("/a?gclid=1;x=2&y=3", "/a?y=3"), ("/a?gclid2=1", nil), ("/a?x=gclid=1", nil),
            ("/a?", nil),
            ("/gclid=1/?x", nil),
        ])
    func sent(_ target: String, _ expected: String?) {
        var rules = ArgumentRules()
        rules.drop = [ArgumentPattern("gclid"), ArgumentPattern("utm_*")]
        #expect(rules.sent(Array(target.utf8)[...]).map { String(decoding: $0, as: UTF8.self) } == expected)
        #expect(key(target, rules: rules) == key(expected ?? target), "the key matches the forwarded target")
    }

    @Test("arguments of form content are never dropped, because the content is sent unchanged")
    func content() {
        var rules = ArgumentRules()
        rules.drop = [ArgumentPattern("x")]
        let keys = ["x=1&y=1", "x=2&y=1"].map { content in
            var key: [UInt8] = []
            CacheKey.appendArguments(Array(content.utf8).span, to: &key, rules: rules)
            return key
        }
        #expect(keys[0] != keys[1])
    }

    @Test("the parts of a key are unambiguous")
    func injective() {
        #expect(key("/ab", authority: "http://a") != key("/b", authority: "http://a/a"))
        #expect(key("/a", partition: [1, 2]) != key("/a", extra: [1, 2]))
        #expect(key("/a", partition: [1]) != key("/a"))
    }

    @Test("a key part of more than 65,535 bytes is preceded by its full length")
    func long() {
        let lengths = key("/p", authority: String(repeating: "a", count: 65_540))[1..<5]
        #expect(Array(lengths) == [4, 0, 1, 0])
    }

    @Test("arguments are sorted by name in the key")
    func anyOrder() {
        let names = ["b", "a", "ab", "", "B", "a~", "z"]
        let sorted = key("/p?" + ["", "B", "a", "ab", "a~", "b", "z"].map { $0 + "=1" }.joined(separator: "&"))
        for turn in names.indices {
            let turned = names[turn...] + names[..<turn]
            #expect(key("/p?" + turned.map { $0 + "=1" }.joined(separator: "&")) == sorted)
        }
    }

    /// Rack reads `f[][k]=1&f[][v]=2&f[][k]=3` as two elements, and another order as other elements.
    @Test("names of one array keep their order, and other names are sorted", arguments: ["[]", "%5b%5D", "[x][]"])
    func arrays(brackets: String) {
        let array = ["f\(brackets)[k]=1", "f\(brackets)[v]=2", "f\(brackets)[k]=3", "f\(brackets)=4"]
        func ordered(_ order: [String], at position: Int) -> [UInt8] {
            var arguments = order + ["f=2", "z[]=1"]
            arguments.insert("a=1", at: position)
            return key("/p?" + arguments.joined(separator: "&"))
        }
        let expected = ordered(array, at: 0)
        for position in array.indices { #expect(ordered(array, at: position) == expected) }
        var orders: Set<[UInt8]> = [expected]
        for other in [[1, 0, 2, 3], [0, 2, 1, 3], [3, 0, 1, 2]] {
            let turned = other.map { array[$0] }
            #expect(orders.insert(ordered(turned, at: 2)).inserted)
        }
    }

    @Test("every byte allowed in a target gives a distinct key, in the path and in an argument")
    func everyByte() {
        var seen: Set<[UInt8]> = []
        for byte in UInt8(0x21)...0x7e where byte != UInt8(ascii: "?") && byte != UInt8(ascii: "#") {
            let text = String(decoding: [byte], as: UTF8.self)
            #expect(seen.insert(key("/" + text)).inserted)
            #expect(seen.insert(key("/?x=" + text)).inserted)
        }
        // Every byte is escaped: the maximum length of a key for this target.
        let longest = String(repeating: "&%=", count: 3_000)
        #expect(key("/?" + longest).count > longest.utf8.count)
    }

    @Test("targets with many arguments or invalid percent signs have a key")
    func odd() {
        let many = "/a?" + (0..<200).map { "n\($0)=\($0)" }.joined(separator: "&")
        #expect(key(many) == key(many))
        for target in ["/a%", "/a%2", "/a%zz", "/a?%", "/a?=&=&&", "/a?&"] { #expect(!key(target).isEmpty) }
        #expect(key("/a%zz") != key("/a%ZZ"))
    }
}
