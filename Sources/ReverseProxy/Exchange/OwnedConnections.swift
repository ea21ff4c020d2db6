// Upstream connections that belong to one client connection, because the upstream authenticates connections (NTLM, Negotiate, Kerberos).
// There is one for each API. A connection that may carry requests of several clients has none (RFC 4559 §6): a proxy's, or one over HTTP/2.

import Addresses
import Downstream
import Forwarding
import HTTPCore
import Logging
import Reactor
import Upstream

/// Belongs to the client's connection. Used on its loop only.
final class OwnedConnections: ConnectionCompanion {
    /// By the number of the API, which is unchanged by a reload.
    private var all: [UInt16: OwnedConnection] = [:]

    func find(_ api: UInt16) -> OwnedConnection? { all[api] }

    /// Returns the API's connection to this upstream. After a reload, a new object without a transport connection replaces it.
    func make(_ api: UInt16, at upstream: UpstreamClient, owner: UInt64) -> OwnedConnection {
        let known = all[api]
        if let known, known.belongs(to: upstream) { return known }
        known?.ownerEnded()
        let new = OwnedConnection(of: upstream, owner: owner, isSignedIn: known?.isSignedIn ?? false)
        all[api] = new
        return new
    }

    func clientConnectionEnded() {
        for one in all.values { one.ownerEnded() }
        all = [:]
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
    private let trustedProxies: NetworkList

    init(_ api: APIState, at upstream: UpstreamClient, on loop: EventLoop) {
        (self.api, name, self.upstream, self.loop, log) = (api.index, api.name, upstream, loop, api.connectionUsers)
        trustedProxies = api.settings.downstream.trustedProxies
        (budget, logger) = (api.process.ownedConnections, api.process.logger)
    }

    /// Returns why the client connection must not own an upstream connection: it may carry requests of several clients. nil if it may.
    private func obstacle(to stream: any ClientStream) -> AccessRefusal? {
        if stream.isMultiplexed { return .userOverHTTP2 }
        return stream.client.address == nil || trustedProxies.contains(stream.peer.clientAddress) ? .userBehindProxy : nil
    }

    /// Whether the request must use an upstream connection that its client connection owns, and must bypass the store.
    func isOfConnectionUser(_ head: RequestHead, on stream: any ClientStream) -> Bool {
        if ConnectionAuthentication.isUsed(by: head.fields) { return true }
        // Most connections have none.
        guard let companion = stream.companion, obstacle(to: stream) == nil else { return false }
        return (companion as? OwnedConnections)?.find(api)?.isSignedIn ?? false
    }

    /// Returns the owned connection for such a request.
    /// - Throws: why none is available.
    func claimConnection(on stream: any ClientStream) throws(AccessRefusal) -> OwnedConnection {
        if let obstacle = obstacle(to: stream) { throw obstacle }
        guard !upstream.settings.knowsHTTP2 else { throw .userAtHTTP2Upstream }
        let owned = ownedConnection(on: stream)
        guard owned.signIn({ takePermit(stream) }) else {
            log.logRefusal(logger, api: name, now: loop.time.monotonicMilliseconds)
            throw .userConnections
        }
        log.logUse(logger, api: name)
        return owned
    }

    private func ownedConnection(on stream: any ClientStream) -> OwnedConnection {
        let companion = stream.companion as? OwnedConnections ?? OwnedConnections()
        stream.companion = companion
        return companion.make(api, at: upstream, owner: stream.client.address?.clientNumber ?? 0)
    }

    private func takePermit(_ stream: any ClientStream) -> AddressBudget.Slot? {
        budget.takeWithinLimit(stream.client.clientAddress)
    }

    /// Reserves the upstream connection for the client's next request, because the upstream has offered such a scheme or begun a handshake.
    func setAside(_ transfer: Transfer, on stream: any ClientStream) {
        guard stream.staysOpen, obstacle(to: stream) == nil else { return }
        transfer.setAside(for: ownedConnection(on: stream)) { takePermit(stream) }
    }
}

/// Logs the first use of authenticated connections by each API, and refusals at most once a minute.
final class ConnectionUserLog: Sendable {
    /// Accessed by all shards.
    private let hasBegun = Mutex(false)
    private let refusals = LogInterval()

    func logUse(_ logger: Logger, api: String) {
        let isFirst = hasBegun.withLock { hasBegun in
            defer { hasBegun = true }
            return !hasBegun
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
        guard refusals.note(now: now) != nil else { return }
        logger.warning(
            """
            \(Self.subject(api)): a client gets 503, since it has \(OwnedConnection.limitPerClient) authenticated upstream connections, or all clients \
            have an eighth of upstream.connections
            """)
    }

    private static func subject(_ api: String) -> String { api.isEmpty ? "the upstream" : "the upstream of \(api)" }
}
