// SIGUSR2: the program that has our name by now is started as this process was, and takes over. So it is of the same service (systemd takes no other
// process for its main one), and an upgrade needs no restart.

import Dispatch
import Glibc
import Locking
import Logging
import Server

final class SuccessorProcess: Sendable {
    private let server: ProxyServer
    private let logger: Logger
    /// Behind the mutex it is not gone: its number is no other's.
    private let running = Mutex<pid_t?>(nil)

    /// It hands over in less than a second. One that has not even asked for it by then never will.
    private static let patience = DispatchTimeInterval.seconds(60)

    init(_ server: ProxyServer, _ logger: Logger) { (self.server, self.logger) = (server, logger) }

    /// One at a time. Where it comes to nothing, this process goes on, and the log says so.
    func start() {
        let words = Self.words(CommandLine.arguments)
        let started = running.withLock { running -> Result<pid_t, ChildProcess.Failure>? in
            guard running == nil else { return nil }
            let started = ChildProcess.start(words, Self.environment(Environment.all()))
            running = try? started.get()
            return started
        }
        switch started {
        case nil: logger.warning("a process that is to take over was started already")
        case .success(let process):
            logger.notice("started process \(process), which is to take over")
            let failedBefore = server.failedTakeOvers
            DispatchQueue(label: "cistern.successor-process").async { self.wait(for: process, failedBefore) }
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.patience) { self.giveUp(process) }
        case .failure(let failure):
            server.noteFailedTakeOver()
            logger.error("no process could be started to take over: \(words[0]): \(failure)")
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
        // It may have been counted when it was refused.
        if server.failedTakeOvers == failedBefore { server.noteFailedTakeOver() }
        logger.warning("process \(process), which was to take over, ended with \(code); this one goes on")
    }

    private func giveUp(_ process: pid_t) {
        running.withLock { running in
            guard running == process, !server.isTakenOver else { return }
            kill(process, SIGKILL)
            logger.warning("process \(process), which was to take over, has not done so for a minute, and is ended")
        }
    }

    /// - Parameter arguments: ours, with the program's name as we were called: it may be a link that leads elsewhere by now. Who waited for us to be
    ///   ready does not wait any more.
    static func words(_ arguments: [String]) -> [String] {
        var kept: [String] = []
        var rest = arguments[...]
        while let word = rest.popFirst() {
            if word == "--ready-fd" { _ = rest.popFirst() }
            if word != "--take-over", !word.hasPrefix("--ready-fd") { kept.append(word) }
        }
        return kept + ["--take-over"]
    }

    /// - Parameter environment: ours. What systemd has said of our number and our sockets is not true of it.
    static func environment(_ environment: [String: String]) -> [String: String] {
        environment.filter { !["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"].contains($0.key) }
    }
}
