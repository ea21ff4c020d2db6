// Tests which redirects are rewritten to stay on the proxy.

import Forwarding
import HTTPCore
import Testing

@Suite("Location rewriting")
struct LocationRewritingTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let sentence: String
        let location: String
        var basePath = ""
        /// nil: the location is not rewritten.
        let relative: String?

        var testDescription: String { sentence }

        init(_ sentence: String, _ location: String, basePath: String = "", _ relative: String?) {
            (self.sentence, self.location, self.basePath, self.relative) = (sentence, location, basePath, relative)
        }
    }

    static let rows = [
        Row("the upstream's origin is removed", "http://api.example:8000/users?x=1#a", "/users?x=1#a"),
        Row("scheme and host are case-insensitive", "HTTP://API.Example:8000/users", "/users"),
        Row("an origin without a path means its root", "http://api.example:8000", "/"),
        Row("a query after the origin belongs to its root", "http://api.example:8000?x=1", "/?x=1"),
        Row("a fragment after the origin belongs to its root", "http://api.example:8000#a", "/#a"),
        Row("another scheme", "https://api.example:8000/users", nil),
        Row("another port", "http://api.example:80001/users", nil),
        Row("another host with the same prefix", "http://api.example:8000.evil.example/", nil),
        Row("user information before the host", "http://user@api.example:8000/", nil),
        Row("a relative reference", "/users", nil),
        Row("an empty value", "", nil),
        Row("two slashes would name another authority", "http://api.example:8000//evil.example/", nil),
        Row("a backslash is a slash for browsers", "http://api.example:8000/\\evil.example/", nil),
        Row("the base path is removed", "http://api.example:8000/v1/users", basePath: "/v1", "/users"),
        Row("a path outside the base path", "http://api.example:8000/v2/users", basePath: "/v1", nil),
        Row("a path segment with the base path as its prefix", "http://api.example:8000/v10/users", basePath: "/v1", nil),
        Row("dot segments are resolved first", "http://api.example:8000/v1/../v1/%2e/users?a/../b", basePath: "/v1", "/users?a/../b"),
        Row("dot segments that leave the base path", "http://api.example:8000/v1/../users", basePath: "/v1", nil),
        Row("dot segments after another port", "http://api.example:80001/../users", nil),
        Row("two slashes after dot segments", "http://api.example:8000/a/..//evil.example/", nil),
        Row("the base path itself", "http://api.example:8000/v1", basePath: "/v1", "/"),
        Row("the base path with a query", "http://api.example:8000/v1?x=1", basePath: "/v1", "/?x=1"),
        Row("the base path with a fragment", "http://api.example:8000/v1#a", basePath: "/v1", "/#a"),
        Row("an origin without a path is outside the base path", "http://api.example:8000", basePath: "/v1", nil),
        Row("an origin with only a query is outside the base path", "http://api.example:8000?x=1", basePath: "/v1", nil),
        Row("two slashes after the base path", "http://api.example:8000/v1//evil.example", basePath: "/v1", nil),
    ]

    @Test("a redirect to the upstream becomes relative, and others are unchanged", arguments: rows)
    func rewriting(_ row: Row) {
        let relative = LocationRewriting.relative(
            Array(row.location.utf8)[...], to: Array("http://api.example:8000".utf8), basePath: Array(row.basePath.utf8))
        #expect(relative.map { String(decoding: $0, as: UTF8.self) } == row.relative)
    }

    @Test(
        "a location from another upstream address is translated to the first address",
        arguments: [
            ("/v2/users", "/v1", "/v1/users"), ("http://b.example/v2/users", "/v1", "http://a.example/v1/users"),
            ("HTTP://B.example/v2/users", "", "http://a.example/users"), ("/v2/users", "", "/users"), ("/v2", "/v1", "/v1/"),
            ("/v2?x=1", "/v1", "/v1/?x=1"),
            ("/v1/users", "/v1", "http://b.example/v1/users"), ("/v20/x", "", "http://b.example/v20/x"), ("/v2//evil.example", "", nil),
            ("//evil.example/v2/x", "/v1", nil), ("/\\evil.example", "/v1", nil), ("/\t/evil.example/v2", "/v1", nil),
            ("users", "/v1", nil), ("?x=1", "/v1", nil),
            ("", "/v1", nil),
            ("http://c.example/v2/users", "/v1", nil), ("http://b.example.evil/v2/users", "/v1", nil),
        ] as [(String, String, String?)])
    func translated(_ location: String, _ basePath: String, _ expected: String?) {
        let translated = LocationRewriting.translated(
            Array(location.utf8)[...], from: (Array("http://b.example".utf8), Array("/v2".utf8)),
            to: (Array("http://a.example".utf8), Array(basePath.utf8)))
        #expect(translated.map { String(decoding: $0, as: UTF8.self) } == expected)
    }

    @Test(
        "a location is rewritten to the client's path with strip_path",
        arguments: [
            ("/v2", "/api/"), ("/v2?x=1", "/api/?x=1"), ("/v2#a", "/api/#a"), ("/v2/", "/api/"), ("/v2/users", "/api/users"),
            ("http://b.example/v2", "/api/"), ("http://b.example/v2?x=1", "/api/?x=1"), ("/v20", nil), ("/", nil), ("?x=1", nil),
            ("http://b.example", nil), ("/v2/x/../a?q=/../b", "/api/a?q=/../b"), ("/x/%2E%2e/v2/a#/../b", "/api/a#/../b"),
            ("/v2/../x", nil), ("/v2/x/..//evil.example", nil), ("/v2/a%2fb", "/api/a%2fb"), ("/v2/..", nil), ("/v2/.", "/api/"),
        ] as [(String, String?)])
    func stripped(_ location: String, _ expected: String?) {
        let rewriting = LocationRewriting(
            isOn: true, origin: Array("http://b.example".utf8), basePath: Array("/v2".utf8), strippedPath: Array("/api".utf8))
        var fields = Fields()
        fields.append(.location, Array(location.utf8))
        let kept = rewriting.kept(fields)?.first(.location)
        #expect(kept.map { String(decoding: $0, as: UTF8.self) } == expected)
    }
}
