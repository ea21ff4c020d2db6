// The rules for injected faults: path, probability and end time. No I/O: times and random numbers are arguments.

import CachePolicy

public struct FaultTable: Sendable {
    public struct Rule: Sendable {
        /// Identifies the rule for its removal.
        public let number: Int
        /// The path pattern as given.
        public let path: String
        public let fault: InjectedFault
        /// Percentage of requests that get the fault.
        public let percent: Int
        /// End time in milliseconds of the monotonic clock.
        public let end: Int64
        fileprivate let pattern: RoutePattern
    }

    /// In the order in which they were added.
    public private(set) var rules: [Rule] = []
    private var lastNumber = 0

    /// Maximum number of rules, because each is compared with every request to the upstream.
    public static let ruleLimit = 32
    /// Maximum duration in milliseconds, so that a forgotten drill does not cause a permanent outage.
    public static let durationLimit: Int64 = 24 * 3_600_000

    public init() {}

    /// Adds a rule.
    /// - Returns: its number; nil if there are too many rules.
    public mutating func add(path: String, _ fault: InjectedFault, percent: Int, end: Int64) -> Int? {
        guard rules.count < Self.ruleLimit else { return nil }
        add(number: lastNumber + 1, path: path, fault, percent: percent, end: end)
        return lastNumber
    }

    /// Adds a rule of another process with its number. Does nothing if there are too many rules.
    public mutating func add(number: Int, path: String, _ fault: InjectedFault, percent: Int, end: Int64) {
        guard rules.count < Self.ruleLimit, !rules.contains(where: { $0.number == number }) else { return }
        lastNumber = max(lastNumber, number)
        rules.append(Rule(number: number, path: path, fault: fault, percent: percent, end: end, pattern: RoutePattern(path)))
    }

    /// Removes one rule or all.
    /// - Parameter number: the rule's number; nil for all.
    /// - Returns: the removed rules.
    public mutating func remove(_ number: Int?) -> [Rule] {
        let removed = rules.filter { number == nil || $0.number == number }
        rules.removeAll { rule in removed.contains { $0.number == rule.number } }
        return removed
    }

    /// Removes rules with an end time that has passed.
    /// - Returns: the removed rules.
    public mutating func removeEnded(now: Int64) -> [Rule] {
        let ended = rules.filter { $0.end <= now }
        rules.removeAll { $0.end <= now }
        return ended
    }

    /// Returns the fault for a request: that of the first rule that matches and is selected by chance; nil if there is none.
    /// - Parameters:
    ///   - target: path and query as received.
    ///   - chance: returns a new random number from 0 to 99.
    public func fault(for target: ArraySlice<UInt8>, now: Int64, chance: () -> Int) -> InjectedFault? {
        rules.first { $0.end > now && $0.pattern.matches(target) && ($0.percent >= 100 || chance() < $0.percent) }?.fault
    }
}
