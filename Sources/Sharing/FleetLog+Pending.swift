// Stores purges and writes that are not durably in the log, for the next process.

import Fleet
import Logging

extension FleetLog {
    func takeKept() {
        for file in files.unreadable {
            let forgotten = "pending purges of this node are lost. Repeat the purges that were answered with 202"
            logger.error("\(file.path) cannot be read: \(file.isPending ? forgotten : "all responses stored here become stale once")")
        }
        // Each purge needs to be sent only once.
        var known: Set<PendingMessage> = []
        appendKept(files.pendingPurges().filter { known.insert($0).inserted })
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
            // Files taken since then may not be on disk yet.
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

    /// Stores writes that are not in the log. Called at the end, after the writer has lost its connection.
    func keepWrites() {
        let writes = logWriter.writesToKeep
        for message in writes {
            lastToken += 1
            pending.keep(PendingMessage(message: message, isWrite: true), lastToken)
        }
        // The next process may have overwritten the last file.
        if !writes.isEmpty || following?.mayKeepPosition == false { keepPending() }
    }

    /// Stores and drops pending purges; one write covers all actions.
    /// - Parameter then: called when the write has ended.
    func keepPending(_ actions: [LogWriter.Action], then: @escaping () -> Void) {
        var hasChanged = false
        var dropped: Set<LogWriter.Token> = []
        for action in actions {
            switch action {
            case .keepPending(let token, let message): pending.keep(PendingMessage(message: message), token)
            case .dropPending(let token): dropped.insert(token)
            case .send, .wait, .hold, .settle, .report: continue
            }
            hasChanged = true
        }
        if !dropped.isEmpty { pending.drop(dropped) }
        if hasChanged { keepPending { _ in then() } } else { then() }
    }

    private static let countedAtOnce = 256

    /// Counts pending purges by cause, which may change over time.
    func countPending() {
        isCountDue = false
        figures.pendingPurges = pending.counts(unreached: logWriter.unreachedCauses)
        publish()
    }

    private func keepPending(then: ((Bool) -> Void)? = nil) {
        // Counting visits all pending purges while the engine is unavailable, so it happens once for each write.
        isCountDue = logWriter.unreachedPurges > Self.countedAtOnce
        if !isCountDue { countPending() }
        // After a take-over two processes must not write the same file.
        let write = { @Sendable [files, pending, following] in
            files.keep(pending: pending.all, isLeft: following?.mayKeepPosition == false)
        }
        pendingFile.keep(write) { [self, logger] isKept in
            if isCountDue { countPending() }
            if !isKept { logger.error("pending purges cannot be written to disk: a restart would lose them") }
            then?(isKept)
        }
    }
}

extension LogWriter.Action {
    var isReportingPending: Bool { if case .report(_, .pending) = self { true } else { false } }
}
