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
        for purge in files.pendingPurges() { appendKept(purge) }
        countPending()
        takeLeft()
    }

    func takeLeft() {
        let left = files.takeLeftPurges()
        guard !left.isEmpty else { return }
        let known = pending.messages
        for purge in left { appendKept(purge.filter { !known.contains($0.message) }) }
        if keepPending() { files.dropLeftPurges() }
    }

    private func appendKept(_ messages: [PendingMessage]) {
        let purge = nextPurge()
        for kept in messages {
            lastToken += 1
            pending.keep(kept, of: purge, lastToken)
            perform(logWriter.handle(.append(kept.message, kept.isWrite ? .keptWrite : .keptPurge(kept.place), token: lastToken), now: now))
        }
    }

    /// At the end, when the writer has lost its connection.
    func keepWrites() {
        let writes = logWriter.writesToKeep
        for message in writes {
            lastToken += 1
            pending.keep(PendingMessage(message: message, isWrite: true), of: nextPurge(), lastToken)
        }
        // What was written down as one's own until a moment ago may have been overwritten by the next process.
        if !writes.isEmpty || following?.mayKeepPosition == false { keepPending() }
    }

    /// What becomes pending by any of these, and what is so no more: with one write, before anybody is told. Some thousand may wait, and each write
    /// has all of them.
    func keepPending(_ actions: [LogWriter.Action]) {
        var hasChanged = false
        var dropped: Set<LogWriter.Token> = []
        for action in actions {
            switch action {
            case .keepPending(let token, let message, let place):
                pending.keep(PendingMessage(message: message, place: place), of: purges[token] ?? nextPurge(), token)
            case .dropPending(let token): dropped.insert(token)
            case .send, .wait, .hold, .settle, .tell: continue
            }
            hasChanged = true
        }
        if !dropped.isEmpty { pending.drop(dropped) }
        if hasChanged { keepPending() }
    }

    /// Before anybody is told that one is pending; and now and then, since why it is so changes.
    func countPending() {
        figures.pendingPurges = pending.counts(logWriter.pendingCauses)
        publish()
    }

    @discardableResult
    private func keepPending() -> Bool {
        // Two processes would write one file, and each what it knows.
        countPending()
        let isKept = files.keep(pending: pending.purges, isLeft: following?.mayKeepPosition == false)
        if !isKept { logger.error("purges that are pending cannot be written down: a restart would forget them") }
        return isKept
    }
}
