// Starts child processes with the default handling of signals, whatever this process ignores or blocks.

import Glibc

public enum ChildProcess {
    /// - Parameters:
    ///   - words: the program with its arguments. A name without a slash is searched in `PATH`.
    ///   - environment: the complete environment.
    ///   - signals: signals that get the default handling; nil for all.
    ///   - isGroup: whether the process begins a process group.
    ///   - redirect: adds actions on file descriptors.
    /// - Returns: the process ID, or the error with its `errno`.
    public static func start(
        _ words: [String], _ environment: [String: String], resetting signals: [Int32]?, asGroup isGroup: Bool = false,
        _ redirect: (inout posix_spawn_file_actions_t) -> Void = { _ in }
    ) -> Result<pid_t, Failure> {
        var arguments = words.map { strdup($0) } + [nil]
        var entries = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in arguments + entries { free(pointer) } }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var set = sigset_t()
        sigemptyset(&set)
        posix_spawnattr_setsigmask(&attributes, &set)
        if let signals { for number in signals { sigaddset(&set, number) } } else { sigfillset(&set) }
        posix_spawnattr_setsigdefault(&attributes, &set)
        let flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | (isGroup ? POSIX_SPAWN_SETPGROUP : 0)
        posix_spawnattr_setflags(&attributes, Int16(flags))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        redirect(&actions)
        var process: pid_t = 0
        let failed = posix_spawnp(&process, words[0], &actions, &attributes, &arguments, &entries)
        return failed == 0 ? .success(process) : .failure(Failure(code: failed))
    }

    public struct Failure: Error, CustomStringConvertible {
        public let code: Int32

        public var description: String { SystemError.words(code) }
    }

    /// Blocks until the process has ended.
    /// - Returns: exit code as in a shell: 128 plus the signal for a process that a signal ended.
    public static func wait(for process: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return exitCode(status)
    }

    /// - Parameter status: status from `waitpid`.
    public static func exitCode(_ status: Int32) -> Int32 { status & 0x7f == 0 ? status >> 8 & 0xff : 128 + status & 0x7f }
}
