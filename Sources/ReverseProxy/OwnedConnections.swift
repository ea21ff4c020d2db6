// The upstream connections that one client connection owns, since the upstream knows users by connections (NTLM, Negotiate, Kerberos): one for each
// API and each client that a trusted proxy speaks for on it.

import Addresses
import Coordination
import Downstream
import Forwarding
import HTTPCore
import Locking
import Logging
import Reactor
import Upstream

/// Kept with the client's connection, on its loop.
final class OwnedConnections: ConnectionCompanion {
    struct Owner: Equatable {
        /// The API's place: it lasts over a reload.
        let api: UInt16
        let client: ClientAddress
    }

    private var all: [(owner: Owner, connection: OwnedConnection)] = []

    /// A trusted proxy may speak for many clients on one connection.
    private static let limit = 16

    func find(_ owner: Owner) -> OwnedConnection? { all.first { $0.owner == owner }?.connection }

    /// That of the owner, at this upstream. After a reload it is another one, which has no connection yet.
    /// - Returns: nil if there are too many.
    func make(_ owner: Owner, at upstream: UpstreamClient) -> OwnedConnection? {
        let number = owner.client.address.map(\.clientNumber) ?? 0
        guard let index = all.firstIndex(where: { $0.owner == owner }) else {
            all.removeAll { $0.connection.isUnused }
            guard all.count < Self.limit else { return nil }
            let new = OwnedConnection(of: upstream, owner: number)
            all.append((owner, new))
            return new
        }
        let known = all[index].connection
        guard !known.belongs(to: upstream) else { return known }
        known.ownerEnded()
        all[index].connection = OwnedConnection(of: upstream, owner: number, isSignedIn: known.isSignedIn)
        return all[index].connection
    }

    func clientConnectionEnded() {
        for one in all { one.connection.ownerEnded() }
        all = []
    }
}

extension ProxyShard {
    private func owner(_ stream: any ClientStream) -> OwnedConnections.Owner {
        OwnedConnections.Owner(api: shared.place, client: stream.client.place)
    }

    /// Whether the request has to go over an upstream connection of its client's connection, and has nothing to do with the store.
    func isOfConnectionUser(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        if ConnectionAuthentication.isUsed(by: head.fields) { return true }
        // Nearly no connection has any.
        guard let companion = stream.companion else { return false }
        return (companion as? OwnedConnections)?.find(owner(stream))?.isSignedIn ?? false
    }

    /// The connection that such a request goes over.
    /// - Throws: why there is none.
    func claimConnection(on stream: any ClientStream) throws(AccessRefusal) -> OwnedConnection {
        guard !stream.isMultiplexed else { throw .userOverHTTP2 }
        guard !settings.upstream.knowsHTTP2 else { throw .userAtHTTP2Upstream }
        guard let owned = ownedConnection(on: stream), owned.signIn({ takePermit(stream) }) else {
            shared.connectionUsers.logRefusal(process.logger, api: shared.name, now: monotonicMilliseconds)
            throw .userConnections
        }
        shared.connectionUsers.logUse(process.logger, api: shared.name)
        return owned
    }

    private func ownedConnection(on stream: any ClientStream) -> OwnedConnection? {
        let companion = stream.companion as? OwnedConnections ?? OwnedConnections()
        stream.companion = companion
        return companion.make(owner(stream), at: upstream)
    }

    private func takePermit(_ stream: any ClientStream) -> AddressBudget.Place? {
        process.ownedConnections.takeWithinLimit(stream.client.place)
    }

    /// The upstream has offered such a scheme, or begun a handshake: its connection is set aside for the client's next request.
    func setAside(_ transfer: Transfer, on stream: any ClientStream) {
        guard !stream.isMultiplexed, stream.staysOpen, let owned = ownedConnection(on: stream) else { return }
        transfer.setAside(for: owned) { takePermit(stream) }
    }
}

/// What the log is told of connections with a user: each API's first, and refusals once a minute.
final class ConnectionUserLog: Sendable {
    /// Changed by all shards.
    private let state = Mutex((hasBegun: false, refusedAt: Int64?.none))

    private static let interval: Int64 = 60_000

    func logUse(_ logger: Logger, api: String) {
        let isFirst = state.withLock { state in
            defer { state.hasBegun = true }
            return !state.hasBegun
        }
        guard isFirst else { return }
        logger.notice(
            """
            \(Self.subject(api)) authenticates connections (NTLM, Negotiate or Kerberos): such clients get upstream connections of their own, and \
            their responses are not stored
            """)
    }

    /// - Parameter now: milliseconds of the loop's clock.
    func logRefusal(_ logger: Logger, api: String, now: Int64) {
        let isDue = state.withLock { state in
            if let refusedAt = state.refusedAt, now - refusedAt < Self.interval { return false }
            state.refusedAt = now
            return true
        }
        guard isDue else { return }
        logger.warning(
            """
            \(Self.subject(api)): a client gets 503, since it has \(OwnedConnection.limitPerClient) authenticated upstream connections, or all clients \
            have an eighth of upstream.connections
            """)
    }

    private static func subject(_ api: String) -> String { api.isEmpty ? "the upstream" : "the upstream of \(api)" }
}
