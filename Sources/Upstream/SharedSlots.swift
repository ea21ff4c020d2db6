// Slots for work of several kinds, divided as connections are (`ConnectionShare`): whoever names a share that has as many slots as are free gets no
// other, so there is one left for those who have none.

/// Nobody waits for a slot.
public struct SharedSlots {
    private let count: Int
    private var queue: ConnectionQueue<Never>

    public init(count: Int) {
        self.count = count
        queue = ConnectionQueue(connections: count, limit: 0)
    }

    /// Slots that are taken.
    public var taken: Int { queue.running }

    /// - Returns: false if one of the shares has as many as it may, or none is free.
    public mutating func take(_ shares: ConnectionShares) -> Bool { taken < count && queue.take(shares) }

    /// - Parameter shares: as they were taken.
    public mutating func release(_ shares: ConnectionShares) { queue.release(shares) }
}
