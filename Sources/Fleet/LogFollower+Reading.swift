// Entries come: which of them are applied, when all is read, and what is wanting.

extension LogFollower {
    mutating func take(_ entries: [PlacedEntry], _ now: Int64) -> [Action] {
        var actions: [Action] = []
        let before = position
        for placed in entries where placed.position > next {
            take(placed, &actions)
            // What follows comes again.
            if next < placed.position { break }
        }
        if position > before { echo.read(now) }
        return finishBatch(isEnd: false, now, actions + hear())
    }

    private mutating func take(_ placed: PlacedEntry, _ actions: inout [Action]) {
        next = placed.position
        highest = max(highest, next)
        losses.found(next)
        let isLate = next <= position
        count(isLate: isLate)
        if !isLate {
            reached?.position = next
            onTheWay += 1
        }
        guard placed.entry.origin.map({ seen.note($0, at: placed.position) }) ?? true else { return }
        if let fence = Fence(placed) {
            actions.append(.doubt(after: fence.doubtedAfter, before: fence.position))
            actions += takeLosses(of: fence)
            readBehind(fence, &actions)
            return
        }
        guard placed.entry.message.kind != .hello else { return }
        if next <= obeyed || placed.entry.origin?.node == node {
            actions.append(.note(placed))
            return
        }
        if isLate, remembers, placed.entry.origin != nil {
            lowestLate = min(lowestLate ?? next, next)
            actions.append(.doubt(after: next.previous, before: highest))
        }
        actions.append(.apply(placed))
        handedBytes += placed.entry.memoryBytes
    }

    /// Who made the fence met a log that had come to where its doubt begins, and looked below for what was appended by who knew no better.
    /// Who comes later finds the log lifted by the fence, and looks from there too. A fence that doubts everything was made where the log was
    /// empty, or for a clock that has jumped: only of a log that has all its entries it may be the former.
    private mutating func readBehind(_ fence: Fence, _ actions: inout [Action]) {
        let start = fence.doubtedAfter.earlier(byMilliseconds: limits.readAgain)
        guard isMeeting, !isCounting, let met, obeyed > start, fence.doubtedAfter > .beginning || met.removed == 0 else { return }
        if met.floor > fence.doubtedAfter { actions += [.raiseFloor(met.floor), .gap(.trimmed)] }
        obeyed = start
        if remembers {
            next = start
        } else {
            // The table has what was only noted; now it is applied.
            (next, past) = (.beginning, start)
            seen = SeenSequences(nodes: limits.nodes, missing: limits.missing)
        }
        verified = min(verified, next)
    }

    private mutating func count(isLate: Bool) {
        if let met, next > met.last { startCounting(met) }
        // What the engine has said of it may be anything: it only has to differ from what it says then.
        if !isLate, let count = counted { counted = count &+ 1 }
        if isCounting || !isLate, let added = reached?.added { reached?.added = added &+ 1 }
    }

    mutating func startCounting(_ met: LogInfo) {
        guard !isCounting else { return }
        isCounting = true
        reached?.added = met.added
    }

    /// - Parameter isEnd: nothing follows as yet.
    mutating func finishBatch(isEnd: Bool, _ now: Int64, _ before: [Action]) -> [Action] {
        var actions = before
        if case .catchingUp(let last) = state, next >= last || isEnd {
            state = .verifying
            actions.append(.look)
        }
        switch state {
        case .catchingUp: actions += lookOnTheWay()
        case .away: break
        case .verifying, .missing, .seeing, .mute:
            if let late = lowestLate {
                lowestLate = nil
                actions.append(.append(Fence(at: highest, doubtedAfter: late.previous)))
            }
            actions += seen.isMissingTooMuch ? abandonMissing() : lookForMissing(now)
        }
        return actions + checkpoint() + read()
    }

    mutating func lookForMissing(_ now: Int64) -> [Action] {
        switch (state, seen.isMissingSome) {
        case (.seeing, true):
            state = .missing(until: now + limits.waitForMissing)
            return [.blind(since: now, .missing)]
        case (.mute, true):
            state = .missing(until: now + limits.waitForMissing)
            return []
        case (.missing, false): return finishReading()
        case (.seeing, false), (.mute, false), (.missing, true), (.away, _), (.catchingUp, _), (.verifying, _): return []
        }
    }

    /// What is missing will not come.
    mutating func abandonMissing() -> [Action] {
        var actions: [Action] = []
        if let lost = seen.abandonMissing() {
            actions.append(.raiseFloor(lost))
            if lost > past { actions.append(.gap(.lostEntries)) }
        }
        guard case .missing = state else { return actions }
        return actions + finishReading()
    }

    /// Whoever reads for long may be passed by trimming, and may end before all is read.
    private mutating func lookOnTheWay() -> [Action] {
        guard onTheWay >= limits.entriesOnTheWay else { return [] }
        onTheWay = 0
        return [.look]
    }

    /// What was read is whole up to here, so the next process may go on from here: not where something of it is missing, which that would take for
    /// its past.
    mutating func keepOnTheWay() -> [Action] {
        guard case .catchingUp = state, !isMeeting, !seen.isMissingSome(shownAfter: past), let reached, !reached.isSame(as: kept),
            checkpoints.last?.kept != reached
        else { return [] }
        return report(keeping: reached)
    }

    mutating func checkpoint() -> [Action] {
        switch state {
        case .away: return []
        case .seeing, .mute:
            // Until the others know of a loss, the next process has to find it again.
            guard losses.owed == nil else { return handedBytes < limits.portionBytes ? [] : report(keeping: nil) }
            guard let reached, reached != checkpoints.last?.kept ?? applied || handedBytes > 0 else { return [] }
            return report(keeping: reached)
        case .catchingUp, .verifying, .missing:
            // Until all is known of what was read, it is read again by the next process. What waits to be obeyed is bounded all the same.
            return handedBytes < limits.portionBytes ? [] : report(keeping: nil)
        }
    }

    private mutating func report(keeping kept: KeptPosition?) -> [Action] {
        lastReport += 1
        checkpoints.append(Checkpoint(report: lastReport, kept: kept, bytes: handedBytes))
        handedBytes = 0
        return [.report(lastReport)]
    }

    private mutating func read() -> [Action] {
        let ahead = checkpoints.reduce(handedBytes) { $0 + $1.bytes }
        owesReading = checkpoints.count > limits.batches || ahead > limits.aheadBytes
        return owesReading ? [] : [.readFrom(next)]
    }

    mutating func applied(_ report: UInt64, _ now: Int64) -> [Action] {
        guard let last = checkpoints.lastIndex(where: { $0.report <= report }) else { return [] }
        applied = checkpoints[...last].last { $0.kept != nil }?.kept ?? applied
        checkpoints.removeSubrange(...last)
        return keepIfDue(now) + (owesReading && state != .away ? readOn() : [])
    }

    /// At once where no record could be written without it: of another log or primary, or above the ceiling.
    mutating func keepIfDue(_ now: Int64) -> [Action] {
        guard let applied, !applied.isSame(as: kept) else { return [] }
        let isUrgent = asked.map { $0.epoch != applied.epoch || $0.primary != applied.primary || $0.ceiling < applied.position } ?? true
        guard isUrgent || now - askedAt >= limits.keepInterval else { return [] }
        return [.keep(toKeep(applied, now))]
    }

    /// What remains to be kept when the process ends; nil: nothing.
    public mutating func lastToKeep(now: Int64) -> KeptPosition? {
        guard let applied, !applied.isSame(as: kept) else { return nil }
        return toKeep(applied, now)
    }

    private mutating func toKeep(_ applied: KeptPosition, _ now: Int64) -> KeptPosition {
        var position = applied
        let top = max(applied.position, self.position)
        let later = top.later(byMilliseconds: limits.ceilingLead)
        let former = [asked, kept].compactMap { $0?.epoch == applied.epoch ? $0?.ceiling : nil }
        // No clock has made the first and the last ids that there are.
        position.ceiling = former.reduce(top == .beginning || later.milliseconds == .max ? top : later, max)
        (asked, askedAt) = (position, now)
        return position
    }

    /// What was not read for a while says nothing of whether this process was stopped.
    private mutating func readOn() -> [Action] {
        let actions = read()
        if !owesReading { engineTime = nil }
        return actions
    }
}

extension LogEntry {
    /// What it takes until it is obeyed, about.
    var memoryBytes: Int { 128 + message.argument.count }
}
