// RFC 9111 clause by clause: stale answers, validation, HEAD, Vary, invalidation. For the comments see `ClauseTests`.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Stale answers (RFC 9111 §4.2.4, RFC 5861)")
struct StaleTests {
    private func rescue(_ lines: String, _ asked: String = "X: 1", status: UInt16 = 200, flags: StoredFlags = [], _ strictness: Strictness)
        -> RescueDecision
    {
        var metadata = stored(lines, status: status).metadata
        metadata.flags.formUnion(flags)
        return Reuse.rescue(metadata, RequestCacheControl(fields(asked)), strictness: strictness, now: noon.after(100))
    }

    // RFC 9111 §4.2.4 MUST NOT: no-cache, must-revalidate, proxy-revalidate and s-maxage forbid a stale answer (in `rescue` not while the upstream fails). [Reuse.rescue]
    // RFC 9111 §5.2.2.2 MUST: must-revalidate: a stale answer is not used without validation, and a failure is told (504). [Reuse.rescue]
    // RFC 9111 §5.2.2.8 MUST: proxy-revalidate means the same for a shared cache. [Reuse.rescue]
    // RFC 9111 §5.2.2.10 MUST: s-maxage has the meaning of proxy-revalidate, too. [Reuse.rescue]
    // RFC 9111 §4.2.4 MUST NOT: Else a stale answer goes out only while the upstream is out of reach, or as someone allows. [Reuse.rescue]
    // RFC 9111 §4.3.3 MAY: A 5xx during validation counts as a failure to respond. [LastGood.faultOfHead]
    // RFC 5861 §4 MAY: stale-if-error says for how long: in `strict` no longer. [Reuse.rescue]
    @Test(
        "strict, a hundred seconds later",
        arguments: [
            ("Cache-Control: max-age=10", "X: 1", .allowed(age: 100, ttl: -90)), ("X: 1", "X: 1", .allowed(age: 100, ttl: nil)),
            ("Cache-Control: max-age=10, must-revalidate", "X: 1", .forbidden(.mustRevalidate)),
            ("Cache-Control: max-age=10, proxy-revalidate", "X: 1", .forbidden(.proxyRevalidate)),
            ("Cache-Control: s-maxage=10", "X: 1", .forbidden(.sharedMaxAge)), ("Cache-Control: no-cache", "X: 1", .forbidden(.noCache)),
            ("Cache-Control: max-age=10, stale-if-error=90", "X: 1", .allowed(age: 100, ttl: -90)),
            ("Cache-Control: max-age=10, stale-if-error=89", "X: 1", .forbidden(.staleIfError)),
            ("Cache-Control: max-age=10, stale-if-error=5", "Cache-Control: stale-if-error=90", .allowed(age: 100, ttl: -90)),
            ("Cache-Control: max-age=10", "Cache-Control: stale-if-error=5", .forbidden(.staleIfError)),
            ("Cache-Control: max-age=10, stale-if-error=90, must-revalidate", "X: 1", .forbidden(.mustRevalidate)),
        ] as [(String, String, RescueDecision)])
    func strict(lines: String, asked: String, expected: RescueDecision) {
        #expect(rescue(lines, asked, .strict) == expected)
    }

    // RFC 9111 §3.5 MUST: What a request with Authorization brought is used for others only under the conditions of the directive that allows it, in `rescue` too. [Reuse.rescue]
    @Test("in both modes: no stale answer of another's authorised request, and no stored error")
    func both() {
        for strictness in Strictness.allCases {
            #expect(rescue("Cache-Control: max-age=10", flags: .authorized, strictness) == .forbidden(.authorized))
            #expect(rescue("Cache-Control: max-age=200", flags: .authorized, strictness) == .allowed(age: 100, ttl: 100))
            #expect(rescue("Cache-Control: max-age=10", status: 503, strictness) == .forbidden(.storedError))
            #expect(rescue("Cache-Control: max-age=10", status: 404, strictness) == .allowed(age: 100, ttl: -90))
        }
    }

    // RFC 5861 §3 MAY: stale-while-revalidate: for so long the stale answer goes out, while one fetch in the background validates it. [Reuse.decide]
    @Test(
        "stale-while-revalidate",
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

@Suite("Validation, HEAD (RFC 9111 §4.3)")
struct SelectionTests {
    // RFC 9111 §4.3.4 MUST: A 304 with a tag updates the stored response of that tag only; one with a date that of that date. [Validation.applies]
    // RFC 9111 §4.3.4 MUST: A 304 without any validator updates the one that was asked about. [Validation.applies]
    @Test(
        "which 304 speaks of what is stored",
        arguments: [
            ("ETag: \"x\"", "ETag: \"x\"", true), ("ETag: \"x\"", "ETag: W/\"x\"", true), ("ETag: \"x\"", "ETag: \"y\"", false),
            ("X: 1", "ETag: \"y\"", false), ("ETag: \"x\"", "X: 1", true), ("X: 1", "X: 1", true),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT", false),
        ])
    func applies(lines: String, answer: String, expected: Bool) {
        let made = stored(lines)
        let response = ResponseHead(status: 304, fields: fields(answer))
        #expect(made.bytes.withUnsafeBytes { Validation.applies(response, to: made.metadata, head: $0) } == expected)
    }

    // RFC 9111 §3.2 MUST: A 304's fields take the place of the stored ones, all but Content-Length and those that say how the stored content was processed. [Validation.freshened]
    @Test("what a 304 updates")
    func updates() throws {
        let made = stored("ETag: \"x\"\nContent-Type: application/json\nCache-Control: max-age=1\nX: 1", isDecoded: true)
        func freshened(_ lines: String) throws -> (head: String, metadata: StoredMetadata) {
            let answer = ResponseHead(status: 304, fields: fields(lines))
            let fresh = try #require(
                made.bytes.withUnsafeBytes {
                    Validation.freshened(
                        made.metadata, head: $0, by: answer, contentBytes: 7, requestTime: noon, responseTime: noon,
                        settings: CachePolicySettings())
                })
            return (String(decoding: fresh.bytes, as: UTF8.self), fresh.metadata)
        }
        let fresh = try freshened(
            "ETag: \"x\"\nContent-Type: application/problem+json\nContent-Encoding: gzip\nContent-Length: 1\nSet-Cookie: a=1\nX: 2")
        // The tag stays weak, since the stored content is the decoded one.
        #expect(fresh.head.contains("ETag: W/\"x\"\r\n") && fresh.metadata.flags.contains([.weakenedETag, .isJSON]))
        #expect(fresh.head.contains("application/problem+json") && fresh.head.contains("Content-Length: 7") && fresh.head.contains("X: 2"))
        #expect(!fresh.head.contains("gzip") && !fresh.head.contains("Set-Cookie") && !fresh.head.contains("X: 1"))
        // What was checked as JSON stays JSON.
        #expect(try freshened("Content-Type: text/html").head.contains("application/json"))
        #expect(try freshened("CDN-Cache-Control: max-age=9\nCache-Control: max-age=3").metadata.freshnessLifetime == 9)
    }

    // RFC 9111 §4.3.5 SHOULD: A 200 to HEAD updates GET's stored response where validators and length agree, else that counts as stale. [Validation.update]
    @Test(
        "what a HEAD tells of GET's copy",
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
        func update(_ status: UInt16) -> Validation.HeadUpdate {
            let response = ResponseHead(status: Status(rawValue: status), fields: fields(answer))
            return made.bytes.withUnsafeBytes { Validation.update(made.metadata, head: $0, by: response, contentBytes: 7) }
        }
        #expect(update(200) == expected)
        #expect(update(404) == .nothing)
    }
}

@Suite("Vary (RFC 9111 §4.1)")
struct VaryTests {
    // RFC 9111 §4.1 MAY: White space, and for Accept-Language order, letter case and the spelling of weights, do not tell requests apart. [SelectingFields.values]
    // RFC 9111 §4.1 MUST: A field that is absent matches only where it is absent. [SelectingFields.values]
    @Test(
        "the same values in other spellings",
        arguments: [
            ("Accept-Language", "de, en;q=0.5", "EN; q=0.50,de;q=1.0", true), ("Accept-Language", "de, en", "en, de", true),
            ("Accept-Language", "de;q=0.5, en", "de, en;q=0.5", false), ("Accept-Language", "de", "de-at", false),
            ("Accept-Language", "de;q=0", "de;q=0.0", true), ("Accept", "a/b, c/d", "a/b,c/d", true),
            ("Accept", "a/b, c/d", "c/d, a/b", false),
            ("X", "a", "A", false),
        ])
    func spellings(name: String, left: String, right: String, isSame: Bool) {
        let names = [Array(name.utf8.map(\.asciiLowercased))[...]]
        func values(_ value: String) -> [UInt8] { SelectingFields.values(of: names, in: fields("\(name): \(value)")) }
        #expect((values(left) == values(right)) == isSame)
    }
}

@Suite("Groups and invalidation (RFC 9111 §4.4, RFC 9875)")
struct GroupTests {
    // RFC 9875 §2 MUST: Cache-Groups is a list of strings; with a mistake in it the field counts as absent. [CacheTags.groups]
    @Test(
        "the groups of an answer",
        arguments: [
            ("Cache-Groups: \"a\", \"b c\";x", ["a", "b c"]), ("Cache-Groups: a", []), ("Cache-Groups: \"a\", 1", []),
            ("Cache-Groups: \"a\"\nCache-Groups: \"B\"", ["a", "B"]), ("Cache-Groups: \"a\",", []), ("Cache-Groups: (\"a\")", []),
            ("X: 1", []),
        ])
    func groups(lines: String, expected: [String]) {
        #expect(CacheTags.groups(of: fields(lines), named: "cache-groups") == expected)
    }

    @Test("keys and tags of content delivery networks are tags too")
    func tags() {
        #expect(
            CacheTags.tags(of: fields("Surrogate-Key: a b  c\nCache-Tag: c,d , e\nCache-Groups: \"g\"")) == ["g", "a", "b", "c", "d", "e"])
    }

    // RFC 9111 §4.4 MUST: A non-error answer to an unsafe method, or to one that nobody knows, makes the target's stored responses invalid. [Invalidation.targets]
    // RFC 9111 §4.4 MAY: So with the targets of Location and Content-Location. [Invalidation.targets]
    // RFC 9111 §4.4 MUST NOT: But never with those of another origin. [UpstreamOrigin.target]
    @Test(
        "what is dropped, behind a base path",
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
