// Starts child processes with the default handling of signals, whatever this process ignores or blocks.

import Glibc
import Reactor

enum ChildProcess {
    /// - Parameters:
    ///   - words: the program with its arguments. A name without a slash is searched in `PATH`.
    ///   - environment: the complete environment.
    /// - Returns: the process ID, or the error with its `errno`.
    static func start(_ words: [String], _ environment: [String: String]) -> Result<pid_t, Failure> {
        var arguments = words.map { strdup($0) } + [nil]
        var entries = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in arguments + entries { free(pointer) } }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for number in Signals.taken { sigaddset(&signals, number) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        var process: pid_t = 0
        let failed = posix_spawnp(&process, words[0], nil, &attributes, &arguments, &entries)
        return failed == 0 ? .success(process) : .failure(Failure(code: failed))
    }

    struct Failure: Error, CustomStringConvertible {
        let code: Int32

        var description: String { SystemError.words(code) }
    }

    /// Blocks until the process has ended.
    /// - Returns: exit code as in a shell: 128 plus the signal for a process that a signal ended.
    static func wait(for process: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return exitCode(status)
    }

    /// - Parameter status: status from `waitpid`.
    static func exitCode(_ status: Int32) -> Int32 { status & 0x7f == 0 ? status >> 8 & 0xff : 128 + status & 0x7f }
}
