// Limits retries to a share of all requests, so that retries do not worsen an overload of the upstream.

public struct RetryBudget: Sendable {
    /// Available retries, in hundredths.
    private var balance: Int
    private let percent: Int

    /// Maximum number of retries that can accumulate, so that a proxy with few requests can retry too.
    private static let limit = 10

    public init(percent: Int) {
        self.percent = percent
        balance = percent > 0 ? Self.limit * 100 : 0
    }

    /// Records that a request was sent.
    public mutating func earn() { balance = min(balance + percent, Self.limit * 100) }

    /// Takes a retry from the budget. Returns false if none is left.
    public mutating func spend() -> Bool {
        guard balance >= 100 else { return false }
        balance -= 100
        return true
    }
}
