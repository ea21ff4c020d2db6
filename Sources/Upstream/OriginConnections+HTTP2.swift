// Connections on which HTTP/2 is spoken: which of them a request gets, when another is made, and what follows for those that wait. The choice is
// `ConnectionChoice`'s.

import Figures
import HTTP2
import HTTPCore
import Reactor

extension OriginConnections {
    /// Whether there is anything to choose between. While it is not known what the upstream speaks, each request has a connection made for it, as
    /// in HTTP/1.1: nobody waits longer than there. The first of them that turns out to speak HTTP/2 takes all of them over.
    var speaksHTTP2: Bool { expected == .http2 || !shared.isEmpty }

    /// Whether the next request finds a stream or a connection, or one may be made for it.
    var hasRoomInHTTP2: Bool {
        (mayMake && !isHeld) || !idle.isEmpty || joinable != nil
            || shared.contains { (!$0.isApart && $0.hasRoom) || ($0.isUnused && !isHeld) }
    }

    /// Whether HTTP/2 may be spoken on connections that are made now.
    var offersHTTP2: Bool { settings.http2 != .auto || offer.offersHTTP2(at: client.coarseNow) }

    /// A connection is there that takes no requests, as the upstream has just said of it. It will soon (RFC 9113 §6.5.2), and another would cost a
    /// handshake to hear the same: what comes waits for a moment.
    private var isHeld: Bool { shared.contains { !$0.isApart && $0.takesNone(since: client.coarseNow - Self.joinableMilliseconds) } }

    /// One that is being made, and will have room for one more. What takes long to make is not waited for by those who come then: a packet may
    /// have been lost on its way, and another is there sooner, for all.
    private var joinable: ConnectionAttempt? {
        guard expected == .http2 else { return nil }
        return attempts.values.first {
            isCounted($0) && !$0.isForOne && $0.transfers.count < joinedAtMost
                && client.coarseNow - $0.beganAt < Self.joinableMilliseconds
        }
    }

    private static let joinableMilliseconds: Int64 = 1_000

    /// Where the last connection took none, what this one takes is not known before it says so.
    private var joinedAtMost: Int { expectedStreams > 0 ? expectedStreams : HTTP2OriginConnection.maximumExchanges }

    func serveInHTTP2(_ transfer: Transfer) {
        endUnused()
        if transfer.isKeptApart { return serveKeptApart(transfer) }
        let fitting = shared.first { isFitting($0, for: transfer) }
        let any = shared.first { $0.hasRoom && !$0.isApart }
        let unused = shared.first { $0.isUnused }
        let joined = fitting == nil ? joinable : nil
        let choice = ConnectionChoice(
            hasStream: fitting != nil, hasAnyStream: any != nil, hasKept: !idle.isEmpty && !transfer.needsNewConnection,
            mayJoin: joined != nil, mayMake: mayMake && !isHeld, hasUnused: (unused != nil && !isHeld) || !idle.isEmpty
        ).choice
        switch choice {
        case .stream: fitting?.begin(transfer)
        case .kept: serveInHTTP1(transfer)
        case .join: joined?.take(transfer)
        case .make, .replace:
            // One that is there and was not good enough would not be for others either.
            unused?.close(.unused)
            if mayMake { makeConnection(for: transfer) } else { serveInHTTP1(transfer) }
        case .anyStream: any?.begin(transfer)
        // An idle one turned out to be dead just now.
        case nil: startElsewhere(transfer)
        }
    }

    /// Over HTTP/1.1 where the upstream was seen to speak that, or nothing else has broken the connection.
    private func serveKeptApart(_ transfer: Transfer) {
        let goesOverHTTP1 = settings.http2 == .auto && (transfer.needsHTTP1 || offer.isHTTP1Known)
        transfer.needsHTTP1 = goesOverHTTP1
        if !goesOverHTTP1, !transfer.needsNewConnection, let own = shared.first(where: { $0.isApart && $0.isUnused && $0.hasRoom }) {
            return own.begin(transfer)
        }
        guard makeRoom() else { return turnAway(transfer) }
        makeConnection(for: transfer)
    }

    /// HTTP/2's rules were broken on a connection that carried these. Where it was one, that one did it; else it may be any of them, and none is to break
    /// another.
    func keepApart(_ transfers: [Transfer]) {
        if transfers.count == 1 {
            let request = transfers[0].request
            client.keptApart.note(path: request.pathNumber, client: request.client, at: client.coarseNow)
            transfers[0].needsHTTP1 = settings.http2 == .auto
        }
        for transfer in transfers { transfer.isKeptApart = true }
    }

    /// Judges a response over HTTP/1.1 of an upstream that speaks HTTP/2 by itself: such servers may respond to HTTP/1.1 with an error, whatever is asked
    /// for. What is good proves that HTTP/1.1 can be spoken.
    /// - Returns: false if the response says nothing.
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
        guard connection.hasRoom, !connection.isApart else { return false }
        // What found a connection dead goes over a new one: others may be as well, also those made since, once they were used.
        if let dead = transfer.newestWhenFoundDead, connection.wasUsed || connection.number <= dead { return false }
        let isForWrite = !transfer.request.isRepeatable
        return !isForWrite || client.coarseNow - connection.heardAt <= settings.idleForWrites.wholeMilliseconds
    }

    /// Those that have carried nothing for too long, and those that are found ended.
    private func endUnused() {
        for connection in shared where connection.isUnused {
            if client.coarseNow - connection.usedAt >= Int64(settings.idleSeconds) * 1000 {
                connection.close(.unused)
            } else {
                connection.catchUp()
            }
        }
    }

    /// A connection was made, and speaks HTTP/2: it carries those that waited for it, and those that wait for others.
    func share(_ made: ConnectionAttempt.Made, for attempt: ConnectionAttempt) {
        client.counters[.upstreamHTTP2Connections] += 1
        hasSpokenHTTP2 = true
        guard let connection = HTTP2OriginConnection(made.stream, made.times, number: madeCount, isApart: attempt.isApart, self) else {
            made.stream.close()
            giveRoom()
            for transfer in attempt.transfers {
                releaseShares(of: transfer)
                transfer.end(.failed(.proxyInternalError))
            }
            return
        }
        connection.peer = peer(of: made.stream)
        // Nobody needs a second one that carries nothing.
        guard !attempt.transfers.isEmpty || !(attempt.isApart || shared.contains { $0.hasRoom && !$0.isApart }) else {
            return connection.close(.unused)
        }
        shared.append(connection)
        for transfer in attempt.transfers {
            if connection.hasRoom { connection.begin(transfer) } else { startElsewhere(transfer) }
        }
        if !connection.isApart { takeOver(connection) }
        serveWaiting()
    }

    private func takeOver(_ connection: HTTP2OriginConnection) {
        for attempt in attempts.values where isCounted(attempt) && !attempt.isForOne && connection.hasRoom {
            for transfer in attempt.handOver(atMost: connection.room) { connection.begin(transfer) }
            if attempt.transfers.isEmpty { cancel(attempt) }
        }
    }

    /// How many streams a connection takes, as its peer has said.
    func noteStreams(_ count: Int) {
        expectedStreams = count
        if count == 0 { note(.takesNoStreams) }
        serveWaiting()
    }

    /// An exchange is over: its stream is free, and one that was to end after its last may.
    func noteFree() { serveWaiting() }

    func remove(_ connection: HTTP2OriginConnection, _ cause: ConnectionEnd) {
        client.counters.ended[cause, default: 0] += 1
        shared.removeAll { $0 === connection }
        giveRoom()
    }

    /// Something went wrong with HTTP/2: perhaps HTTP/1.1 is spoken for a while, where no response concerns others.
    func note(_ event: ProtocolOffer.Event) {
        guard settings.http2 == .auto, offer.handle(event, at: client.coarseNow) else { return }
        expected = .http1
        for connection in shared { connection.drain(.closedByPeer) }
    }

    func sweep(at now: Int64) {
        for connection in shared { connection.checkIsResponsive(at: now) }
        // A connection that took none may be waited for no longer.
        serveWaiting()
    }
}
