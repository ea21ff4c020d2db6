// Counts the requests that received equal data although they differ in changing fields (`ChangingFields`). A field may look changing because
// many users have sent one request each. So a response is stored for all values of such a field only after requests with several values have
// received its data: then it belongs to no single user.

/// Not thread-safe: the owner synchronizes access. Keys, data and values are represented by numbers.
public struct EqualResponses: Sendable {
    /// Number of values whose requests must have received equal data in a row.
    public static let required = 4
    /// Number of keys that are remembered; a power of two. A key replaces another one in its slot.
    private static let slotCount = 4_096

    private struct Slot {
        var key: UInt64 = 0
        var data: UInt64 = 0
        /// Values whose requests received the data.
        var values: [UInt64] = []
    }

    /// Empty until the first response.
    private var slots: [Slot] = []

    public init() {}

    /// Records that a request has received data.
    /// - Returns: true if requests with enough values have received it.
    public mutating func note(_ data: UInt64, by value: UInt64, under key: UInt64) -> Bool {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: Self.slotCount) }
        let index = Int(truncatingIfNeeded: key) & (Self.slotCount - 1)
        if slots[index].key != key || slots[index].data != data { slots[index] = Slot(key: key, data: data) }
        if slots[index].values.count < Self.required, !slots[index].values.contains(value) { slots[index].values.append(value) }
        return slots[index].values.count >= Self.required
    }
}
