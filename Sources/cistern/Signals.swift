// Handles signals. SIGTERM and SIGINT start a graceful shutdown, a second one ends the process at once. SIGHUP reopens the access log and
// reloads the settings. SIGUSR1 reopens the access log. SIGUSR2 starts the currently installed program, which takes over, as in nginx.
// SIGPIPE is ignored. With a child command, signals are forwarded to it.

import Dispatch
import Glibc
import Reactor

/// `@unchecked Sendable` because only the waiting thread accesses `sources`, and `end` only signals a semaphore.
final class Signals: @unchecked Sendable {
    private let stopped = DispatchSemaphore(value: 0)
    private let queue = DispatchQueue(label: "cistern.signals")
    private var sources: [any DispatchSourceSignal] = []

    /// Blocks the signals, so that they no longer end the process and stay pending until `wait`. Must be called before the start of any
    /// thread: threads inherit the mask, and Dispatch does not see a signal that a thread receives.
    /// - Parameter isForCommand: whether `wait(for:)` follows.
    init(isForCommand: Bool = false) {
        for number in Self.ignored { signal(number, SIG_IGN) }
        var set = Self.set(isForCommand ? Self.commands : Self.ours)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Signals that would end the process by default, but are not meant to.
    private static let ignored = [SIGPIPE, SIGUSR1, SIGUSR2]

    private static let ending = [SIGTERM, SIGINT]
    private static let ours = ending + [SIGHUP]
    /// Signals of a process with a child command.
    private static let commands = ours + [SIGCHLD]

    /// Signals that are ignored or blocked, and reset to their defaults in child processes.
    static let taken = ignored + ours

    private static func set(_ numbers: [Int32]) -> sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for number in numbers { sigaddset(&set, number) }
        return set
    }

    /// Returns when the process should stop.
    func wait(
        onHangUp: @escaping @Sendable () -> Void = {}, onReopen: @escaping @Sendable () -> Void = {},
        onUpgrade: @escaping @Sendable () -> Void = {}
    ) {
        for number in Self.ending {
            watch(number) { [stopped] in
                // A second signal ends the process at once.
                signal(number, SIG_DFL)
                stopped.signal()
            }
        }
        watch(SIGHUP, onHangUp)
        watch(SIGUSR1, onReopen)
        watch(SIGUSR2, onUpgrade)
        stopped.wait()
        var set = Self.set(Self.ending)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// Makes `wait` return as on a signal to stop.
    func end() { stopped.signal() }

    /// Returns after the time, or at the other one of SIGTERM and SIGINT. A repetition of the first signal ends the process at once.
    func pause(milliseconds: Int) { _ = stopped.wait(timeout: .now() + .milliseconds(milliseconds)) }

    /// Forwards signals to a child process until it has ended.
    /// - Returns: exit code as in a shell.
    func wait(for process: pid_t) -> Int32 {
        var set = Self.set(Self.commands)
        var status: Int32 = 0
        while waitpid(process, &status, WNOHANG) == 0 {
            var received = siginfo_t()
            let number = sigwaitinfo(&set, &received)
            // The terminal driver sends a key's signal to the whole foreground process group, so the child has received it.
            guard number > 0, number != SIGCHLD, received.si_code != SI_KERNEL else { continue }
            kill(process, number)
        }
        return ChildProcess.exitCode(status)
    }

    private func watch(_ number: Int32, _ action: @escaping @Sendable () -> Void) {
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: action)
        source.activate()
        sources.append(source)
    }
}
