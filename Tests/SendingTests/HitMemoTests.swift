// What a request got a moment ago, and when that counts no more: without sockets.

import CachePolicy
import CacheStore
import Explanation
import HTTPCore
import ResponseCache
import Telemetry
import TestSupport
import Testing

@testable import Sending

@Suite("The memory of hits")
struct HitMemoTests {
    private let temporary = TestTools.temporaryDirectory()
    private let store: ResponseStore
    private let memo: HitMemo

    init() throws {
        store = try ResponseStore(StoreSettings(directory: temporary.path, capacityBytes: 4 << 20))
        let settings = ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8)))
        memo = HitMemo(cache: SharedCacheState(store: store, sent: SentRequests(), settings: settings))
    }

    private func find(_ request: String, now: Int64 = 5) -> String? {
        Array(request.utf8).withUnsafeBytes { memo.find($0, now: now) }.map { String(decoding: $0.response, as: UTF8.self) }
    }

    /// Looks, then keeps what was sent, as a hit does.
    private func hit(_ request: String, _ response: String, times: Range<Int64> = 0..<10, changes: UInt64? = nil) {
        _ = find(request)
        memo.keep(since: changes ?? store.changes) {
            Array(request.utf8).withUnsafeBytes { request in
                Array(response.utf8).withUnsafeBytes { response in
                    HitMemo.Entry(
                        request, response, times: times, RequestHead(method: .get, target: [0x2f], version: .http11, fields: Fields()),
                        ExchangeRecord(result: .hit, method: .get, status: 200), ExchangeTrace())
                }
            }
        }
    }

    @Test("only what comes twice is kept, and only for the same bytes")
    func twice() {
        hit("a", "1")
        #expect(find("a") == nil)
        hit("a", "1")
        #expect(find("a") == "1")
        #expect(find("A") == nil && find("a ") == nil)
    }

    @Test("it counts for as long as the age that it tells holds, also where the clock is set back")
    func times() {
        for _ in 1...2 { hit("a", "1", times: 3..<7) }
        #expect((0..<10).filter { find("a", now: $0) != nil } == [3, 4, 5, 6])
    }

    @Test("what the store takes in makes it count no more, also between the look-up and the end of the hit")
    func changes() {
        let before = store.changes
        for _ in 1...2 { hit("a", "1") }
        store.insert(NewItem(key: [1], metadata: [], head: [], body: [], retention: .whenUsed))
        #expect(find("a") == nil)
        for _ in 1...2 { hit("a", "2", changes: before) }
        #expect(find("a") == nil)
        for _ in 1...2 { hit("a", "2") }
        #expect(find("a") == "2")
    }

    @Test("all is forgotten when the modes change")
    func forgetting() {
        for _ in 1...2 { hit("a", "1") }
        memo.forget()
        #expect(find("a") == nil)
    }
}
