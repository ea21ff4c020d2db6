// Without failures, requests skip the failure memory, and repeated successes are not reported to it. These tests check that it forgets
// nothing because of that.

import Testing

@testable import Upstream

@Suite("The failure memory where nothing is wrong")
struct CalmMemoryTests {
    @Test("as long as nothing is open the memory is calm, and again a recheck after the last thing ended, in whichever way")
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

    @Test("a pause that was over and begins again stops its client again")
    func pausedAgain() {
        let memory = Memory()
        memory.pause("/a", seconds: 1)
        memory.now = 2_000
        #expect(memory.ask("/a") == .go && memory.memory.isCalm)
        memory.pause("/a", seconds: 1)
        #expect(memory.stop("/a") == .pause)
    }

    @Test("a key that fails again after all was calm stops its copies again")
    func failsAgain() {
        let memory = Memory()
        for _ in 0..<2 { memory.bad("/a") }
        memory.now = 5_000
        #expect(memory.ask("/a") == .go && memory.memory.isCalm)
        memory.bad("/a")
        #expect(memory.stop("/a") == .key)
    }

    @Test("a success that says nothing new is not forgotten where something failed since")
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
