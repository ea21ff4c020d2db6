// Age of the oldest stored response that was served recently: the maximum of each half minute, for five minutes.

/// Ages by `CacheResult`. Pure: times are arguments.
public struct OldestAges: Sendable {
    /// Maximum ages by span and result, in one array; -1 if no stored response was served.
    private var oldest = [Int64](repeating: -1, count: Self.spans * Self.results)
    private var span = 0
    /// Start of the present span, by the caller's clock.
    private var began: Int64 = 0

    private static let results = CacheResult.allCases.count
    /// Number of spans: the present one, and ten complete ones.
    private static let spans = 11
    private static let milliseconds: Int64 = 30_000

    public init() {}

    /// - Parameters:
    ///   - age: seconds.
    ///   - now: milliseconds since 1970. The record restarts if the clock is set back.
    public mutating func note(_ age: Int64, _ result: CacheResult, at now: Int64) {
        if now - began >= Self.milliseconds || now < began { moveOn(to: now) }
        let index = span * Self.results + result.rawValue
        if age > oldest[index] { oldest[index] = age }
    }

    private mutating func moveOn(to now: Int64) {
        let passed = now < began ? Int64(Self.spans) : min(Int64(Self.spans), (now - began) / Self.milliseconds)
        for _ in 0..<passed {
            span = (span + 1) % Self.spans
            for result in 0..<Self.results { oldest[span * Self.results + result] = -1 }
        }
        began = passed < Self.spans ? began + passed * Self.milliseconds : now
    }

    /// Maximum age of each result within the last five minutes, by index; nil if no stored response was served.
    func latest(at now: Int64) -> [Int64?] {
        var moved = self
        moved.moveOn(to: max(now, began))
        return (0..<Self.results).map { result in
            let most = (0..<Self.spans).map { moved.oldest[$0 * Self.results + result] }.max() ?? -1
            return most < 0 ? nil : most
        }
    }
}
