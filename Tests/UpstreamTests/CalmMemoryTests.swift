// Without failures, requests skip the failure memory, and repeated successes are not reported to it. These tests check that it forgets
// nothing because of that.

import Testing

@testable import Upstream

@Suite("The failure memory without open scopes")
struct CalmMemoryTests {
    @Test("the memory is calm while no scope is open, and again one recheck interval after the last scope closed")
    func calm() {
        func isCalm(after seconds: Int64 = 0, _ change: (Memory) -> Void) -> Bool {
            let memory = Memory()
            memory.good("/f/9")
            memory.now = 20_000
            change(memory)
            memory.now += seconds * 1000
            _ = memory.ask("/other/a")
            return memory.memory.isCalm
        }
        #expect(isCalm { $0.good("/f/1") })
        #expect(isCalm { $0.bad("/f/1") })
        #expect(!isCalm { $0.refused() })
        #expect(
            isCalm { memory in
                memory.refused()
                memory.reach()
            })
        #expect(!isCalm { $0.failAll() })
        #expect(!isCalm(after: 30) { $0.failAll() })
        #expect(
            isCalm(after: 3) { memory in
                memory.failAll()
                memory.good("/f/1")
            })
        // A recent failure is reported, but stops no request.
        #expect(
            isCalm(after: 4) { memory in
                for _ in 0..<2 { memory.bad("/f/1") }
            })
        #expect(!isCalm(after: 9) { $0.pause("/a", seconds: 10) })
        #expect(isCalm(after: 11) { $0.pause("/a", seconds: 10) })
    }

    @Test("a new Retry-After pause after an expired one stops the client's requests again")
    func pausedAgain() {
        let memory = Memory()
        memory.pause("/a", seconds: 1)
        memory.now = 2_000
        #expect(memory.ask("/a") == .go && memory.memory.isCalm)
        memory.pause("/a", seconds: 1)
        #expect(memory.stop("/a") == .pause)
    }

    @Test("a key that fails again after a calm period opens again")
    func failsAgain() {
        let memory = Memory()
        for _ in 0..<2 { memory.bad("/a") }
        memory.now = 5_000
        #expect(memory.ask("/a") == .go && memory.memory.isCalm)
        memory.bad("/a")
        #expect(memory.stop("/a") == .key)
    }

    @Test("a success that changes no state is still recorded if a failure occurred since")
    func repeatedSuccess() {
        let memory = Memory()
        memory.good("/f/1")
        memory.bad("/f/1")
        memory.good("/f/1")
        memory.bad("/f/1")
        #expect(memory.stop("/f/1") == nil)
        memory.refused()
        memory.good("/f/1")
        for _ in 0..<4 { memory.refused() }
        #expect(memory.stop("/f/1") == nil)
    }
}
