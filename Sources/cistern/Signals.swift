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

    /// From now on the signals do not end the process by themselves: they wait for `wait`, also those that come before it. So this is made before
    /// any thread, which has the same mask then: what one thread takes is not seen by Dispatch.
    /// - Parameter isForCommand: whether `wait(for:)` follows.
    init(isForCommand: Bool = false) {
        for number in Self.ignored { signal(number, SIG_IGN) }
        var set = Self.set(isForCommand ? Self.commands : Self.ours)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Those that would end us by themselves, and that nobody means so.
    private static let ignored = [SIGPIPE, SIGUSR1, SIGUSR2]

    private static let ending = [SIGTERM, SIGINT]
    private static let ours = ending + [SIGHUP]
    /// Those that end us are the command's, and its end is ours.
    private static let commands = ours + [SIGCHLD]

    /// Those that do not end us, or not by themselves.
    static let taken = ignored + ours

    private static func set(_ numbers: [Int32]) -> sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for number in numbers { sigaddset(&set, number) }
        return set
    }

    /// Returns when the process is told to stop.
    func wait(
        onHangUp: @escaping @Sendable () -> Void = {}, onReopen: @escaping @Sendable () -> Void = {},
        onUpgrade: @escaping @Sendable () -> Void = {}
    ) {
        for number in Self.ending {
            watch(number) { [stopped] in
                // The next one is not waited for: whoever sends it wants out.
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

    /// `wait` returns, as if the process were told to stop.
    func end() { stopped.signal() }

    /// Returns after so long; or when the process is told to stop by the other of both signals. The same again ends it at once.
    func pause(milliseconds: Int) { _ = stopped.wait(timeout: .now() + .milliseconds(milliseconds)) }

    /// Passes signals on to a process of ours until it has ended.
    /// - Returns: its exit code, as a shell tells it.
    func wait(for process: pid_t) -> Int32 {
        var set = Self.set(Self.commands)
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
