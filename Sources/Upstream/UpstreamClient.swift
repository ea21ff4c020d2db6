// Asks the origin: starts transfers, keeps those that run, ends them when a time-out has passed. What carries them is chosen once: HTTP/1.1
// without TLS is spoken here, on connections that libcurl makes; everything else is libcurl's from end to end.

import HTTPCore
import Reactor

package struct UpstreamCounters: Sendable {
    package var active = 0
    package var connectionsOpened = 0
    package var requests = 0
    /// Not sent, since too many waited.
    package var turnedAway = 0
    /// Sent for the second time.
    package var retries = 0
}

/// Belongs to one loop and is used on it only.
package final class UpstreamClient {
    package let settings: UpstreamSettings
    package internal(set) var counters = UpstreamCounters()
    /// Milliseconds of the loop's clock, as of the last sweep or start.
    private(set) var coarseNow: Int64
    let loop: EventLoop

    private var active: [Transfer] = []
    private let curl: CurlMulti
    private var connections: OriginConnections?
    private var isSweeping = false
    private var isClosed = false
    private var retryBudget: RetryBudget
    /// Called on the loop when a connection was made, or could not be: with nil, or with a failure to reach the upstream.
    package var onConnectionAttempt: ((UpstreamError?) -> Void)?

    /// How exactly time-outs are kept.
    private static let sweepInterval = Duration.milliseconds(50)

    package init(loop: EventLoop, settings: UpstreamSettings) {
        self.loop = loop
        self.settings = settings
        coarseNow = loop.time.monotonicMilliseconds
        retryBudget = RetryBudget(percent: settings.retryBudget)
        curl = CurlMulti(loop: loop, settings: settings)
        connections = OriginConnections(client: self, curl: curl)
    }

    deinit {
        precondition(isClosed, "an upstream client was dropped without being closed")
    }

    /// Starts to ask. The receiver is held until the end; callbacks come from the loop, never from within this call.
    /// - Returns: nil where too many requests wait already.
    package func start(_ request: UpstreamRequest, receiver: any TransferReceiver) -> Transfer? {
        guard !isClosed else { return nil }
        coarseNow = loop.time.monotonicMilliseconds
        let transfer = Transfer(client: self, request: request, receiver: receiver, now: coarseNow)
        guard begin(transfer) else {
            counters.turnedAway += 1
            return nil
        }
        if !request.usesNewConnection { retryBudget.earn() }
        transfer.place = active.count
        active.append(transfer)
        counters.active += 1
        counters.requests += 1
        startSweeping()
        return transfer
    }

    private func begin(_ transfer: Transfer) -> Bool {
        if settings.isPlainHTTP1 { return connections?.start(transfer) ?? false }
        guard counters.active < settings.maximumConnections + settings.queueLimit else { return false }
        CurlTransfer.start(transfer, curl)
        return true
    }

    /// Makes a connection in the background, within the time-out for connecting, and keeps it for a later request where there is room.
    /// - Parameter completion: called on the loop, never from within this call: with nil, or with why none came to be.
    package func attemptConnection(_ completion: @escaping (UpstreamError?) -> Void) {
        connections?.attemptConnection(completion)
    }

    func notifyOfAttempt(_ error: UpstreamError?) { onConnectionAttempt?(error) }

    /// Sends a request for the second time, on a new connection, where the budget allows it.
    package func retry(_ request: UpstreamRequest, receiver: any TransferReceiver) -> Transfer? {
        guard settings.retries, retryBudget.spend() else { return nil }
        var again = request
        again.usesNewConnection = true
        counters.retries += 1
        return start(again, receiver: receiver)
    }

    /// Ends everything; receivers hear nothing more.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        connections?.close()
        for transfer in active {
            transfer.receiver = nil
            end(transfer)
        }
        connections = nil
        curl.close()
    }

    // MARK: Transfers

    /// The end that the carrier saw, or that we set. The receiver is told, if there still is one.
    /// - Parameter error: nil where the answer is whole, or nobody is to be told.
    func end(_ transfer: Transfer, _ error: UpstreamError? = nil) {
        guard transfer.phase != .ended else { return }
        let place = transfer.place
        active[place] = active[active.count - 1]
        active[place].place = place
        active.removeLast()
        counters.active -= 1
        transfer.carrier?.abandon(transfer)
        transfer.finished(error)
    }

    // MARK: Time-outs

    private func startSweeping() {
        guard !isSweeping else { return }
        isSweeping = true
        loop.schedule(after: Self.sweepInterval) { self.sweep() }
    }

    private func sweep() {
        isSweeping = false
        guard !isClosed else { return }
        coarseNow = loop.time.monotonicMilliseconds
        var overdue: [(Transfer, UpstreamError)] = []
        for transfer in active {
            if let error = transfer.overdue(at: coarseNow) { overdue.append((transfer, error)) }
        }
        for (transfer, error) in overdue where transfer.phase != .ended {
            transfer.failure = error
            if !settings.isPlainHTTP1, error.isFailureToReach { notifyOfAttempt(error) }
            end(transfer, error)
        }
        if !active.isEmpty { startSweeping() }
    }
}
