// The connections to the upstream: which request gets which, when one is made, kept, or ended.

import Figures
import HTTPCore
import Reactor

/// Belongs to one loop and is used on it only.
final class OriginConnections {
    unowned let client: UpstreamClient
    /// The client's, asked for at every step: who asks it counts a reference to it that is slow to count.
    let loop: EventLoop
    let limits: TransferLimits
    let readBuffer = ReadBuffer()
    let connector: CurlConnector
    let settings: UpstreamSettings
    /// Of the address, among all of the upstream.
    let place: Int
    let writer: RequestWriter
    /// That is looked up again and again; nil where there is none, or others do it.
    let name: String?
    var isFollowingName = false
    var nameHasFailed = false
    /// Where it led lately, as far as connections were looked at; nil before that.
    var knownAddresses: Set<NamedAddress>?
    /// The last one is used next; those that have to rest are the first.
    private(set) var idle: [OriginConnection] = []
    /// Their requests go out when the batch of events has been handled.
    private var chosen: [OriginConnection] = []
    /// Those of the batch that is over.
    private var sending: [OriginConnection] = []
    /// Being made for a request, in use, and idle; of both protocols.
    private(set) var count = 0
    private var waiting: ConnectionQueue<Transfer>
    /// Those on which HTTP/2 is spoken, the oldest first.
    var shared: [HTTP2OriginConnection] = []
    /// What new connections are expected to speak: what the last one spoke; nil where none was made.
    var expected: SpokenProtocol?
    /// Whether they offer HTTP/2, where the upstream may choose.
    var offer = ProtocolOffer()
    /// The upstream has spoken HTTP/2.
    var hasSpokenHTTP2 = false
    /// Streams that the upstream takes at once on one connection, as far as is known.
    var expectedStreams = HTTP2OriginConnection.maximumExchanges
    /// Connections made so far.
    var madeCount = 0
    /// Connections in the making.
    private(set) var attempts: [ObjectIdentifier: ConnectionAttempt] = [:]
    /// Of those that no request was made for: who is notified of their end.
    private var spareCompletions: [ObjectIdentifier: (UpstreamError?) -> Void] = [:]
    /// With TLS, as soon as a connection was made.
    private var context: TLSContext?
    private var http1Context: TLSContext?
    /// Those whose response is held back, since its client reads slowly. The first has been so for the longest time.
    private var heldBack: [Transfer] = []
    /// When a spare connection may be tried again, in milliseconds of the loop's clock.
    private var nextSpareAt = Int64.min
    private var isServing = false
    private(set) var isClosed = false

    /// - Parameters:
    ///   - settings: those of the address at `place`.
    ///   - first: those of the first address, by whose name requests call their host.
    init(client: UpstreamClient, _ settings: UpstreamSettings, at place: Int, of first: UpstreamSettings) {
        self.client = client
        (loop, limits) = (client.loop, client.limits)
        self.place = place
        self.settings = settings
        name = Self.followedName(settings)
        connector = CurlConnector(loop: client.loop, settings: settings)
        writer = RequestWriter(settings, inPlaceOf: place == 0 ? nil : first.authority)
        waiting = ConnectionQueue(connections: settings.maximumConnections, limit: settings.queueLimit)
        if settings.knowsHTTP2 { expected = .http2 }
    }

    /// - Returns: false where the request would have to wait, and too many wait already.
    func start(_ transfer: Transfer) -> Bool {
        transfer.connections = self
        if hasRoom || hasOwnIdle(transfer), waiting.take(transfer.request.shares) {
            transfer.holdsShares = true
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

    /// For a request whose connection ended without a response.
    func startAgain(_ transfer: Transfer) {
        transfer.connections = self
        transfer.noteQueuedAgain()
        enterQueue(transfer)
        serveWaiting()
    }

    func close() {
        isClosed = true
        for connection in idle { connection.close(.unused) }
        for connection in shared { connection.close(.unused) }
        for attempt in attempts.values { attempt.cancel() }
        attempts = [:]
        spareCompletions = [:]
        connector.close()
    }

    // MARK: Waiting

    var waitingCount: Int { waiting.count }
    var runningCount: Int { waiting.running }

    /// Whether the next request finds a connection, or one may be made for it.
    private var hasRoom: Bool {
        guard !speaksHTTP2 else { return waiting.running < settings.maximumConnections && hasRoomInHTTP2 }
        return mayMake || !idle.isEmpty
    }

    var mayMake: Bool { count < settings.maximumConnections }

    private func enterQueue(_ transfer: Transfer) {
        let place = waiting.enter(transfer, transfer.request.shares, isBackground: transfer.request.isBackground)
        transfer.carrier = .queue(place)
        giveUpSlowest()
    }

    func leaveQueue(_ place: ConnectionQueue<Transfer>.Place) {
        waiting.leave(place)
        serveWaiting()
    }

    /// To be called after whatever may have made room. A dead connection that is found while one is served makes room for that one.
    func serveWaiting() {
        guard !isServing else { return }
        isServing = true
        defer { isServing = false }
        while !isClosed, !waiting.isReadyEmpty, hasRoom, let next = waiting.next() {
            next.holdsShares = true
            serve(next)
        }
    }

    private func hasOwnIdle(_ transfer: Transfer) -> Bool { transfer.request.owned?.hasIdle(at: self) ?? false }

    private func serve(_ transfer: Transfer) {
        if hasOwnIdle(transfer) { return serveApart(transfer) }
        // It has waited for a connection to an address that is known by now to be out of reach.
        if client.choice.isDown[place], let next = client.next(for: transfer) {
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

    /// Another protocol begins with HTTP/1.1 (RFC 9110 §7.8), and takes a connection of its own; a request of a connection with a user has one.
    private func serveApart(_ transfer: Transfer) {
        if !transfer.needsNewConnection, let connection = transfer.request.owned?.takeIdle(at: self) {
            return connection.choose(for: transfer)
        }
        guard makeRoom() else { return turnAway(transfer) }
        makeConnection(for: transfer)
    }

    /// There is no room for a connection of its own.
    func turnAway(_ transfer: Transfer) {
        releaseShares(of: transfer)
        transfer.carrier = .none
        loop.atEndOfBatch { transfer.giveUp(.connectionLimitReached) }
    }

    /// - Returns: whether another connection may be made, perhaps in the place of one that is not used.
    func makeRoom() -> Bool {
        if !mayMake, !idle.isEmpty { idle.removeFirst().close(.unused) }
        if !mayMake { shared.first { $0.isUnused }?.close(.unused) }
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

    /// The request has done with its connection: what it held of the shares is free.
    func releaseShares(of transfer: Transfer) {
        guard transfer.holdsShares else { return }
        transfer.holdsShares = false
        guard let joined = transfer.joinedShare else { return waiting.release(transfer.request.shares) }
        var shares = transfer.request.shares
        shares.append(joined)
        waiting.release(shares)
    }

    /// The response is a stream. Where its connection has been given back already it holds none.
    /// - Returns: false where streams hold half of the connections.
    func admitStream(_ transfer: Transfer) -> Bool {
        guard transfer.holdsShares else { return true }
        let share = ConnectionShare(.streams, .connections(settings.maximumConnections / 2))
        guard waiting.join(share) else { return false }
        transfer.joinedShare = share
        return true
    }

    // MARK: Slow clients

    func noteHeldBack(_ transfer: Transfer) {
        heldBack.append(transfer)
        giveUpSlowest()
    }

    func noteGoesOn(_ transfer: Transfer) { heldBack.removeAll { $0 === transfer } }

    /// Where others wait, those that are held back have half of the connections at most: else clients that hardly read would keep everybody out.
    private func giveUpSlowest() {
        guard heldBack.count > settings.maximumConnections / 2 else { return }
        loop.atEndOfBatch { [self] in
            while !isClosed, heldBack.count > settings.maximumConnections / 2, !waiting.isReadyEmpty, !hasRoom {
                heldBack.removeFirst().giveUp(.connectionLimitReached)
            }
        }
    }

    // MARK: Connections

    /// One that has been used lately. Whether it stands, and says nothing unasked (RFC 9112 §9.2), is looked at when the request goes out.
    /// - Parameter isForWrite: for a request that is not sent again if the connection turns out to be dead. It gets one that has been used so
    ///   lately that the upstream will not have ended it; others stay for those that may be.
    private func takeIdle(isForWrite: Bool) -> OriginConnection? {
        while let connection = idle.last {
            let unused = client.coarseNow - connection.idleSince
            if isForWrite, unused > writeLimit(connection) { return nil }
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

    /// It is given the request that it was chosen for when the batch of events has been handled.
    func sendAtEndOfBatch(_ connection: OriginConnection) {
        if chosen.isEmpty { loop.atEndOfBatch { self.sendChosen() } }
        chosen.append(connection)
    }

    private func sendChosen() {
        // What is chosen meanwhile has its turn next; neither list gives up its memory.
        swap(&chosen, &sending)
        for connection in sending { connection.sendChosen() }
        sending.removeAll(keepingCapacity: true)
    }

    private func writeLimit(_ connection: OriginConnection) -> Int64 {
        min(settings.idleForWrites.wholeMilliseconds, connection.keepAlive.map { max(0, $0 - 1000) } ?? .max)
    }

    /// How often a connection is used in a row before others have their turn; and what counts as a rest in between. One response too many that
    /// comes while the next request is under way makes each the previous one's, for as long as requests follow closely (HTTP/1.1 numbers
    /// nothing): it is found when the connection rests.
    private static let usesBeforeRest = 16
    private static let restMilliseconds: Int64 = 1_000

    /// Its exchange is over, and it may be used again.
    func keep(_ connection: OriginConnection) {
        if knownAddresses != nil, isGone(connection.peer) { return connection.close(.addressGone) }
        connection.idleSince = client.coarseNow
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

    /// Where all connections are busy none would rest: one of eight, and one, is there beside them. Nobody waits for it; an upstream that does
    /// not take it is left alone for a while.
    private func makeSpare() {
        let busy = count - idle.count
        guard !isClosed, count < settings.maximumConnections, idle.count <= 1 + busy / 8, spareCompletions.isEmpty,
            client.coarseNow >= nextSpareAt
        else { return }
        // Held until the attempt has ended, or all is closed.
        attemptConnection { [self] error in
            guard error != nil else { return }
            nextSpareAt = client.coarseNow + Self.restMilliseconds
        }
    }

    /// It is gone: there is room for another.
    func remove(_ connection: OriginConnection, _ cause: ConnectionEnd) {
        client.counters.ended[cause, default: 0] += 1
        idle.removeAll { $0 === connection }
        giveRoom()
    }

    func giveRoom() {
        count -= 1
        serveWaiting()
    }

    // MARK: Attempts

    /// Makes a connection that no request waits for. Beside others that are under way: who asks anew gets the news of now.
    func attemptConnection(_ completion: @escaping (UpstreamError?) -> Void) {
        spareCompletions[ObjectIdentifier(makeAttempt(for: nil))] = completion
    }

    /// What TLS needs, remade where one of its files has changed. Where that cannot be used, the last one still is.
    /// - Returns: nil where there never was one that could be.
    /// - Parameter isForHTTP1: HTTP/2 is not offered.
    func tlsContext(isForHTTP1: Bool) -> TLSContext? {
        guard offersHTTP2, !isForHTTP1 else { return upToDate(&http1Context, .off) }
        return upToDate(&context, settings.http2)
    }

    private func upToDate(_ context: inout TLSContext?, _ http2: HTTP2Use) -> TLSContext? {
        if let context, context.isUpToDate(settings) { return context }
        if let new = TLSContext(settings, http2: http2) { context = new }
        return context
    }

    func ended(_ attempt: ConnectionAttempt, _ result: Result<ConnectionAttempt.Made, UpstreamError>) {
        attempts[ObjectIdentifier(attempt)] = nil
        let completion = spareCompletions.removeValue(forKey: ObjectIdentifier(attempt))
        let error = note(result, of: attempt)
        switch result {
        case .success(let made): use(made, for: attempt, isCounted: completion == nil)
        case .failure(let error): failed(attempt, error, isCounted: completion == nil)
        }
        completion?(error)
    }

    /// Who waited for another's connection asks for one again, once: all together, so that no more are tried than in HTTP/1.1. Where a time-out has
    /// passed theirs has too.
    private func failed(_ attempt: ConnectionAttempt, _ error: UpstreamError, isCounted: Bool) {
        let mayTryAgain = !isClosed && error.kind != .connectionTimeout && error.kind != .dnsTimeout
        for transfer in attempt.transfers { releaseShares(of: transfer) }
        if isCounted { count -= 1 }
        for transfer in attempt.transfers where !transfer.hasEnded && !client.moveOn(transfer, after: error) {
            if mayTryAgain, transfer.joining == .joined {
                transfer.joining = .joinedInVain
                startAgain(transfer)
            } else {
                transfer.end(.failed(error))
            }
        }
        serveWaiting()
    }

    /// Nobody needs what it would make.
    func cancel(_ attempt: ConnectionAttempt) {
        attempt.cancel()
        attempts[ObjectIdentifier(attempt)] = nil
        count -= 1
    }

    /// Whether it was made for requests, and counts as one of the connections.
    func isCounted(_ attempt: ConnectionAttempt) -> Bool { spareCompletions[ObjectIdentifier(attempt)] == nil }

    private func note(_ result: Result<ConnectionAttempt.Made, UpstreamError>, of attempt: ConnectionAttempt) -> UpstreamError? {
        let began = attempt.beganAt
        switch result {
        case .success(let made):
            client.counters[.upstreamConnections] += 1
            if let isResumed = made.isResumed {
                if isResumed { client.counters[.upstreamHandshakesResumed] += 1 } else { client.counters[.upstreamHandshakesFull] += 1 }
            }
            client.onConnectionMade?(made.times)
            client.note(nil, at: place, began: began)
            return nil
        case .failure(let error):
            // That an upstream of HTTP/2 agrees on nothing else says nothing of those who speak that.
            if !(attempt.isForHTTP1 && hasSpokenHTTP2 && error.isAboutProtocol) { client.note(error, at: place, began: began) }
            return error
        }
    }

    private func use(_ made: ConnectionAttempt.Made, for attempt: ConnectionAttempt, isCounted: Bool) {
        guard isCounted || mayMake else { return made.stream.close() }
        if !isCounted { count += 1 }
        madeCount += 1
        if !attempt.isForHTTP1 {
            // It was begun before HTTP/2 went wrong.
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

    /// It is not to be used: they ask for another.
    private func dismiss(_ made: ConnectionAttempt.Made, _ attempt: ConnectionAttempt) {
        made.stream.close()
        count -= 1
        for transfer in attempt.transfers { startElsewhere(transfer) }
        serveWaiting()
    }

    /// The connection that was made for it is not for it.
    func startElsewhere(_ transfer: Transfer) {
        releaseShares(of: transfer)
        startAgain(transfer)
    }
}
