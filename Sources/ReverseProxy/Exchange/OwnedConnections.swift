// Upstream connections that belong to one client connection, because the upstream authenticates connections (NTLM, Negotiate, Kerberos).
// There is one for each API, and for each client of a trusted proxy.

import Addresses
import Downstream
import Forwarding
import HTTPCore
import Logging
import Reactor
import Upstream

/// Belongs to the client's connection. Used on its loop only.
final class OwnedConnections: ConnectionCompanion {
    struct Owner: Equatable {
        /// Number of the API, which is unchanged by a reload.
        let api: UInt16
        let client: ClientAddress
    }

    private var all: [(owner: Owner, connection: OwnedConnection)] = []

    /// Maximum number of owned connections, because a trusted proxy may forward many clients on one connection.
    private static let limit = 16

    func find(_ owner: Owner) -> OwnedConnection? { all.first { $0.owner == owner }?.connection }

    /// Returns the owner's connection to this upstream. After a reload, a new object without a transport connection replaces it.
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

/// The owned connections of an API on a shard. Used on its loop only.
final class ClientOwnedConnections {
    private let loop: EventLoop
    private let upstream: UpstreamClient
    private let budget: AddressBudget
    private let log: ConnectionUserLog
    private let logger: Logger
    /// Number and name of the API.
    private let api: UInt16
    private let name: String

    init(_ api: APIState, at upstream: UpstreamClient, on loop: EventLoop) {
        (self.api, name, self.upstream, self.loop, log) = (api.index, api.name, upstream, loop, api.connectionUsers)
        (budget, logger) = (api.process.ownedConnections, api.process.logger)
    }

    private func owner(_ stream: any ClientStream) -> OwnedConnections.Owner {
        OwnedConnections.Owner(api: api, client: stream.client.clientAddress)
    }

    /// Whether the request must use an upstream connection that its client connection owns, and must bypass the store.
    func isOfConnectionUser(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        if ConnectionAuthentication.isUsed(by: head.fields) { return true }
        // Most connections have none.
        guard let companion = stream.companion else { return false }
        return (companion as? OwnedConnections)?.find(owner(stream))?.isSignedIn ?? false
    }

    /// Returns the owned connection for such a request.
    /// - Throws: why none is available.
    func claimConnection(on stream: any ClientStream) throws(AccessRefusal) -> OwnedConnection {
        guard !stream.isMultiplexed else { throw .userOverHTTP2 }
        guard !upstream.settings.knowsHTTP2 else { throw .userAtHTTP2Upstream }
        guard let owned = ownedConnection(on: stream), owned.signIn({ takePermit(stream) }) else {
            log.logRefusal(logger, api: name, now: loop.time.monotonicMilliseconds)
            throw .userConnections
        }
        log.logUse(logger, api: name)
        return owned
    }

    private func ownedConnection(on stream: any ClientStream) -> OwnedConnection? {
        let companion = stream.companion as? OwnedConnections ?? OwnedConnections()
        stream.companion = companion
        return companion.make(owner(stream), at: upstream)
    }

    private func takePermit(_ stream: any ClientStream) -> AddressBudget.Slot? {
        budget.takeWithinLimit(stream.client.clientAddress)
    }

    /// Reserves the upstream connection for the client's next request, because the upstream has offered such a scheme or begun a handshake.
    func setAside(_ transfer: Transfer, on stream: any ClientStream) {
        guard !stream.isMultiplexed, stream.staysOpen, let owned = ownedConnection(on: stream) else { return }
        transfer.setAside(for: owned) { takePermit(stream) }
    }
}

/// Logs the first use of authenticated connections by each API, and refusals at most once a minute.
final class ConnectionUserLog: Sendable {
    /// Accessed by all shards.
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
