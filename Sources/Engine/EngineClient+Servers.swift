// Known servers, their roles and their failures.

import Reactor

public struct EngineServerState: Sendable, Equatable {
    public enum Role: Sendable, Equatable {
        /// A primary of a Cluster.
        case primary(slots: Int)
        /// The only server, without a Cluster; it has all slots.
        case alone
        case replica
        /// A configured server whose role is unknown, or that is not in the Cluster.
        case unlisted
    }

    public let server: EngineServer
    public let role: Role
    /// Why the server is not used; nil if it is used.
    public let failure: EngineFailure?
}

public enum EngineServerChange: Sendable, Equatable {
    /// The server's circuit breaker has opened.
    case fails(EngineFailure)
    case recovered
    /// The server failed, and the Cluster has assigned its slots to others.
    case dropped
}

extension EngineClient {
    /// All servers of the map and the settings, in no particular order.
    public var servers: [EngineServerState] {
        loop.assertOnLoop()
        let (primaries, replicas) = (map?.primaries ?? [], map?.replicas ?? [])
        var states = primaries.map { state($0, isCluster ? .primary(slots: map?.slotCount(of: $0) ?? 0) : .alone) }
        states += replicas.subtracting(primaries).map { state($0, .replica) }
        let listed = replicas.union(primaries)
        // A Cluster may use other names for its servers.
        let unlisted = Set(settings.servers).subtracting(listed).filter { !isCluster || $0.isNumeric }
        return states + unlisted.map { state($0, .unlisted) }
    }

    private func state(_ server: EngineServer, _ role: EngineServerState.Role) -> EngineServerState {
        EngineServerState(server: server, role: role, failure: openFailure(of: server))
    }

    public func openFailure(of server: EngineServer) -> EngineFailure? {
        nodes[server].flatMap { $0.breaker.isClosed ? nil : $0.lastFailure }
    }

    /// Returns the server of a key; nil if unknown.
    public func server(forKey key: [UInt8]) -> EngineServer? {
        loop.assertOnLoop()
        return map?.owner(of: KeySlot.of(key))
    }

    /// Returns why the key's server is not used. If that server is unknown, one of the configured servers is reported.
    public func openFailure(forKey key: [UInt8]) -> (server: EngineServer, failure: EngineFailure)? {
        let asked = server(forKey: key).map { [$0] } ?? settings.servers
        return asked.lazy.compactMap { one in self.openFailure(of: one).map { (one, $0) } }.first
    }
}

extension EngineServer {
    fileprivate var isNumeric: Bool { NodeAddress.find(self, isNumeric: true) != nil }
}
