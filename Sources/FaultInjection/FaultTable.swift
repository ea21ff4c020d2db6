// Which faults are injected for which paths, how often, and until when. Without I/O: times and chances are passed in.

import CachePolicy

public struct FaultTable: Sendable {
    public struct Rule: Sendable {
        /// By which it is removed.
        public let number: Int
        /// As it was given.
        public let path: String
        public let fault: InjectedFault
        /// Of a hundred requests, how many have it.
        public let percent: Int
        /// Milliseconds of the clock that is never set.
        public let end: Int64
        fileprivate let pattern: RoutePattern
    }

    /// In the order in which they were added.
    public private(set) var rules: [Rule] = []
    private var lastNumber = 0

    /// Rules are compared with each request that goes to the upstream: so many at most.
    public static let ruleLimit = 32
    /// Milliseconds. A practice that is forgotten must not become an outage.
    public static let durationLimit: Int64 = 24 * 3_600_000

    public init() {}

    /// - Returns: its number; nil where there are too many.
    public mutating func add(path: String, _ fault: InjectedFault, percent: Int, end: Int64) -> Int? {
        guard rules.count < Self.ruleLimit else { return nil }
        lastNumber += 1
        rules.append(
            Rule(number: lastNumber, path: path, fault: fault, percent: percent, end: end, pattern: RoutePattern(path)))
        return lastNumber
    }

    /// As it was added elsewhere; nothing happens where there are too many.
    public mutating func add(number: Int, path: String, _ fault: InjectedFault, percent: Int, end: Int64) {
        guard rules.count < Self.ruleLimit, !rules.contains(where: { $0.number == number }) else { return }
        lastNumber = max(lastNumber, number)
        rules.append(Rule(number: number, path: path, fault: fault, percent: percent, end: end, pattern: RoutePattern(path)))
    }

    /// - Parameter number: nil for all.
    /// - Returns: those that were there.
    public mutating func remove(_ number: Int?) -> [Rule] {
        let removed = rules.filter { number == nil || $0.number == number }
        rules.removeAll { rule in removed.contains { $0.number == rule.number } }
        return removed
    }

    /// - Returns: those whose time is over.
    public mutating func removeEnded(now: Int64) -> [Rule] {
        let ended = rules.filter { $0.end <= now }
        rules.removeAll { $0.end <= now }
        return ended
    }

    /// What happens to a request: the first rule that fits and that chance takes.
    /// - Parameters:
    ///   - target: path and query as received.
    ///   - chance: brings a number from 0 to 99, another each time.
    public func fault(for target: ArraySlice<UInt8>, now: Int64, chance: () -> Int) -> InjectedFault? {
        rules.first { $0.end > now && $0.pattern.matches(target) && ($0.percent >= 100 || chance() < $0.percent) }?.fault
    }
}
