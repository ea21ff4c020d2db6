// The addresses that are listened on: which sockets there are for each, and how they come to be.

import Administration
import Downstream
import Glibc
import Logging
import ReverseProxy

/// One address, and what is spoken there. Its sockets are closed when nobody listens on them any more.
final class ServedListener: Sendable {
    let settings: ListenerSettings
    let isAdmin: Bool
    /// Of TCP one for each shard, all bound to the port that the first one got; those of a process before this one may be more, or fewer. A Unix
    /// socket is the first shard's. From one that was handed over all shards accept.
    let sockets: [BoundSocket]
    /// Who may connect to a Unix socket, where that is not the process's mask's matter.
    private let mode: mode_t?

    private init(_ wanted: Wanted, _ sockets: [BoundSocket]) {
        (settings, isAdmin, mode, self.sockets) = (wanted.settings, wanted.isAdmin, wanted.mode, sockets)
    }

    /// That of another process.
    init(_ settings: ListenerSettings, isAdmin: Bool, _ sockets: [BoundSocket]) {
        (self.settings, self.isAdmin, self.sockets, mode) = (settings, isAdmin, sockets, nil)
    }

    /// Where the socket was another's before, its file has that one's mode.
    func restrict() { if let file, let mode { chmod(file, mode) } }

    /// As it is indeed.
    var address: ListenAddress { sockets[0].address }

    /// Each socket has a shard that accepts from it, since clients wait there; of fewer, some have several.
    /// - Parameter count: of all shards.
    func sockets(ofShard number: Int, of count: Int) -> [BoundSocket] {
        switch settings.address {
        case .unix: number == 0 ? sockets : []
        case .handed: sockets
        case .ipv4, .ipv6:
            sockets.count < count
                ? [sockets[number % sockets.count]] : stride(from: number, to: sockets.count, by: count).map { sockets[$0] }
        }
    }

    /// Whether another listens on the same sockets, whatever it takes them for.
    func shares(_ other: ServedListener) -> Bool { sockets[0] === other.sockets[0] }

    /// Whether somebody else listens on it too, and goes on with it.
    var isHanded: Bool { if case .handed = settings.address { true } else { false } }

    /// The path of a socket file that was made here.
    var file: String? {
        if case .unix(let path) = settings.address { path } else { nil }
    }

    /// An address of this machine that hardly anybody listens on.
    private static let unused = "127.255.255.254"

    /// What is to be listened on.
    private struct Wanted {
        let settings: ListenerSettings
        let isAdmin: Bool
        /// Who may connect to a Unix socket.
        var mode: mode_t?
        /// Whether the proxy does without it where it cannot be had.
        var isOptional = false
    }

    /// All that the settings name. What is listened on already stays, and keeps its sockets where only what is spoken there is another.
    /// - Parameters:
    ///   - asksTheSame: whether TLS asks clients for what it asked them before.
    ///   - handed: sockets that were handed over, by their descriptors: they can be had once only.
    static func all(
        _ settings: ProxySettings, after former: [ServedListener], asksTheSame: Bool = true, handed: inout [Int32: BoundSocket],
        _ logger: Logger
    ) throws(ListenError) -> [ServedListener] {
        var all: [ServedListener] = []
        var left = former
        for wanted in try self.wanted(settings, logger) {
            let isAsBefore = asksTheSame || !wanted.settings.isTLS
            let same = left.firstIndex { $0.settings == wanted.settings && $0.isAdmin == wanted.isAdmin }
            if isAsBefore, let place = same {
                all.append(left.remove(at: place))
                continue
            }
            let address = wanted.settings.address
            if let place = same ?? left.firstIndex(where: { $0.settings.address == address || $0.address == address }) {
                all.append(ServedListener(wanted, left.remove(at: place).sockets))
                continue
            }
            do throws(ListenError) {
                let sockets = try bind(wanted, settings, beside: former, &handed)
                all.append(ServedListener(wanted, sockets))
            } catch {
                guard wanted.isOptional else {
                    remove(all, butNot: former)
                    throw error
                }
                logger.warning("no administrator's interface: \(error)")
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
            logger.warning("no administrator's interface: \(error)")
        }
        return wanted
    }

    private static func bind(
        _ wanted: Wanted, _ settings: ProxySettings, beside former: [ServedListener], _ handed: inout [Int32: BoundSocket]
    ) throws(ListenError) -> [BoundSocket] {
        let address = wanted.settings.address
        let backlog = settings.downstream.backlog
        switch address {
        case .unix: return [try BoundSocket(address, backlog: backlog, mode: wanted.mode)]
        case .handed(_, let descriptor):
            if let socket = handed[descriptor] { return [socket] }
            let socket = try BoundSocket(address, backlog: backlog)
            handed[descriptor] = socket
            return [socket]
        case .ipv4, .ipv6:
            // One of ours that is left may be all of this machine's addresses, or one of them where all are wanted now.
            let overlapping = former.filter { $0.address.overlaps(address) }
            let staying = settings.listening.listeners + settings.listening.adminListeners
            let isOurs = !overlapping.isEmpty && !overlapping.contains { staying.map(\.address).contains($0.settings.address) }
            // Nobody else may be all of them already. What IPv4 has of a port says nothing of IPv6.
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

    /// The files of those that are listened on no more.
    static func remove(_ listeners: [ServedListener], butNot others: [ServedListener]) {
        let kept = Set(others.compactMap(\.file))
        for file in Set(listeners.compactMap(\.file)).subtracting(kept) { unlink(file) }
    }
}
