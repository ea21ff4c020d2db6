// Forwards a long response to the client while it is collected for the store. The piece that completes its length, or its end, waits for the
// result of the examination, so that the client never takes truncated content for complete.

import Decisions
import HTTPCore
import Upstream

extension Fetch {
    /// Forwards the response from now on, unless it must be held.
    func startForwarding() {
        guard case .collecting(let purpose) = machine.state, let response, let receiver,
            purpose.isForwarded(response, to: subject.head, mayRescue: subject.mayRescue, hasSharedRescue)
        else { return }
        if receiver.streamBegan(response, length: response.contentLength, notStored: nil) { forwarded = 0 }
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
