// How many requests may be sent a second time: a share of those sent at all, so that repeats never make an upstream's trouble worse.

public struct RetryBudget: Sendable {
    /// Hundredths of a repeat.
    private var balance: Int
    private let percent: Int

    /// Repeats that may be saved up, so that a quiet proxy has some too.
    private static let limit = 10

    public init(percent: Int) {
        self.percent = percent
        balance = percent > 0 ? Self.limit * 100 : 0
    }

    /// A request was sent.
    public mutating func earn() { balance = min(balance + percent, Self.limit * 100) }

    /// Returns whether one may be repeated now, and takes it from the budget.
    public mutating func spend() -> Bool {
        guard balance >= 100 else { return false }
        balance -= 100
        return true
    }
}
