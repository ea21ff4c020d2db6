// Tests of the paths that a route matches, and of its requirements for responses.

import HTTPCore
import JSON
import Testing

@testable import CachePolicy

@Suite("Route patterns")
struct RouteTests {
    @Test(
        "a pattern matches the expected paths",
        arguments: [
            ("/users", "/users", true), ("/users", "/users?x=/y", true), ("/users", "/users/", false), ("/users", "/users/1", false),
            ("/users", "/user", false), ("/users/*", "/users/1", true), ("/users/*", "/users/", false),
            ("/users/*", "/users/1/posts", false),
            ("/users/*/posts", "/users/1/posts", true), ("/users/*/posts", "/users//posts", false), ("/**", "/", true),
            ("/**", "/a/b?c", true),
            ("/a/**", "/a/", true), ("/a/**", "/a/b/c", true), ("/a/**", "/a", true), ("/a/**", "/ab", false), ("/", "/", true),
            ("/", "/a", false), ("/Users", "/users", false), ("/a", "*", false),
            // Paths match in the canonical form of cache keys.
            ("/a", "/%61", true), ("/posts/**", "/%70osts/1", true), ("/posts/*/b", "/post%73/1/%62?c", true), ("/%61", "/a", true),
            ("/%2fa/**", "/%2Fa/b", true), ("/a", "/a%", false), ("/a%", "/a%", true), ("/a", "/a%2", false), ("/a/b", "/a%2fb", false),
            ("/a+", "/a%2B", false), ("/a%%41", "/a%41", false), ("/posts", "/%70ost", false), ("/post", "/%70osts", false),
        ])
    func patterns(pattern: String, target: String, fits: Bool) {
        #expect(RoutePattern(pattern).matches(Array(target.utf8)[...]) == fits, "\(pattern) \(target)")
    }

    @Test(
        "targets with the same key match the same routes, and a pattern is displayed as written",
        arguments: ["/posts/1", "/%70osts/1", "/po%73ts/%31?x", "/p%6Fsts/%2f", "/p%6fsts/%2F", "/posts/%", "/posts;a/1", "/posts%3ba/1"])
    func keys(target: String) {
        func key(_ target: String) -> [UInt8] {
            var key: [UInt8] = []
            CacheKey.append(to: &key, authority: [], target: Array(target.utf8).span)
            return key
        }
        for other in ["/posts/1", "/posts/%2F", "/posts/1?x", "/posts/%", "/posts%3Ba/1"] where key(target) == key(other) {
            for pattern in ["/posts/**", "/posts/1", "/%70osts/*", "/posts/%2f", "/posts/%", "/posts%3ba/1"] {
                let pattern = RoutePattern(pattern)
                #expect(
                    pattern.matches(Array(target.utf8)[...]) == pattern.matches(Array(other.utf8)[...]), "\(pattern) \(target) \(other)")
            }
        }
        #expect(RoutePattern(target).text == target)
    }

    @Test("a pattern covers another one exactly if it matches all paths that the other one matches")
    func covering() {
        let segments = ["", "a", "b", "%61", "*"]
        let patterns = segments.flatMap { first in
            ["/\(first)", "/\(first)/**"] + segments.flatMap { ["/\(first)/\($0)", "/\(first)/\($0)/**"] }
        }
        let parts = ["", "a", "b", "c"]
        var paths = parts.map { "/\($0)" }
        for _ in 0..<2 { paths += paths.flatMap { path in parts.map { "\(path)/\($0)" } } }
        let matched = (patterns + ["/**"]).map { text in
            let pattern = RoutePattern(text)
            return (pattern, Set(paths.filter { pattern.matches(Array($0.utf8)[...]) }))
        }
        for (one, paths) in matched {
            for (other, others) in matched {
                #expect(one.covers(other) == others.isSubset(of: paths), "\(one.text) \(other.text)")
            }
        }
    }

    @Test(
        "a pattern may match below a given path",
        arguments: [
            ("/big/**", "", true), ("/big/**", "/orders", false), ("/orders/big/**", "/orders", true), ("/orders", "/orders", true),
            ("/**", "/orders/new", true), ("/orders/**", "/orders/new", true), ("/orders", "/orders/new", false),
            ("/*/big", "/orders", true), ("/*", "/orders/new", false), ("/orders/*/a", "/orders/new", true),
            ("/ordersbig", "/orders", false),
        ])
    func below(pattern: String, path: String, isReached: Bool) {
        #expect(RoutePattern(pattern).mayMatch(below: Array(path.utf8)) == isReached, "\(pattern) \(path)")
    }

    @Test("content rules detect a wrong size, shrinkage, and missing or forbidden members")
    func demands() {
        func fault(_ text: String, stored: Int? = nil, isJSON: Bool = true, _ change: (inout GoodResponse) -> Void) -> UpstreamFault? {
            var good = GoodResponse()
            change(&good)
            return good.faultOfContent(Array(text.utf8).span, isJSON: isJSON, storedBytes: stored)
        }
        #expect(fault("{}") { _ in } == nil)
        #expect(fault("{}") { $0.minimumBytes = 3 } == .unexpectedSize)
        #expect(fault("[123]") { $0.maximumBytes = 4 } == .unexpectedSize)
        #expect(fault("[]", stored: 10) { $0.shrinkLimit = 50 } == .shrunk)
        #expect(fault("[1,2]", stored: 10) { $0.shrinkLimit = 50 } == nil)
        #expect(fault("[]") { $0.shrinkLimit = 50 } == nil)
        #expect(fault("{\"a\":1}") { $0.mustHave = [JSONPointer("/a")!] } == nil)
        #expect(fault("{\"b\":1}") { $0.mustHave = [JSONPointer("/a")!] } == .missingValue)
        #expect(fault("{\"error\":1}") { $0.mustNotHave = [JSONPointer("/error")!] } == .unwantedValue)
        #expect(fault("<p>", isJSON: false) { $0.mustHave = [JSONPointer("/a")!] } == .missingValue)
        #expect(fault("<p>", isJSON: false) { $0.mustNotHave = [JSONPointer("/a")!] } == nil)
    }

    @Test(
        "Retry-After is read as seconds or as a date (RFC 9110 §10.2.3)",
        arguments: [
            ("120", 120_000), ("0", 0), ("Sun, 06 Nov 1994 08:49:47 GMT", 10_000), ("Sun, 06 Nov 1994 08:49:27 GMT", 0), ("soon", nil),
            ("-1", nil),
        ])
    func retryAfter(value: String, expected: Int64?) {
        var fields = Fields()
        fields.append(.retryAfter, value)
        #expect(RetryAfter.milliseconds(fields, now: Timestamp(seconds: 784_111_777)) == expected)
    }

    @Test("a date in Retry-After is compared with the upstream's clock, not with this one", arguments: [-80_000, -60, 0, 7_200])
    func retryAfterOfSkewedClock(skew: Int64) {
        var fields = Fields()
        fields.append(.retryAfter, "Sun, 06 Nov 1994 08:49:47 GMT")
        fields.append(.date, "Sun, 06 Nov 1994 08:49:27 GMT")
        let now = Timestamp(seconds: 784_111_777 + skew)
        #expect(RetryAfter.milliseconds(fields, now: now) == 20_000)
        fields.append(.age, "5")
        #expect(RetryAfter.milliseconds(fields, now: now) == 15_000)
        // The Date of a static response.
        #expect(RetryAfter.milliseconds(fields, now: Timestamp(seconds: 784_111_777 + 1_000_000)) == 0)
    }
}
