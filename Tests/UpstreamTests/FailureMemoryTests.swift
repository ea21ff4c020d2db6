// The failure memory as a table of events and answers; time and chance are given.

import Testing

@testable import Upstream

/// A memory that keeps its changes, since an expectation may not change a value.
private final class Kept {
    private var memory: FailureMemory
    private var budget: RetryBudget

    init(percent: Int = 10) {
        memory = FailureMemory(FailureSettings())
        budget = RetryBudget(percent: percent)
    }

    var state: UpstreamState { memory.state }

    func admit(now: Int64) -> FailureMemory.Admission { memory.admit(now: now) }

    @discardableResult
    func succeeded(now: Int64) -> Bool { memory.succeeded(now: now) }

    @discardableResult
    func failed(now: Int64, retryAfter: Int64? = nil, chance: Double = 0) -> Bool {
        memory.failed(now: now, retryAfter: retryAfter, chance: chance)
    }

    func earn() { budget.earn() }
    func spend() -> Bool { budget.spend() }
}

@Suite("Failure memory")
struct FailureMemoryTests {
    private func opened() -> Kept {
        let memory = Kept()
        for time in 0..<5 as Range<Int64> { memory.failed(now: time) }
        return memory
    }

    @Test("failures in a row open it, a success in between does not let them")
    func threshold() {
        let memory = Kept()
        for time in 0..<4 as Range<Int64> { #expect(!memory.failed(now: time)) }
        #expect(!memory.succeeded(now: 4))
        for time in 5..<9 as Range<Int64> { #expect(!memory.failed(now: time)) }
        #expect(memory.admit(now: 9) == .go)
        #expect(memory.failed(now: 9))
        #expect(memory.state == .open)
    }

    @Test("a Retry-After of nothing, or one that is not obeyed, opens nothing")
    func noRetryAfter() {
        var settings = FailureSettings()
        settings.retryAfterLimit = 0
        var deaf = FailureMemory(settings)
        deaf.failed(now: 0, retryAfter: 30_000, chance: 0)
        #expect(deaf.state == .closed)
        var memory = FailureMemory(FailureSettings())
        memory.failed(now: 0, retryAfter: 0, chance: 0)
        #expect(memory.state == .closed)
        memory.failed(now: 0, retryAfter: 1, chance: 0)
        #expect(memory.state == .open)
    }

    @Test("a share of failures within the window opens it, once there were enough exchanges")
    func rate() {
        let memory = Kept()
        var openedAt: Int64?
        for time in 0..<40 as Range<Int64> where openedAt == nil {
            if time % 2 == 0 { memory.succeeded(now: time) } else if memory.failed(now: time) { openedAt = time }
        }
        #expect(openedAt == 19)
        // The same share over a longer time than the window never fills it.
        let slow = Kept()
        for time in 0..<200 as Range<Int64> {
            if time % 2 == 0 { slow.succeeded(now: time * 1_000) } else { slow.failed(now: time * 1_000) }
        }
        #expect(slow.state == .closed)
    }

    @Test("while open, one request an interval is let through; the interval doubles up to its limit")
    func probes() {
        let memory = opened()
        #expect(memory.admit(now: 4) == .wait(1_000))
        #expect(memory.admit(now: 1_004) == .probe)
        #expect(memory.state == .halfOpen)
        #expect(memory.admit(now: 1_005) == .wait(999))
        var now: Int64 = 1_100
        for interval in [2_000, 4_000, 8_000, 16_000, 30_000, 30_000] as [Int64] {
            memory.failed(now: now)
            #expect(memory.admit(now: now + interval - 1) == .wait(1))
            #expect(memory.admit(now: now + interval) == .probe)
            now += interval
        }
        #expect(memory.succeeded(now: now))
        #expect(memory.admit(now: now) == .go)
    }

    @Test("a probe that never reports stops nothing")
    func lostProbe() {
        let memory = opened()
        #expect(memory.admit(now: 1_004) == .probe)
        #expect(memory.admit(now: 2_004) == .probe)
    }

    @Test("chance spreads the probes by up to a fifth")
    func jitter() {
        let memory = Kept()
        for time in 0..<5 as Range<Int64> { memory.failed(now: time, chance: 1) }
        #expect(memory.admit(now: 4) == .wait(1_200))
    }

    @Test("what the upstream asks for is obeyed at once, up to a limit")
    func retryAfter() {
        let memory = Kept()
        #expect(memory.failed(now: 0, retryAfter: 20_000))
        #expect(memory.admit(now: 1) == .wait(19_999))
        let long = Kept()
        long.failed(now: 0, retryAfter: .max)
        #expect(long.admit(now: 0) == .wait(300_000))
    }

    @Test("repeats are a share of what is sent")
    func budget() {
        let budget = Kept(percent: 10)
        var spent = 0
        while budget.spend() { spent += 1 }
        #expect(spent == 10)
        for _ in 0..<9 { budget.earn() }
        #expect(!budget.spend())
        budget.earn()
        #expect(budget.spend())
        let none = Kept(percent: 0)
        #expect(!none.spend())
    }
}
