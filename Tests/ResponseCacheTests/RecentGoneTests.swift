// What was remembered as gone lately, without a store.

import Testing

@testable import ResponseCache

@Suite("What was remembered as gone lately")
struct RecentGoneTests {
    @Test("those that a crowd may lift are bounded: the oldest go first, and are counted")
    func recent() {
        var recent = RecentGone(window: 100)
        for number in 0..<RecentGone.limit { #expect(recent.add([1], of: UInt64(number), now: 0) == 0) }
        #expect(recent.add([2], of: 9_999, now: 1) == 1)
        #expect(recent.take(now: 1) { $0 < 2 || $0 == 9_999 } == [[1], [2]])
        #expect(recent.count == RecentGone.limit - 2)
        let long = [UInt8](repeating: 0, count: RecentGone.limitBytes - 1)
        #expect(recent.add(long, of: 1, now: 100) == 0 && recent.count == 1)
        #expect(recent.add([1, 2], of: 2, now: 101) == 1 && recent.count == 1)
        #expect(recent.take(now: 201) { _ in true }.isEmpty && recent.count == 0)
    }
}
