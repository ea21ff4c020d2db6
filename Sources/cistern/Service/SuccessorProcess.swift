// SIGUSR2: starts the currently installed program with this process's arguments, which then takes over. The successor stays in this
// process's service, since systemd accepts no other main process. An upgrade thus needs no restart.

import Dispatch
import Glibc
import Logging
import Reactor
import Server

final class SuccessorProcess: Sendable {
    private let server: ProxyServer
    private let logger: Logger
    /// The running successor; nil if there is none. While the mutex is held it has not been reaped, so its process ID is not reused.
    private let running = Mutex<pid_t?>(nil)

    /// Maximum time for the take-over, which takes less than a second.
    private static let patience = DispatchTimeInterval.seconds(60)

    init(_ server: ProxyServer, _ logger: Logger) { (self.server, self.logger) = (server, logger) }

    /// Starts a successor, unless one is running. If it fails, this process continues and logs the failure.
    func start() {
        let words = Self.words(CommandLine.arguments)
        let started = running.withLock { running -> Result<pid_t, ChildProcess.Failure>? in
            guard running == nil else { return nil }
            let started = ChildProcess.start(words, Self.environment(Environment.all()), resetting: Signals.taken)
            running = try? started.get()
            return started
        }
        switch started {
        case nil: logger.warning("a take-over was requested, but a successor process is already running")
        case .success(let process):
            logger.notice("started process \(process) to take over")
            let failedBefore = server.failedTakeOvers
            DispatchQueue(label: "cistern.successor-process").async { self.wait(for: process, failedBefore) }
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.patience) { self.giveUp(process) }
        case .failure(let failure):
            server.noteFailedTakeOver()
            logger.error("the successor process could not be started: \(words[0]): \(failure)")
        }
    }

    private func wait(for process: pid_t, _ failedBefore: Int) {
        var ended = siginfo_t()
        while waitid(P_PID, id_t(process), &ended, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        let code = running.withLock { running in
            running = nil
            return ChildProcess.wait(for: process)
        }
        guard !server.isTakenOver else { return }
        // The server may have counted the failure when it refused the take-over.
        if server.failedTakeOvers == failedBefore { server.noteFailedTakeOver() }
        logger.warning("process \(process) ended with \(code) before it took over; this process continues")
    }

    private func giveUp(_ process: pid_t) {
        running.withLock { running in
            guard running == process, !server.isTakenOver else { return }
            kill(process, SIGKILL)
            logger.warning("process \(process) has not taken over within a minute and is terminated; this process continues")
        }
    }

    /// - Parameter arguments: arguments of this process, with the program name as it was called, which may be a link to a new version.
    ///   `--ready-fd` is removed, because its reader was notified at the first start.
    static func words(_ arguments: [String]) -> [String] {
        var kept: [String] = []
        var rest = arguments[...]
        while let word = rest.popFirst() {
            if word == "--ready-fd" { _ = rest.popFirst() }
            if word != "--take-over", !word.hasPrefix("--ready-fd") { kept.append(word) }
        }
        return kept + ["--take-over"]
    }

    /// - Parameter environment: environment of this process. Variables about its process ID and sockets do not apply to the successor.
    static func environment(_ environment: [String: String]) -> [String: String] {
        environment.filter { !["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"].contains($0.key) }
    }
}
