// Keys: the same call in any spelling is one key, and two different calls never are.

import HTTPCore
import Testing

@testable import CachePolicy

private func key(_ target: String, authority: String = "http://a", partition: [UInt8] = [], extra: [UInt8] = []) -> [UInt8] {
    var key: [UInt8] = []
    let bytes = Array(target.utf8)
    CacheKey.append(to: &key, authority: Array(authority.utf8), target: bytes.span, partition: partition, extra: extra)
    return key
}

@Suite("Cache keys (RFC 9111 §2)")
struct KeyTests {
    @Test(
        "the same",
        arguments: [
            ("/a?x=1&y=2", "/a?y=2&x=1"), ("/a?x=a+b", "/a?x=a%20b"), ("/%7Ea", "/~a"), ("/a%2fb", "/a%2Fb"), ("/%c3%a4", "/%C3%A4"),
            ("/a?%78=1", "/a?x=1"), ("/a?x=*", "/a?x=%2A"), ("/a?x=%7e", "/a?x=~"), ("/a?v=1&w=0&v=2", "/a?v=1&v=2&w=0"),
        ])
    func same(left: String, right: String) {
        #expect(key(left) == key(right))
    }

    @Test(
        "not the same",
        arguments: [
            ("/a", "/A"), ("/a", "/a/"), ("/a", "//a"), ("/a", "/a?"), ("/a?x", "/a?x="), ("/a%2Fb", "/a/b"), ("/a;b", "/a%3Bb"),
            ("/a?v=1&v=2", "/a?v=2&v=1"),
            ("/a?x=%26y=1", "/a?x=&y=1"), ("/a?x=%2B", "/a?x=+"), ("/a+b", "/a%20b"), ("/a/../b", "/b"), ("/a/./b", "/a/b"),
            ("/a?x=1", "/a?x=1&"),
            ("/a?a=1;b=2", "/a?a=1&b=2"), ("/a?x%3D1", "/a?x=1"), ("/a%3Fx=1", "/a?x=1"), ("/a%00", "/a"), ("/a?ab=c", "/a?a=bc"),
            ("/a?X=1", "/a?x=1"),
        ])
    func different(left: String, right: String) {
        #expect(key(left) != key(right))
    }

    @Test("parts never run together")
    func injective() {
        #expect(key("/ab", authority: "http://a") != key("/b", authority: "http://a/a"))
        #expect(key("/a", partition: [1, 2]) != key("/a", extra: [1, 2]))
        #expect(key("/a", partition: [1]) != key("/a"))
    }

    @Test("many arguments, and odd percent signs, are taken as they are")
    func odd() {
        let many = "/a?" + (0..<200).map { "n\($0)=\($0)" }.joined(separator: "&")
        #expect(key(many) == key(many))
        for target in ["/a%", "/a%2", "/a%zz", "/a?%", "/a?=&=&&", "/a?&"] { #expect(!key(target).isEmpty) }
        #expect(key("/a%zz") != key("/a%ZZ"))
    }
}
