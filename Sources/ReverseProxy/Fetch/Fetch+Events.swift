// Events that reach a fetch: from its client, and from the transfer. Most enter the loop at `handle`.

import CachePolicy
import Decisions
import Forwarding
import HTTPCore
import Identity
import Reactor
import ResponseCache
import Upstream

extension Fetch {
    /// End times of the phases of the transfer.
    var times: TransferTimes { transfer?.times ?? TransferTimes() }

    /// Protocol of the connection that carries the request, or carried it.
    var spoken: SpokenProtocol? { transfer?.spoken }

    /// Whether the outcome comes from an injected fault.
    var isFaulted: Bool { transfer?.fault != nil }

    /// Returns false if the exchange must wait for `fetchDrained` before it writes more.
    func write(_ bytes: Span<UInt8>) -> Bool {
        context.loop.assertOnLoop()
        return transfer?.write(bytes) ?? true
    }

    func endContent() {
        context.loop.assertOnLoop()
        transfer?.endContent()
    }

    /// A response that is collected is not paused, so that a slow client does not delay the store and other clients.
    func pause() {
        context.loop.assertOnLoop()
        if forwarded == nil { transfer?.pause() }
    }

    func resume() {
        context.loop.assertOnLoop()
        transfer?.resume()
    }

    /// Whether the fetch may be cancelled while it waits for a connection: nothing has been sent, it changes nothing, and no request
    /// follows it. A complete write is not cancelled, because its client may assume that it succeeds.
    var mayLeaveQueue: Bool {
        context.loop.assertOnLoop()
        guard case .awaitingHead = machine.state, transfer?.isQueued == true, subject.isReading else { return false }
        return flight.map { !context.coordination.collapsed.hasFollowers($0) } ?? true
    }

    /// Called when the client has disconnected. A fetch that fills the store continues, unless it still waits for a connection that other
    /// requests need. A request that was sent completely continues too, because it may change something.
    /// - Parameter successor: becomes the receiver of a fetch that continues.
    func abandon(isRequestWhole: Bool, to successor: BackgroundRecord) {
        (receiver, self.successor) = (nil, successor)
        handle(.abandoned(mayBeStopped: !isRequestWhole || mayLeaveQueue))
        self.successor = nil
    }
}

extension Fetch: TransferReceiver {
    /// Records the time when the request is sent. It may have waited for a connection, or be a retry.
    func transferBegins(_ transfer: Transfer) { noteSending() }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) {
        receiver?.fetchInformed(head.removingHopByHop())
    }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        context.loop.assertOnLoop()
        recency.responseTime = context.loop.now
        context.reporting.countResponse(head, transfer.times)
        address = transfer.address
        if address > 0 { head = context.rules.withReferencesToFirstAddress(head, from: address) }
        var upgrade: [UInt8]?
        if head.status == 101 {
            guard Upgrade.isAccepted(by: head, offered: transfer.request.fields) else {
                return handle(.decided(.fail(.unexpectedStatus)))
            }
            upgrade = Array(head.fields.first(.upgrade) ?? [])
        }
        if ConnectionAuthentication.challenge(in: head.fields) != nil {
            isOfConnectionUser = true
            receiver?.fetchChallenged(transfer)
        }
        noteStatus(of: head)
        let hasUnwrittenMarks = invalidate(after: head)
        noteIdentity(head)
        head.removeHopByHop()
        if let upgrade { head.fields.append(.upgrade, upgrade) }
        status = head.status
        guard mustHold(hasUnwrittenMarks: hasUnwrittenMarks) else { return use(head, of: transfer) }
        response = head
        hold(transfer)
    }

    /// Discards the identities of the request's tokens if the response may have changed which user they identify.
    private func noteIdentity(_ response: ResponseHead) {
        identityWrite?.isRejected = response.status.rawValue / 100 == 4
        identityWrite = nil
        context.noteIdentity(response, to: subject.head)
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        context.reporting.countResponseBytes(bytes.count)
        if let held { return held.content.append(copying: bytes) }
        let fits = collected.bytes.count + bytes.count <= context.rules.bufferLimitBytes
        handle(.contentArrived(bytes: bytes.count, fits: fits), content: bytes)
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        if let held {
            held.end = .ended(isDelimited: isDelimited)
            return
        }
        handle(.transferEnded(isDelimited: isDelimited))
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        if let held {
            held.end = .failed(error)
            return
        }
        context.reporting.countUpstreamError(error)
        // The end of a stream is no evidence about other requests.
        if !report.isStream { note(error) }
        handle(.transferFailed(error))
    }

    func transferDrained(_ transfer: Transfer) { receiver?.fetchDrained() }
}
