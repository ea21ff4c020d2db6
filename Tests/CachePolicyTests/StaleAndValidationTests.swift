// Tests of RFC 9111 by clause: stale responses, validation, HEAD, Vary, invalidation.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Stale responses (RFC 9111 §4.2.4, RFC 5861)")
struct StaleTests {
    private func rescue(_ lines: String, _ asked: String = "X: 1", status: UInt16 = 200, flags: StoredFlags = [], _ strictness: Strictness)
        -> RescueDecision
    {
        var metadata = stored(lines, status: status).metadata
        metadata.flags.formUnion(flags)
        return Reuse.rescue(metadata, RequestCacheControl(fields(asked)), strictness: strictness, now: noon.after(100))
    }

    @Test(
        "under strict policy, directives decide whether a response may be served a hundred seconds later",
        arguments: [
            ("Cache-Control: max-age=10", "X: 1", .allowed(age: 100, ttl: -90)), ("X: 1", "X: 1", .allowed(age: 100, ttl: nil)),
            ("Cache-Control: max-age=10, must-revalidate", "X: 1", .forbidden(.mustRevalidate)),
            ("Cache-Control: max-age=10, proxy-revalidate", "X: 1", .forbidden(.proxyRevalidate)),
            ("Cache-Control: s-maxage=10", "X: 1", .forbidden(.sharedMaxAge)), ("Cache-Control: no-cache", "X: 1", .forbidden(.noCache)),
            ("Cache-Control: stale-if-error=100", "X: 1", .allowed(age: 100, ttl: nil)),
            ("Cache-Control: stale-if-error=99", "X: 1", .forbidden(.staleIfError)),
            ("X: 1", "Cache-Control: stale-if-error=99", .forbidden(.staleIfError)),
            ("Cache-Control: max-age=10, stale-if-error=90", "X: 1", .allowed(age: 100, ttl: -90)),
            ("Cache-Control: max-age=10, stale-if-error=89", "X: 1", .forbidden(.staleIfError)),
            ("Cache-Control: max-age=10, stale-if-error=5", "Cache-Control: stale-if-error=90", .allowed(age: 100, ttl: -90)),
            ("Cache-Control: max-age=10", "Cache-Control: stale-if-error=5", .forbidden(.staleIfError)),
            ("Cache-Control: max-age=10, stale-if-error=90, must-revalidate", "X: 1", .forbidden(.mustRevalidate)),
        ] as [(String, String, RescueDecision)])
    func strict(lines: String, asked: String, expected: RescueDecision) {
        #expect(rescue(lines, asked, .strict) == expected)
    }

    @Test("neither policy permits stale responses to authorized requests or stored errors")
    func both() {
        for strictness in Strictness.allCases {
            #expect(rescue("Cache-Control: max-age=10", flags: .authorized, strictness) == .forbidden(.authorized))
            #expect(rescue("Cache-Control: max-age=10, public", flags: .authorized, strictness) == .allowed(age: 100, ttl: -90))
            #expect(rescue("Cache-Control: max-age=200", flags: .authorized, strictness) == .allowed(age: 100, ttl: 100))
            #expect(rescue("Cache-Control: max-age=10", status: 503, strictness) == .forbidden(.storedError))
            #expect(rescue("Cache-Control: max-age=10", status: 404, strictness) == .allowed(age: 100, ttl: -90))
        }
    }

    @Test(
        "stale-while-revalidate permits a stale response within its time",
        arguments: [
            ("Cache-Control: max-age=10, stale-while-revalidate=90", "X: 1", .serveWhileValidating(ttl: -90, age: 100)),
            ("Cache-Control: max-age=10, stale-while-revalidate=89", "X: 1", .validate(.stale)),
            ("Cache-Control: max-age=10, stale-while-revalidate=90, must-revalidate", "X: 1", .validate(.stale)),
            ("Cache-Control: max-age=10, stale-while-revalidate=90", "Cache-Control: max-age=200", .validate(.stale)),
            ("Cache-Control: max-age=10, stale-while-revalidate=90", "Cache-Control: no-cache", .validate(.requestNoCache)),
        ] as [(String, String, ReuseDecision)])
    func whileRevalidating(lines: String, asked: String, expected: ReuseDecision) {
        let decision = Reuse.decide(stored(lines).metadata, RequestCacheControl(fields(asked)), now: noon.after(100))
        #expect(decision == expected)
    }
}

@Suite("Validation and HEAD (RFC 9111 §4.3)")
struct SelectionTests {
    @Test(
        "a 304 applies if its validators match the stored response",
        arguments: [
            ("ETag: \"x\"", "ETag: \"x\"", true), ("ETag: \"x\"", "ETag: W/\"x\"", true), ("ETag: \"x\"", "ETag: \"y\"", false),
            ("X: 1", "ETag: \"y\"", false), ("ETag: \"x\"", "X: 1", true), ("X: 1", "X: 1", true),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT", false),
        ])
    func applies(lines: String, answer: String, expected: Bool) {
        let made = stored(lines)
        let response = ResponseHead(status: 304, fields: fields(answer))
        for strictness in Strictness.allCases {
            let applies = Validation.applies(response, to: made.metadata, head: made.bytes.span, strictness: strictness)
            #expect(applies == expected)
        }
    }

    @Test("a strong ETag in a 304 matches a weakened stored one, and under rescue policy any weak one", arguments: [true, false])
    func strongTag(isDecoded: Bool) {
        let made = stored(isDecoded ? "ETag: \"x\"\nContent-Encoding: gzip" : "ETag: W/\"x\"", isDecoded: isDecoded)
        func applies(_ tag: String, _ strictness: Strictness) -> Bool {
            let response = ResponseHead(status: 304, fields: fields("ETag: \(tag)"))
            return Validation.applies(response, to: made.metadata, head: made.bytes.span, strictness: strictness)
        }
        #expect(applies("\"x\"", .strict) == isDecoded && applies("\"x\"", .rescue))
        #expect(applies("W/\"x\"", .strict) && !applies("\"y\"", .rescue))
    }

    @Test("a stored tag that an earlier version weakened is validated as strong, and gets the form of weakened tags by a 304")
    func formerTag() throws {
        var (head, metadata) = stored("ETag: W/\"x\"")
        metadata.flags.insert(.weakenedETag)
        var sent = Fields()
        Validation.addConditions(to: &sent, stored: metadata, head: head.span)
        #expect(sent.first(.ifNoneMatch).map { String(decoding: $0, as: UTF8.self) } == "\"x\"")
        let answer = ResponseHead(status: 304, fields: fields("ETag: \"x\""))
        let applies = Validation.applies(answer, to: metadata, head: head.span, strictness: .strict)
        #expect(applies)
        for _ in 0..<2 {
            let updated = Validation.freshened(
                metadata, head: head.span, contentBytes: 7, by: answer, recency(noon), settings: CachePolicySettings())
            (head, metadata) = try #require(updated)
            #expect(String(decoding: head, as: UTF8.self).contains("ETag: W/\"x~cistern\"\r\n"))
        }
    }

    @Test("a 304 updates fields and freshness, but keeps the stored length, decoding and JSON type")
    func updates() throws {
        let made = stored("ETag: \"x\"\nContent-Type: application/json\nCache-Control: max-age=1\nX: 1", isDecoded: true)
        func freshened(_ lines: String) throws -> (head: String, metadata: StoredMetadata) {
            let answer = ResponseHead(status: 304, fields: fields(lines))
            let updated = Validation.freshened(
                made.metadata, head: made.bytes.span, contentBytes: 7, by: answer, recency(noon), settings: CachePolicySettings())
            let fresh = try #require(updated)
            return (String(decoding: fresh.bytes, as: UTF8.self), fresh.metadata)
        }
        let fresh = try freshened(
            "ETag: \"x\"\nContent-Type: application/problem+json\nContent-Encoding: gzip\nContent-Length: 1\nSet-Cookie: a=1\nX: 2")
        // The tag stays weak, because the stored content is decoded.
        #expect(fresh.head.contains("ETag: W/\"x~cistern\"\r\n") && fresh.metadata.flags.contains([.weakenedETag, .isJSON]))
        #expect(fresh.head.contains("application/problem+json") && fresh.head.contains("Content-Length: 7") && fresh.head.contains("X: 2"))
        #expect(!fresh.head.contains("gzip") && !fresh.head.contains("Set-Cookie") && !fresh.head.contains("X: 1"))
        // Content that was stored as JSON keeps its type.
        #expect(try freshened("Content-Type: text/html").head.contains("application/json"))
        #expect(try freshened("CDN-Cache-Control: max-age=9\nCache-Control: max-age=3").metadata.freshnessLifetime == 9)
    }

    @Test(
        "a HEAD response freshens the stored GET response or marks it stale",
        arguments: [
            ("ETag: \"x\"", "ETag: \"x\"", .freshen), ("ETag: \"x\"", "ETag: \"x\"\nContent-Length: 7", .freshen),
            ("ETag: \"x\"", "ETag: \"y\"", .stale), ("X: 1", "ETag: \"y\"", .stale),
            ("ETag: \"x\"", "ETag: \"x\"\nContent-Length: 8", .stale),
            ("ETag: \"x\"", "Content-Length: 8", .stale), ("ETag: \"x\"", "Content-Length: 7", .nothing),
            ("ETag: \"x\"", "Content-Length: 8\nContent-Encoding: gzip", .nothing),
            (
                "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT", .stale
            ),
        ] as [(String, String, Validation.HeadUpdate)])
    func heads(lines: String, answer: String, expected: Validation.HeadUpdate) {
        let made = stored(lines)
        func update(_ status: UInt16, _ strictness: Strictness = .rescue) -> Validation.HeadUpdate {
            let response = ResponseHead(status: Status(rawValue: status), fields: fields(answer))
            return Validation.update(made.metadata, head: made.bytes.span, by: response, contentBytes: 7, strictness: strictness)
        }
        #expect(update(200) == expected)
        // Under `strict`, equal lengths without a validator confirm the response.
        #expect(update(200, .strict) == (expected == .nothing ? .freshen : expected))
        #expect(update(404) == .nothing)
    }
}

@Suite("Vary (RFC 9111 §4.1)")
struct VaryTests {
    @Test(
        "equivalent values of selecting fields are equal",
        arguments: [
            ("Accept-Language", "de, en;q=0.5", "EN; q=0.50,de;q=1.0", true), ("Accept-Language", "de, en", "en, de", true),
            ("Accept-Language", "de;q=0.5, en", "de, en;q=0.5", false), ("Accept-Language", "de", "de-at", false),
            ("Accept-Language", "de;q=0", "de;q=0.0", true), ("Accept", "a/b, c/d", "a/b,c/d", true),
            ("Accept", "a/b, c/d", "c/d, a/b", false),
            ("X", "a", "A", false), ("Accept-Language", "de;q=2", "de", false), ("Accept-Language", "de;x=1;q=0.5", "de;q=0.5", false),
            ("Accept-Language", "de;q=0.5;x=1", "de;q=0.5", false), ("Accept-Language", "de;q=", "de", false),
        ])
    func spellings(name: String, left: String, right: String, isSame: Bool) {
        let names = [Array(name.utf8.map(\.asciiLowercased))[...]]
        func values(_ value: String) -> [UInt8] { SelectingFields.values(of: names, in: fields("\(name): \(value)")) }
        #expect((values(left) == values(right)) == isSame)
    }
}

@Suite("Groups and invalidation (RFC 9111 §4.4, RFC 9875)")
struct GroupTests {
    @Test(
        "the groups of a response are parsed strictly",
        arguments: [
            ("Cache-Groups: \"a\", \"b c\";x", ["a", "b c"]), ("Cache-Groups: a", []), ("Cache-Groups: \"a\", 1", []),
            ("Cache-Groups: \"a\"\nCache-Groups: \"B\"", ["a", "B"]), ("Cache-Groups: \"a\",", []), ("Cache-Groups: (\"a\")", []),
            ("X: 1", []),
        ])
    func groups(lines: String, expected: [String]) {
        #expect(CacheTags.groups(of: fields(lines), named: "cache-groups") == expected)
    }

    @Test(
        "an unsafe request invalidates targets under the base path",
        arguments: [
            (.put, 200, ["/a", "/b", "/c?x"]), (.delete, 204, ["/a", "/b", "/c?x"]), (.post, 303, ["/a", "/b", "/c?x"]),
            (.post, 400, []), (.post, 500, []), (.get, 200, []), (.query, 200, []), (.options, 200, []),
            (.other(Array("FROB".utf8)), 200, ["/a", "/b", "/c?x"]),
        ] as [(HTTPCore.Method, UInt16, [String])])
    func dropped(method: HTTPCore.Method, status: UInt16, expected: [String]) {
        let origin = UpstreamOrigin(Array("http://o".utf8), basePath: Array("/api".utf8))
        func targets(_ lines: String) -> [String] {
            let answer = ResponseHead(status: Status(rawValue: status), fields: fields(lines))
            return Invalidation.targets(method: method, target: Array("/a".utf8)[...], response: answer, origin: origin)
                .map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(targets("Location: HTTP://O/api/b\nContent-Location: /api/c?x#y") == expected)
        #expect(targets("Location: http://other/api/b\nContent-Location: /c") == Array(expected.prefix(1)))
        #expect(targets("Location: http://o.evil/api/b\nContent-Location: //o/api/c") == Array(expected.prefix(1)))
    }
}
