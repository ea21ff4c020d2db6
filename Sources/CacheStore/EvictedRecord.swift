// Ranks the items of an evicted segment. Items that look-ups have used are written again as long as they fit the budget. Only other used
// items displace them, so items that are stored and never looked up cannot.

/// An item in a segment that is evicted.
struct EvictedRecord {
    let header: RecordHeader
    /// Offset in the segment.
    let offset: Int
    /// Whether the item was looked up since this record was written.
    let isUsed: Bool

    /// Number of this item's records that look-ups used, up to `RecordHeader.usesLimit`, less those that were lost to displacement.
    private var uses: UInt32 { min(header.uses + (isUsed ? 1 : 0), RecordHeader.usesLimit) }

    var isNeeded: Bool { header.retention.isNeeded }

    /// Whether the item should be written again.
    var isWanted: Bool { isNeeded || uses > 0 }

    /// Value of `RecordHeader.uses` for the item's next record.
    /// - Parameter isPressed: whether the used items of the segment exceed the budget.
    func usesAfter(isPressed: Bool) -> UInt32 { isPressed && !isUsed && uses > 0 ? uses - 1 : uses }

    /// The order in which items are written again. Of equal items, those that eviction has kept before are first in the segment.
    static func precedes(_ one: EvictedRecord, _ other: EvictedRecord) -> Bool {
        (other.header.retention.rawValue, other.uses, one.offset) < (one.header.retention.rawValue, one.uses, other.offset)
    }
}
