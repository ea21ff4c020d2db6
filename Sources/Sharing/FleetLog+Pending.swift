// What this node has to say and could not, or could not make sure of: kept for the next process.

import Fleet
import Logging

extension FleetLog {
    /// What earlier processes have kept.
    func takeKept() {
        for file in files.unreadable {
            let forgotten = "what this node was to tell the others is forgotten. Purge again what was answered with 202"
            logger.error("\(file.path) cannot be read: \(file.isPending ? forgotten : "all that is stored here counts as stale once")")
        }
        appendKept(files.pendingPurges())
        countPending()
        takeLeft()
    }

    func takeLeft() {
        let left = files.takeLeftPurges()
        guard !left.isEmpty else { return }
        let known = pending.messages
        appendKept(left.filter { !known.contains($0.message) })
        takings += 1
        keepPending { [self, takings] isKept in
            // What was taken meanwhile may not lie on the disk yet.
            if isKept, takings == self.takings { files.dropLeftPurges() }
        }
    }

    private func appendKept(_ messages: [PendingMessage]) {
        for kept in messages {
            lastToken += 1
            pending.keep(kept, lastToken)
            perform(logWriter.handle(.append(kept.message, kept.isWrite ? .keptWrite : .keptPurge, token: lastToken), now: now))
        }
    }

    /// At the end, when the writer has lost its connection.
    func keepWrites() {
        let writes = logWriter.writesToKeep
        for message in writes {
            lastToken += 1
            pending.keep(PendingMessage(message: message, isWrite: true), lastToken)
        }
        // What was written down as one's own until a moment ago may have been overwritten by the next process.
        if !writes.isEmpty || following?.mayKeepPosition == false { keepPending() }
    }

    /// What becomes pending by any of these, and what is so no more: with one write. Some thousand may wait, and each write has all of them.
    /// - Parameter then: called when that lies on the disk, or cannot be written.
    func keepPending(_ actions: [LogWriter.Action], then: @escaping () -> Void) {
        var hasChanged = false
        var dropped: Set<LogWriter.Token> = []
        for action in actions {
            switch action {
            case .keepPending(let token, let message): pending.keep(PendingMessage(message: message), token)
            case .dropPending(let token): dropped.insert(token)
            case .send, .wait, .hold, .settle, .tell: continue
            }
            hasChanged = true
        }
        if !dropped.isEmpty { pending.drop(dropped) }
        if hasChanged { keepPending { _ in then() } } else { then() }
    }

    private static let countedAtOnce = 256

    /// Before anybody is told that one is pending; and now and then, since why it is so changes.
    func countPending() {
        isCountDue = false
        figures.pendingPurges = pending.counts(unreached: logWriter.unreachedCauses)
        publish()
    }

    /// - Parameter then: told whether they lie on the disk.
    private func keepPending(then: ((Bool) -> Void)? = nil) {
        // While the engine is away all of them are gone through: then once for each write.
        isCountDue = logWriter.unreachedPurges > Self.countedAtOnce
        if !isCountDue { countPending() }
        pendingFile.keep(KeptPending(purges: pending, following: following)) { [self, logger] isKept in
            if isCountDue { countPending() }
            if !isKept { logger.error("purges that are pending cannot be written down: a restart would forget them") }
            then?(isKept)
        }
    }
}

/// What is to be written, with who knows whether another process has taken over by then: two would write one file, and each what it knows.
struct KeptPending: Sendable {
    let purges: PendingPurges
    let following: (any FleetFollowing)?
}

extension FleetFiles {
    func keep(_ kept: KeptPending) -> Bool { keep(pending: kept.purges.all, isLeft: kept.following?.mayKeepPosition == false) }
}

extension LogWriter.Action {
    var isTellingPending: Bool { if case .tell(_, .pending) = self { true } else { false } }
}
