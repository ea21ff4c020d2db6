// An approximate memory of recent hashes in little space.

/// One slot for each group of hashes, with a part of the last one. Allocated at the first use.
struct RecentHashes {
    private var parts: [UInt32] = []
    private let slots: Int

    /// - Parameter slots: number of slots, a power of two.
    init(slots: Int) { self.slots = slots }

    /// Returns whether the hash has occurred recently, and records it.
    mutating func hasCome(_ hash: UInt64) -> Bool {
        if parts.isEmpty { parts = Array(repeating: 0, count: slots) }
        let slot = Int(truncatingIfNeeded: hash) & (slots - 1)
        let part = UInt32(truncatingIfNeeded: hash >> 32)
        defer { parts[slot] = part }
        return parts[slot] == part
    }
}
