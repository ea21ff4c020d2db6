// Random numbers that are the same at every run, and the settings of long walks.

import Glibc

/// SplitMix64: small, and the same everywhere.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }
}

/// How long the random walks are and where they begin (`make soak`).
package enum Soak {
    package static var steps: Int? { number("CISTERN_SOAK_STEPS") }
    /// Number of random schedules for the failure memory.
    package static var walks: Int? { number("CISTERN_SOAK_WALKS") }
    package static var seed: UInt64 { UInt64(number("CISTERN_SOAK_SEED") ?? 4711) }

    private static func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }
}
