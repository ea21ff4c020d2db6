// Table tests of RFC 9111: storing, freshness, reuse, and rescues.

import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

/// A list with `count` members.
private func list(_ count: Int, quoted: Bool = false) -> String {
    (0..<count).map { quoted ? "\"g\($0)\"" : "f\($0)" }.joined(separator: ", ")
}

@Suite("Storing (RFC 9111 §3)")
struct StoringTests {
    private func decide(_ status: UInt16, _ response: String, _ asked: String = "", method: Method = .get, partitioned: Bool = false)
        -> StorageDecision
    {
        let head = request(method, asked)
        let answer = ResponseHead(status: Status(rawValue: status), fields: fields(response))
        return Storing.decide(
            answer, ResponseCacheControl(answer.fields),
            to: StorableRequest(head, RequestCacheControl(head.fields), isPartitioned: partitioned),
            settings: CachePolicySettings())
    }

    @Test(
        "status, content type and directives of the response decide about storing",
        arguments: [
            (200, "Content-Type: application/json", .allowed), (200, "Content-Type: Application/HAL+JSON; charset=utf-8", .allowed),
            (200, "Content-Type: application/json; charset=utf8", .allowed),
            (200, "Content-Type: application/json;charset=\"utf-8\"", .allowed),
            (203, "Content-Type: text/json", .allowed), (200, "Content-Type: application/jsonx", .forbidden(.contentType)),
            (200, "Content-Type: application/problem+json", .forbidden(.contentType)),
            (200, "Content-Type: text/html", .forbidden(.contentType)), (200, "X: 1", .forbidden(.contentType)),
            (200, "Content-Type: application/json\nCache-Control: no-store", .forbidden(.noStore)),
            (200, "Content-Type: application/json\nCache-Control: max-age=9, NO-STORE", .forbidden(.noStore)),
            (200, "Content-Type: application/json\nCache-Control: no-store, must-understand", .allowed),
            (200, "Content-Type: application/json\nCache-Control: private", .forbidden(.privateResponse)),
            (200, "Content-Type: application/json\nCache-Control: private=\"x\"", .allowed),
            (200, "Content-Type: application/json\nCache-Control: x=\"no-store\"", .allowed),
            (200, "Content-Type: application/json\nCache-Control: x=\"a, no-store", .forbidden(.noStore)),
            (200, "Content-Type: application/json\nCache-Control: x=a\", no-store", .forbidden(.noStore)),
            (200, "Content-Type: application/json\nCache-Control: x\"a, no-store", .forbidden(.noStore)),
            (200, "Content-Type: application/json\nCache-Control: x=\"a\"b\"c, no-store\"", .forbidden(.noStore)),
            (200, "Content-Type: application/json\nCache-Control: x=\"a\\\", no-store\"", .allowed),
            (200, "Content-Type: application/json\nCache-Control: private =\"\"", .forbidden(.privateResponse)),
            (200, "Content-Type: application/json\nVary: *", .forbidden(.varyStar)),
            (200, "Content-Type: application/json\nVary: a\nVary: b, *", .forbidden(.varyStar)),
            (200, "Content-Type: application/json\nVary: a, X-Forwarded-For", .forbidden(.varyStar)),
            (200, "Content-Type: application/json\nVary: forwarded", .forbidden(.varyStar)),
            (200, "Content-Type: application/json\nVary: \(list(128))", .allowed),
            (200, "Content-Type: application/json\nVary: \(list(128))\nVary: x", .forbidden(.tooManyMembers)),
            (200, "Content-Type: application/json\nCache-Groups: \(list(128, quoted: true))", .allowed),
            (200, "Content-Type: application/json\nCache-Groups: \(list(129, quoted: true))", .forbidden(.tooManyMembers)),
            (200, "Content-Type: application/json\nContent-Encoding: gzip", .allowed),
            (200, "Content-Type: application/json\nContent-Encoding: gzip\nCache-Control: no-transform", .forbidden(.contentCoding)),
            (200, "Content-Type: application/json\nCache-Control: no-transform", .allowed),
            (200, "Content-Type: application/json\nContent-Encoding: compress", .forbidden(.contentCoding)),
            (200, "Content-Type: application/json\nContent-Encoding: gzip, gzip", .forbidden(.contentCoding)),
            (204, "Content-Type: application/json", .forbidden(.noContent)), (205, "X: 1", .forbidden(.noContent)),
            (206, "X: 1", .forbidden(.partial)),
            (202, "Content-Type: application/json", .forbidden(.status)), (207, "Content-Type: application/json", .forbidden(.status)),
            (226, "Content-Type: application/json", .forbidden(.status)), (299, "Content-Type: application/json", .forbidden(.status)),
            (207, "Content-Type: application/json\nCache-Control: max-age=1", .allowed),
            (299, "Content-Type: application/json\nExpires: 0", .allowed), (404, "Content-Type: application/json", .forbidden(.status)),
            (500, "Content-Type: application/json", .forbidden(.status)), (301, "Content-Type: application/json", .forbidden(.status)),
        ] as [(UInt16, String, StorageDecision)])
    func byAnswer(status: UInt16, response: String, expected: StorageDecision) {
        #expect(decide(status, response) == expected)
    }

    @Test("method, directives and credentials of the request decide about storing")
    func byRequest() {
        let json = "Content-Type: application/json"
        #expect(decide(200, json, method: .head) == .forbidden(.methodNotCacheable))
        #expect(decide(200, json, "Cache-Control: no-store") == .forbidden(.requestNoStore))
        // §3.5, if the operator has removed Authorization from the list of credentials.
        #expect(decide(200, json, "Authorization: x") == .forbidden(.authorized))
        for exception in ["public", "s-maxage=1", "must-revalidate"] {
            #expect(decide(200, json + "\nCache-Control: \(exception)", "Authorization: x") == .allowed)
        }
        #expect(decide(200, json, "Authorization: x", partitioned: true) == .allowed)
        // A private response needs the partition of a single user.
        let own = json + "\nCache-Control: private"
        #expect(decide(200, own, "Cookie: locale=en", partitioned: true) == .forbidden(.userUnknown))
        #expect(decide(200, own, "Cookie: sid=0123456789abcdef", partitioned: true) == .allowed)
        #expect(decide(200, own, "X-Tenant-Id: 1", partitioned: true) == .forbidden(.userUnknown))
        #expect(decide(200, own, "Authorization: x", partitioned: true) == .allowed)
        #expect(decide(200, json, "Cookie: locale=en", partitioned: true) == .allowed)
    }
}

@Suite("Freshness (RFC 9111 §4.2)")
struct FreshnessTests {
    @Test(
        "the freshness lifetime is read from max-age, s-maxage and Expires",
        arguments: [
            ("Cache-Control: max-age=60", 60), ("Cache-Control: max-age=60, s-maxage=10", 10), ("Cache-Control: max-age=\"60\"", 60),
            ("Cache-Control: MAX-AGE=60", 60), ("Cache-Control: max-age=60\nCache-Control: max-age=30", 30),
            ("Cache-Control: max-age=-1", 0),
            ("Cache-Control: max-age=1.5", 0), ("Cache-Control: max-age", 0), ("Cache-Control: max-age= 60", 0),
            ("Cache-Control: max-age='60'", 0), ("Cache-Control: max-age=99999999999999999999", 1 << 31),
            ("Expires: Wed, 18 Nov 2026 11:07:40 GMT", 60), ("Expires: 0", 0), ("Expires: -1", 0),
            ("Expires: Thu, 18 Nov 2020 11:06:40 GMT", 0),
            ("Cache-Control: max-age=5\nExpires: 0", 5), ("Cache-Control: public", nil), ("X: 1", nil),
        ] as [(String, Int64?)])
    func lifetimes(lines: String, expected: Int64?) {
        let date = Timestamp(seconds: HTTPDate.parse(Array("Wed, 18 Nov 2026 11:06:40 GMT".utf8)[...], now: noon.seconds)!)
        let all = fields(lines)
        #expect(Freshness.lifetime(all, ResponseCacheControl(all), date: date, now: noon.seconds) == expected)
    }

    @Test(
        "Age is the first list member, and 0 if that is not a number",
        arguments: [("5", 5), ("5, 6", 5), (", 7", 7), ("x", 0), ("-1", 0), ("1.5", 0), ("", 0), ("x, 5", 0)] as [(String, Int64)])
    func ageValues(value: String, expected: Int64) {
        var all = Fields()
        all.append(.age, value)
        #expect(Freshness.ageValue(all) == expected)
        #expect(Freshness.ageValue(Fields()) == 0)
    }

    @Test("the current age is the greater of apparent age and corrected Age, plus the resident time")
    func currentAge() {
        var stored = StoredMetadata(
            requestTime: noon, responseTime: Timestamp(seconds: noon.seconds + 4), date: Timestamp(seconds: noon.seconds - 6))
        #expect(Freshness.currentAge(of: stored, now: Timestamp(seconds: noon.seconds + 14)) == 20)
        stored.ageValue = 30
        #expect(Freshness.currentAge(of: stored, now: Timestamp(seconds: noon.seconds + 14)) == 44)
        // The clock was set back.
        #expect(Freshness.currentAge(of: stored, now: Timestamp(seconds: noon.seconds - 1_000)) == 34)
    }

    @Test("an age stays constant until its second ends", arguments: [-5_000, -1, 0, 1, 999, 1_000, 1_001, 61_999] as [Int64])
    func ageEnds(milliseconds: Int64) {
        let stored = StoredMetadata(requestTime: noon, responseTime: noon, date: noon)
        let now = Timestamp(milliseconds: noon.milliseconds + milliseconds)
        let end = Freshness.ageEnds(of: stored, now: now)
        let age = Freshness.currentAge(of: stored, now: now)
        #expect(Freshness.currentAge(of: stored, now: Timestamp(milliseconds: end.milliseconds - 1)) == age)
        #expect(Freshness.currentAge(of: stored, now: end) == age + 1)
    }
}

@Suite("Reuse (RFC 9111 §4) and rescues (§4.2.4)")
struct ReuseTests {
    @Test("stale_for counts from the arrival of a response at the earliest, however wrong the upstream's clock is")
    func skewedClock() {
        var random = SeededGenerator(seed: 9_111)
        for _ in 0..<10_000 {
            let (skew, elapsed) = (Int64(random.below(400_000)) - 200_000, Int64(random.below(2_000)))
            let (lifetime, limit) = (random.isTrue() ? Int64(random.below(600)) : nil, Int64(random.below(600)))
            var stored = StoredMetadata(requestTime: noon, responseTime: noon, date: noon.after(skew))
            stored.freshnessLifetime = lifetime
            let decision = Reuse.rescue(
                stored, RequestCacheControl(), strictness: .rescue, staleFor: limit, now: noon.after(elapsed))
            let end = limit + (lifetime ?? 0)
            // A clock that is ahead, or behind by less than the lifetime, changes the end by no more than the difference.
            #expect(elapsed > limit || decision.isAllowed, "\(skew) \(elapsed) \(String(describing: lifetime)) \(limit)")
            #expect(elapsed <= end || !decision.isAllowed, "\(skew) \(elapsed) \(String(describing: lifetime)) \(limit)")
            #expect(skew < 0 || decision.isAllowed == (elapsed <= end))
        }
    }

    @Test("a response that was stale in another cache is as stale at its arrival")
    func staleAtArrival() {
        var stored = StoredMetadata(requestTime: noon, responseTime: noon, date: noon)
        (stored.freshnessLifetime, stored.ageValue) = (60, 1_000)
        #expect(Freshness.localStaleness(of: stored, now: noon.after(5)) == 945)
        stored.ageValue = 50
        #expect(Freshness.localStaleness(of: stored, now: noon.after(5)) == -5)
    }

    private func stored(_ lifetime: Int64?, _ flags: StoredFlags = []) -> StoredMetadata {
        var stored = StoredMetadata(requestTime: noon, responseTime: noon, date: noon)
        stored.freshnessLifetime = lifetime
        stored.flags = flags
        return stored
    }

    @Test(
        "request directives decide about the reuse of a ten-second-old response",
        arguments: [
            (60, "", .serve(ttl: 50, age: 10)), (10, "", .validate(.stale)), (nil, "", .validate(.noFreshness)),
            (60, "no-cache", .validate(.requestNoCache)),
            (60, "max-age=5", .validate(.requestMaxAge)), (60, "max-age=10", .serve(ttl: 50, age: 10)),
            (60, "min-fresh=51", .validate(.requestMinFresh)),
            (60, "min-fresh=50", .serve(ttl: 50, age: 10)), (5, "max-stale", .serve(ttl: -5, age: 10)),
            (5, "max-stale=5", .serve(ttl: -5, age: 10)),
            (60, "max-age=5, max-stale", .validate(.requestMaxAge)), (5, "max-age=10, max-stale", .serve(ttl: -5, age: 10)),
            (5, "max-stale=4", .validate(.stale)), (nil, "max-stale", .serve(ttl: -10, age: 10)),
            (nil, "max-stale=9", .validate(.stale)), (60, "unknown=1", .serve(ttl: 50, age: 10)),
        ] as [(Int64?, String, ReuseDecision)])
    func directives(lifetime: Int64?, control: String, expected: ReuseDecision) {
        let directives = RequestCacheControl(fields(control.isEmpty ? "X: 1" : "Cache-Control: \(control)"))
        #expect(Reuse.decide(stored(lifetime), directives, now: Timestamp(seconds: noon.seconds + 10)) == expected)
    }

    @Test("no-cache always requires validation, and max-stale does not override must-revalidate")
    func forbidden() {
        let later = Timestamp(seconds: noon.seconds + 10)
        let any = RequestCacheControl(fields("Cache-Control: max-stale"))
        #expect(Reuse.decide(stored(60, .noCache), RequestCacheControl(), now: later) == .validate(.noCache))
        for flag in [StoredFlags.mustRevalidate, .proxyRevalidate, .sharedMaxAge] {
            #expect(Reuse.decide(stored(5, flag), any, now: later) == .validate(.stale))
        }
    }

    @Test("after the clock is set back, older responses are no longer fresh but may be rescued")
    func clockSetBack() {
        let stored = stored(60)
        for (milliseconds, expected) in [(500, ReuseDecision.serve(ttl: 60, age: 0)), (1_500, .validate(.ageUnknown))]
            as [(Int64, ReuseDecision)]
        {
            let earlier = Timestamp(milliseconds: noon.milliseconds - milliseconds)
            #expect(Reuse.decide(stored, RequestCacheControl(), now: earlier) == expected)
            #expect(Reuse.isFresh(stored, now: earlier) == (milliseconds == 500))
        }
        let earlier = Timestamp(seconds: noon.seconds - 100)
        #expect(Reuse.rescue(stored, RequestCacheControl(), strictness: .rescue, now: earlier) == .allowed(age: 0, ttl: nil))
        #expect(
            Reuse.rescue(self.stored(60, .authorized), RequestCacheControl(), strictness: .rescue, now: earlier) == .forbidden(.authorized))
    }

    @Test("under strict policy directives forbid stale responses; under rescue policy they do not")
    func rescue() {
        let later = Timestamp(seconds: noon.seconds + 10)
        for (flag, reason) in [
            (StoredFlags.noCache, NoRescueReason.noCache), (.mustRevalidate, .mustRevalidate), (.proxyRevalidate, .proxyRevalidate),
            (.sharedMaxAge, .sharedMaxAge),
        ] {
            #expect(Reuse.rescue(stored(5, flag), RequestCacheControl(), strictness: .strict, now: later) == .forbidden(reason))
            #expect(Reuse.rescue(stored(5, flag), RequestCacheControl(), strictness: .rescue, now: later) == .allowed(age: 10, ttl: -5))
            #expect(!Reuse.mayRescue(stored(5, flag), strictness: .strict) && Reuse.mayRescue(stored(5, flag), strictness: .rescue))
        }
        #expect(Reuse.rescue(stored(nil), RequestCacheControl(), strictness: .strict, now: later) == .allowed(age: 10, ttl: nil))
        let asked = RequestCacheControl(fields("Cache-Control: no-cache"))
        #expect(Reuse.rescue(stored(5), asked, strictness: .strict, now: later) == .forbidden(.requestNoCache))
    }
}

@Suite("Stored heads, validation and preconditions (RFC 9111 §3.1, §4.3)")
struct ValidationTests {
    private func make(_ lines: String, decoded: Bool = false) -> (bytes: [UInt8], metadata: StoredMetadata) {
        let answer = ResponseHead(status: 200, reason: Array("Fine".utf8), fields: fields(lines))
        var received = ReceivedResponse(
            answer, control: ResponseCacheControl(answer.fields), contentBytes: 7, requestTime: noon, responseTime: noon)
        received.isDecoded = decoded
        return StoredHead.make(received, settings: CachePolicySettings())
    }

    @Test("a stored head omits cookies, Age and the received length, and has a Date")
    func stored() {
        let head = String(
            decoding: make("Set-Cookie: a=1\nAge: 5\nContent-Length: 9\nX: 1\nContent-Type: application/json").bytes, as: UTF8.self)
        #expect(head.hasPrefix("HTTP/1.1 200 Fine\r\nX: 1\r\nContent-Type: application/json\r\nDate: "))
        #expect(head.hasSuffix("Content-Length: 7\r\n"))
        #expect(!head.contains("Cookie") && !head.contains("Age"))
    }

    @Test("metadata is decoded from its encoding, and invalid bytes are rejected")
    func encoding() {
        var made = make("ETag: \"x\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nCache-Control: max-age=5, must-revalidate\nAge: 3")
        (made.metadata.order, made.metadata.likeness, made.metadata.negotiation) = (SentOrder(number: .max - 3), .max - 4, .max - 5)
        let bytes = made.metadata.encoded()
        #expect(StoredMetadata(bytes.span) == made.metadata)
        #expect(StoredMetadata(bytes.span.extracting(..<(bytes.count - 1))) == nil)
        // The formats of older versions.
        made.metadata.negotiation = 0
        #expect(StoredMetadata(bytes.span.extracting(..<(StoredMetadata.encodedBytes + 8))) == made.metadata)
        made.metadata.likeness = 0
        #expect(StoredMetadata(bytes.span.extracting(..<StoredMetadata.encodedBytes)) == made.metadata)
        let zeros = [UInt8](repeating: 0, count: 88)
        #expect(StoredMetadata(zeros.span) == nil)
        let recency = Recency(order: SentOrder(number: 8), isImported: true, requestTime: noon, responseTime: Timestamp(seconds: 9))
        let marker = StoredMetadata.varyMarker(generation: 7, recency)
        #expect(StoredMetadata.kind(of: marker.span) == .varyMarker)
        #expect(StoredMetadata.number(in: marker.span) == 7)
        #expect(StoredMetadata.recency(of: marker.span) == recency)
        // The format of older versions.
        #expect(StoredMetadata.recency(of: marker.span.extracting(..<16)) == nil)
    }

    @Test("a 304 replaces fields except those that describe the stored content")
    func freshening() throws {
        let made = make("ETag: \"x\"\nX: old\nX: older\nContent-Type: application/json\nCache-Control: max-age=1")
        let answer = ResponseHead(
            status: 304, fields: fields("ETag: \"x\"\nX: new\nContent-Type: text/plain\nContent-Length: 99\nCache-Control: max-age=50"))
        let later = Timestamp(seconds: noon.seconds + 100)
        let updated = Validation.freshened(
            made.metadata, head: made.bytes.span, contentBytes: 7, by: answer, recency(later), settings: CachePolicySettings())
        let fresh = try #require(updated)
        let head = String(decoding: fresh.bytes, as: UTF8.self)
        #expect(head.contains("X: new\r\n") && !head.contains("old"))
        #expect(head.contains("application/json") && !head.contains("99"))
        #expect(fresh.metadata.freshnessLifetime == 50)
        #expect(fresh.metadata.responseTime == later)
    }

    @Test("a 304 without Date is dated on receipt, and field names are compared without case")
    func freshenedDate() throws {
        let made = make("Date: Sun, 06 Nov 1994 08:49:37 GMT\nX: old\nCache-Control: max-age=60")
        let later = Timestamp(seconds: noon.seconds + 100)
        func freshened(_ lines: String) throws -> (bytes: [UInt8], metadata: StoredMetadata) {
            let answer = ResponseHead(status: 304, fields: fields(lines))
            let updated = Validation.freshened(
                made.metadata, head: made.bytes.span, contentBytes: 7, by: answer, recency(later), settings: CachePolicySettings())
            return try #require(updated)
        }
        let undated = try freshened("X: 1\nx: 2")
        #expect(undated.metadata.date == later)
        #expect(Freshness.currentAge(of: undated.metadata, now: later) == 0)
        let head = String(decoding: undated.bytes, as: UTF8.self)
        #expect(head.contains("X: 1\r\nx: 2\r\n") && !head.contains("old") && !head.contains("1994"))
        let dated = try freshened("Date: Sun, 06 Nov 1994 08:49:38 GMT")
        #expect(dated.metadata.date.seconds == 784_111_778)
    }

    @Test(
        "without Last-Modified, If-Modified-Since is compared with Date if there is a lifetime; If-None-Match takes precedence",
        arguments: [
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", true), ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", false),
            ("If-None-Match:\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", false),
            ("If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", false),
        ])
    func dateInstead(lines: String, isNotModified: Bool) {
        for (control, hasLifetime) in [("Cache-Control: max-age=60", true), ("Cache-Control: max-age=0", false), ("X: 1", false)] {
            let made = make("Date: Sun, 06 Nov 1994 08:49:37 GMT\n" + control)
            let result = Preconditions.isNotModified(fields(lines), stored: made.metadata, head: made.bytes.span)
            #expect(result == (isNotModified && hasLifetime), "\(control)")
        }
    }

    @Test(
        "a client's conditions are evaluated against the stored validators",
        arguments: [
            ("If-None-Match: \"x\"", true), ("If-None-Match: W/\"x\"", true), ("If-None-Match: W/\"x~cistern\"", true),
            ("If-None-Match: \"x~cistern\"", false), ("If-None-Match: \"y\", \"x\"", true),
            ("If-None-Match: *", true), ("If-None-Match: \"y\\\", \"x\"", true), ("If-None-Match: \"y, \"x\"", false),
            ("If-None-Match: \"y\"", false), ("If-None-Match: x", false), ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", false), ("If-Modified-Since: nonsense", false),
            ("If-None-Match: \"y\"\nIf-Modified-Since: Sun, 06 Nov 1999 08:49:37 GMT", false),
        ])
    func preconditions(lines: String, isNotModified: Bool) {
        let made = make("ETag: \"x\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(Preconditions.isNotModified(fields(lines), stored: made.metadata, head: made.bytes.span) == isNotModified)
    }

    @Test("a 304 from the cache has all fields except those that describe the content")
    func notModified() {
        let content = "Content-Type: a/b\nContent-Encoding: x\ncontent-language: de\nRepr-Digest: sha-256=:eA==:\nContent-MD5: x\n"
        let made = make("ETag: \"x\"\nVary: A\n\(content)X-Total-Count: 1\nLink: </b>; rel=next\nDate: Sun, 06 Nov 1994 08:49:37 GMT")
        let head = String(decoding: Preconditions.notModifiedHead(made.bytes.span), as: UTF8.self)
        #expect(
            head == "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nVary: A\r\nX-Total-Count: 1\r\nLink: </b>; rel=next\r\n"
                + "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n")
    }

    @Test("the strong ETag of a decoded response is served as weak and validated as strong")
    func weakened() {
        let made = make("ETag: \"x\"\nContent-Encoding: gzip", decoded: true)
        var asked = Fields()
        Validation.addConditions(to: &asked, stored: made.metadata, head: made.bytes.span)
        #expect(asked.first(.ifNoneMatch).map { Array($0) } == Array("\"x\"".utf8))
        #expect(String(decoding: made.bytes, as: UTF8.self).contains("ETag: W/\"x~cistern\"\r\n"))
        #expect(!String(decoding: made.bytes, as: UTF8.self).contains("gzip"))
    }

    @Test(
        "a Last-Modified in the second of the response is not sent as the only condition",
        arguments: [
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nDate: Sun, 06 Nov 1994 08:49:38 GMT", true),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nDate: Sun, 06 Nov 1994 08:49:37 GMT", false),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT\nDate: Sun, 06 Nov 1994 08:49:37 GMT", false),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nDate: Sun, 06 Nov 1994 08:49:37 GMT\nETag: \"x\"", true),
            ("Last-Modified: yesterday\nDate: Sun, 06 Nov 1994 08:49:37 GMT", true),
        ])
    func lastModified(_ lines: String, isSent: Bool) {
        let made = make(lines)
        var asked = Fields()
        Validation.addConditions(to: &asked, stored: made.metadata, head: made.bytes.span)
        #expect(asked.contains(.ifModifiedSince) == isSent)
    }
}

@Suite("Invalidation (RFC 9111 §4.4) and Vary (§4.1)")
struct InvalidationTests {
    @Test("a successful unsafe request invalidates the target and same-origin Location and Content-Location")
    func targets() {
        let origin = UpstreamOrigin(Array("http://o:1".utf8))
        let answer = ResponseHead(status: 201, fields: fields("Location: http://O:1/b?x\nContent-Location: /c#d"))
        func targets(_ method: Method, _ answer: ResponseHead) -> [String] {
            Invalidation.targets(method: method, target: Array("/a".utf8)[...], response: answer, origin: origin).map {
                String(decoding: $0, as: UTF8.self)
            }
        }
        #expect(targets(.post, answer) == ["/a", "/b?x", "/c"])
        #expect(targets(.other(Array("FROB".utf8)), ResponseHead(status: 302)) == ["/a"])
        #expect(targets(.get, answer).isEmpty)
        #expect(targets(.put, ResponseHead(status: 404)).isEmpty)
        let foreign = ResponseHead(status: 200, fields: fields("Location: http://other/b\nContent-Location: //o:1/x"))
        #expect(targets(.put, foreign) == ["/a"])
    }

    @Test(
        "an unsafe request also invalidates the target without dot segments (RFC 3986 §6.2.2.3)",
        arguments: [
            ("/x/../a", "", "", ["/x/../a", "/a"]), ("/./a?q=/../b", "", "", ["/./a?q=/../b", "/a?q=/../b"]),
            ("/x/%2E%2e/a", "", "", ["/x/%2E%2e/a", "/a"]), ("/x/.%2e/%2e/a", "", "", ["/x/.%2e/%2e/a", "/a"]),
            ("/a/b/..", "", "", ["/a/b/..", "/a/"]), ("/a/...", "", "", ["/a/..."]), ("/a;x/b%20c", "", "", ["/a;x/b%20c"]),
            ("/../a", "", "", ["/../a", "/a"]), ("/../v2/a", "/v2", "", ["/../v2/a", "/a"]), ("/../a", "/v2", "", ["/../a"]),
            ("/api/x/../a", "/v2", "/api", ["/api/x/../a", "/api/a"]), ("/api/../a", "", "/api", ["/api/../a", "/api/a"]),
        ] as [(String, String, String, [String])])
    func dotSegments(target: String, basePath: String, strippedPath: String, expected: [String]) {
        let origin = UpstreamOrigin(Array("http://o:1".utf8), basePath: Array(basePath.utf8), strippedPath: Array(strippedPath.utf8))
        func targets(sparingTarget: Bool) -> [String] {
            Invalidation.targets(
                method: .put, target: Array(target.utf8)[...], response: ResponseHead(status: 200), origin: origin,
                sparingTarget: sparingTarget
            ).map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(targets(sparingTarget: false) == expected)
        #expect(targets(sparingTarget: true).isEmpty)
    }

    @Test(
        "dot segments in Location and Content-Location are resolved",
        arguments: [
            ("Location: /v2/x/../b", ["/b"]), ("Location: /v2/../b", []), ("Location: http://o:1/x/%2e%2e/v2/b?q", ["/b?q"]),
            ("Content-Location: ../b", ["/c/../b", "/b"]), ("Content-Location: ./b", ["/c/./b", "/c/b"]),
            ("Content-Location: ../../b", ["/c/../../b"]), ("Location: /v2", ["/"]), ("Location: http://o:1/v2?q", ["/?q"]),
            ("Location: http://o:10/../v2/b", []), ("Location: http://o:1", []), ("Location: //o:1/v2/../b", []),
        ] as [(String, [String])])
    func dotSegmentsInReferences(lines: String, expected: [String]) {
        let origin = UpstreamOrigin(Array("http://o:1".utf8), basePath: Array("/v2".utf8))
        let targets = Invalidation.targets(
            method: .put, target: Array("/c/a".utf8)[...], response: ResponseHead(status: 200, fields: fields(lines)), origin: origin)
        #expect(targets.map { String(decoding: $0, as: UTF8.self) } == ["/c/a"] + expected)
    }

    @Test("selecting fields omit fields already in the key, and values are unambiguous")
    func selecting() {
        let settings = CachePolicySettings()
        let names = SelectingFields.names(
            response: fields("Vary: Accept-Encoding, B\nVary: a, Cookie, b"), request: Fields(), settings: settings)
        #expect(names.map { String(decoding: $0, as: UTF8.self) } == ["a", "b"])
        let wanted = names.map { $0[...] }
        func values(_ lines: String) -> [UInt8] { SelectingFields.values(of: wanted, in: fields(lines)) }
        #expect(values("A: 1, 2\nB: 3") == values("B: 3\na: 1\na:  2"))
        #expect(values("A: 1") != values("B: 1"))
        #expect(values("A:\nB: 1") != values("B: 1"))
        // Upstreams may read `_` in a field name as `-`, so such fields count too.
        func dashed(_ lines: String) -> [UInt8] { SelectingFields.values(of: [Array("x-a".utf8)[...]], in: fields(lines)) }
        let spelled = [
            "", "X-A: 1", "X_A: 1", "X_A: 2", "X-A:", "X_A:", "X-A: 1\nX_A: 1", "X-A: 1, x_a:1", "X-A:\nX_A: 1", "X_A: 1\nX_A: 2",
        ]
        #expect(Set(spelled.map(dashed)).count == spelled.count)
        #expect(dashed("x_a: 1\nX-A: 2") == dashed("X-A:  2\nX_a: 1"))
        var own = settings
        own.isPrivate = true
        let all = SelectingFields.names(response: fields("Vary: Cookie, a"), request: Fields(), settings: own)
        #expect(all.map { String(decoding: $0, as: UTF8.self) } == ["a", "cookie"])
        let hidden = SelectingFields.values(of: ["cookie".utf8.map { $0 }[...]], in: fields("Cookie: secret")) { _, _ in [1] }
        #expect(!String(decoding: hidden, as: UTF8.self).contains("secret"))
    }
}
