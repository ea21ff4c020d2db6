// The response to a write is held until its invalidation marks have reached the store's files, the process that takes over, and the fleet
// log. The client may then send its next request to any process or node. Each wait is limited.

import Explanation
import Figures
import HTTPCore
import Reactor
import ResponseCache
import Upstream

/// Used on its loop only. `@unchecked Sendable` because other threads only queue work on that loop.
final class MarkPropagation: @unchecked Sendable {
    private final class Wait: @unchecked Sendable {
        let lastAnnounced: UInt64
        let then: (_ isWritten: Bool, _ isPropagated: Bool) -> Void
        /// Index among the waits for the store's files; nil once that wait has ended.
        var index: Int?

        init(since lastAnnounced: UInt64, then: @escaping (_ isWritten: Bool, _ isPropagated: Bool) -> Void) {
            (self.lastAnnounced, self.then) = (lastAnnounced, then)
        }
    }

    private let loop: EventLoop
    private let cache: APICacheState?
    private let peer: PeerProcess
    private let level: any FleetStorage
    /// Waits for the store's files. The limit also holds if the disk hangs.
    private lazy var waits = PatienceLine<Wait>(loop: loop, milliseconds: Self.milliseconds) { [unowned self] in
        end($0, isWritten: false)
    }

    /// Maximum wait for the store's files, in milliseconds.
    private static let milliseconds: Int64 = 50

    init(loop: EventLoop, cache: APICacheState?, peer: PeerProcess, level: any FleetStorage) {
        (self.loop, self.cache, self.peer, self.level) = (loop, cache, peer, level)
    }

    /// Whether changes have not reached the other process or the fleet log yet.
    var isUnderWay: Bool { peer.isAwaited || level.isAwaited }

    /// Waits until all changes have been propagated.
    /// - Parameters:
    ///   - lastAnnounced: `FleetStorage.lastAnnounced` before the change.
    ///   - then: called on the loop: whether the marks are in the store's files, and whether they are in the fleet log.
    func wait(since lastAnnounced: UInt64, then: @escaping @Sendable (_ isWritten: Bool, _ isPropagated: Bool) -> Void) {
        let wait = Wait(since: lastAnnounced, then: then)
        wait.index = waits.add(wait, at: loop.batchMilliseconds)
        guard let cache else { return end(wait, isWritten: true) }
        cache.whenMarksWritten { [self] isWritten in
            loop.execute { self.end(wait, isWritten: isWritten) }
        }
    }

    private func end(_ wait: Wait, isWritten: Bool) {
        guard let index = wait.index.take() else { return }
        waits.leave(index)
        peer.whenKnown { [self] in
            loop.execute { self.level.whenPropagated(since: wait.lastAnnounced) { isPropagated in wait.then(isWritten, isPropagated) } }
        }
    }
}

/// What the transfer delivers after its head while the response is held. While it waits for marks, the content is that of one read at most,
/// because the transfer is paused.
final class HeldResponse {
    enum End {
        case ended(isDelimited: Bool)
        case failed(UpstreamError)
    }

    /// Whether the content decides what the write invalidates (`RefusedWrite.swift`).
    var isUnjudged: Bool
    var content: [UInt8] = []
    var end: End?

    init(isUnjudged: Bool) { self.isUnjudged = isUnjudged }
}

extension Fetch {
    /// Whether the response must wait, so that clients of other processes and nodes cannot receive responses that it has invalidated.
    /// - Parameter hasUnwrittenMarks: whether marks of the response are not in the store's files yet.
    func mustHold(hasUnwrittenMarks: Bool) -> Bool {
        hasUnwrittenMarks
            || !subject.head.method.isSafe && subject.fetchTarget == nil && context.cache != nil && context.coordination.marks.isUnderWay
    }

    func waitForMarks(_ transfer: Transfer) {
        transfer.pause()
        context.coordination.marks.wait(since: lastAnnouncedBefore) { self.release(isWritten: $0, isPropagated: $1) }
    }

    private func release(isWritten: Bool, isPropagated: Bool) {
        context.loop.assertOnLoop()
        if !isWritten { context.reporting.count(.writesBeforeMarks) }
        unawaitedPropagation = isWritten ? isPropagated ? nil : CacheStatus.nodesNotTold : CacheStatus.marksNotWritten
        deliverHeld()
    }

    func deliverHeld() {
        guard let held = held.take(), let transfer, let response else { return }
        use(response, of: transfer)
        let content = held.content
        if !content.isEmpty, self.transfer != nil { take(content.span) }
        guard self.transfer != nil else { return }
        switch held.end {
        case nil: transfer.resume()
        case .ended(let isDelimited): transferEnded(transfer, isDelimited: isDelimited)
        case .failed(let error): transferFailed(transfer, error)
        }
    }
}
