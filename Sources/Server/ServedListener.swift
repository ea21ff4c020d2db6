// The addresses on which Cistern listens: which sockets each has, and how they are bound or inherited.

import Administration
import Downstream
import Glibc
import Logging
import ReverseProxy

/// One listening address with its settings. Its sockets are closed when no listener uses them any more.
final class ServedListener: Sendable {
    let settings: ListenerSettings
    let isAdmin: Bool
    /// TCP: one socket for each shard, all bound to the port of the first one; a former process may have handed over more or fewer. Unix
    /// socket: one, for the first shard. Inherited descriptor: one, from which all shards accept.
    let sockets: [BoundSocket]
    /// File mode of a Unix socket; nil if the process's umask determines it.
    private let mode: mode_t?

    private init(_ wanted: Wanted, _ sockets: [BoundSocket]) {
        (settings, isAdmin, mode, self.sockets) = (wanted.settings, wanted.isAdmin, wanted.mode, sockets)
    }

    /// Creates a listener with the sockets of another process.
    init(_ settings: ListenerSettings, isAdmin: Bool, _ sockets: [BoundSocket]) {
        (self.settings, self.isAdmin, self.sockets, mode) = (settings, isAdmin, sockets, nil)
    }

    /// Sets the configured mode of the socket file, which an inherited socket may not have yet.
    func restrict() { if let file, let mode { chmod(file, mode) } }

    var address: ListenAddress { sockets[0].address }

    /// The sockets from which a shard accepts. Each socket has a shard, because clients may wait on it. If there are fewer sockets than
    /// shards, some sockets have several shards.
    /// - Parameter count: number of all shards.
    func sockets(ofShard number: Int, of count: Int) -> [BoundSocket] {
        switch settings.address {
        case .unix: number == 0 ? sockets : []
        case .activated: sockets
        case .ipv4, .ipv6:
            sockets.count < count
                ? [sockets[number % sockets.count]] : stride(from: number, to: sockets.count, by: count).map { sockets[$0] }
        }
    }

    /// Whether two listeners use common sockets, regardless of their settings.
    func shares(_ other: ServedListener) -> Bool { sockets[0] === other.sockets[0] }

    /// Whether the socket was handed over as a descriptor, for example by a service manager that keeps it open.
    var isActivated: Bool { if case .activated = settings.address { true } else { false } }

    /// Path of a socket file that Cistern has created; nil for other addresses.
    var file: String? {
        if case .unix(let path) = settings.address { path } else { nil }
    }

    /// A loopback address on which hardly any process listens. It is used to find out whether the port is in use on all addresses.
    private static let unused = "127.255.255.254"

    /// A listener that the settings request.
    private struct Wanted {
        let settings: ListenerSettings
        let isAdmin: Bool
        /// File mode of a Unix socket; nil: determined by the umask.
        var mode: mode_t?
        /// Whether Cistern runs without this listener if it cannot be bound.
        var isOptional = false
    }

    /// Creates all listeners of the settings. Unchanged listeners are kept; listeners with changed settings keep their sockets.
    /// - Parameters:
    ///   - asksTheSame: whether the requirements for client certificates are unchanged.
    ///   - activated: sockets that were handed over, by descriptor, because a descriptor can be adopted only once.
    static func all(
        _ settings: ProxySettings, after former: [ServedListener], asksTheSame: Bool = true, activated: inout [Int32: BoundSocket],
        _ logger: Logger
    ) throws(ListenError) -> [ServedListener] {
        var all: [ServedListener] = []
        var left = former
        for wanted in try self.wanted(settings, logger) {
            let isUnchanged = asksTheSame || !wanted.settings.isTLS
            let same = left.firstIndex { $0.settings == wanted.settings && $0.isAdmin == wanted.isAdmin }
            if isUnchanged, let index = same {
                all.append(left.remove(at: index))
                continue
            }
            let address = wanted.settings.address
            if let index = same ?? left.firstIndex(where: { $0.settings.address == address || $0.address == address }) {
                all.append(ServedListener(wanted, left.remove(at: index).sockets))
                continue
            }
            do throws(ListenError) {
                let sockets = try bind(wanted, settings, beside: former, &activated)
                all.append(ServedListener(wanted, sockets))
            } catch {
                guard wanted.isOptional else {
                    remove(all, butNot: former)
                    throw error
                }
                logger.warning("the admin interface is not available: \(error)")
            }
        }
        return all
    }

    private static func wanted(_ settings: ProxySettings, _ logger: Logger) throws(ListenError) -> [Wanted] {
        var wanted = settings.listening.listeners.map { Wanted(settings: $0, isAdmin: false) }
        wanted += settings.listening.adminListeners.map { Wanted(settings: $0, isAdmin: true) }
        guard let path = settings.admin.socket else { return wanted }
        let isOptional = !settings.admin.isSocketRequired
        if let address = ListenAddress("unix:" + path) {
            wanted.append(Wanted(settings: ListenerSettings(address), isAdmin: true, mode: 0o600, isOptional: isOptional))
        } else {
            let error = ListenError(address: .unix(path: path), code: ENAMETOOLONG)
            guard isOptional else { throw error }
            logger.warning("the admin interface is not available: \(error)")
        }
        return wanted
    }

    private static func bind(
        _ wanted: Wanted, _ settings: ProxySettings, beside former: [ServedListener], _ activated: inout [Int32: BoundSocket]
    ) throws(ListenError) -> [BoundSocket] {
        let address = wanted.settings.address
        let backlog = settings.downstream.backlog
        switch address {
        case .unix: return [try BoundSocket(address, backlog: backlog, mode: wanted.mode)]
        case .activated(_, let descriptor):
            if let socket = activated[descriptor] { return [socket] }
            let socket = try BoundSocket(address, backlog: backlog)
            activated[descriptor] = socket
            return [socket]
        case .ipv4, .ipv6:
            // A former wildcard address and a new single address may overlap, or the reverse. If the former one is not used any more, both
            // may be bound.
            let overlapping = former.filter { $0.address.overlaps(address) }
            let staying = settings.listening.listeners + settings.listening.adminListeners
            let isOurs = !overlapping.isEmpty && !overlapping.contains { staying.map(\.address).contains($0.settings.address) }
            // Another process must not use the port on all addresses. Whether the port is free on IPv4 says nothing about IPv6.
            if isOurs, address.isWildcard, case .ipv4(_, let port) = address,
                let error = BoundSocket.whyNot(.ipv4(host: unused, port: port))
            {
                throw ListenError(address: address, code: error.code)
            }
            let first = try BoundSocket(address, backlog: backlog, isShared: isOurs)
            var sockets = [first]
            for _ in 1..<max(1, settings.shards) { sockets.append(try BoundSocket(first.address, backlog: backlog, isShared: true)) }
            return sockets
        }
    }

    /// Removes the socket files of listeners that are not used any more.
    static func remove(_ listeners: [ServedListener], butNot others: [ServedListener]) {
        let kept = Set(others.compactMap(\.file))
        for file in Set(listeners.compactMap(\.file)).subtracting(kept) { unlink(file) }
    }
}
