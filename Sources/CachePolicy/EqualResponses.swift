// Counts equal responses to requests that differ in changing fields (`ChangingFields`). A field also appears to change if many users send
// one request each. So a response is stored for all values of a changing field only after several of its values got an equal response.
// Values that are new in each request and identify a user, such as signatures, are not recognized. Their field must be a credential field.

/// Not thread-safe: the owner synchronizes access. Keys, responses and values are represented by numbers.
public struct EqualResponses: Sendable {
    /// Number of different values of each field that must get an equal response before it is stored.
    public static let required = 4
    /// Number of keys that are remembered; a power of two. A key replaces another one in its slot.
    private static let slotCount = 4_096

    private struct Slot {
        var key: UInt64 = 0
        var response: UInt64 = 0
        /// Different values that got this response, for each changing field.
        var values: [[UInt64]] = []
    }

    /// Empty until the first response.
    private var slots: [Slot] = []

    public init() {}

    /// Records the response to a request.
    /// - Parameter values: values of the changing fields, in an order that the key determines.
    /// - Returns: true if enough values of each field got this response.
    public mutating func note(_ response: UInt64, to values: [UInt64], under key: UInt64) -> Bool {
        if slots.isEmpty { slots = Array(repeating: Slot(), count: Self.slotCount) }
        let index = Int(truncatingIfNeeded: key) & (Self.slotCount - 1)
        if slots[index].key != key || slots[index].response != response || slots[index].values.count != values.count {
            slots[index] = Slot(key: key, response: response, values: Array(repeating: [], count: values.count))
        }
        for (field, value) in values.enumerated() {
            let known = slots[index].values[field]
            if known.count < Self.required, !known.contains(value) { slots[index].values[field].append(value) }
        }
        return slots[index].values.allSatisfy { $0.count >= Self.required }
    }
}
