// A proxy that runs as a service: what signals have it do, what systemd is told of that, and its end in good order.

import Downstream
import Glibc
import Logging
import Server
import Settings

struct Service: Sendable {
    private let server: ProxyServer
    /// nil where none has started us.
    private let manager: ServiceManager?
    private let watchdog: Watchdog?
    private let successor: SuccessorProcess

    /// - Parameter server: takes requests already.
    init(_ server: ProxyServer, _ manager: ServiceManager?, _ logger: Logger) {
        (self.server, self.manager) = (server, manager)
        successor = SuccessorProcess(server, logger)
        watchdog = manager.flatMap { manager in manager.watchdog.map { Watchdog(server, manager, every: $0) } }
    }

    /// From now on another process may take over: then `run` returns.
    func allowTakeOver(_ signals: Signals) {
        server.allowTakeOver { [watchdog] in
            watchdog?.end()
            signals.end()
        }
    }

    /// Returns when the process is told to stop, or another has taken over.
    func run(until signals: Signals) {
        tellReady()
        signals.wait(onHangUp: { reload() }, onReopen: { server.reopenAccessLog() }, onUpgrade: { successor.start() })
    }

    private func tellReady() {
        manager?.tellReady("listening on \(server.listeningPlaces)")
    }

    private func reload() {
        manager?.tellReloading()
        server.reload { _ in tellReady() }
    }

    func stop(_ timeouts: CisternSettings.Timeouts, _ signals: Signals, _ logger: Logger) {
        // Whoever has taken over is what the service manager knows, and what balancers ask.
        guard !server.isTakenOver else { return server.stop(deadline: .milliseconds(timeouts.shutdown)) }
        let delay = timeouts.drainDelay
        manager?.tellStopping(longest: .milliseconds(delay + timeouts.shutdown) + Self.writingTime)
        server.announceStop()
        if delay > 0 {
            logger.notice("stopping: /readyz says 503, and everything is served for another \(delay) ms")
            signals.pause(milliseconds: delay)
        }
        logger.info("stopping")
        server.stop(deadline: .milliseconds(timeouts.shutdown))
    }

    /// What the store may take to be written at the end.
    private static let writingTime = Duration.seconds(30)
}
