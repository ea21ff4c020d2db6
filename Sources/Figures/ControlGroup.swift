// Limits of the process's control group (cgroup v2), as set for containers.

enum ControlGroup {
    /// Contents of the files of this name, of the process's control group and of its ancestors.
    static func limits(_ name: String) -> [String] {
        directories(group: ProcessFigures.text(of: "/proc/self/cgroup")).map { ProcessFigures.text(of: "\($0)/\(name)") }
    }

    /// Paths of a process's control group and of its ancestors.
    /// - Parameter group: the content of `/proc/self/cgroup`.
    static func directories(group: String) -> [String] {
        guard let line = group.split(separator: "\n").first(where: { $0.hasPrefix("0::/") }) else { return [] }
        var directories = ["/sys/fs/cgroup"]
        for name in line.dropFirst(4).split(separator: "/") { directories.append(directories[directories.count - 1] + "/" + name) }
        return directories
    }
}
