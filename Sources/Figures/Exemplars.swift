// Exemplars of a histogram: for each bucket, the last value with a sampled trace (OpenMetrics 1.0, "Exemplars").

public struct Exemplar: Sendable, Equatable {
    /// Halves of the trace ID.
    public let high: UInt64
    public let low: UInt64
    /// In the histogram's unit.
    public let value: Int64
    /// Milliseconds since 1970.
    public let wall: Int64

    public init(high: UInt64, low: UInt64, value: Int64, wall: Int64) {
        (self.high, self.low, self.value, self.wall) = (high, low, value, wall)
    }

    /// The trace ID as 32 hexadecimal digits, created only when it is written.
    var trace: String {
        [high, low].map { half in
            let digits = String(half, radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }
}

/// The exemplars of one histogram. Allocated with the first one.
public struct Exemplars: Sendable {
    private var latest: [Exemplar?] = []

    mutating func note(_ exemplar: Exemplar, in bounds: [Int64]) {
        if latest.isEmpty { latest = Array(repeating: nil, count: bounds.count + 1) }
        latest[bounds.firstIndex { exemplar.value <= $0 } ?? bounds.count] = exemplar
    }

    mutating func merge(_ other: Exemplars) {
        if latest.isEmpty { latest = Array(repeating: nil, count: other.latest.count) }
        for index in other.latest.indices {
            guard let exemplar = other.latest[index], exemplar.wall >= latest[index]?.wall ?? .min else { continue }
            latest[index] = exemplar
        }
    }

    /// The exemplar of the bucket at this index; nil if there is none.
    subscript(_ index: Int) -> Exemplar? { latest.isEmpty ? nil : latest[index] }
}
