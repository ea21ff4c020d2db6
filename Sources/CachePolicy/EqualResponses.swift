// Counts the requests that received equal data although they differ in changing fields (`ChangingFields`). A field may look changing because
// many users have sent one request each. So a response is stored for all values of such a field only after requests with several values of
// each such field have received it. Values that are new in each request and nevertheless identify a user, such as signatures, cannot be
// recognized by this: their field must be a credential field.

/// Not thread-safe: the owner synchronizes access. Keys, data and values are represented by numbers.
public struct EqualResponses: Sendable {
    /// Number of values whose requests must have received equal data in a row.
    public static let required = 4
    /// Number of keys that are remembered; a power of two. A key replaces another one in its slot.
    private static let slotCount = 4_096

    private struct Slot {
        var key: UInt64 = 0
        var data: UInt64 = 0
        /// For each changing field the values whose requests received the data.
        var values: [[UInt64]] = []
    }

    /// Empty until the first response.
    private var slots: [Slot] = []

    public init() {}

    /// Records that a request has received data.
    /// - Parameter values: those of the changing fields, in an order that the key determines.
    /// - Returns: true if requests with enough values of each field have received it.
    public mutating func note(_ data: UInt64, by values: [UInt64], under key: UInt64) -> Bool {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: Self.slotCount) }
        let index = Int(truncatingIfNeeded: key) & (Self.slotCount - 1)
        if slots[index].key != key || slots[index].data != data || slots[index].values.count != values.count {
            slots[index] = Slot(key: key, data: data, values: Array(repeating: [], count: values.count))
        }
        for (field, value) in values.enumerated() {
            let known = slots[index].values[field]
            if known.count < Self.required, !known.contains(value) { slots[index].values[field].append(value) }
        }
        return slots[index].values.allSatisfy { $0.count >= Self.required }
    }
}
