// The response to a write goes out when three have what the write has changed: the store's files, since a killed process must not bring back what was stored
// before; the process that takes over; and the log of the fleet. Whoever has the response may ask another next.

import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Sharing
import Upstream

/// Those on one loop that wait until their marks are in the store's files. A disk that hangs never holds a client longer.
typealias MarkPatience = PatienceLine<Fetch>

extension MarkPatience {
    /// Milliseconds that a response waits for its marks at most.
    static var milliseconds: Int64 { 50 }

    convenience init(loop: EventLoop) {
        self.init(loop: loop, milliseconds: Self.milliseconds) { $0.endMarkWait(isWritten: false) }
    }
}

/// What a transfer has brought meanwhile, behind its head. Of content no more than one read brings: then the transfer is held.
final class HeldResponse {
    enum End {
        case ended(isDelimited: Bool)
        case failed(UpstreamError)
    }

    var content: [UInt8] = []
    var end: End?
    /// Its number among those that wait for their marks; nil: it waits no longer.
    fileprivate var place: Int?
}

extension Fetch {
    /// Whether its response tells of a change.
    var mayBeAwaited: Bool { !subject.head.method.isSafe && subject.place == nil && shard.cache != nil }

    /// What the response to a write did not wait for, as Cache-Status says it.
    var goesBefore: String? { goesBeforeMarks ? CacheStatus.goesBeforeMarks : goesBeforeNodes ? CacheStatus.goesBeforeNodes : nil }

    func hold(_ transfer: Transfer) {
        let held = HeldResponse()
        self.held = held
        transfer.pause()
        held.place = shard.markPatience.add(self, at: clock)
        guard let cache = shard.cache else { return endMarkWait(isWritten: true) }
        cache.shared.whenMarksWritten { [self] isWritten in
            shard.loop.execute { self.endMarkWait(isWritten: isWritten) }
        }
    }

    fileprivate func endMarkWait(isWritten: Bool) {
        guard let held, let place = held.place else { return }
        held.place = nil
        shard.markPatience.leave(place)
        if !isWritten {
            goesBeforeMarks = true
            shard.countUnwrittenMarks()
        }
        shard.process.peer.whenKnown { [self] in
            shard.loop.execute {
                guard let level = self.shard.level else { return self.release() }
                level.whenTold(since: self.lastToldBefore) { isTold in
                    self.goesBeforeNodes = !isTold
                    self.release()
                }
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
