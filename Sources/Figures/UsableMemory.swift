// The memory that this process may use, from which limits of memory follow.

import Glibc

public enum UsableMemory {
    /// The machine's memory in bytes, but at most the limits of the process's control group (`memory.max`).
    public static var bytes: Int {
        ControlGroup.limits("memory.max").compactMap(limit).reduce(sysconf(Int32(_SC_PHYS_PAGES)) * Int(getpagesize()), min)
    }

    /// The number of bytes of a limit; nil if there is none.
    static func limit(_ text: String) -> Int? { text.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) } }
}
