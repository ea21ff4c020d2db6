// An upstream connection that belongs to one connection of a client, since the upstream knows a user by it (`ConnectionAuthentication`, RFC 4559
// §6). No other client's request goes over it. It ends with the client's connection, or when it has been idle for `idleLimit`.
//
// A connection on which the upstream has only offered such a scheme is set aside: it has no user yet, but the client's next request may begin the
// handshake on it. It makes room for connections with a user, and returns to the pool when its client's connection has ended.

import Figures
import Reactor

/// `@unchecked Sendable` because it is used on its client's loop only.
public final class OwnedConnection: @unchecked Sendable {
    /// The client, as a number, for limits.
    public let owner: UInt64
    /// Whether a request has had credentials of a connection: from then on all requests of the owner are this connection's.
    public private(set) var isSignedIn: Bool
    private weak var upstream: UpstreamClient?
    /// nil if none is there yet, or it has ended.
    private var connection: OriginConnection?
    private var isIdle = false
    private var hasOwner = true
    /// Requests that have begun and not ended.
    private var running = 0
    /// The part of the client's limit that it holds. nil if it does not count.
    private var permit: AnyObject?
    private var timer: LoopTimer?

    /// Maximum idle time.
    static let idleLimit = Duration.seconds(60)
    /// Such connections of one client, of all shards together.
    public static let limitPerClient = 4
    /// The part of a shard's connections that they may have: one of eight.
    static let share = 8

    public init(of upstream: UpstreamClient, owner: UInt64, isSignedIn: Bool = false) {
        (self.upstream, self.owner, self.isSignedIn) = (upstream, owner, isSignedIn)
    }

    public func belongs(to upstream: UpstreamClient) -> Bool { self.upstream === upstream }

    /// Whether nothing is known of it and nothing is there: it can be forgotten.
    public var isUnused: Bool { !isSignedIn && running == 0 && permit == nil }

    /// Whether it may be given up for one with a user.
    var isOnlySetAside: Bool { !isSignedIn && running == 0 && permit != nil }

    // MARK: The client's side

    /// A request with such credentials, or the owner's next one, is about to be sent.
    /// - Parameter takePermit: returns nil where the client has as many as it may.
    /// - Returns: false where there is no room for it.
    public func signIn(_ takePermit: () -> AnyObject?) -> Bool {
        guard reserve(takingPlaceOfOthers: true, takePermit) else { return false }
        isSignedIn = true
        return true
    }

    fileprivate func reserve(takingPlaceOfOthers: Bool, _ takePermit: () -> AnyObject?) -> Bool {
        guard let upstream, hasOwner else { return false }
        if permit == nil {
            guard upstream.hasRoomForOwned(takingPlaceOfOthers: takingPlaceOfOthers) else { return false }
            if let permit = takePermit() {
                self.permit = permit
            } else {
                guard takingPlaceOfOthers, upstream.giveUpSetAside(of: owner), let permit = takePermit() else { return false }
                self.permit = permit
            }
            upstream.addOwned(self)
        }
        // A request that is refused after this never begins.
        if running == 0 { startTimer() }
        return true
    }

    /// The client's connection has ended.
    public func ownerEnded() {
        hasOwner = false
        giveUp()
    }

    /// What it has goes; a request that is under way goes on.
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

    /// Where its idle connection leads. nil if there is none.
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

    /// A request goes out on this connection, or has: it is the owner's from now on.
    func use(_ new: OriginConnection) {
        guard connection !== new else { return }
        let former = connection
        let wasIdle = isIdle
        (connection, isIdle) = (new, false)
        if wasIdle { former?.leaveOwner() }
    }

    /// Its request is over, and it may carry another.
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

    /// The upstream is asked no more.
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
    /// The upstream has named a scheme of connections: from now on the connection is the owner's, where there is room for that. Else it stays in the
    /// pool, since it has no user.
    public func setAside(for owned: OwnedConnection, _ takePermit: () -> AnyObject?) {
        guard case .connection(let connection) = carrier, connection.owner == nil, owned.home == nil, !owned.isSignedIn,
            owned.reserve(takingPlaceOfOthers: false, takePermit)
        else { return }
        connection.owner = owned
        owned.use(connection)
    }
}

extension UpstreamClient {
    private var ownedLimit: Int { max(1, settings.maximumConnections / OwnedConnection.share) }

    fileprivate func hasRoomForOwned(takingPlaceOfOthers: Bool) -> Bool {
        if owned.count < ownedLimit { return true }
        guard takingPlaceOfOthers, let other = owned.first(where: \.isOnlySetAside) else { return false }
        other.giveUp()
        return owned.count < ownedLimit
    }

    /// Returns whether one of the client's made room.
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
