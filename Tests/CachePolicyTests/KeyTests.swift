// Keys: the same call in any spelling is one key, and two different calls never are.

import HTTPCore
import Testing

@testable import CachePolicy

private func key(_ target: String, authority: String = "http://a", partition: [UInt8] = [], extra: [UInt8] = []) -> [UInt8] {
    var key: [UInt8] = []
    let bytes = Array(target.utf8)
    let prefix = CacheKey.prefix(authority: Array(authority.utf8), partition: partition, extra: extra)
    CacheKey.append(to: &key, prefix: prefix, target: bytes.span, rules: nil)
    return key
}

@Suite("Cache keys (RFC 9111 §2)")
struct KeyTests {
    @Test(
        "the same",
        arguments: [
            ("/a?x=1&y=2", "/a?y=2&x=1"), ("/a?x=a+b", "/a?x=a%20b"), ("/%7Ea", "/~a"), ("/a%2fb", "/a%2Fb"), ("/%c3%a4", "/%C3%A4"),
            ("/a?%78=1", "/a?x=1"), ("/a?x=*", "/a?x=%2A"), ("/a?x=%252F", "/a?x=%25%32F"), ("/a?x=%7e", "/a?x=~"),
            ("/a?v=1&w=0&v=2", "/a?v=1&v=2&w=0"), ("/a?", "/a"), ("/?", "/"), ("/a?5&x=1&3", "/a?5&3&x=1"), ("/a?5&3&x=1", "/a?x=1&5&3"),
        ])
    func same(left: String, right: String) {
        #expect(key(left) == key(right))
    }

    @Test(
        "not the same",
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

    @Test("to the letter an empty query is not none (RFC 3986 §6.2.3)")
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

    @Test("parts never run together")
    func injective() {
        #expect(key("/ab", authority: "http://a") != key("/b", authority: "http://a/a"))
        #expect(key("/a", partition: [1, 2]) != key("/a", extra: [1, 2]))
        #expect(key("/a", partition: [1]) != key("/a"))
    }

    @Test("a part longer than 65,535 bytes has its whole length before it")
    func long() {
        let lengths = key("/p", authority: String(repeating: "a", count: 65_540))[1..<5]
        #expect(Array(lengths) == [4, 0, 1, 0])
    }

    @Test("arguments are in the order of their names, whatever order they came in")
    func anyOrder() {
        let names = ["b", "a", "ab", "", "B", "a~", "z"]
        let sorted = key("/p?" + ["", "B", "a", "ab", "a~", "b", "z"].map { $0 + "=1" }.joined(separator: "&"))
        for turn in names.indices {
            let turned = names[turn...] + names[..<turn]
            #expect(key("/p?" + turned.map { $0 + "=1" }.joined(separator: "&")) == sorted)
        }
    }

    @Test("every byte that may stand in a target has a key of its own, in a path and in an argument")
    func everyByte() {
        var seen: Set<[UInt8]> = []
        for byte in UInt8(0x21)...0x7e where byte != UInt8(ascii: "?") && byte != UInt8(ascii: "#") {
            let text = String(decoding: [byte], as: UTF8.self)
            #expect(seen.insert(key("/" + text)).inserted)
            #expect(seen.insert(key("/?x=" + text)).inserted)
        }
        // All escapes at once: the most room that a target can need.
        let longest = String(repeating: "&%=", count: 3_000)
        #expect(key("/?" + longest).count > longest.utf8.count)
    }

    @Test("many arguments, and odd percent signs, are taken as they are")
    func odd() {
        let many = "/a?" + (0..<200).map { "n\($0)=\($0)" }.joined(separator: "&")
        #expect(key(many) == key(many))
        for target in ["/a%", "/a%2", "/a%zz", "/a?%", "/a?=&=&&", "/a?&"] { #expect(!key(target).isEmpty) }
        #expect(key("/a%zz") != key("/a%ZZ"))
    }
}
