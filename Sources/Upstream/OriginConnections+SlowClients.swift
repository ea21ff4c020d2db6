// Ends responses and uploads of slow clients, which occupy upstream connections, when other requests wait for a connection. If a client
// does not read, its response is paused.

import Figures
import Reactor

extension OriginConnections {
    /// Minimum pause before a response is given up for the requests of one share, in milliseconds. A pause ends when the client has taken
    /// about 192 KiB, so downloads over slow networks pause for seconds.
    private static let minimumPause: Int64 = 10_000

    func noteHeldBack(_ transfer: Transfer) {
        heldBack.append((transfer, client.coarseNow))
        giveUpSlowest()
    }

    func noteResumed(_ transfer: Transfer) { heldBack.removeAll { $0.transfer === transfer } }

    /// Ends paused responses if requests wait and such responses hold more than half of the connections. Otherwise clients that hardly
    /// read could block all others. Requests that wait for their own client, which may be a proxy, end only responses of this client.
    func giveUpSlowest() {
        guard heldBack.count > settings.maximumConnections / 2 else { return }
        loop.atEndOfBatch { [self] in
            while !isClosed, heldBack.count > settings.maximumConnections / 2, !waiting.isReadyEmpty, !hasCapacity {
                giveUp(heldBack.removeFirst().transfer)
            }
            serveWaiting()
            for client in isClosed ? [] : waiting.blockingClients {
                let paused = heldBack.filter { $0.transfer.request.shares.contains { $0.name == client } }
                if paused.count > settings.maximumConnections / 2 { giveUp(paused[0].transfer) }
            }
        }
    }

    /// Ends the longest paused response of each share that keeps requests waiting, if paused responses hold more than half of the share's
    /// connections. A request that waits only for requests of its own client ends none.
    func giveUpSlowestOfShares(at now: Int64) {
        guard waitingCount > 0, let longest = heldBack.first, now - longest.since >= Self.minimumPause else { return }
        let blocking = waiting.blockingShares
        var paused: [ConnectionShare.Name: (first: Transfer, since: Int64, count: Int)] = [:]
        for (transfer, since) in heldBack {
            for share in transfer.request.shares where blocking.contains(share.name) {
                paused[share.name, default: (transfer, since, 0)].count += 1
            }
        }
        for (name, slow) in paused where slow.count > waiting.held(by: name) / 2 && now - slow.since >= Self.minimumPause {
            giveUp(slow.first)
        }
    }

    /// Minimum bytes that a client sends between two measurements, which are `minimumPause` apart, while other uploads wait.
    private static let minimumUploadBytes = 10 << 10

    /// Ends slow uploads, oldest first: one for each request that waits because all uploads together hold their share of the connections.
    func giveUpSlowUploads(at now: Int64) {
        guard !uploads.isEmpty else { return }
        if now - uploadsMeasuredAt >= Self.minimumPause {
            uploadsMeasuredAt = now
            for upload in uploads { upload.measureUpload(Self.minimumUploadBytes) }
        }
        for upload in uploads.filter(\.isSlowUpload).prefix(waiting.blockedCount(by: .streamedContent)) { giveUp(upload) }
    }

    private func giveUp(_ slow: Transfer) {
        client.counters[.upstreamSlowGivenUp] += 1
        slow.giveUp(.connectionLimitReached)
    }
}
