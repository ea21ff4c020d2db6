// The response to a write is held until its invalidation marks have reached the store's files, the process that takes over, and the fleet
// log. The client may then send its next request to any process or node. Each wait is limited.

import Explanation
import HTTPCore
import Reactor
import ResponseCache
import Sharing
import Upstream

/// The fetches of one loop that wait until their marks are in the store's files. The limit also holds if the disk hangs.
typealias MarkPatience = PatienceLine<Fetch>

extension MarkPatience {
    /// Maximum time that a response waits for its marks, in milliseconds.
    static var milliseconds: Int64 { 50 }

    convenience init(loop: EventLoop) {
        self.init(loop: loop, milliseconds: Self.milliseconds) { $0.endMarkWait(isWritten: false) }
    }
}

/// What the transfer delivers after its head while the response is held. The content is that of one read at most, because the transfer is
/// paused.
final class HeldResponse {
    enum End {
        case ended(isDelimited: Bool)
        case failed(UpstreamError)
    }

    var content: [UInt8] = []
    var end: End?
    /// Index in `MarkPatience`; nil once the wait for the marks has ended.
    fileprivate var place: Int?
}

extension Fetch {
    /// Whether the response may follow a change, so that clients of other processes and nodes may have to be notified first.
    var mayBeAwaited: Bool { !subject.head.method.isSafe && subject.place == nil && shard.cache != nil }

    /// What the response to a write did not wait for, as text for Cache-Status; nil if it waited for everything.
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
        guard let transfer, let response else { return }
        use(response, of: transfer)
        let content = held.content
        if !content.isEmpty, self.transfer != nil { self.transfer(transfer, content: content.span) }
        guard self.transfer != nil else { return }
        switch held.end {
        case nil: transfer.resume()
        case .ended(let isDelimited): transferEnded(transfer, isDelimited: isDelimited)
        case .failed(let error): transferFailed(transfer, error)
        }
    }
}
