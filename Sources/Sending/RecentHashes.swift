// An approximate memory of recent hashes in little space.

/// One slot for each group of hashes, with a part of the last one. Allocated at the first use.
struct RecentHashes {
    private var parts: [UInt32] = []
    private let places: Int

    /// - Parameter places: number of slots, a power of two.
    init(places: Int) { self.places = places }

    /// Returns whether the hash has occurred recently, and records it.
    mutating func hasCome(_ hash: UInt64) -> Bool {
        if parts.isEmpty { parts = Array(repeating: 0, count: places) }
        let place = Int(truncatingIfNeeded: hash) & (places - 1)
        let part = UInt32(truncatingIfNeeded: hash >> 32)
        defer { parts[place] = part }
        return parts[place] == part
    }
}
