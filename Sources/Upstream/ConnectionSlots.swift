// Slots for work of several kinds, divided like connections (`ConnectionShare`). A share cannot take more slots than remain free, so that
// a slot remains for other shares.

/// Callers never wait for a slot.
public struct ConnectionSlots {
    private let count: Int
    private var queue: ConnectionQueue<Never>

    public init(count: Int) {
        self.count = count
        queue = ConnectionQueue(connections: count, limit: 0)
    }

    /// Number of taken slots.
    public var taken: Int { queue.running }

    /// Whether `take` would succeed.
    public func hasCapacity(for shares: ConnectionShares) -> Bool { taken < count && shares.allSatisfy { queue.hasCapacity($0) } }

    /// - Returns: false if one of the shares has reached its limit, or no slot is free.
    public mutating func take(_ shares: ConnectionShares) -> Bool { taken < count && queue.take(shares) }

    /// - Parameter shares: the shares that were taken.
    public mutating func release(_ shares: ConnectionShares) { queue.release(shares) }
}
