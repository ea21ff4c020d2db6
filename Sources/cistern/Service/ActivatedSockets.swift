// Listening sockets passed by systemd (sd_listen_fds(3)), and their assignment to listeners.

import Downstream
import Glibc
import Reactor
import ReverseProxy
import Settings

struct ActivatedSockets {
    struct Mistake: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    private struct ActivatedSocket {
        let name: String
        let descriptor: Int32

        /// Whether the socket serves admin pages by default.
        var isForAdmin: Bool { name == "admin" }
    }

    private let all: [ActivatedSocket]

    private static let first: Int32 = 3
    private static let limit: Int32 = 1_024

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
        var found: [ActivatedSocket] = []
        for index in 0..<count {
            let activated = ActivatedSocket(
                name: names.indices.contains(Int(index)) ? names[Int(index)] : "unknown", descriptor: Self.first + index)
            if let problem = BoundSocket.whyNotListening(activated.descriptor) {
                throw Mistake(description: "systemd handed over \(activated.name) (descriptor \(activated.descriptor)): \(problem)")
            }
            found.append(activated)
        }
        all = found
    }

    /// Sockets that the predecessor received, and passes on.
    init(_ sockets: [(name: String, descriptor: Int32)]) { all = sockets.map { ActivatedSocket(name: $0.name, descriptor: $0.descriptor) } }

    /// Replaces each listener called `systemd:NAME` by the socket of this name. If the settings contain no addresses, the remaining sockets
    /// become listeners, and those called admin become admin listeners.
    func assign(to listening: inout ListeningSettings, isListenGiven: Bool, isAdminGiven: Bool) throws(Mistake) {
        var named: Set<String> = []
        listening.listeners = try expanded(listening.listeners, &named)
        listening.adminListeners = try expanded(listening.adminListeners, &named)
        let left = all.filter { !named.contains($0.name) }
        let forAdmin = isAdminGiven ? [] : left.filter(\.isForAdmin)
        let forClients = isListenGiven ? [] : left.filter { isAdminGiven || !$0.isForAdmin }
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

    private static func listener(_ activated: ActivatedSocket) -> ListenerSettings {
        ListenerSettings(.activated(name: activated.name, descriptor: activated.descriptor))
    }
}
