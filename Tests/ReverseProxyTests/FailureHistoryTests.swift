// What fails, comes back and ends, over time.

import Testing

@testable import Administration

@Suite("Troubles that go on and off")
struct FailureHistoryTests {
    private static func failure(_ name: String, since: Int64) -> OpenFailure {
        OpenFailure(name: name, kind: "key", since: since, cause: "slow", setting: "", effect: "", wait: 0, user: nil)
    }

    @Test("what comes back within five minutes is the same; what does not has ended")
    func returning() {
        var history = FailureHistory()
        #expect(history.note([Self.failure("key:/a", since: 1_000)], of: "x", now: 2_000).map(\.isOnAndOff) == [false])
        // One end is no going on and off yet.
        #expect(history.note([], of: "x", now: 10_000).isEmpty)
        let back = history.note([Self.failure("key:/a", since: 20_000)], of: "x", now: 21_000)
        #expect(back.map(\.since) == [1_000] && back.map(\.isOnAndOff) == [true] && back[0].isOpen)
        let off = history.note([], of: "x", now: 30_000)
        #expect(off.map(\.endedAt) == [21_000] && off.eldest?.since == 1_000 && off.outage == nil)
        #expect(history.note([], of: "x", now: 21_000 + FailureHistory.gap + 1).isEmpty)
    }

    @Test("what is known of an API that is served no more takes nobody's room for good")
    func gone() {
        var history = FailureHistory()
        let many = (0..<FailureHistory.limit).map { Self.failure("key:/\($0)", since: 1_000) }
        _ = history.note(many, of: "gone", now: 1_000)
        let later = 1_000 + FailureHistory.gap + 1
        _ = history.note([Self.failure("key:/a", since: later)], of: "x", now: later)
        _ = history.note([], of: "x", now: later + 1_000)
        let back = history.note([Self.failure("key:/a", since: later + 2_000)], of: "x", now: later + 2_000)
        #expect(back.map(\.isOnAndOff) == [true])
    }
}
