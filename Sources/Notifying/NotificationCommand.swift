// Runs the command of a target: without a shell, with few variables, and with the notification on standard input. Its process group is killed
// at the time limit and at its end, so that it leaves no processes behind.

import CSystem
import Glibc
import Notifications
import Reactor

enum NotificationCommand {
    /// Variables besides those of the notification.
    private static let environment = ["PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"]

    /// Runs the command and waits for its end. Blocks.
    /// - Parameters:
    ///   - words: absolute path of the program, and its arguments.
    ///   - showsOutput: whether the command inherits standard output and error. Otherwise its output is discarded.
    ///   - patience: returns the remaining milliseconds until it must have ended for another reason; nil if there is none.
    static func run(
        _ words: [String], _ notification: Notification, timeoutMilliseconds: Int, showsOutput: Bool, patience: () -> Int?
    ) -> DeliveryAttempt {
        let input = csystem_memory_file("notification")
        guard input >= 0 else { return .failed("no standard input for the command: \(SystemError.words())") }
        defer { close(input) }
        let content = notification.json + [0x0a]
        guard WholeWrite.write(content, to: input) == content.count, lseek(input, 0, SEEK_SET) == 0 else {
            return .failed("no standard input for the command: \(SystemError.words())")
        }
        switch start(words, notification, input: input, showsOutput: showsOutput) {
        case .failure(let failure): return .rejected("the command cannot be started: \(failure)")
        case .success(let process):
            let isInTime = wait(for: process, timeoutMilliseconds, patience)
            guard let code = end(process) else { return .rejected("the exit code of the command is unknown") }
            return isInTime ? DeliveryAttempt(exitCode: code) : .failed("the command was killed, because it had not ended in time")
        }
    }

    private static func start(_ words: [String], _ notification: Notification, input: Int32, showsOutput: Bool)
        -> Result<pid_t, ChildProcess.Failure>
    {
        var variables = environment
        for variable in notification.environment { variables[variable.name] = variable.value }
        return ChildProcess.start(words, variables, resetting: nil, asGroup: true) { actions in
            posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
            if !showsOutput {
                for output in [STDOUT_FILENO, STDERR_FILENO] {
                    posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0)
                }
            }
            csystem_close_from(&actions, STDERR_FILENO + 1)
        }
    }

    /// Interval in milliseconds in which `patience` is observed.
    private static let slice: Int64 = 100

    /// Waits until the process has ended, which leaves its process ID in use.
    /// - Returns: false if it did not end in time.
    private static func wait(for process: pid_t, _ timeoutMilliseconds: Int, _ patience: () -> Int?) -> Bool {
        let descriptor = csystem_process_descriptor(process)
        defer { if descriptor >= 0 { close(descriptor) } }
        let end = SystemTime.shared.monotonicMilliseconds + Int64(timeoutMilliseconds)
        while true {
            var ended = siginfo_t()
            if waitid(P_PID, id_t(process), &ended, WEXITED | WNOWAIT | WNOHANG) != 0 { return errno != EINTR }
            if ended.si_signo != 0 { return true }
            let left = min(end - SystemTime.shared.monotonicMilliseconds, patience().map(Int64.init) ?? .max)
            guard left > 0 else { return false }
            var watched = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            // A negative descriptor is ignored: an old kernel has none, so that the state is polled.
            poll(&watched, 1, Int32(min(left, descriptor < 0 ? slice / 5 : slice)))
        }
    }

    /// Kills what is left of the process group, and reaps it.
    /// - Returns: exit code of the command; nil if it is unknown.
    private static func end(_ process: pid_t) -> Int32? {
        kill(-process, SIGKILL)
        var status: Int32 = 0
        var reaped: pid_t
        repeat { reaped = waitpid(process, &status, 0) } while reaped < 0 && errno == EINTR
        // In a container, this may be process 1, which inherits the other processes of the group.
        while case let other = waitpid(-process, nil, 0), other > 0 || errno == EINTR {}
        guard reaped == process else { return nil }
        return ChildProcess.exitCode(status)
    }
}
