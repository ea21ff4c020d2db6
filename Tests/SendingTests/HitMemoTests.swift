// Tests of remembered hits and their expiry. Without sockets.

import CachePolicy
import CacheStore
import Downstream
import Explanation
import Figures
import HTTPCore
import TestSupport
import Testing

@testable import ResponseCache
@testable import Sending

@Suite("The memo of hits")
struct HitMemoTests {
    typealias Lines = [(String, String)]

    private let temporary = TestTools.temporaryDirectory()
    private let store: ResponseStore
    private let finding: Finding
    private let memo: HitMemo

    init() throws {
        store = try ResponseStore(StoreSettings(directory: temporary.path, capacityBytes: 4 << 20))
        let cache = ResponseCache(Self.shared(store, CachePolicySettings()), mayWait: true) {
            CacheTime(wall: Timestamp(seconds: 1_795_000_000), monotonic: 0)
        }
        finding = try cache.find(Self.plain)
        memo = HitMemo(cache: cache.state)
    }

    private static func shared(_ store: ResponseStore, _ policy: CachePolicySettings) -> APICacheState {
        var settings = ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8)))
        settings.policy = policy
        return APICacheState(store: store, sent: SentRequests(), settings: settings)
    }

    private static func head(_ target: String, _ lines: Lines, _ method: HTTPCore.Method, _ version: HTTPVersion) -> RequestHead {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name, value: value) }
        return RequestHead(method: method, target: Array(target.utf8)[...], version: version, fields: fields)
    }

    /// Looks up a hit by the request's bytes, then by its key.
    private func find(
        in memo: HitMemo? = nil, _ bytes: String?, _ head: RequestHead, now: Int64 = 5
    ) -> (byBytes: String?, byKey: String?) {
        let memo = memo ?? self.memo
        let byBytes = bytes.map { Array($0.utf8) }.flatMap { memo.find($0.span, now: now)?.hit }
        let request = memo.request(head, nil)
        let byKey = request.flatMap { memo.find($0, now: now) }
        return (
            byBytes.map { String(decoding: $0.response.bytes, as: UTF8.self) },
            byKey.map { String(decoding: $0.response.bytes, as: UTF8.self) }
        )
    }

    /// Remembers a response as a hit does.
    private func keep(
        in memo: HitMemo? = nil, _ bytes: String, _ head: RequestHead, _ response: String, times: Range<Int64> = 0..<10,
        selecting: [String] = []
    ) {
        let memo = memo ?? self.memo
        var basis = finding.basis
        basis.selecting = selecting.map { Array($0.utf8)[...] }
        let record = ExchangeRecord(.hit, .get, status: 200)
        let hit = Array(response.utf8).withUnsafeBytes { MemoizedHit(SentBytes($0), basis, times: times, record) }
        Array(bytes.utf8).withUnsafeBytes { bytes in
            guard let request = memo.request(head, bytes) else { return }
            memo.keep(request, head, basis) { hit }
        }
    }

    private static let plain = head("/a", [], .get, .http11)

    @Test("only frequent hits are kept, first found by their key, then by the exact bytes of the request")
    func often() {
        #expect(memo.request(Self.plain, nil) == nil, "the target was not requested before")
        keep("a", Self.plain, "1")
        #expect(find("a", Self.plain) == (nil, nil))
        keep("a", Self.plain, "1")
        #expect(find("a", Self.plain) == (nil, "1"))
        keep("a", Self.plain, "1")
        #expect(find("a", Self.plain) == ("1", "1"))
        #expect(find("A", Self.plain).byBytes == nil && find("a ", Self.plain).byBytes == nil)
    }

    @Test("an entry is valid while its Age field is correct, also after the clock is set back")
    func times() {
        for _ in 1...4 { keep("a", Self.plain, "1", times: 3..<7) }
        #expect((0..<10).filter { find("a", Self.plain, now: $0).byBytes != nil } == [3, 4, 5, 6])
        #expect((0..<10).filter { find("a", Self.plain, now: $0).byKey != nil } == [3, 4, 5, 6])
    }

    @Test("a change of the basis of its lookup invalidates an entry, and other changes do not")
    func changes() {
        for _ in 1...4 { keep("a", Self.plain, "1") }
        store.insert(NewItem(key: [2], metadata: [], head: [], body: [], retention: .whenUsed))
        #expect(find("a", Self.plain) == ("1", "1"))
        store.insert(NewItem(key: finding.keys.own, metadata: [], head: [], body: [], retention: .whenUsed))
        #expect(find("a", Self.plain) == (nil, nil))
        // A response that was looked up before the change is not remembered.
        for _ in 1...4 { keep("a", Self.plain, "2") }
        #expect(find("a", Self.plain) == (nil, nil))
    }

    @Test("the memo is cleared when the modes change")
    func forgetting() {
        for _ in 1...4 { keep("a", Self.plain, "1") }
        memo.forget()
        #expect(find("a", Self.plain) == (nil, nil))
    }

    struct Row: CustomTestStringConvertible {
        let testDescription: String
        let head: RequestHead
        let isSame: Bool

        init(
            _ sentence: String, _ lines: Lines = [], target: String = "/a", _ method: HTTPCore.Method = .get,
            _ version: HTTPVersion = .http11, isSame: Bool = false
        ) {
            testDescription = sentence
            head = HitMemoTests.head(target, [("Host", "a")] + lines, method, version)
            self.isSame = isSame
        }
    }

    @Test(
        "requests that differ only in irrelevant fields share an entry, and all others have separate entries",
        arguments: [
            Row("nothing differs", isSame: true),
            Row("another user agent", [("User-Agent", "x"), ("Accept", "*/*")], isSame: true),
            Row("another page, another language", [("Referer", "/x"), ("Accept-Language", "de")], isSame: true),
            Row("a script of another origin", [("Origin", "x")], isSame: false),
            Row("through other proxies", [("X-Forwarded-For", "1.2.3.4"), ("X-Real-IP", "x"), ("Forwarded", "for=x")], isSame: true),
            Row("another target", target: "/b"), Row("HEAD", [], .head), Row("HTTP/1.0", [], target: "/a", .get, .http10),
            Row("credentials", [("Authorization", "Basic x")]), Row("a cookie", [("Cookie", "a=b")]),
            Row("an API key", [("X-API-Key", "k")]),
            Row("a condition", [("If-None-Match", "\"1\"")]), Row("a range", [("Range", "bytes=0-1")]),
            Row("another coding", [("Accept-Encoding", "gzip")]), Row("demands", [("Cache-Control", "no-cache")]),
            Row("an unknown field", [("X-Tenant", "1")]), Row("another host", [("Host", "b")]),
            Row("a mode", [("Cistern-Mode", "offline")]), Row("an explanation", [("Cistern-Why", "?1")]),
        ])
    func keys(_ row: Row) {
        for _ in 1...4 { keep("a", Self.head("/a", [("Host", "a")], .get, .http11), "1") }
        #expect((find(nil, row.head).byKey != nil) == row.isSame)
    }

    @Test("different requests have different keys, however names, values and lines are combined")
    func ambiguity() {
        let heads = [
            Self.head("/a", [("X", "1"), ("Y", "2")], .get, .http11), Self.head("/a", [("X", "1Y:2")], .get, .http11),
            Self.head("/a", [("Y", "2"), ("X", "1")], .get, .http11), Self.head("/a", [("X", "1"), ("X", "")], .get, .http11),
        ]
        for (place, head) in heads.enumerated() {
            for _ in 1...3 { keep("\(place)", head, "\(place)") }
        }
        for (place, head) in heads.enumerated() { #expect(find(nil, head).byKey == "\(place)") }
    }

    @Test("a field named by Vary or by the operator distinguishes requests")
    func named() {
        let one = Self.head("/a", [("Accept-Language", "de")], .get, .http11)
        let other = Self.head("/a", [("Accept-Language", "fr")], .get, .http11)
        for _ in 1...4 { keep("b", one, "1", selecting: ["accept-encoding"]) }
        #expect(find(nil, other).byKey == "1")
        // A field with few values: after the first Vary with it, keys include the field.
        for _ in 1...4 { keep("a", one, "1", selecting: ["accept-language"]) }
        #expect(find("a", one) == ("1", "1") && find(nil, other).byKey == nil)
        // A field with many values: only byte-for-byte equal requests match.
        let agent = Self.head("/c", [("User-Agent", "x")], .get, .http11)
        for _ in 1...4 { keep("c", agent, "1", selecting: ["user-agent"]) }
        #expect(find("c", agent) == ("1", nil))
        var policy = CachePolicySettings()
        policy.keyFields = ["accept-language"]
        policy.credentials.fields = ["user-agent"]
        let keyed = HitMemo(cache: Self.shared(store, policy))
        for _ in 1...4 { keep(in: keyed, "a", one, "1") }
        #expect(find(in: keyed, nil, one).byKey == "1" && find(in: keyed, nil, other).byKey == nil)
        #expect(find(in: keyed, nil, Self.head("/a", [("Accept-Language", "de"), ("User-Agent", "x")], .get, .http11)).byKey == nil)
    }

    @Test("the memo is bounded, and entries that are used again are kept longer")
    func bounds() {
        let large = String(repeating: "x", count: 1 << 20)
        for number in 0..<8 {
            for _ in 1...4 { keep("\(number)", Self.head("/\(number)", [], .get, .http11), large) }
        }
        let kept = (0..<8).count { find(nil, Self.head("/\($0)", [], .get, .http11)).byKey != nil }
        #expect(1...5 ~= kept)
        let long = Self.head("/" + String(repeating: "x", count: 5_000), [], .get, .http11)
        for _ in 1...4 { keep("long", long, "1") }
        #expect(find("long", long) == (nil, nil))
    }
}
