// Which servers are known, what each of them is, and why one is not asked.

import Reactor

/// A server as a client knows it.
public struct EngineServerState: Sendable, Equatable {
    public enum Role: Sendable, Equatable {
        /// It has this many slots of a Cluster.
        case primary(slots: Int)
        /// It has all, and is no Cluster's.
        case alone
        case replica
        /// Settings name it, and it is none of these: it is not known yet what it is, it is not a Cluster's, or the Cluster has left it out.
        case unlisted
    }

    public let server: EngineServer
    public let role: Role
    /// Why it is not asked; nil where it is, or would be.
    public let failure: EngineFailure?
}

/// What has become of a server.
public enum EngineServerChange: Sendable, Equatable {
    /// It is asked no more: its breaker has opened.
    case fails(EngineFailure)
    /// It is asked again.
    case isWell
    /// It failed, and is of no use any more: the Cluster has given its part to others.
    case dropped
}

extension EngineClient {
    /// All servers that the map tells of or the settings name, in no order.
    public var servers: [EngineServerState] {
        loop.assertOnLoop()
        let (primaries, replicas) = (map?.primaries ?? [], map?.replicas ?? [])
        var states = primaries.map { state($0, isCluster ? .primary(slots: map?.slotCount(of: $0) ?? 0) : .alone) }
        states += replicas.subtracting(primaries).map { state($0, .replica) }
        let listed = replicas.union(primaries)
        // A Cluster may call its servers otherwise than by their names.
        let unlisted = Set(settings.servers).subtracting(listed).filter { !isCluster || $0.isNumeric }
        return states + unlisted.map { state($0, .unlisted) }
    }

    private func state(_ server: EngineServer, _ role: EngineServerState.Role) -> EngineServerState {
        EngineServerState(server: server, role: role, failure: openFailure(of: server))
    }

    /// Why a server is not asked; nil where it is, or would be.
    public func openFailure(of server: EngineServer) -> EngineFailure? {
        nodes[server].flatMap { $0.breaker.isClosed ? nil : $0.lastFailure }
    }

    /// The server that has the key; nil where that is not known.
    public func server(forKey key: [UInt8]) -> EngineServer? {
        loop.assertOnLoop()
        return map?.owner(of: KeySlot.of(key))
    }

    /// What is behind `.breakerOpen`: why the server that has the key is not asked, or, while nobody knows who that is, one that was named.
    public func openFailure(forKey key: [UInt8]) -> (server: EngineServer, failure: EngineFailure)? {
        let asked = server(forKey: key).map { [$0] } ?? settings.servers
        return asked.lazy.compactMap { one in self.openFailure(of: one).map { (one, $0) } }.first
    }
}

extension EngineServer {
    fileprivate var isNumeric: Bool { NodeAddress.find(self, isNumeric: true) != nil }
}
