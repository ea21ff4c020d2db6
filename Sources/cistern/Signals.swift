// Signals: SIGTERM and SIGINT end the process in good order, a second one at once; SIGHUP reopens the access log and reads the settings again;
// SIGUSR1 reopens the log, and SIGUSR2 has the program that has our name by now take over, as nginx's users expect; SIGPIPE is ignored. Where a command
// runs for us, they are the command's, and its end is ours.

import Dispatch
import Glibc

/// `@unchecked Sendable` because its sources are touched by the thread that waits, and `end` is a semaphore's.
final class Signals: @unchecked Sendable {
    private let stopped = DispatchSemaphore(value: 0)
    private let queue = DispatchQueue(label: "cistern.signals")
    private var sources: [any DispatchSourceSignal] = []

    /// From now on the signals do not end the process by themselves.
    /// - Parameter isForCommand: whether `wait(for:)` follows. They wait for that then, also if they come before: so this is made before any thread.
    init(isForCommand: Bool = false) {
        for number in Self.ignored { signal(number, SIG_IGN) }
        if isForCommand {
            var set = Self.commandSignals
            pthread_sigmask(SIG_BLOCK, &set, nil)
        } else {
            for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, SIG_IGN) }
        }
    }

    /// Those that would end us by themselves, and that nobody means so.
    private static let ignored = [SIGPIPE, SIGUSR1, SIGUSR2]

    /// Those that do not end us, or not by themselves.
    static let taken = ignored + [SIGTERM, SIGINT, SIGHUP]

    /// Returns when the process is told to stop.
    func wait(
        onHangUp: @escaping @Sendable () -> Void = {}, onReopen: @escaping @Sendable () -> Void = {},
        onUpgrade: @escaping @Sendable () -> Void = {}
    ) {
        for number in [SIGTERM, SIGINT] {
            watch(number) { [stopped] in
                stopped.signal()
                // The next one is not waited for: whoever sends it wants out.
                signal(number, SIG_DFL)
            }
        }
        watch(SIGHUP, onHangUp)
        watch(SIGUSR1, onReopen)
        watch(SIGUSR2, onUpgrade)
        stopped.wait()
    }

    /// `wait` returns, as if the process were told to stop.
    func end() { stopped.signal() }

    /// Returns after so long; or when the process is told to stop by the other of both signals. The same again ends it at once.
    func pause(milliseconds: Int) { _ = stopped.wait(timeout: .now() + .milliseconds(milliseconds)) }

    /// Those that end us are the command's, and its end is ours.
    private static var commandSignals: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGHUP, SIGCHLD] { sigaddset(&set, number) }
        return set
    }

    /// Passes signals on to a process of ours until it has ended.
    /// - Returns: its exit code, as a shell tells it.
    func wait(for process: pid_t) -> Int32 {
        var set = Self.commandSignals
        var status: Int32 = 0
        while waitpid(process, &status, WNOHANG) == 0 {
            var received = siginfo_t()
            let number = sigwaitinfo(&set, &received)
            // What a terminal's key sends goes to all that it has in front: the process has it already.
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
