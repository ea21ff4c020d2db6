// An upstream connection that belongs to one client connection, because the upstream authenticates the connection
// (`ConnectionAuthentication`, RFC 4559 §6). It carries no request of other clients. It ends with the client connection, or after
// `idleLimit`. A connection on which the upstream has only offered such a scheme is set aside, so that the client's next request can start
// the handshake on it. It is given up if an authenticated connection needs its slot, and returns to the pool when the client connection
// ends.

import Figures
import Reactor

/// `@unchecked Sendable` because it is used on its client's loop only.
public final class OwnedConnection: @unchecked Sendable {
    /// Number of the client, for limits.
    public let owner: UInt64
    /// Whether a request has carried credentials for the connection. From then on, all requests of the owner use this connection.
    public private(set) var isSignedIn: Bool
    private weak var upstream: UpstreamClient?
    /// The connection; nil before it is established and after it has ended.
    private var connection: OriginConnection?
    private var isIdle = false
    private var hasOwner = true
    /// Number of active requests.
    private var running = 0
    /// The client's permission to have the connection (`limitPerClient`); nil while the connection does not count.
    private var permit: AnyObject?
    private var timer: LoopTimer?

    /// Maximum idle time.
    static let idleLimit = Duration.seconds(60)
    /// Maximum number of such connections of one client, process-wide.
    public static let limitPerClient = 4
    /// Divisor of a shard's connection limit. The quotient is the maximum number of such connections.
    static let share = 8

    public init(of upstream: UpstreamClient, owner: UInt64, isSignedIn: Bool = false) {
        (self.upstream, self.owner, self.isSignedIn) = (upstream, owner, isSignedIn)
    }

    public func belongs(to upstream: UpstreamClient) -> Bool { self.upstream === upstream }

    /// Whether the connection is only set aside and may be given up for an authenticated one.
    var isOnlySetAside: Bool { !isSignedIn && running == 0 && permit != nil }

    // MARK: The client's side

    /// Called before a request with such credentials, or a later request of the owner, is sent.
    /// - Parameter takePermit: returns nil if the client has reached its limit.
    /// - Returns: false if no connection is available for it.
    public func signIn(_ takePermit: () -> AnyObject?) -> Bool {
        guard reserve(replacingOthers: true, takePermit) else { return false }
        isSignedIn = true
        return true
    }

    fileprivate func reserve(replacingOthers: Bool, _ takePermit: () -> AnyObject?) -> Bool {
        guard let upstream, hasOwner else { return false }
        if permit == nil {
            guard upstream.hasCapacityForOwned(replacingOthers: replacingOthers) else { return false }
            if let permit = takePermit() {
                self.permit = permit
            } else {
                guard replacingOthers, upstream.giveUpSetAside(of: owner), let permit = takePermit() else { return false }
                self.permit = permit
            }
            upstream.addOwned(self)
        }
        // A request that is refused later never begins, so the timer is started here.
        if running == 0 { startTimer() }
        return true
    }

    /// Called when the client's connection has ended.
    public func ownerEnded() {
        hasOwner = false
        giveUp()
    }

    /// Gives up the idle connection. An active request continues.
    func giveUp() {
        stopTimer()
        if isIdle {
            isIdle = false
            let former = connection.take()
            former?.leaveOwner()
        }
        releaseIfUnused()
    }

    // MARK: The upstream's side

    /// The pool of the idle connection; nil if there is none.
    var home: OriginConnections? { isIdle ? connection?.home : nil }

    func hasIdle(at connections: OriginConnections) -> Bool { home === connections }

    func takeIdle(at connections: OriginConnections) -> OriginConnection? {
        guard hasIdle(at: connections) else { return nil }
        isIdle = false
        return connection
    }

    func requestBegan() {
        running += 1
        stopTimer()
    }

    func requestEnded() {
        running -= 1
        guard running == 0 else { return }
        if hasOwner, connection != nil { startTimer() } else { releaseIfUnused() }
    }

    /// Assigns a connection that carries the owner's request to the owner.
    func use(_ new: OriginConnection) {
        guard connection !== new else { return }
        let former = connection
        let wasIdle = isIdle
        (connection, isIdle) = (new, false)
        if wasIdle { former?.leaveOwner() }
    }

    /// Keeps the connection after its request has ended.
    func keep(_ connection: OriginConnection) {
        guard hasOwner, permit != nil, self.connection === connection else {
            if self.connection === connection { self.connection = nil }
            connection.leaveOwner()
            return releaseIfUnused()
        }
        isIdle = true
        startTimer()
    }

    func lost(_ connection: OriginConnection) {
        guard self.connection === connection else { return }
        (self.connection, isIdle) = (nil, false)
        releaseIfUnused()
    }

    /// Called when the upstream client closes.
    func upstreamClosed() {
        stopTimer()
        (isIdle, permit, upstream) = (false, nil, nil)
        connection.take()?.close(.unused)
    }

    private func releaseIfUnused() {
        guard running == 0, connection == nil, permit != nil else { return }
        stopTimer()
        permit = nil
        upstream?.removeOwned(self)
    }

    // MARK: Time

    private func startTimer() {
        stopTimer()
        timer = upstream?.loop.schedule(after: Self.idleLimit) { [weak self] in self?.giveUp() }
    }

    private func stopTimer() {
        timer?.cancel()
        timer = nil
    }
}

extension Transfer {
    /// Assigns the connection to the owner after the upstream has offered a connection-based scheme. If the limits forbid that, the
    /// connection stays in the pool, which is safe because no user is associated with it.
    public func setAside(for owned: OwnedConnection, _ takePermit: () -> AnyObject?) {
        guard case .connection(let connection) = carrier, connection.owner == nil, owned.home == nil, !owned.isSignedIn,
            owned.reserve(replacingOthers: false, takePermit)
        else { return }
        connection.owner = owned
        owned.use(connection)
    }
}

extension UpstreamClient {
    private var ownedLimit: Int { max(1, settings.maximumConnections / OwnedConnection.share) }

    fileprivate func hasCapacityForOwned(replacingOthers: Bool) -> Bool {
        if owned.count < ownedLimit { return true }
        guard replacingOthers, let other = owned.first(where: \.isOnlySetAside) else { return false }
        other.giveUp()
        return owned.count < ownedLimit
    }

    /// Returns whether a connection that was set aside for this client was given up.
    fileprivate func giveUpSetAside(of owner: UInt64) -> Bool {
        guard let other = owned.first(where: { $0.owner == owner && $0.isOnlySetAside }) else { return false }
        other.giveUp()
        return true
    }

    fileprivate func addOwned(_ one: OwnedConnection) {
        owned.append(one)
        counters[.upstreamOwned] += 1
    }

    fileprivate func removeOwned(_ one: OwnedConnection) {
        owned.removeAll { $0 === one }
        counters[.upstreamOwned] -= 1
    }
}
