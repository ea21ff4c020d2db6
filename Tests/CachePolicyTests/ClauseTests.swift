// Tests of RFC 9111 by clause, in addition to the tables of `RuleTests`: statuses, directives, heuristics, ranges.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Storing any status (RFC 9111 §3)")
struct AnyStatusTests {
    private func decide(
        _ status: UInt16, _ response: String, _ asked: RequestHead = request(), keepsAnyError: Bool = false
    ) -> StorageDecision {
        var settings = CachePolicySettings()
        settings.keepsAny = true
        settings.keepsAnyError = keepsAnyError
        let answer = ResponseHead(status: Status(rawValue: status), fields: fields(response))
        return Storing.decide(
            answer, ResponseCacheControl(answer.fields, targeted: settings.targetedFields),
            to: StorableRequest(asked, RequestCacheControl(asked.fields), isPartitioned: false),
            settings: settings)
    }

    @Test(
        "the status and an explicit lifetime decide whether a response is stored",
        arguments: [
            (200, "X: 1", .allowed), (200, "Content-Type: text/html", .allowed), (204, "X: 1", .allowed), (404, "X: 1", .allowed),
            (405, "X: 1", .allowed), (410, "X: 1", .allowed), (414, "X: 1", .allowed), (501, "X: 1", .allowed), (301, "X: 1", .allowed),
            (302, "X: 1", .forbidden(.status)), (302, "Cache-Control: max-age=1", .allowed), (302, "Expires: 0", .allowed),
            (403, "X: 1", .forbidden(.status)), (403, "Cache-Control: public", .allowed), (403, "Cache-Control: s-maxage=1", .allowed),
            (299, "X: 1", .forbidden(.status)), (299, "Cache-Control: max-age=1", .allowed),
            (499, "Cache-Control: max-age=1", .allowed),
            (599, "Cache-Control: max-age=1", .allowed), (500, "Cache-Control: max-age=1", .allowed),
            (500, "X: 1", .forbidden(.status)),
            (206, "Cache-Control: max-age=1", .forbidden(.partial)), (304, "Cache-Control: max-age=1", .forbidden(.status)),
            (103, "Cache-Control: max-age=1", .forbidden(.status)), (400, "Cache-Control: max-age=1", .forbidden(.status)),
            (429, "Cache-Control: max-age=1", .forbidden(.status)), (431, "Cache-Control: max-age=1", .forbidden(.status)),
        ] as [(UInt16, String, StorageDecision)])
    func statuses(status: UInt16, response: String, expected: StorageDecision) {
        #expect(decide(status, response) == expected)
    }

    @Test(
        "under rfc9111, an error response is stored if it states its freshness",
        arguments: [
            (400, "Cache-Control: max-age=1", .allowed), (429, "Cache-Control: s-maxage=1", .allowed), (401, "Expires: 0", .allowed),
            (431, "Cache-Control: public", .allowed), (400, "X: 1", .forbidden(.status)),
            (304, "Cache-Control: max-age=1", .forbidden(.status)),
            (400, "Cache-Control: max-age=1, no-store", .forbidden(.noStore)), (206, "Cache-Control: max-age=1", .forbidden(.partial)),
        ] as [(UInt16, String, StorageDecision)])
    func errors(status: UInt16, response: String, expected: StorageDecision) {
        #expect(decide(status, response, keepsAnyError: true) == expected)
    }

    @Test("in a private cache, private permits storing a status that is otherwise not stored")
    func ownCache() {
        var settings = CachePolicySettings()
        (settings.keepsAny, settings.isPrivate) = (true, true)
        for (status, lines, expected) in [(302, "Cache-Control: private", StorageDecision.allowed), (302, "X: 1", .forbidden(.status))] {
            let answer = ResponseHead(status: Status(rawValue: UInt16(status)), fields: fields(lines))
            let decision = Storing.decide(
                answer, ResponseCacheControl(answer.fields), to: StorableRequest(request(), RequestCacheControl(), isPartitioned: false),
                settings: settings)
            #expect(decision == expected)
        }
    }

    @Test("a response with an unknown content coding is stored unchanged only if all responses are stored")
    func unknownCoding() {
        #expect(decide(200, "Content-Encoding: exi") == .allowed)
        #expect(decide(200, "Content-Encoding: gzip, gzip\nCache-Control: no-transform") == .allowed)
        let answer = ResponseHead(status: 200, fields: fields("Content-Type: application/json\nContent-Encoding: exi"))
        let decision = Storing.decide(
            answer, ResponseCacheControl(answer.fields), to: StorableRequest(request(), RequestCacheControl(), isPartitioned: false),
            settings: CachePolicySettings())
        #expect(decision == .forbidden(.contentCoding))
    }

    @Test(
        "Accept-Encoding decides whether a client may get content in an unknown coding (RFC 9110 §12.5.3)",
        arguments: [
            (nil, "exi", true), ("", "exi", false), ("exi", "exi", true), ("EXI;q=0.5", "exi", true), ("exi;q=0", "exi", false),
            ("*", "exi", true), ("*;q=0", "exi", false), ("*, exi;q=0.000", "exi", false), ("*;q=0, exi", "exi", true),
            ("gzip, identity;q=0", "exi", false), ("identity;q=0, *", "exi", true), ("gzip", "gzip, exi", false),
            ("gzip, exi", "gzip, exi", true), ("x-gzip", "gzip, gzip", true), ("exi;q=x", "exi", true),
        ] as [(String?, String, Bool)])
    func allowedCodings(accepted: String?, coding: String, expected: Bool) {
        let request = fields(accepted.map { "Accept-Encoding: \($0)" } ?? "X: 1")
        let stored = fields("Content-Encoding: \(coding)")
        #expect(ContentCoding.allows(stored, request) == expected)
    }

    @Test(
        "must-understand overrides no-store only for a status that the cache understands",
        arguments: [
            (200, "Cache-Control: max-age=1, must-understand, no-store", .allowed),
            (404, "Cache-Control: must-understand, no-store", .allowed),
            (299, "Cache-Control: max-age=1, must-understand, no-store", .forbidden(.noStore)),
            (299, "Cache-Control: max-age=1, must-understand", .forbidden(.status)),
            (200, "Cache-Control: max-age=1, no-store", .forbidden(.noStore)),
        ] as [(UInt16, String, StorageDecision)])
    func mustUnderstand(status: UInt16, response: String, expected: StorageDecision) {
        #expect(decide(status, response) == expected)
    }

    @Test(
        "a Content-Location is compared with the target under the base path",
        arguments: [
            ("/base/a", true), ("http://O/base/a", true), ("a", true), ("/base/b", false), ("/a", false), ("http://p/base/a", false),
            ("//o/base/a", false), ("/based/a", false), ("http://o/base", false), ("", false), ("../a", false),
        ])
    func contentLocation(value: String, isSame: Bool) {
        let origin = UpstreamOrigin(Array("http://o".utf8), basePath: Array("/base".utf8))
        #expect(Invalidation.isSame(Array(value.utf8)[...], as: Array("/a".utf8)[...], origin: origin) == isSame)
    }

    @Test("Set-Cookie is stripped, kept or prevents storing, as configured")
    func setCookie() {
        var settings = CachePolicySettings()
        func head() -> String { String(decoding: stored("Set-Cookie: a=1\nX: 1", settings: settings).bytes, as: UTF8.self) }
        #expect(!head().contains("Set-Cookie") && head().contains("X: 1"))
        settings.setCookie = .keep
        #expect(head().contains("Set-Cookie: a=1"))
        settings.setCookie = .refuse
        let answer = ResponseHead(status: 200, fields: fields("Content-Type: application/json\nSet-Cookie: a=1"))
        let decision = Storing.decide(
            answer, ResponseCacheControl(answer.fields), to: StorableRequest(request(), RequestCacheControl(), isPartitioned: false),
            settings: settings)
        #expect(decision == .forbidden(.setCookie))
    }
}

@Suite("Directives (RFC 9111 §5.2, RFC 9213)")
struct DirectiveTests {
    @Test("fields named by private and no-cache are removed from the stored response")
    func fieldNames() {
        let made = stored("Cache-Control: max-age=9, private=\"X-User, X-B\", no-cache=\"x-c\"\nX-User: 1\nX-A: 1\nx-b: 1\nX-C: 1")
        let head = String(decoding: made.bytes, as: UTF8.self)
        #expect(head.contains("X-A: 1") && !head.contains("X-User: 1") && !head.contains("x-b: 1") && !head.contains("X-C: 1"))
        #expect(made.metadata.freshnessLifetime == 9 && !made.metadata.flags.contains(.noCache))
    }

    @Test(
        "an empty or invalid list of field names makes the directive apply to the whole response",
        arguments: [
            "no-cache", "no-cache=\"\"", "no-cache=\"a b\"", "no-cache=\"a", "NO-CACHE", "no-cache=\"a\", no-cache",
        ])
    func whole(control: String) {
        #expect(ResponseCacheControl(fields("Cache-Control: \(control)")).noCache)
    }

    @Test(
        "a valid targeted field replaces Cache-Control and Expires",
        arguments: [
            ("Cache-Control: no-store\nCDN-Cache-Control: max-age=60", 60, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: no-store", nil, true),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: public", nil, false),
            ("Expires: Thu, 18 Nov 2027 11:06:40 GMT\nCDN-Cache-Control: public", nil, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: max-age=60,", 5, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: Max-Age=60", 5, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control:", 5, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: max-age=\"60\"", nil, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: max-age=1.5", nil, false),
            ("Cache-Control: max-age=5\nCDN-Cache-Control: max-age", nil, false),
            ("CDN-Cache-Control: max-age=60;x=1, no-store=?0", 60, false),
            ("CDN-Cache-Control: max-age=60\nCistern-Cache-Control: max-age=7", 7, false),
            ("CDN-Cache-Control: max-age=60\nCDN-Cache-Control: max-age=8", 8, false),
            ("CDN-Cache-Control: max-age=60, &", nil, false),
        ] as [(String, Int64?, Bool)])
    func targeted(lines: String, lifetime: Int64?, noStore: Bool) {
        let all = fields(lines)
        let control = ResponseCacheControl(all, targeted: CachePolicySettings().targetedFields)
        #expect(Freshness.lifetime(all, control, date: noon, now: noon.seconds) == lifetime)
        #expect(control.noStore == noStore)
    }

    @Test("a targeted field replaces the cache directives but not no-transform (RFC 9110 §7.7)")
    func targetedTransform() {
        let lines = fields("CDN-Cache-Control: max-age=5\nCache-Control: no-store, No-Transform")
        let control = ResponseCacheControl(lines, targeted: CachePolicySettings().targetedFields)
        #expect(control.noTransform && !control.noStore && control.maxAge == 5)
    }

    @Test(
        "a private cache ignores directives for shared caches",
        arguments: [
            ("s-maxage=0, max-age=60", 60), ("s-maxage=60, max-age=5", 5), ("s-maxage=60", nil), ("max-age=5, proxy-revalidate", 5),
        ] as [(String, Int64?)])
    func role(value: String, lifetime: Int64?) {
        var settings = CachePolicySettings()
        settings.isPrivate = true
        for name in ["Cache-Control", "CDN-Cache-Control"] {
            let metadata = stored("\(name): \(value)", settings: settings).metadata
            #expect(metadata.freshnessLifetime == lifetime && metadata.flags.isDisjoint(with: [.sharedMaxAge, .proxyRevalidate]))
        }
        let answer = ResponseHead(status: 404, fields: fields("Content-Type: text/plain\nCache-Control: s-maxage=5"))
        settings.keepsAny = true
        for (status, expected) in [(404, .allowed), (403, .forbidden(.status))] as [(UInt16, StorageDecision)] {
            let answer = ResponseHead(status: Status(rawValue: status), fields: answer.fields)
            let decision = Storing.decide(
                answer, ResponseCacheControl(answer.fields), to: StorableRequest(request(), RequestCacheControl(), isPartitioned: false),
                settings: settings)
            #expect(decision == expected)
        }
    }

    @Test("unknown directives are ignored in targeted and untargeted fields")
    func unknown() {
        #expect(ResponseCacheControl(fields("Cache-Control: x, y=1, Z=\"no-store\"")) == ResponseCacheControl())
        #expect(RequestCacheControl(fields("Cache-Control: x, y=1, Z=\"no-cache\"")) == RequestCacheControl())
    }
}

@Suite("Heuristic freshness (RFC 9111 §4.2.2)")
struct HeuristicTests {
    @Test(
        "heuristic freshness is 10 percent of the age since Last-Modified, and explicit freshness takes precedence",
        arguments: [
            (200, "", 3_600), (200, "Cache-Control: max-age=5", 5), (200, "Expires: 0", 0), (404, "", 3_600), (403, "", nil),
            (403, "Cache-Control: public", 3_600), (200, "Cache-Control: no-cache", nil),
        ] as [(UInt16, String, Int64?)])
    func heuristic(status: UInt16, lines: String, expected: Int64?) {
        var settings = CachePolicySettings()
        settings.heuristicPercent = 10
        func lifetime(modified seconds: Int64) -> Int64? {
            let modified = String(decoding: HTTPDate.format(noon.seconds - seconds), as: UTF8.self)
            return stored("Last-Modified: \(modified)\n\(lines)", status: status, settings: settings).metadata.freshnessLifetime
        }
        #expect(lifetime(modified: 36_000) == expected)
        if expected == 3_600 {
            #expect(lifetime(modified: 36_000_000) == 86_400)
            #expect(lifetime(modified: -5) == nil)
        }
        #expect(stored("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT").metadata.freshnessLifetime == nil)
    }
}

@Suite("Ranges of a stored response (RFC 9110 §14)")
struct RangeTests {
    @Test(
        "a range of a ten-byte response gives a part, the whole or 416",
        arguments: [
            ("bytes=0-3", .part(0..<4)), ("bytes=4-", .part(4..<10)), ("bytes=-3", .part(7..<10)), ("bytes=-30", .part(0..<10)),
            ("bytes=9-99", .part(9..<10)), ("Bytes=1-1", .part(1..<2)), ("bytes= 1-1", .whole), ("bytes=10-", .unsatisfiable),
            ("bytes=-0", .unsatisfiable),
            ("bytes=5-4", .whole), ("bytes=0-1,3-4", .whole), ("bytes=", .whole), ("bytes=a-b", .whole), ("lines=0-1", .whole),
            ("bytes=-", .whole), ("bytes=0-99999999999999999999999", .part(0..<10)), ("bytes=99999999999999999999999-", .unsatisfiable),
        ] as [(String, RangeRequest)])
    func ranges(value: String, expected: RangeRequest) {
        let made = stored("X: 1", contentBytes: 10)
        let decision = RangeRequest(fields("Range: \(value)"), count: 10, stored: made.metadata, head: made.bytes.span)
        #expect(decision == expected)
    }

    @Test(
        "a range is served only if If-Range matches with a strong comparison",
        arguments: [
            ("\"x\"", true), ("W/\"x\"", false), ("\"y\"", false), ("Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("Sun, 06 Nov 1994 08:49:38 GMT", false), ("nonsense", false),
        ])
    func conditions(condition: String, holds: Bool) {
        let made = stored("ETag: \"x\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT", contentBytes: 10)
        let asked = fields("Range: bytes=0-3\nIf-Range: \(condition)")
        let decision = RangeRequest(asked, count: 10, stored: made.metadata, head: made.bytes.span)
        #expect(decision == (holds ? .part(0..<4) : .whole))
    }

    @Test("partial and unsatisfiable responses have correct heads")
    func heads() {
        let made = stored("X: 1\nETag: \"x\"", contentBytes: 10)
        let part = String(decoding: StoredHead.partial(made.bytes.span, 2..<5, of: 10), as: UTF8.self)
        #expect(part.hasPrefix("HTTP/1.1 206 Partial Content\r\nX: 1\r\nETag: \"x\"\r\n"))
        #expect(part.contains("Content-Range: bytes 2-4/10\r\n") && part.contains("Content-Length: 3\r\n") && !part.contains("Length: 10"))
        let none = String(decoding: StoredHead.unsatisfiable(made.bytes.span, count: 10), as: UTF8.self)
        #expect(none.hasPrefix("HTTP/1.1 416 ") && none.contains("Content-Range: bytes */10\r\n"))
    }

    @Test("digests are kept only if they apply to the content served (RFC 9530)")
    func digests() {
        let lines = "Content-Digest: a\nRepr-Digest: b\nContent-MD5: c\nDigest: d\nContent-Encoding: gzip"
        func kept(_ bytes: [UInt8]) -> [String] {
            let fields = StoredHead.parse(bytes.span)?.fields ?? Fields()
            return (0..<fields.count).map { String(decoding: fields.name(at: $0), as: UTF8.self) }.filter {
                $0 != "Date" && $0 != "Content-Length"
            }
        }
        let made = stored(lines, contentBytes: 10)
        #expect(kept(made.bytes) == ["Content-Digest", "Repr-Digest", "Content-MD5", "Digest", "Content-Encoding"])
        #expect(kept(StoredHead.partial(made.bytes.span, 0..<2, of: 10)).prefix(2) == ["Repr-Digest", "Digest"])
        #expect(kept(stored(lines, isDecoded: true).bytes).isEmpty)
        let answer = ResponseHead(status: 304, fields: fields("Repr-Digest: z\nX: 1"))
        let fresh = stored(lines, isDecoded: true)
        let head = Validation.freshened(
            fresh.metadata, head: fresh.bytes.span, contentBytes: 7, by: answer, recency(noon),
            settings: CachePolicySettings())
        #expect(kept(head?.bytes ?? []) == ["X"])
    }
}
