// The number of cores that this process may use, which determines the number of event loops. More loops than cores would take turns, with
// less work each.

import CSystem

public enum UsableCores {
    /// The cores that the process's affinity allows (taskset, cpusets), but at most the CPU quota of its control group, rounded up. The
    /// quota is `cpu.max` of cgroup v2, as set for containers.
    public static var count: Int {
        max(1, ControlGroup.limits("cpu.max").compactMap(share).reduce(Int(csystem_allowed_cores()), min))
    }

    /// The number of cores of a quota: `150000 100000` (microseconds per period) is 2; nil if there is no quota.
    static func share(_ limit: String) -> Int? {
        let numbers = limit.split(whereSeparator: \.isWhitespace).map { Int($0) }
        guard numbers.count == 2, let time = numbers[0], let period = numbers[1], time > 0, period > 0 else { return nil }
        return (time - 1) / period + 1
    }
}
