// How much of each limit is used: by the event loop, API or address that uses most of its own, where each has one.

/// By the limit's setting.
public struct LimitUse: Sendable {
    /// From 0 to 1.
    private(set) var ratios: [String: Double] = [:]

    public init() {}

    /// - Parameters:
    ///   - setting: its path, or another name of the limit.
    ///   - limit: 0: there is none.
    public mutating func note(_ setting: String, _ used: Int, of limit: Int) {
        guard limit > 0 else { return }
        ratios[setting] = max(Double(used) / Double(limit), ratios[setting] ?? 0)
    }

    func write(to writer: inout MetricsWriter) {
        writer.gauge(
            "cistern_limit_used_ratio",
            "How much of a limit is used, from 0 to 1: of the event loop, API or address that uses most, where each has its own.",
            ratios.sorted { $0.key < $1.key }.map { ("limit=\"\($0.key)\"", $0.value) })
    }
}
