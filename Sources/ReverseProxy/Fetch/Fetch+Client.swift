// A fetch and its client: events of the client, and responses that are forwarded while they arrive. A long response is forwarded while it
// is collected for the store. The piece that completes its length, or its end, waits for the result of the examination, so that the client
// never takes truncated content for complete.

import CachePolicy
import Decisions
import Explanation
import Forwarding
import HTTPCore
import JSON
import Reactor
import ResponseCache
import Tracing
import Upstream

extension Fetch {
    // MARK: Events of the client

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
    /// follows it. An unsent write is not cancelled, because its client may assume that it succeeds.
    var mayLeaveQueue: Bool {
        context.loop.assertOnLoop()
        return transfer?.isQueued == true && subject.isReading && isForOwnClient
    }

    /// Whether other requests may wait for the fetch.
    var isInFlight: Bool { flight != nil }

    /// Whether the whole request was sent.
    var isSent: Bool { transfer?.isSent ?? false }

    /// Whether other nodes may wait for the response.
    var holdsLease: Bool { context.coordination.level.isShared && subject.fetchTarget?.takesLease == true }

    /// Whether no response has arrived, and no other request of this node needs it.
    var isForOwnClient: Bool {
        guard case .awaitingHead = machine.state else { return false }
        return flight.map { !context.coordination.collapsed.isShared($0, by: subject.scopes.client) } ?? true
    }

    /// Called when the exchange needs the fetch no longer. A fetch may continue, unless it still waits for a connection that other requests
    /// need.
    /// - Parameters:
    ///   - mayContinue: false if the fetch must end.
    ///   - successor: becomes the receiver of a fetch that continues.
    func abandon(isRequestWhole: Bool, mayContinue: Bool, to successor: BackgroundRecord) {
        (receiver, self.successor) = (nil, successor)
        transfer?.forwards(false)
        handle(.abandoned(mayBeStopped: !isRequestWhole || mayLeaveQueue || !mayContinue))
        self.successor = nil
    }

    // MARK: Streams

    /// Admits a stream if the limit on connections that streams occupy permits it.
    func admit(_ decision: ResponseDecision) -> ResponseDecision {
        guard decision == .stream(.stream) else { return decision }
        guard transfer?.becomeStream() ?? false else { return .refuseStream }
        report.isStream = true
        noteSuccess()
        return decision
    }

    func stream(length: Int?, _ reason: NotStoredReason) -> FetchMachine.Event? {
        guard let response = response.take() else { return nil }
        // A follower may meet this failure too. With this outcome it serves a stored response or sends its own request.
        endFlight(
            report.isTrouble
                ? .failed(.fault(.serverError, response.status)) : reason == .memoryLimit ? .overtaken : .unshareable)
        // Whether the response is good is known only at its end, which may be much later.
        context.coordination.health.reach(now: clock)
        if isPresent(response) { notePresent(response) }
        body = .none
        observeUnstored(response, reason)
        transfer?.forwards(true)
        let isWanted = receiver?.streamBegan(response, length: length, notStored: reason) ?? false
        return isWanted ? nil : .unwanted
    }

    func streamBuffered(followedBy content: Span<UInt8>, _ reason: NotStoredReason) -> FetchMachine.Event? {
        let buffered = collected.bytes
        collected.removeAll()
        if let unwanted = stream(length: nil, reason) { return unwanted }
        receiver?.streamBrought(buffered.span.extracting((forwarded.take() ?? 0)...))
        receiver?.streamBrought(content)
        return nil
    }

    func endStream() {
        if !report.isStream { noteSuccess() }
        finish { $0.streamEnded() }
    }

    func breakStream(_ error: UpstreamError) {
        span?.work.upstream.failure = .transfer(error)
        finish { $0.streamBroke(error) }
    }

    /// Forwards JSON that has a second value as a stream, unless a stored response could replace it. Above the limit on streams, the
    /// response stays one that is collected.
    func forwardStream() {
        guard case .collecting(.store) = machine.state, response?.contentLength == nil, !subject.mayRescue, !hasOtherRescue(),
            transfer?.becomeStream() == true
        else { return }
        report.isStream = true
        handle(.recognizedAsStream)
    }

    // MARK: Long responses

    /// Forwards the response from now on, unless it must be held.
    func startForwarding() {
        guard case .collecting(let purpose) = machine.state, let response, let receiver,
            purpose.isForwarded(response, to: subject.head, mayRescue: subject.mayRescue, hasOtherRescue)
        else { return }
        guard receiver.streamBegan(response, length: response.contentLength, notStored: nil) else { return }
        forwarded = 0
        transfer?.forwards(true)
    }

    /// - Parameter before: number of bytes that were collected before the last piece.
    func forwardCollected(since before: Int) {
        let (count, limit) = (collected.bytes.count, context.rules.holdLimitBytes)
        if forwarded == nil, before <= limit, count > limit, response?.contentLength == nil { startForwarding() }
        if forwarded != nil, count != response?.contentLength { forwardAll() }
    }

    /// Forwards collected content, however slowly the client reads: a response that is held is passed to the connection at once, too.
    func forwardAll() {
        guard let forwarded else { return }
        let bytes = collected.bytes
        self.forwarded = bytes.count
        receiver?.streamBrought(bytes.span.extracting(forwarded...))
    }
}
