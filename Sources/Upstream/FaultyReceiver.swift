// Injects faults: stands between a transfer and its receiver, and applies the effect of a fault. For the receiver, the result looks like a
// response of the upstream. The cause of an error says that it was injected.

import HTTPCore
import Reactor

final class FaultyReceiver: TransferReceiver {
    private static let cut = UpstreamError(.responseIncomplete, .injected)

    private let receiver: any TransferReceiver
    private let fault: InjectedFault
    private var response: FaultyResponse
    private var held = Held()
    private var timer: LoopTimer?

    /// Parts of the response that are held back. At most one read of content, because the transfer is then paused.
    private struct Held {
        var head: ResponseHead?
        var content: [UInt8] = []
        /// How the response ended (`transferEnded`).
        var isDelimited: Bool?
    }

    /// - Parameter delay: milliseconds.
    init(_ receiver: any TransferReceiver, _ fault: InjectedFault, delay: Int64) {
        self.receiver = receiver
        self.fault = fault
        response = FaultyResponse(fault.effect, isDelayed: delay > 0)
    }

    /// Starts the fault, once the transfer is active.
    /// - Parameter isSent: whether the request is sent to the upstream.
    func begin(_ transfer: Transfer, delay: Int64, isSent: Bool) {
        if !isSent { transfer.beginRequest(TransferTimes()) }
        guard delay > 0 || !isSent else { return }
        let limit = transfer.client.limits.firstByte
        timer = transfer.client.loop.schedule(after: .milliseconds(min(delay, limit))) { [self] in
            if isSent {
                release(transfer)
            } else if delay < limit {
                respond(transfer)
            } else {
                transfer.giveUp(UpstreamError(.connectionReadTimeout, .injected))
            }
        }
    }

    /// Sends a generated response instead of the upstream's.
    private func respond(_ transfer: Transfer) {
        _ = response.handle(.waitOver)
        switch fault.effect {
        case .refuse: transfer.giveUp(UpstreamError(.connectionRefused, .injected))
        case .reset: transfer.giveUp(UpstreamError(.connectionTerminated, .injected))
        case .status(let status):
            respond(transfer, status, "{\"error\":\"This response was injected by Cistern to simulate an outage.\"}")
        case .badJSON: respond(transfer, 200, "{\"error\":\"This response was injected by Cistern, and is cut off h")
        case .none, .cut, .slow: break
        }
    }

    private func respond(_ transfer: Transfer, _ status: Status, _ text: String) {
        var fields = Fields()
        fields.append(.contentType, "application/json")
        fields.append(.contentLength, String(text.utf8.count))
        // Invalid JSON has no `no-store`, so that its invalid content is the reported reason.
        if fault.effect != .badJSON { fields.append(.cacheControl, "no-store") }
        transfer.take(final: ResponseHead(status: status, fields: fields))
        if transfer.request.method != .head { transfer.receiver?.transfer(transfer, content: Array(text.utf8).span) }
        transfer.end(.whole(isDelimited: true))
    }

    /// Ends a delay.
    private func release(_ transfer: Transfer) {
        timer = nil
        guard !transfer.isCancelled else { return }
        let action = response.handle(.waitOver)
        let held = held
        self.held = Held()
        if let head = held.head { self.transfer(transfer, received: head) }
        if case .passOnHeld = action {
            receiver.transfer(transfer, content: held.content.span)
        } else if !held.content.isEmpty {
            self.transfer(transfer, content: held.content.span)
        }
        if let isDelimited = held.isDelimited { transferEnded(transfer, isDelimited: isDelimited) }
        if timer == nil { transfer.release() }
    }

    // MARK: Events of the transfer

    func transferBegins() { receiver.transferBegins() }

    func transfer(_ transfer: Transfer, informational head: ResponseHead) { receiver.transfer(transfer, informational: head) }

    func transfer(_ transfer: Transfer, received head: consuming ResponseHead) {
        guard case .hold = response.handle(.headCame(contentLength: head.contentLength)) else {
            return receiver.transfer(transfer, received: head)
        }
        held.head = head
        transfer.hold()
    }

    func transfer(_ transfer: Transfer, content bytes: Span<UInt8>) {
        switch response.handle(.contentCame(bytes: bytes.count)) {
        case .passOn, .release, .passOnHeld: receiver.transfer(transfer, content: bytes)
        case .hold: held.content.append(copying: bytes)
        case .holdFor(let milliseconds):
            held.content.append(copying: bytes)
            transfer.hold()
            timer = transfer.client.loop.schedule(after: .milliseconds(milliseconds)) { self.release(transfer) }
        case .breakAfter(let count):
            receiver.transfer(transfer, content: bytes.extracting(first: count))
            breakOff(transfer)
        }
    }

    func transferEnded(_ transfer: Transfer, isDelimited: Bool) {
        switch response.handle(.ended) {
        case .hold, .holdFor: held.isDelimited = isDelimited
        case .breakAfter: receiver.transferFailed(transfer, Self.cut)
        case .passOn, .release, .passOnHeld: receiver.transferEnded(transfer, isDelimited: isDelimited)
        }
    }

    /// Truncates the response. The transfer may have ended already.
    private func breakOff(_ transfer: Transfer) {
        if transfer.hasEnded { receiver.transferFailed(transfer, Self.cut) } else { transfer.giveUp(Self.cut) }
    }

    func transferFailed(_ transfer: Transfer, _ error: UpstreamError) {
        timer?.cancel()
        receiver.transferFailed(transfer, error)
    }

    func transferDrained(_ transfer: Transfer) { receiver.transferDrained(transfer) }
}
