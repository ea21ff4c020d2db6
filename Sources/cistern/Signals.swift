// Signals: SIGTERM and SIGINT end the process in good order, a second one at once; SIGHUP reopens the access log; SIGPIPE is ignored. Where a
// command runs for us, they are the command's, and its end is ours.

import Descriptors
import Dispatch
import Glibc

final class Signals {
    private let stopped = DispatchSemaphore(value: 0)
    private let queue = DispatchQueue(label: "cistern.signals")
    private var sources: [any DispatchSourceSignal] = []

    /// From now on the signals do not end the process by themselves.
    init() {
        signal(SIGPIPE, SIG_IGN)
        for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, SIG_IGN) }
    }

    /// Returns when the process is told to stop.
    func wait(onHangUp: @escaping @Sendable () -> Void = {}) {
        for number in [SIGTERM, SIGINT] {
            watch(number) { [stopped] in
                stopped.signal()
                // The next one is not waited for: whoever sends it wants out.
                signal(number, SIG_DFL)
            }
        }
        watch(SIGHUP, onHangUp)
        stopped.wait()
    }

    /// Passes signals on to a process until it has ended.
    /// - Returns: its exit code, as a shell tells it.
    func wait(for process: pid_t) -> Int32 {
        for number in [SIGTERM, SIGINT, SIGHUP] {
            watch(number) {
                // Ctrl-C goes to all that the terminal has in front: the process has it already.
                if number == SIGTERM || !Self.isInFront { kill(process, number) }
            }
        }
        var ended = siginfo_t()
        while waitid(P_PID, id_t(process), &ended, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        // From its collection on the number may be another process's.
        queue.sync {
            for source in sources { source.cancel() }
            sources = []
        }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status & 0x7f == 0 ? status >> 8 & 0xff : 128 + status & 0x7f
    }

    /// Whether our terminal's keys reach us.
    private static var isInFront: Bool {
        let terminal = Descriptor(open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC))
        return terminal.isOpen && tcgetpgrp(terminal.number) == getpgrp()
    }

    private func watch(_ number: Int32, _ action: @escaping @Sendable () -> Void) {
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: action)
        source.activate()
        sources.append(source)
    }
}
