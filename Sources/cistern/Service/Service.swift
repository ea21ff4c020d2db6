// A proxy that runs as a service: reactions to signals, notifications to systemd, and graceful shutdown.

import Glibc
import Logging
import Server
import Settings

struct Service: Sendable {
    private let server: ProxyServer
    /// nil if no service manager started the process.
    private let manager: ServiceManager?
    private let watchdog: Watchdog?
    private let successor: SuccessorProcess

    /// - Parameter server: has been started.
    init(_ server: ProxyServer, _ manager: ServiceManager?, _ logger: Logger) {
        (self.server, self.manager) = (server, manager)
        successor = SuccessorProcess(server, logger)
        watchdog = manager.flatMap { manager in manager.watchdog.map { Watchdog(server, manager, every: $0) } }
    }

    /// Permits another process to take over, which makes `run` return.
    func allowTakeOver(_ signals: Signals) {
        server.allowTakeOver { [watchdog] in
            watchdog?.end()
            signals.end()
        }
    }

    /// Returns when the process should stop, or when another process has taken over.
    func run(until signals: Signals) {
        notifyReady()
        signals.wait(onHangUp: { reload() }, onReopen: { server.reopenAccessLog() }, onUpgrade: { successor.start() })
    }

    private func notifyReady() {
        manager?.notifyReady("listening on \(server.listeningAddresses)")
    }

    private func reload() {
        manager?.notifyReloading()
        server.reload { _ in notifyReady() }
    }

    func stop(_ settings: CisternSettings.Stopping, _ signals: Signals, _ logger: Logger) {
        // After a take-over, the service manager and load balancers use the successor.
        guard !server.isTakenOver else { return server.stop(deadline: settings.deadline) }
        let delay = settings.drainDelay
        manager?.notifyStopping(longest: .milliseconds(delay) + settings.deadline + Self.writingTime)
        server.announceStop()
        if delay > 0 {
            logger.notice("stopping: /readyz returns 503, and requests are served for another \(delay) ms")
            signals.pause(milliseconds: delay)
        }
        logger.info("stopping")
        server.stop(deadline: settings.deadline)
    }

    /// Maximum time for writing the store at shutdown.
    private static let writingTime = Duration.seconds(30)
}
