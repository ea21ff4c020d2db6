// SIGUSR2: the program that has our name by now is started as this process was, and takes over. So it is of the same service (systemd takes no other
// process for its main one), and an upgrade needs no restart.

import Dispatch
import Glibc
import Locking
import Logging

final class SuccessorProcess: Sendable {
    private let logger: Logger
    private let isThere = Mutex(false)

    init(_ logger: Logger) { self.logger = logger }

    /// One at a time. Where it comes to nothing, this process goes on, and the log says so.
    func start() {
        let isFirst = isThere.withLock { isThere in
            defer { isThere = true }
            return !isThere
        }
        guard isFirst else { return logger.warning("a process that is to take over was started already") }
        let words = Self.words(CommandLine.arguments)
        switch ChildProcess.start(words, Self.environment(Environment.all())) {
        case .success(let process):
            logger.notice("started process \(process), which is to take over")
            DispatchQueue(label: "cistern.successor-process").async { [self] in
                let code = ChildProcess.wait(for: process)
                isThere.withLock { $0 = false }
                logger.warning("process \(process), which was to take over, ended with \(code)")
            }
        case .failure(let failure):
            isThere.withLock { $0 = false }
            logger.error("no process could be started to take over: \(words[0]): \(failure)")
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
