// Where nothing is wrong the failure memory is not asked, and hears no success twice: that must not make it forget anything.

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
        #expect(!isCalm { $0.failFamily("/f/") })
        #expect(!isCalm(after: 3) { $0.failFamily("/f/") })
        #expect(
            isCalm(after: 2) { memory in
                memory.failFamily("/f/")
                memory.good("/f/1")
            })
        #expect(!isCalm(after: 9) { $0.pause("/a", user: 1, seconds: 10) })
        #expect(isCalm(after: 11) { $0.pause("/a", user: 1, seconds: 10) })
    }

    @Test("a pause that was over and begins again stops its user again")
    func pausedAgain() {
        let memory = Memory()
        memory.pause("/a", user: 1, seconds: 1)
        memory.now = 2_000
        #expect(memory.ask("/a", user: 1) == .go && memory.memory.isCalm)
        memory.pause("/a", user: 1, seconds: 1)
        #expect(memory.stop("/a", user: 1) == .pause)
    }

    @Test("a success that says nothing new is not forgotten where something failed since")
    func repeatedSuccess() {
        let memory = Memory()
        memory.good("/f/1")
        for _ in 0..<4 { memory.bad("/f/1") }
        memory.good("/f/1")
        for _ in 0..<4 { memory.bad("/f/1") }
        #expect(memory.stop("/f/1") == nil)
        memory.refused()
        memory.good("/f/1")
        for _ in 0..<4 { memory.refused() }
        #expect(memory.stop("/f/1") == nil)
    }
}
