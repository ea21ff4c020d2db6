// HTTP/2 connections of one address: which connection a request uses, when another one is established, and how waiting requests continue.

import Figures
import HTTP2
import HTTPCore
import Reactor

extension OriginConnections {
    /// Whether HTTP/2 connections may exist or are expected. While the upstream's protocol is unknown, a connection is established for
    /// each request, as in HTTP/1.1, so that no request waits longer. The first connection that negotiates HTTP/2 takes over the other
    /// requests.
    var speaksHTTP2: Bool { expected == .http2 || !multiplexed.isEmpty }

    /// Whether a stream or a connection is available for the next request, or a connection may be established for it.
    var hasCapacityInHTTP2: Bool {
        (mayMake && !isHeld) || !idle.isEmpty || joinable(for: nil) != nil
            || multiplexed.contains { (!$0.isApart && $0.hasCapacity) || ($0.isUnused && !isHeld) }
    }

    /// Whether HTTP/2 may be used on new connections.
    var offersHTTP2: Bool { settings.http2 != .auto || offer.offersHTTP2(at: client.coarseNow) }

    /// Whether new connections are delayed because the upstream has just set its stream limit to 0 on an open one. It usually raises the
    /// limit soon (RFC 9113 §6.5.2), and another connection would cost an unnecessary handshake.
    private var isHeld: Bool { multiplexed.contains { !$0.isApart && $0.takesNone(since: client.coarseNow - Self.joinableMilliseconds) } }

    /// A connection that is being established and can carry one more request; nil if there is none. Attempts that take long are excluded:
    /// a packet may be lost, and a new connection is then available sooner.
    /// - Parameter transfer: the request. nil if any content may join.
    private func joinable(for transfer: Transfer?) -> ConnectionAttempt? {
        guard expected == .http2 else { return nil }
        return attempts.values.first {
            isCounted($0) && !$0.isForOne && transfer?.failedAddresses.allSatisfy($0.excluded.contains) ?? true
                && $0.transfers.count < joinedAtMost
                && client.coarseNow - $0.beganAt < Self.joinableMilliseconds && $0.hasWindow(for: transfer?.request.contentBytes ?? 0)
        }
    }

    private static let joinableMilliseconds: Int64 = 1_000

    /// If the last connection allowed no streams, the limit of the next one is unknown until the upstream states it.
    private var joinedAtMost: Int { expectedStreams > 0 ? expectedStreams : HTTP2OriginConnection.maximumExchanges }

    /// Selects a connection. Streams of existing connections, and connections being established, precede new connections. A new connection
    /// replaces an unused one at the limit. The last resort is a stream of any connection, even a possibly dead one.
    func serveInHTTP2(_ transfer: Transfer) {
        endUnused()
        if transfer.isSeparated { return serveSeparately(transfer) }
        if let fitting = multiplexed.first(where: { isFitting($0, for: transfer) }) { return fitting.begin(transfer) }
        if !idle.isEmpty, !transfer.needsNewConnection { return serveInHTTP1(transfer) }
        let mayMakeNow = mayMake && !isHeld
        // Without a new connection, content waits for window on any one. `hasCapacityInHTTP2` must then be true as well.
        if let attempt = joinable(for: mayMakeNow ? transfer : nil) { return attempt.take(transfer) }
        let unused = multiplexed.first { $0.isUnused }
        if mayMakeNow || (unused != nil && !isHeld) || !idle.isEmpty {
            // An existing connection that does not suit this request does not suit others either.
            unused?.close(.unused)
            if mayMake { makeConnection(for: transfer) } else { serveInHTTP1(transfer) }
        } else if let any = multiplexed.first(where: { $0.hasCapacity && !$0.isApart }) {
            any.begin(transfer)
        } else {
            // An idle connection turned out to be dead.
            startElsewhere(transfer)
        }
    }

    /// Uses HTTP/1.1 if the upstream is known to support it, or if this request alone has broken an HTTP/2 connection.
    private func serveSeparately(_ transfer: Transfer) {
        let goesOverHTTP1 = settings.http2 == .auto && (transfer.needsHTTP1 || offer.isHTTP1Known)
        transfer.needsHTTP1 = goesOverHTTP1
        if !transfer.needsNewConnection {
            if goesOverHTTP1, let idle = takeIdle(isForWrite: !transfer.request.isRepeatable) { return idle.choose(for: transfer) }
            let own = multiplexed.first { $0.isApart && $0.isUnused && $0.hasCapacity && isAlive($0, for: transfer) }
            if !goesOverHTTP1, let own { return own.begin(transfer) }
        }
        guard makeSpace() else { return failForCapacity(transfer) }
        makeConnection(for: transfer)
    }

    /// Separates the requests of a connection that broke the HTTP/2 rules. A single request caused the violation itself. Of several, any
    /// may have caused it.
    func separateAfterViolation(_ transfers: [Transfer]) {
        if transfers.count == 1 {
            let request = transfers[0].request
            client.separatedRequests.note(path: request.pathNumber, client: request.client, at: client.coarseNow)
            transfers[0].needsHTTP1 = settings.http2 == .auto
        } else {
            suspect(transfers)
        }
        for transfer in transfers { transfer.isSeparated = true }
    }

    /// Suspects requests that had no complete response when their shared connection ended: similar requests get separate connections for a
    /// while. Streams are on many connections that end, so their paths are not suspected.
    func suspect(_ transfers: [Transfer]) {
        let suspects = transfers.filter { !$0.isSeparated }
        let paths = suspects.filter { !$0.isStream }.map(\.request.pathNumber)
        client.separatedRequests.suspect(
            paths: Set(paths), clients: Set(suspects.compactMap(\.request.client)), at: client.coarseNow)
    }

    /// Records that a request ended its separate connection.
    func confirmSuspicion(of transfer: Transfer) {
        client.separatedRequests.confirm(path: transfer.request.pathNumber, client: transfer.request.client, at: client.coarseNow)
    }

    /// Returns whether an HTTP/1.1 response of an upstream that prefers HTTP/2 can be used. Such servers may respond to every HTTP/1.1
    /// request with an error. A good response, or HTTP_1_1_REQUIRED over HTTP/2, proves that HTTP/1.1 is supported.
    /// - Returns: false if the response is inconclusive.
    func isMeant(_ status: Status, to transfer: Transfer) -> Bool {
        guard hasSpokenHTTP2, settings.http2 == .auto, !offer.isHTTP1Known else { return true }
        if status.isSuccessful || status.isRedirection || status == 101 {
            offer.isHTTP1Known = true
            return true
        }
        guard !transfer.needsOwnConnection, transfer.request.content != .tunnel else { return true }
        if !offersHTTP2 {
            offer.resume(at: client.coarseNow)
            expected = .http2
        }
        return false
    }

    private func isFitting(_ connection: HTTP2OriginConnection, for transfer: Transfer) -> Bool {
        guard connection.mayCarry(transfer), !connection.isApart, isAlive(connection, for: transfer) else { return false }
        // After finding a dead connection, the request uses a newer one that has had no response yet. Older or used connections may be
        // dead too.
        if let dead = transfer.newestWhenFoundDead, connection.wasUsed || connection.number <= dead { return false }
        return true
    }

    /// Whether the upstream was heard so recently that it will not have ended the connection.
    private func isAlive(_ connection: HTTP2OriginConnection, for transfer: Transfer) -> Bool {
        guard !connection.isSilent(at: client.coarseNow) else { return false }
        return transfer.request.isRepeatable || client.coarseNow - connection.heardAt <= settings.idleForWrites.wholeMilliseconds
    }

    /// Closes connections that were idle for too long or have ended.
    private func endUnused() {
        for connection in multiplexed where connection.isUnused {
            if client.coarseNow - connection.usedAt >= Int64(settings.idleSeconds) * 1000 {
                connection.close(.unused)
            } else {
                connection.catchUp()
            }
        }
    }

    /// Adds a new HTTP/2 connection, which carries the requests that waited for it, and those that wait for other connections.
    func share(_ made: ConnectionAttempt.Made, for attempt: ConnectionAttempt) {
        client.counters[.upstreamHTTP2Connections] += 1
        hasSpokenHTTP2 = true
        guard let connection = HTTP2OriginConnection(made.stream, made.times, number: madeCount, isApart: attempt.isApart, self) else {
            made.stream.close()
            offerCapacity()
            for transfer in attempt.transfers {
                releaseShares(of: transfer)
                transfer.end(.failed(.proxyInternalError))
            }
            return
        }
        connection.peer = peer(of: made.stream)
        // A second unused connection is not needed.
        guard !attempt.transfers.isEmpty || !(attempt.isApart || multiplexed.contains { $0.hasCapacity && !$0.isApart }) else {
            return connection.close(.unused)
        }
        multiplexed.append(connection)
        for transfer in attempt.transfers {
            if connection.mayCarry(transfer) { connection.begin(transfer) } else { startElsewhere(transfer) }
        }
        if !connection.isApart { takeOver(connection) }
        serveWaiting()
    }

    private func takeOver(_ connection: HTTP2OriginConnection) {
        for attempt in attempts.values where isCounted(attempt) && !attempt.isForOne && connection.hasCapacity {
            while let transfer = attempt.handOver(connection.mayCarry) { connection.begin(transfer) }
            if attempt.transfers.isEmpty { cancel(attempt) }
        }
    }

    /// Records the stream limit that a connection's peer has stated.
    func noteStreams(_ count: Int) {
        expectedStreams = count
        if count == 0 { note(.takesNoStreams) }
        serveWaiting()
    }

    func remove(_ connection: HTTP2OriginConnection, _ cause: ConnectionEnd) {
        client.counters.labelled.count(.upstreamEnded, of: cause)
        multiplexed.removeAll { $0 === connection }
        offerCapacity()
    }

    /// Records a problem with HTTP/2. HTTP/1.1 may be used for a while afterwards.
    func note(_ event: ProtocolOffer.Event) {
        guard settings.http2 == .auto, offer.handle(event, at: client.coarseNow) else { return }
        expected = .http1
        for connection in multiplexed { connection.drain(.closedByPeer) }
    }

    func sweep(at now: Int64) {
        for connection in multiplexed { connection.checkIsResponsive(at: now) }
        // The delay after a stream limit of 0 may have passed.
        serveWaiting()
        giveUpSlowestOfShares(at: now)
        giveUpSlowUploads(at: now)
    }
}
