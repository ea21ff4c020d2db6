// Reproducible random numbers.

/// SplitMix64.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    /// Generator of a single step, independent of earlier steps.
    package init(seed: UInt64, step: Int) {
        var schedule = SeededGenerator(seed: seed ^ UInt64(step + 1) << 32)
        state = schedule.next()
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }
}

extension RandomNumberGenerator {
    package mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &self) }
    package mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
    package mutating func isTrue(oneIn count: Int = 2) -> Bool { below(count) == 0 }
    package mutating func pick<T>(_ from: [T]) -> T { from[below(from.count)] }
}
