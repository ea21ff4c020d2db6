// Used share of each limit. If each event loop, API or address has its own limit, the largest share counts.

/// Used shares by limit.
public struct LimitUse: Sendable {
    /// Shares from 0 to 1, by the path of the setting, or the name in `Concepts/Limits.md` of another limit.
    private(set) var ratios: [String: Double] = [:]

    public init() {}

    /// - Parameters:
    ///   - setting: path of the setting, or the name of another limit.
    ///   - limit: 0 if it is disabled.
    public mutating func note(_ setting: String, _ used: Int, of limit: Int) {
        guard limit > 0 else { return }
        ratios[setting] = max(Double(used) / Double(limit), ratios[setting] ?? 0)
    }

    func write(to writer: inout MetricsWriter) {
        writer.gauge(
            "cistern_limit_used_ratio",
            "Used fraction of a limit, from 0 to 1. For a limit per event loop, API or address, the largest fraction.",
            ratios.sorted { $0.key < $1.key }.map { ("limit=\"\($0.key)\"", $0.value) })
    }
}
