// The connections to one address of the upstream: assigns them to requests, and decides when connections are established, kept and closed.

import Figures
import HTTPCore
import Reactor

/// Belongs to one event loop and is used on it only.
final class OriginConnections {
    unowned let client: UpstreamClient
    /// Copies of the client's values, because reading them from the unowned client needs slow reference counting.
    let loop: EventLoop
    let limits: TransferLimits
    let readBuffer = ReadBuffer()
    let connector: CurlConnector
    let settings: UpstreamSettings
    /// Index of the address among those of the upstream.
    let addressIndex: Int
    let writer: RequestWriter
    /// The name that is resolved regularly; nil if none is.
    let name: String?
    var isFollowingName = false
    var nameHasFailed = false
    /// Addresses of the name when connections were last checked; nil before that.
    var knownAddresses: Set<NamedAddress>?
    var addressOrder = AddressOrder()
    /// Idle connections. The last one is used next; those that must pause are at the front.
    private(set) var idle: [OriginConnection] = []
    /// Connections with requests to be sent at the end of the batch of events.
    var chosen: [OriginConnection] = []
    /// Connections of the batch that is being sent.
    var sending: [OriginConnection] = []
    /// Number of connections of both HTTP versions: those being established for a request, in use, or idle.
    private(set) var count = 0
    var waiting: ConnectionQueue<Transfer>
    /// The HTTP/2 connections, the oldest first.
    var multiplexed: [HTTP2OriginConnection] = []
    /// Expected HTTP version of new connections: that of the last one; nil if there was none.
    var expected: SpokenProtocol?
    /// Whether new connections offer HTTP/2 if the upstream may choose.
    var offer = ProtocolOffer()
    /// Whether the upstream has used HTTP/2.
    var hasSpokenHTTP2 = false
    /// Number of concurrent streams per connection that the upstream allows, as far as is known.
    var expectedStreams = HTTP2OriginConnection.maximumExchanges
    /// Number of connections established so far.
    var madeCount = 0
    /// Connections that are being established.
    private(set) var attempts: [ObjectIdentifier: ConnectionAttempt] = [:]
    /// Callbacks for the end of attempts that are not for a request.
    private var spareCompletions: [ObjectIdentifier: (UpstreamError?) -> Void] = [:]
    /// TLS contexts, created with the first connection that uses TLS.
    private var context: TLSContext?
    private var http1Context: TLSContext?
    /// Requests with a response that is paused by a slow client, and the start of the pause in milliseconds of the loop's clock. The longest
    /// paused is the first.
    var heldBack: [(transfer: Transfer, since: Int64)] = []
    /// Transfers with the share `streamedContent`, oldest first, and the time of their last measurement.
    var uploads: [Transfer] = []
    var uploadsMeasuredAt: Int64 = 0
    /// Earliest time for another spare connection after a failure, in milliseconds of the loop's clock.
    private var nextSpareAt = Int64.min
    private var isServing = false
    private(set) var isClosed = false
    private var idleCloses: IdleCloses

    /// - Parameters:
    ///   - settings: settings of the address at index `addressIndex`.
    ///   - first: settings of the first address, which requests name in their Host field.
    init(client: UpstreamClient, _ settings: UpstreamSettings, at addressIndex: Int, of first: UpstreamSettings) {
        self.client = client
        (loop, limits) = (client.loop, client.limits)
        self.addressIndex = addressIndex
        self.settings = settings
        name = Self.followedName(settings)
        connector = CurlConnector(loop: client.loop, settings: settings)
        writer = RequestWriter(settings, replacing: addressIndex == 0 ? nil : first.authority)
        waiting = ConnectionQueue(connections: settings.maximumConnections, limit: settings.queueLimit)
        idleCloses = IdleCloses(standard: settings.idleForWrites.wholeMilliseconds)
        if settings.knowsHTTP2 { expected = .http2 }
    }

    private var now: Int64 { max(client.coarseNow, loop.batchMilliseconds) }

    /// Starts a request.
    /// - Returns: false if the request would have to wait and the queue is full.
    func start(_ transfer: Transfer) -> Bool {
        transfer.connections = self
        if hasCapacity || hasOwnIdle(transfer), waiting.take(transfer.request.shares) {
            noteHolding(transfer)
            isServing = true
            serve(transfer)
            isServing = false
            serveWaiting()
            return true
        }
        guard waiting.mayEnter(transfer.request.shares, isBackground: transfer.request.isBackground) else { return false }
        enterQueue(transfer)
        return true
    }

    /// Queues a request again after its connection ended without a response.
    func startAgain(_ transfer: Transfer) {
        transfer.connections = self
        transfer.queueAgain()
        enterQueue(transfer)
        serveWaiting()
    }

    func close() {
        isClosed = true
        for connection in idle { connection.close(.unused) }
        for connection in multiplexed { connection.close(.unused) }
        for attempt in attempts.values { attempt.cancel() }
        attempts = [:]
        spareCompletions = [:]
        connector.close()
    }

    // MARK: Waiting

    var waitingCount: Int { waiting.count }

    /// Whether a connection is available for the next request, or may be established for it.
    var hasCapacity: Bool {
        guard !speaksHTTP2 else { return waiting.running < settings.maximumConnections && hasCapacityInHTTP2 }
        return mayMake || !idle.isEmpty
    }

    var mayMake: Bool { count < settings.maximumConnections }

    private func enterQueue(_ transfer: Transfer) {
        let waiter = waiting.enter(transfer, transfer.request.shares, isBackground: transfer.request.isBackground)
        transfer.carrier = .queue(waiter)
        if transfer.waitsForOwnClient { client.counters[.upstreamClientLimited] += 1 }
        giveUpSlowest()
    }

    func leaveQueue(_ waiter: ConnectionQueue<Transfer>.Waiter) {
        waiting.leave(waiter)
        serveWaiting()
    }

    /// Serves waiting requests. Must be called whenever a connection may have become available. If a connection turns out to be dead, a
    /// new one may be established for its request.
    func serveWaiting() {
        guard !isServing else { return }
        isServing = true
        defer { isServing = false }
        while !isClosed, !waiting.isReadyEmpty, hasCapacity, let next = waiting.next() {
            noteHolding(next)
            serve(next)
        }
    }

    private func hasOwnIdle(_ transfer: Transfer) -> Bool { transfer.request.owned?.hasIdle(at: self) ?? false }

    private func serve(_ transfer: Transfer) {
        if hasOwnIdle(transfer) { return serveApart(transfer) }
        // The request has waited for an address that is now known to be unreachable.
        if client.choice.isDown[addressIndex], let next = client.next(for: transfer) {
            releaseShares(of: transfer)
            return client.move(transfer, to: next)
        }
        if transfer.request.content == .tunnel || transfer.needsOwnConnection { return serveApart(transfer) }
        if speaksHTTP2 { serveInHTTP2(transfer) } else { serveInHTTP1(transfer) }
    }

    func serveInHTTP1(_ transfer: Transfer) {
        if !transfer.needsNewConnection, let connection = takeIdle(isForWrite: !transfer.request.isRepeatable) {
            return connection.choose(for: transfer)
        }
        if !mayMake, !idle.isEmpty { idle.removeFirst().close(.unused) }
        makeConnection(for: transfer)
    }

    /// Serves a request that needs a separate HTTP/1.1 connection: a protocol upgrade (RFC 9110 §7.8), or a request with connection-based
    /// credentials.
    private func serveApart(_ transfer: Transfer) {
        if !transfer.needsNewConnection, let connection = transfer.request.owned?.takeIdle(at: self) {
            return connection.choose(for: transfer)
        }
        guard makeSpace() else { return failForCapacity(transfer) }
        makeConnection(for: transfer)
    }

    /// Ends a request because the limits allow no separate connection for it.
    func failForCapacity(_ transfer: Transfer) {
        releaseShares(of: transfer)
        transfer.carrier = .none
        loop.atEndOfBatch { transfer.giveUp(.connectionLimitReached) }
    }

    /// Makes space for a connection by closing an unused one if necessary.
    /// - Returns: whether another connection may be established.
    func makeSpace() -> Bool {
        if !mayMake, !idle.isEmpty { idle.removeFirst().close(.unused) }
        if !mayMake { multiplexed.first { $0.isUnused }?.close(.unused) }
        return mayMake
    }

    func makeConnection(for transfer: Transfer) {
        count += 1
        transfer.carrier = .attempt(makeAttempt(for: transfer))
    }

    private func makeAttempt(for transfer: Transfer?) -> ConnectionAttempt {
        followName()
        let attempt = ConnectionAttempt(self, for: transfer)
        attempts[ObjectIdentifier(attempt)] = attempt
        return attempt
    }

    private func noteHolding(_ transfer: Transfer) {
        transfer.holdsShares = true
        if transfer.request.shares.count > 3, transfer.request.shares.contains(where: { $0.name == .streamedContent }) {
            uploads.append(transfer)
        }
    }

    /// Releases the shares of a request that no longer needs its connection.
    func releaseShares(of transfer: Transfer) {
        guard transfer.holdsShares else { return }
        transfer.holdsShares = false
        if !uploads.isEmpty { uploads.removeAll { $0 === transfer } }
        guard !transfer.joinedShares.isEmpty else { return waiting.release(transfer.request.shares) }
        var shares = transfer.request.shares
        shares.append(contentsOf: transfer.joinedShares)
        waiting.release(shares)
    }

    /// Counts a streaming response. A transfer that has already returned its connection holds no share.
    /// - Returns: false if streams, or those of the client, hold as many connections as they may.
    func admitStream(_ transfer: Transfer) -> Bool {
        guard transfer.holdsShares else { return true }
        let shares = ConnectionShares.streams(of: transfer.request.client ?? 0, connections: settings.maximumConnections)
        guard waiting.join(shares) else { return false }
        transfer.joinedShares = shares
        return true
    }

    // MARK: Connections

    /// Takes an idle connection that was used recently. When the request is sent, it is checked whether the connection is still open and
    /// no bytes have arrived (RFC 9112 §9.2).
    /// - Parameter isForWrite: whether the request must not be sent again if the connection turns out to be dead. It then gets a
    ///   connection that was used so recently that the upstream will not have closed it; older ones are left for other requests.
    func takeIdle(isForWrite: Bool) -> OriginConnection? {
        let now = now
        while let connection = idle.last {
            let unused = now - connection.idleSince
            if !connection.hasOutlasted { connection.hasOutlasted = idleCloses.noteOpen(after: unused, at: now) }
            connection.idleBefore = unused
            let isPromised = unused <= connection.promisedIdleTime ?? .max
            if isForWrite, !isPromised || !idleCloses.allowsWrite(after: unused, at: now) { return nil }
            idle.removeLast()
            guard unused < Int64(settings.idleSeconds) * 1000 else {
                connection.close(.unused)
                continue
            }
            if unused >= Self.restMilliseconds { connection.usesInARow = 0 }
            return connection
        }
        return nil
    }

    /// Maximum time in milliseconds for the upstream's acknowledgement of a request: twice the connect timeout.
    private(set) lazy var acknowledgementLimit = Int32(clamping: 2 * settings.connectTimeout.wholeMilliseconds)

    /// Closes all idle connections, because one of equal age did not reach the upstream any more.
    func closeIdle() {
        let unreachable = idle
        idle = []
        for connection in unreachable { connection.close(.unresponsive) }
    }

    /// Must be called when the upstream closes an idle pooled connection. A close that Keep-Alive announced is already respected.
    func noteIdleClose(_ connection: OriginConnection) {
        let unused = now - connection.idleSince
        if unused <= connection.promisedIdleTime ?? .max { idleCloses.noteClose(after: unused, at: now) }
    }

    /// Must be called when the upstream closes a pooled connection before it responds to an unsafe request. A server may stop reading some
    /// time before it closes, so the idle time before the request counts. If the close comes later, the request was probably processed.
    func noteFailedWrite(_ connection: OriginConnection) {
        guard now - connection.idleSince - connection.idleBefore < Self.failedWriteMilliseconds else { return }
        idleCloses.noteClose(after: connection.idleBefore, at: now)
    }

    private static let failedWriteMilliseconds: Int64 = 1_000

    /// Number of consecutive uses after which a connection must pause, and minimum pause in milliseconds. HTTP/1.1 does not number
    /// responses. A surplus response that arrives during the next request would count as its response, and so on for each following
    /// request. It is detected during the pause.
    private static let usesBeforeRest = 16
    private static let restMilliseconds: Int64 = 1_000

    /// Returns a connection to the pool after its exchange.
    func keep(_ connection: OriginConnection) {
        if knownAddresses != nil, isGone(connection.peer) { return connection.close(.addressGone) }
        (connection.idleSince, connection.hasOutlasted) = (now, false)
        connection.usesInARow += 1
        if connection.usesInARow < Self.usesBeforeRest {
            idle.append(connection)
        } else {
            connection.usesInARow = 0
            idle.insert(connection, at: 0)
            makeSpare()
        }
        serveWaiting()
    }

    /// Establishes a spare connection, so that busy connections can pause: one, plus one for each eight busy ones. No request waits for
    /// it. After a failure no other one is attempted for a while.
    private func makeSpare() {
        let busy = count - idle.count
        guard !isClosed, count < settings.maximumConnections, idle.count <= 1 + busy / 8, spareCompletions.isEmpty,
            client.coarseNow >= nextSpareAt
        else { return }
        // The closure is retained until the attempt has ended or all connections are closed.
        attemptConnection { [self] error in
            guard error != nil else { return }
            nextSpareAt = client.coarseNow + Self.restMilliseconds
        }
    }

    /// Removes a closed connection, so that another one may be established.
    func remove(_ connection: OriginConnection, _ cause: ConnectionEnd) {
        client.counters.labelled.count(.upstreamEnded, of: cause)
        idle.removeAll { $0 === connection }
        offerCapacity()
    }

    func offerCapacity() {
        count -= 1
        serveWaiting()
    }

    // MARK: Attempts

    /// Establishes a connection without a request. Attempts that are already active are not reused, because the caller needs a current
    /// result.
    func attemptConnection(_ completion: @escaping (UpstreamError?) -> Void) {
        spareCompletions[ObjectIdentifier(makeAttempt(for: nil))] = completion
    }

    /// Returns the TLS context, recreated if one of its files has changed. If a changed file is unusable, the former context remains in
    /// use.
    /// - Parameter isForHTTP1: whether HTTP/2 must not be offered.
    /// - Returns: nil if there was never a usable context.
    func tlsContext(isForHTTP1: Bool) -> TLSContext? {
        guard offersHTTP2, !isForHTTP1 else { return upToDate(&http1Context, .off) }
        return upToDate(&context, settings.http2)
    }

    private func upToDate(_ context: inout TLSContext?, _ http2: HTTP2Use) -> TLSContext? {
        if let context, context.isUpToDate(settings) { return context }
        let new = TLSContext(settings, http2: http2)
        if context != nil { client.onTLSFilesChange?(settings, new != nil) }
        if let new { context = new }
        return context
    }

    func ended(_ attempt: ConnectionAttempt, _ result: Result<ConnectionAttempt.Made, UpstreamError>) {
        attempts[ObjectIdentifier(attempt)] = nil
        let completion = spareCompletions.removeValue(forKey: ObjectIdentifier(attempt))
        switch result {
        case .success(let made):
            client.counters[.upstreamConnections] += 1
            if let isResumed = made.isResumed {
                if isResumed { client.counters[.upstreamHandshakesResumed] += 1 } else { client.counters[.upstreamHandshakesFull] += 1 }
            }
            client.onConnectionMade?(made.times)
            client.note(nil, at: addressIndex, began: attempt.beganAt)
            use(made, for: attempt, isCounted: completion == nil)
            completion?(nil)
        case .failure(let error):
            // A failure to negotiate HTTP/1.1 with an HTTP/2 upstream is no evidence about requests that use HTTP/2.
            let isEvidence = !(attempt.isForHTTP1 && hasSpokenHTTP2 && error.isAboutProtocol)
            if isEvidence { client.note(error, at: addressIndex, began: attempt.beganAt) }
            failed(attempt, error, isCounted: completion == nil)
            completion?(error)
        }
    }

    /// Ends the requests of a failed attempt. Requests that joined another request's attempt retry once, all together, so that no more
    /// attempts are made than in HTTP/1.1. After a timeout they do not retry, because their own timeout has passed too.
    private func failed(_ attempt: ConnectionAttempt, _ error: UpstreamError, isCounted: Bool) {
        let mayTryAgain = !isClosed && error.kind != .connectionTimeout && error.kind != .dnsTimeout
        for transfer in attempt.transfers { releaseShares(of: transfer) }
        if isCounted { count -= 1 }
        for transfer in attempt.transfers where !transfer.hasEnded {
            // Moving an unsafe request is safe too, because nothing was sent.
            if error.isFailureToReach, let next = client.next(for: transfer) {
                client.move(transfer, to: next)
            } else if mayTryAgain, mayTryOther(transfer, after: attempt) {
                startAgain(transfer)
            } else if mayTryAgain, transfer.joining == .joined {
                transfer.joining = .joinedFailedAttempt
                startAgain(transfer)
            } else {
                transfer.end(.failed(error))
            }
        }
        serveWaiting()
    }

    /// Cancels an attempt that is no longer needed.
    func cancel(_ attempt: ConnectionAttempt) {
        attempt.cancel()
        attempts[ObjectIdentifier(attempt)] = nil
        count -= 1
    }

    /// Whether the attempt is for requests and counts as a connection.
    func isCounted(_ attempt: ConnectionAttempt) -> Bool { spareCompletions[ObjectIdentifier(attempt)] == nil }

    private func use(_ made: ConnectionAttempt.Made, for attempt: ConnectionAttempt, isCounted: Bool) {
        guard isCounted || mayMake else { return made.stream.close() }
        if !isCounted { count += 1 }
        madeCount += 1
        if !attempt.isForHTTP1 {
            // The attempt was started before HTTP/2 failed.
            guard made.spoken == .http1 || offersHTTP2 else { return dismiss(made, attempt) }
            expected = made.spoken
            if made.spoken == .http1, attempt.hasOfferedHTTP2 { offer.isHTTP1Known = true }
        }
        switch made.spoken {
        case .http1:
            let connection = OriginConnection(made.stream, made.times, self)
            connection.peer = peer(of: made.stream)
            let transfers = attempt.transfers
            if let first = transfers.first { connection.beginFirst(first) } else { keep(connection) }
            for transfer in transfers.dropFirst() { startElsewhere(transfer) }
        case .http2: share(made, for: attempt)
        }
    }

    /// Discards a connection that must not be used. Its requests get another one.
    private func dismiss(_ made: ConnectionAttempt.Made, _ attempt: ConnectionAttempt) {
        made.stream.close()
        count -= 1
        for transfer in attempt.transfers { startElsewhere(transfer) }
        serveWaiting()
    }

    /// Moves a request to another connection than the one established for it.
    func startElsewhere(_ transfer: Transfer) {
        releaseShares(of: transfer)
        startAgain(transfer)
    }
}

/// Learns how soon the upstream closes idle connections, so that an unsafe request does not use a connection that is about to be closed.
/// A pure state machine; times are arguments, in milliseconds.
struct IdleCloses {
    /// Maximum idle time of a connection for an unsafe request if nothing was learned.
    private let standard: Int64
    /// Shortest idle time after which the upstream closed a connection, as of `since`; nil if none is known.
    private var shortest: Int64?
    private var since: Int64 = 0
    /// Number of connections, since the last relevant close, that outlasted `shortest`.
    private var outlasted = 0

    private static let doublingTime: Int64 = 60_000
    /// Number of connections that must stay open longer than the shortest time. Then it doubles before its minute is over. A restart of
    /// the upstream, or one client that breaks connections, therefore has a limited effect.
    private static let outlastedBeforeDoubling = 16

    init(standard: Int64) { self.standard = standard }

    /// Whether an unsafe request may use a connection that has been idle for this time.
    func allowsWrite(after idle: Int64, at now: Int64) -> Bool {
        guard let current = current(at: now) else { return idle <= standard }
        return idle < current / 2
    }

    /// Handles the close of an idle connection by the upstream. A close after more than twice the shortest time is compatible with a
    /// doubled one, so it does not keep it from doubling.
    mutating func noteClose(after idle: Int64, at now: Int64) {
        let current = current(at: now) ?? 2 * standard
        guard idle < 2 * current, idle < 2 * standard else { return }
        (shortest, since, outlasted) = (min(current, max(1, idle)), now, 0)
    }

    /// Handles a connection that is still open after this idle time.
    /// - Returns: whether the connection has outlasted the shortest time. It counts once; the caller remembers that.
    mutating func noteOpen(after idle: Int64, at now: Int64) -> Bool {
        guard let current = current(at: now), idle >= current else { return false }
        outlasted += 1
        if outlasted == Self.outlastedBeforeDoubling { (shortest, since, outlasted) = (2 * current, now, 0) }
        return true
    }

    /// The shortest time, doubled for each minute; nil if it no longer has an effect.
    private func current(at now: Int64) -> Int64? {
        guard let shortest else { return nil }
        let current = shortest << min(30, (now - since) / Self.doublingTime)
        return current < 2 * standard ? current : nil
    }
}
