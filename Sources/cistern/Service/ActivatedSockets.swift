// Listening sockets passed by systemd (sd_listen_fds(3)), and their assignment to listeners.

import Downstream
import Glibc
import ReverseProxy

struct ActivatedSockets {
    struct Mistake: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    typealias Socket = (name: String, descriptor: Int32)

    private let all: [Socket]

    private static let first: Int32 = 3
    private static let limit: Int32 = 1_024
    /// Name of sockets that serve admin pages by default.
    private static let adminName = "admin"

    /// - Throws: if a passed descriptor is not a listening socket.
    init(_ environment: [String: String]) throws(Mistake) {
        guard let process = environment["LISTEN_PID"].flatMap({ pid_t($0) }), process == getpid(),
            let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), (1...Self.limit).contains(count)
        else {
            all = []
            return
        }
        // Empty names count.
        let names = environment["LISTEN_FDNAMES"]?.split(separator: ":", omittingEmptySubsequences: false).map(String.init) ?? []
        var found: [Socket] = []
        for index in 0..<count {
            let activated = (name: names.indices.contains(Int(index)) ? names[Int(index)] : "unknown", descriptor: Self.first + index)
            if let problem = BoundSocket.whyNotListening(activated.descriptor) {
                throw Mistake(description: "systemd handed over \(activated.name) (descriptor \(activated.descriptor)): \(problem)")
            }
            found.append(activated)
        }
        all = found
    }

    /// Sockets that the predecessor received, and passes on.
    init(_ sockets: [Socket]) { all = sockets }

    /// Replaces each listener called `systemd:NAME` by the socket of this name. If the settings contain no addresses, the remaining sockets
    /// become listeners, and those called admin become admin listeners.
    func assign(to listening: inout ListeningSettings, isListenGiven: Bool, isAdminGiven: Bool) throws(Mistake) {
        var named: Set<String> = []
        listening.listeners = try expanded(listening.listeners, &named)
        listening.adminListeners = try expanded(listening.adminListeners, &named)
        let left = all.filter { !named.contains($0.name) }
        let forAdmin = isAdminGiven ? [] : left.filter { $0.name == Self.adminName }
        let forClients = isListenGiven ? [] : left.filter { isAdminGiven || $0.name != Self.adminName }
        if !forClients.isEmpty { listening.listeners = forClients.map(Self.listener) }
        listening.adminListeners += forAdmin.map(Self.listener)
        let assigned = Set((forAdmin + forClients).map(\.descriptor))
        guard let other = left.first(where: { !assigned.contains($0.descriptor) }) else { return }
        throw Mistake(
            description: "systemd handed over the socket \(other.name), which neither listen nor admin_listen names: systemd:\(other.name)")
    }

    private func expanded(_ listeners: [ListenerSettings], _ named: inout Set<String>) throws(Mistake) -> [ListenerSettings] {
        var result: [ListenerSettings] = []
        for listener in listeners {
            guard case .activated(let name, _) = listener.address else {
                result.append(listener)
                continue
            }
            let found = all.filter { $0.name == name }
            guard !found.isEmpty else {
                let others = all.isEmpty ? "none" : "only \(all.map(\.name).joined(separator: ", "))"
                throw Mistake(
                    description: """
                        \(listener.address): systemd handed over no socket of this name (\(others)); set FileDescriptorName= in the socket unit
                        """)
            }
            named.insert(name)
            for one in found {
                var copy = listener
                copy.address = .activated(name: name, descriptor: one.descriptor)
                result.append(copy)
            }
        }
        return result
    }

    private static func listener(_ activated: Socket) -> ListenerSettings {
        ListenerSettings(.activated(name: activated.name, descriptor: activated.descriptor))
    }
}
