// Limits the process-wide memory of response content that is collected. `ResponseMemory` counts. `ResponseMemoryHold` is the part of one
// response, which ends on deinitialization.

import Reactor

public final class ResponseMemory: Sendable {
    /// Shorter content is not counted; the number of connections limits it.
    static let uncountedBytes = 64 << 10

    private struct State {
        var heldBytes = 0
        /// Held bytes by client, without clients that hold nothing.
        var clients: [UInt64: Int] = [:]
    }

    /// Maximum bytes for all responses of all shards.
    public let limitBytes: Int
    private let state = Mutex(State())

    public init(limitBytes: Int) { self.limitBytes = limitBytes }

    public var heldBytes: Int { state.withLock { $0.heldBytes } }

    /// Reserves memory for a client's response. A client holds at most as much as remains free, so that some is left for others.
    /// - Returns: false if nothing was reserved.
    fileprivate func take(_ count: Int, for client: UInt64) -> Bool {
        state.withLock { state in
            let held = (state.clients[client] ?? 0) + count
            guard held <= limitBytes - state.heldBytes - count else { return false }
            state.clients[client] = held
            state.heldBytes += count
            return true
        }
    }

    fileprivate func giveBack(_ count: Int, of client: UInt64) {
        state.withLock { state in
            state.heldBytes -= count
            let left = (state.clients[client] ?? 0) - count
            state.clients[client] = left > 0 ? left : nil
        }
    }
}

/// The memory of one response.
final class ResponseMemoryHold {
    private let memory: ResponseMemory
    private let client: UInt64
    private var bytes = 0

    /// - Parameter client: number of the client for which the response is fetched.
    init(_ memory: ResponseMemory, for client: UInt64) { (self.memory, self.client) = (memory, client) }

    deinit { if bytes > 0 { memory.giveBack(bytes, of: client) } }

    /// Reserves memory for content of this length, in steps.
    /// - Returns: false if there is not enough. What was reserved before stays reserved.
    func grow(to count: Int) -> Bool {
        guard count > bytes else { return true }
        let step = ResponseMemory.uncountedBytes
        let more = (count - bytes + step - 1) / step * step
        guard memory.take(more, for: client) else { return false }
        bytes += more
        return true
    }
}
