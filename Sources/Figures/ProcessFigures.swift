// The kernel's figures of this process (the `process_*` metrics of Prometheus client libraries).

import CSystem
import Glibc
import Reactor

public struct ProcessFigures: Sendable {
    public var cpuSeconds = 0.0
    public var residentBytes = 0
    public var virtualBytes = 0
    public var openDescriptors = 0
    public var maximumDescriptors = 0
    public var startTime = 0.0

    /// Reads the figures from /proc/self.
    public static func now() -> ProcessFigures {
        var figures = ProcessFigures()
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        // The name in parentheses may contain spaces; the fields after it do not.
        let fields = Self.text(of: "/proc/self/stat").split(separator: ")").last?.split(separator: " ").map(String.init) ?? []
        if fields.count > 21 {
            figures.cpuSeconds = ((Double(fields[11]) ?? 0) + (Double(fields[12]) ?? 0)) / ticks
            figures.virtualBytes = Int(fields[20]) ?? 0
            figures.residentBytes = (Int(fields[21]) ?? 0) * sysconf(Int32(_SC_PAGESIZE))
            figures.startTime = Self.bootTime + (Double(fields[19]) ?? 0) / ticks
        }
        figures.openDescriptors = Self.openDescriptors()
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            figures.maximumDescriptors = Int(clamping: limit.rlim_cur)
        }
        return figures
    }

    private static func openDescriptors() -> Int {
        var status = stat()
        // Since Linux 6.2 the directory's size is their number. Listing ten thousand of them takes ten milliseconds.
        if stat("/proc/self/fd", &status) == 0, status.st_size > 0 { return Int(status.st_size) }
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Excludes ".", ".." and the directory's own descriptor.
        return count - 3
    }

    /// Read once, because the file is long on large machines.
    private static let bootTime: Double = {
        let line = text(of: "/proc/stat").split(separator: "\n").first { $0.hasPrefix("btime ") }
        return line.flatMap { Double($0.dropFirst(6)) } ?? 0
    }()

    static func text(of path: String) -> String { String(decoding: FileContent.read(path, limit: 16 << 20) ?? [], as: UTF8.self) }
}
