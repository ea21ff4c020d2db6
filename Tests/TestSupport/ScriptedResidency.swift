// Simulates whether stored data is in memory or on disk only, and blocks reading until the play permits it.

import CacheStore
import Reactor

package final class ScriptedResidency: Residency {
    private struct State {
        var isAway = false
        /// Whether data that was read is evicted from memory at once.
        var isForgetful = false
        /// Addresses that have been read since.
        var readIn: [Range<UInt>] = []
        var reads = 0
        var gate: Gate?
    }

    /// Accessed by event loops, reading threads and the play.
    private let state = Mutex(State())

    package init() {}

    /// From now on, all data in files is on disk only until it is read.
    /// - Parameters:
    ///   - gate: reading waits until it is open.
    ///   - isForgetful: data that was read is evicted from memory at once.
    package func takeAway(until gate: Gate? = nil, isForgetful: Bool = false) {
        state.withLock { $0 = State(isAway: true, isForgetful: isForgetful, reads: $0.reads, gate: gate) }
    }

    /// Number of reads.
    package var reads: Int { state.withLock { $0.reads } }

    package func isInMemory(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let wanted = Self.addresses(bytes)
        return state.withLock { state in !state.isAway || wanted.isEmpty || state.readIn.contains { $0.contains(wanted) } }
    }

    package func load(_ bytes: UnsafeRawBufferPointer) {
        let gate = state.withLock { state in
            state.reads += 1
            return state.gate
        }
        gate?.pass()
        state.withLock { state in if !state.isForgetful { state.readIn.append(Self.addresses(bytes)) } }
    }

    /// Forces a check for each access.
    package var isTrusted: Bool { false }

    private static func addresses(_ bytes: UnsafeRawBufferPointer) -> Range<UInt> {
        let start = UInt(bitPattern: bytes.baseAddress)
        return start..<start + UInt(bytes.count)
    }
}
