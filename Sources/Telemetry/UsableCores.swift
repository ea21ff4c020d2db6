// How many cores this process may use, and so how many event loops are of use: more of them on fewer cores take turns, with less to do each time.

import CSystem

public enum UsableCores {
    /// The cores that the process's affinity allows (taskset, cpusets), and not more than its control group's share of time, rounded up: the
    /// limit that containers are given (`cpu.max` of cgroup v2).
    public static var count: Int {
        let shares = limitFiles(group: ProcessFigures.text(of: "/proc/self/cgroup")).compactMap { share(ProcessFigures.text(of: $0)) }
        return max(1, shares.reduce(Int(csystem_allowed_cores()), min))
    }

    /// Where the limits of a process's group and of those around it are.
    /// - Parameter group: the text of `/proc/self/cgroup`.
    static func limitFiles(group: String) -> [String] {
        guard let line = group.split(separator: "\n").first(where: { $0.hasPrefix("0::/") }) else { return [] }
        var files: [String] = []
        var directory = "/sys/fs/cgroup"
        files.append(directory + "/cpu.max")
        for name in line.dropFirst(4).split(separator: "/") {
            directory += "/" + name
            files.append(directory + "/cpu.max")
        }
        return files
    }

    /// `150000 100000` (microseconds of every so many) are 2 cores; nil where there is no limit.
    static func share(_ limit: String) -> Int? {
        let numbers = limit.split(whereSeparator: \.isWhitespace).map { Int($0) }
        guard numbers.count == 2, let time = numbers[0], let period = numbers[1], time > 0, period > 0 else { return nil }
        return (time - 1) / period + 1
    }
}
