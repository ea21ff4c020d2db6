// What has come a moment ago, as far as a few bytes can tell.

/// What came last in each of so many places: parts of hashes. It takes memory with the first.
struct RecentHashes {
    private var parts: [UInt32] = []
    private let places: Int

    /// - Parameter places: a power of two.
    init(places: Int) { self.places = places }

    /// Whether it has come a moment ago; from now on it has.
    mutating func hasCome(_ hash: UInt64) -> Bool {
        if parts.isEmpty { parts = Array(repeating: 0, count: places) }
        let place = Int(truncatingIfNeeded: hash) & (places - 1)
        let part = UInt32(truncatingIfNeeded: hash >> 32)
        defer { parts[place] = part }
        return parts[place] == part
    }
}
