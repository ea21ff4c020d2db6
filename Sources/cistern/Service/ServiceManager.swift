// Notifies systemd of readiness, reload, shutdown and liveness (sd_notify(3)), with a datagram each.

import CSystem
import Dispatch
import Glibc
import Reactor
import Server

struct ServiceManager: Sendable {
    /// Path of the socket, or an abstract name, which begins with `@`.
    private let socket: String
    /// Watchdog timeout; nil if the watchdog is off.
    let watchdog: Duration?

    /// nil if no service manager started the process.
    /// - Parameter isTakingOver: whether the watchdog variables name the predecessor, and apply to this process too.
    init?(_ environment: [String: String], isTakingOver: Bool = false) {
        guard let socket = environment["NOTIFY_SOCKET"], socket.hasPrefix("/") || socket.hasPrefix("@"), socket.utf8.count > 1,
            socket.utf8.count < 108
        else { return nil }
        self.socket = socket
        let isOurs = isTakingOver || environment["WATCHDOG_PID"].map { pid_t($0) == getpid() } ?? true
        let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init) ?? 0
        watchdog = isOurs && microseconds > 0 ? .microseconds(microseconds) : nil
    }

    func notifyReady(_ status: String) { notify("READY=1\nSTATUS=\(status)") }

    /// Makes this process the main process of the service. `notifyReady` must follow.
    func notifyMainPID() { notify("MAINPID=\(getpid())") }

    /// `notifyReady` must follow.
    func notifyReloading() { notify("RELOADING=1\nMONOTONIC_USEC=\(SystemTime.monotonicMicroseconds)") }

    /// - Parameter longest: time in which systemd must not abort the shutdown.
    func notifyStopping(longest: Duration) {
        notify("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=\(Int64(longest / .microseconds(1)))")
    }

    func notifyWatchdog() { notify("WATCHDOG=1") }

    /// Errors are ignored.
    private func notify(_ state: String) {
        let descriptor = Descriptor(Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
        guard descriptor.isOpen else { return }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = socket.hasPrefix("@") ? [0] + socket.utf8.dropFirst() : Array(socket.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let bytes = Array(state.utf8)
        _ = withUnsafeBytes(of: &address) {
            sendto(
                descriptor.number, bytes, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT),
                $0.assumingMemoryBound(to: sockaddr.self).baseAddress, length)
        }
    }
}

/// Notifies systemd while all event loops run. If one is blocked, notifications stop, and systemd restarts the service. `@unchecked
/// Sendable` because the only mutable state is behind the mutex.
final class Watchdog: @unchecked Sendable {
    private let server: ProxyServer
    private let manager: ServiceManager
    private let queue = DispatchQueue(label: "cistern.watchdog")
    /// Whether the loops have been asked and some have not responded. Accessed by the loops and the queue.
    private let isAsking = Mutex(false)
    private let timer: any DispatchSourceTimer

    /// Number of notifications per watchdog timeout.
    private static let signs = 4

    init(_ server: ProxyServer, _ manager: ServiceManager, every longest: Duration) {
        (self.server, self.manager) = (server, manager)
        timer = DispatchSource.makeTimerSource(queue: queue)
        let interval = max(1, Int(longest / .milliseconds(Self.signs)))
        timer.schedule(deadline: .now(), repeating: .milliseconds(interval))
        timer.setEventHandler { [weak self] in self?.ask() }
        timer.activate()
    }

    /// Stops notifications, because another process has taken over.
    func end() { timer.cancel() }

    private func ask() {
        let isFirst = isAsking.withLock { isAsking in
            defer { isAsking = true }
            return !isAsking
        }
        guard isFirst else { return }
        server.afterEachLoop { [weak self] in
            self?.manager.notifyWatchdog()
            self?.isAsking.withLock { $0 = false }
        }
    }
}
