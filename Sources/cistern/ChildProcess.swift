// A process of ours that we start: with signals as everybody has them, whatever we ignore or block.

import Descriptors
import Glibc

enum ChildProcess {
    /// - Parameters:
    ///   - words: the program, which is looked for in `PATH` where it is no path, and its arguments.
    ///   - environment: all of it.
    /// - Returns: its number; or why there is none, as `errno` says it.
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

    /// Blocks until it has ended.
    /// - Returns: its exit code, as a shell tells it.
    static func wait(for process: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return exitCode(status)
    }

    /// - Parameter status: as `waitpid` tells it.
    static func exitCode(_ status: Int32) -> Int32 { status & 0x7f == 0 ? status >> 8 & 0xff : 128 + status & 0x7f }
}
