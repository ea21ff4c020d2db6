// Records which client has just written to which target. That client receives the upstream's response for the target, even an unexpected
// one. A pure state machine: times are passed in, and memory is bounded.

public struct RecentWrites: Sendable {
    private struct Slot: TargetSlot {
        var target: UInt64 = 0
        var time: Int64 = 0
    }

    private let window: Int64
    private var slots = TargetSlots<Slot>(count: 1_024)

    /// - Parameter window: milliseconds for which a write counts (`failure.window`).
    public init(window: Int64) { self.window = window }

    /// Records a write.
    /// - Parameter number: hash of the client and the target; never 0.
    public mutating func note(_ number: UInt64, now: Int64) { slots[index(of: number)] = Slot(target: number, time: now) }

    /// Returns whether the client wrote to the target within the window.
    public func contains(_ number: UInt64, now: Int64) -> Bool {
        let slot = slots[index(of: number)]
        return slot.target == number && now - slot.time < window
    }

    private func index(of number: UInt64) -> Int { slots.index(of: number) { (0, $0.time) } }
}
