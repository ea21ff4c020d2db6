// Reads entries: decides which of them are applied, when the catch-up ends, and which are missing.

extension LogFollower {
    mutating func take(_ entries: [PositionedEntry], _ now: Int64) -> [Action] {
        var actions: [Action] = []
        let before = position
        for positioned in entries where positioned.position > next {
            take(positioned, &actions)
            // Later entries will be read again.
            if next < positioned.position { break }
        }
        if position > before { echo.read(now) }
        return finishBatch(isEnd: false, now, actions + checkEcho())
    }

    private mutating func take(_ positioned: PositionedEntry, _ actions: inout [Action]) {
        next = positioned.position
        highest = max(highest, next)
        losses.found(next)
        let isLate = next <= position
        count(isLate: isLate)
        if !isLate {
            reached?.position = next
            entriesSinceInfo += 1
        }
        guard positioned.entry.origin.map({ seen.note($0, at: positioned.position) }) ?? true else { return }
        if let fence = Fence(positioned) {
            actions.append(.doubt(after: fence.doubtedAfter, before: fence.position))
            actions += takeLosses(of: fence)
            readBehind(fence, &actions)
            return
        }
        guard positioned.entry.message.kind != .hello else { return }
        // A repeated entry that was applied when it was sent must not remove responses that were stored since then.
        let isRepeated = positioned.entry.origin.map { formerSeen.contains($0) } ?? false
        if next <= storeApplied || positioned.entry.origin?.node == node || isRepeated {
            actions.append(.note(positioned))
            return
        }
        if isLate, remembers, positioned.entry.origin != nil {
            lowestLate = min(lowestLate ?? next, next)
            actions.append(.doubt(after: next.previous, before: highest))
        }
        actions.append(.apply(positioned))
        unreportedBytes += positioned.entry.memoryBytes
    }

    /// Reads again behind a fence. Its sender found a log that ended where the doubt begins. A node that connects later finds the log
    /// extended by the fence, and reads again from there. A fence that doubts everything was written for an empty log or a clock jump: it
    /// counts only if the log has all its entries.
    private mutating func readBehind(_ fence: Fence, _ actions: inout [Action]) {
        let start = fence.doubtedAfter.earlier(byMilliseconds: limits.readAgain)
        guard isPrimaryUnread, !isCounting, let connectedLog, storeApplied > start,
            fence.doubtedAfter > .beginning || connectedLog.removed == 0
        else { return }
        if connectedLog.floor > fence.doubtedAfter { actions += [.raiseFloor(connectedLog.floor), .gap(.trimmed)] }
        storeApplied = start
        if remembers {
            next = start
        } else {
            // Entries that were only recorded in the mark table are applied now.
            (next, past) = (.beginning, start)
            seen = SeenSequences(nodes: limits.nodes, missing: limits.missing)
        }
        verified = min(verified, next)
    }

    private mutating func count(isLate: Bool) {
        if let connectedLog, next > connectedLog.last { startCounting(connectedLog) }
        // The engine's count may be wrong; it only has to differ from a later one.
        if !isLate, let count = counted { counted = count &+ 1 }
        if isCounting || !isLate, let added = reached?.added { reached?.added = added &+ 1 }
    }

    mutating func startCounting(_ connectedLog: LogInfo) {
        guard !isCounting else { return }
        isCounting = true
        reached?.added = connectedLog.added
    }

    /// - Parameter isEnd: true if there are no more entries for now.
    mutating func finishBatch(isEnd: Bool, _ now: Int64, _ before: [Action]) -> [Action] {
        var actions = before
        if case .catchingUp(let last) = state, next >= last || isEnd {
            state = .verifying
            actions.append(.readInfo)
        }
        switch state {
        case .catchingUp: actions += readInfoDuringCatchUp()
        case .disconnected: break
        case .verifying, .missing, .upToDate, .writesFailing:
            if let late = lowestLate {
                lowestLate = nil
                actions.append(.append(Fence(at: highest, doubtedAfter: late.previous)))
            }
            actions += seen.isMissingTooMuch ? abandonMissing() : checkMissing(now)
        }
        return actions + checkpoint() + read()
    }

    mutating func checkMissing(_ now: Int64) -> [Action] {
        switch (state, seen.isMissingSome()) {
        case (.upToDate, true):
            state = .missing(until: now + limits.waitForMissing)
            return [.disconnected(since: now, .missing)]
        case (.writesFailing, true):
            state = .missing(until: now + limits.waitForMissing)
            return []
        case (.missing, false): return finishReading()
        case (.upToDate, false), (.writesFailing, false), (.missing, true), (.disconnected, _), (.catchingUp, _), (.verifying, _): return []
        }
    }

    mutating func abandonMissing() -> [Action] {
        var actions: [Action] = []
        if let lost = seen.abandonMissing() {
            actions.append(.raiseFloor(lost))
            if lost > past { actions.append(.gap(.lostEntries)) }
        }
        guard case .missing = state else { return actions }
        return actions + finishReading()
    }

    /// Reads the log's state during a catch-up. A long one may be overtaken by trimming, or by the end of the process.
    private mutating func readInfoDuringCatchUp() -> [Action] {
        guard entriesSinceInfo >= limits.entriesPerInfo else { return [] }
        entriesSinceInfo = 0
        return [.readInfo]
    }

    /// Stores the position during a catch-up, so the next process can continue from it. Not possible while an entry is missing.
    mutating func keepDuringCatchUp() -> [Action] {
        guard case .catchingUp = state, !isPrimaryUnread, !seen.isMissingSome(shownAfter: past), let reached, !reached.isSame(as: kept),
            checkpoints.last?.kept != reached
        else { return [] }
        return report(keeping: reached)
    }

    mutating func checkpoint() -> [Action] {
        switch state {
        case .disconnected: return []
        case .upToDate, .writesFailing:
            // Until the loss is announced, the next process must be able to detect it again.
            guard losses.unannounced == nil else { return unreportedBytes < limits.portionBytes ? [] : report(keeping: nil) }
            guard let reached, reached != checkpoints.last?.kept ?? applied || unreportedBytes > 0 else { return [] }
            return report(keeping: reached)
        case .catchingUp, .verifying, .missing:
            // The next process reads all of this again. Reports still bound the memory.
            return unreportedBytes < limits.portionBytes ? [] : report(keeping: nil)
        }
    }

    private mutating func report(keeping kept: KeptPosition?) -> [Action] {
        lastReport += 1
        checkpoints.append(Checkpoint(report: lastReport, kept: kept, bytes: unreportedBytes))
        unreportedBytes = 0
        return [.report(lastReport)]
    }

    private mutating func read() -> [Action] {
        let ahead = checkpoints.reduce(unreportedBytes) { $0 + $1.bytes }
        isReadPaused = checkpoints.count > limits.batches || ahead > limits.aheadBytes
        return isReadPaused ? [] : [.readFrom(next)]
    }

    mutating func applied(_ report: UInt64, _ now: Int64) -> [Action] {
        guard let last = checkpoints.lastIndex(where: { $0.report <= report }) else { return [] }
        applied = checkpoints[...last].last { $0.kept != nil }?.kept ?? applied
        checkpoints.removeSubrange(...last)
        return keepIfDue(now) + (isReadPaused && state != .disconnected ? readOn() : [])
    }

    /// Stores the position if it is due. Immediately due for another log or primary, or above the ceiling, because no record could be
    /// written otherwise.
    mutating func keepIfDue(_ now: Int64) -> [Action] {
        guard let applied, !applied.isSame(as: kept) else { return [] }
        let isUrgent = asked.map { $0.epoch != applied.epoch || $0.primary != applied.primary || $0.ceiling < applied.position } ?? true
        guard isUrgent || now - askedAt >= limits.keepInterval else { return [] }
        return [.keep(toKeep(applied, now))]
    }

    /// Returns the position to store at the end of the process; nil if none.
    public mutating func lastToKeep(now: Int64) -> KeptPosition? {
        guard let applied, !applied.isSame(as: kept) else { return nil }
        return toKeep(applied, now)
    }

    private mutating func toKeep(_ applied: KeptPosition, _ now: Int64) -> KeptPosition {
        var position = applied
        let top = max(applied.position, self.position)
        let later = top.later(byMilliseconds: limits.ceilingLead)
        let former = [asked, kept].compactMap { $0?.epoch == applied.epoch ? $0?.ceiling : nil }
        // The lowest and highest possible ids were not derived from a clock.
        position.ceiling = former.reduce(top == .beginning || later.milliseconds == .max ? top : later, max)
        (asked, askedAt) = (position, now)
        return position
    }

    /// Continues after a pause in reading, which does not count as a suspension of the process.
    private mutating func readOn() -> [Action] {
        let actions = read()
        if !isReadPaused { engineTime = nil }
        return actions
    }
}

extension LogEntry {
    /// Approximate memory used until the entry is applied, in bytes.
    var memoryBytes: Int { 128 + message.argument.count }
}
