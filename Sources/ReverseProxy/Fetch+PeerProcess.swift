// A response to a write is not seen before the process that takes over, and the log of the fleet, know what the write has changed: whoever has it may ask
// another next.

import HTTPCore
import Reactor
import Sharing
import Upstream

/// What a transfer has brought meanwhile, behind its head. Of content no more than one read brings: then the transfer is held.
final class HeldResponse {
    enum End {
        case ended(isDelimited: Bool)
        case failed(UpstreamError)
    }

    var content: [UInt8] = []
    var end: End?
}

extension Fetch {
    /// Whether its response tells of a change.
    var mayBeAwaited: Bool { !subject.head.method.isSafe && subject.place == nil && shard.cache != nil }

    func hold(_ transfer: Transfer) {
        held = HeldResponse()
        transfer.pause()
        shard.process.peer.whenKnown { [self] in
            shard.loop.execute {
                guard let level = self.shard.level else { return self.release() }
                level.whenTold { self.release() }
            }
        }
    }

    private func release() {
        shard.loop.assertOnLoop()
        guard let held else { return }
        self.held = nil
        guard let transfer = running, let response else { return }
        use(response, of: transfer)
        let content = held.content
        if !content.isEmpty, running != nil { self.transfer(transfer, content: content.span) }
        guard running != nil else { return }
        switch held.end {
        case nil: transfer.resume()
        case .ended(let isDelimited): transferEnded(transfer, isDelimited: isDelimited)
        case .failed(let error): transferFailed(transfer, error)
        }
    }
}
