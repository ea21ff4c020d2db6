// Tests of the process-wide memory of responses that are collected.

import TestSupport
import Testing

@testable import ReverseProxy

@Suite("Memory of collected responses")
struct ResponseMemoryTests {
    private static let step = ResponseMemory.uncountedBytes

    @Test("one client holds at most as much as remains free, and the memory is given back")
    func oneClient() {
        let memory = ResponseMemory(limitBytes: 10 * Self.step)
        var holds = (0..<10).map { _ in ResponseMemoryHold(memory, for: 1) }
        #expect(holds.map { $0.grow(to: Self.step) }.count { $0 } == 5)
        #expect(ResponseMemoryHold(memory, for: 2).grow(to: 2 * Self.step))
        holds = []
        #expect(memory.heldBytes == 0)
    }

    @Test("in random schedules, the limit holds, and a client without memory gets half of what is free", arguments: 0..<20)
    func random(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let limit = 64 * Self.step
        let memory = ResponseMemory(limitBytes: limit)
        var holds: [(hold: ResponseMemoryHold, bytes: Int)] = []
        for _ in 0..<2_000 {
            switch random.below(3) {
            case 0: holds.append((ResponseMemoryHold(memory, for: UInt64(random.below(6))), 0))
            case 1 where !holds.isEmpty: holds.remove(at: random.below(holds.count))
            default:
                guard !holds.isEmpty else { continue }
                let index = random.below(holds.count)
                let wanted = holds[index].bytes + random.below(4 * Self.step)
                if holds[index].hold.grow(to: wanted) { holds[index].bytes = wanted }
            }
            #expect(holds.reduce(0) { $0 + $1.bytes } <= memory.heldBytes && memory.heldBytes <= limit)
            let half = (limit - memory.heldBytes) / 2 / Self.step * Self.step
            #expect(ResponseMemoryHold(memory, for: 99).grow(to: half))
        }
        holds = []
        #expect(memory.heldBytes == 0)
    }
}
