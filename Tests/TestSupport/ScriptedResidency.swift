// Says of what is stored that it is in memory or on the disk only, as a play wants it; and reads it in when the play lets it.

import CacheStore
import Locking

package final class ScriptedResidency: Residency {
    private struct State {
        var isAway = false
        /// What is read in is gone again at once.
        var isForgetful = false
        /// Addresses that were read in since.
        var readIn: [Range<UInt>] = []
        var reads = 0
        var gate: Gate?
    }

    /// Loops ask, readers bring in, the play decides.
    private let state = Mutex(State())

    package init() {}

    /// From now on all that lies in files is on the disk only, until it is read in.
    /// - Parameters:
    ///   - gate: reading waits until it is open.
    ///   - isForgetful: the memory is so short that what is read in is gone again at once.
    package func takeAway(until gate: Gate? = nil, isForgetful: Bool = false) {
        state.withLock { $0 = State(isAway: true, isForgetful: isForgetful, reads: $0.reads, gate: gate) }
    }

    /// How often something was read in.
    package var reads: Int { state.withLock { $0.reads } }

    package func isInMemory(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let wanted = Self.addresses(bytes)
        return state.withLock { state in !state.isAway || wanted.isEmpty || state.readIn.contains { $0.contains(wanted) } }
    }

    package func bringIn(_ bytes: UnsafeRawBufferPointer) {
        let gate = state.withLock { state in
            state.reads += 1
            return state.gate
        }
        gate?.pass()
        state.withLock { state in if !state.isForgetful { state.readIn.append(Self.addresses(bytes)) } }
    }

    /// So that it is asked each time.
    package var isTrusted: Bool { false }

    private static func addresses(_ bytes: UnsafeRawBufferPointer) -> Range<UInt> {
        let start = UInt(bitPattern: bytes.baseAddress)
        return start..<start + UInt(bytes.count)
    }
}
