// What systemd is told of us (sd_notify(3)): that we are ready, reload, stop, live. Each is one datagram to the socket that it names.

import CSystem
import Descriptors
import Dispatch
import Glibc
import Locking
import Server

struct ServiceManager: Sendable {
    /// A path in the file system, or an abstract name, which begins with `@`.
    private let socket: String
    /// How often it wants a sign of life; nil where it wants none.
    let watchdog: Duration?

    /// nil where nothing of the kind has started us.
    /// - Parameter isTakingOver: what the environment says of the main process was said of the one before this.
    init?(_ environment: [String: String], isTakingOver: Bool = false) {
        guard let socket = environment["NOTIFY_SOCKET"], socket.hasPrefix("/") || socket.hasPrefix("@"), socket.utf8.count > 1,
            socket.utf8.count < 108
        else { return nil }
        self.socket = socket
        let isOurs = isTakingOver || environment["WATCHDOG_PID"].map { pid_t($0) == getpid() } ?? true
        let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init) ?? 0
        watchdog = isOurs && microseconds > 0 ? .microseconds(microseconds) : nil
    }

    func tellReady(_ status: String) { tell("READY=1\nSTATUS=\(status)") }

    /// This process goes on in the place of the one that it knows. `tellReady` follows.
    func tellMain() { tell("MAINPID=\(getpid())") }

    /// `tellReady` follows.
    func tellReloading() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        tell("RELOADING=1\nMONOTONIC_USEC=\(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000)")
    }

    /// - Parameter longest: it is not to lose patience before.
    func tellStopping(longest: Duration) {
        tell("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=\(Int64(longest / .microseconds(1)))")
    }

    func tellAlive() { tell("WATCHDOG=1") }

    /// Whether anybody takes it is no concern of ours.
    private func tell(_ state: String) {
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

/// Tells systemd that we live, as long as all event loops do: a loop that is stuck gives no sign, and we are started anew.
/// `@unchecked Sendable` because what changes is behind the mutex.
final class Watchdog: @unchecked Sendable {
    private let server: ProxyServer
    private let manager: ServiceManager
    private let queue = DispatchQueue(label: "cistern.watchdog")
    /// Whether the loops have been asked and not all have responded. Theirs and the queue's.
    private let isAsking = Mutex(false)
    private let timer: any DispatchSourceTimer

    /// So often within the time that systemd gives.
    private static let signs = 4

    init(_ server: ProxyServer, _ manager: ServiceManager, every longest: Duration) {
        (self.server, self.manager) = (server, manager)
        timer = DispatchSource.makeTimerSource(queue: queue)
        let interval = max(1, Int(longest / .milliseconds(Self.signs)))
        timer.schedule(deadline: .now(), repeating: .milliseconds(interval))
        timer.setEventHandler { [weak self] in self?.ask() }
        timer.activate()
    }

    /// Another process is the one that lives.
    func end() { timer.cancel() }

    private func ask() {
        let isFirst = isAsking.withLock { isAsking in
            defer { isAsking = true }
            return !isAsking
        }
        guard isFirst else { return }
        server.afterEachLoop { [weak self] in
            self?.manager.tellAlive()
            self?.isAsking.withLock { $0 = false }
        }
    }
}
