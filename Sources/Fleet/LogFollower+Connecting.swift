// Connects to the log, and compares its state with the state that this node has stored.

extension LogFollower {
    mutating func disconnect(_ cause: DisconnectCause) -> [Action] {
        let wasUpToDate = state == .upToDate
        state = .disconnected
        isReadPaused = false
        echo.awaited = nil
        return wasUpToDate ? [.disconnected(since: lastAnswer, cause)] : []
    }

    mutating func tick(_ now: Int64) -> [Action] {
        let wasStopped = now - lastTick > limits.silence
        lastTick = now
        if state != .disconnected, now - lastAnswer > limits.silence { return disconnect(wasStopped ? .stopped : .silence) + [.reconnect] }
        if case .missing(let until) = state, now >= until { return abandonMissing() + checkpoint() }
        if let failing = checkEchoTimeout(now) { return failing }
        let greeting = sendHelloIfQuiet(now)
        // While reading is paused, no other reply shows whether the engine is reachable.
        let rest = isReadPaused ? limits.infoInterval / 4 : limits.infoInterval
        let mayCheck = state == .upToDate || state == .writesFailing || (isReadPaused && state != .disconnected)
        guard mayCheck, now - lastInfoRead >= rest else { return greeting }
        lastInfoRead = now
        return greeting + [.readInfo]
    }

    /// Handles the engine's time. It shows a suspension of this machine. If the engine's clock was set, the connection to the log is
    /// established again too.
    mutating func noteTime(_ time: UInt64) -> [Action] {
        defer { engineTime = time }
        guard let engineTime, time > engineTime, time - engineTime > limits.stillness else { return [] }
        return disconnect(.stopped) + [.reconnect]
    }

    mutating func connect(_ info: LogInfo, fleetMilliseconds: UInt64?) -> [Action] {
        var actions = disconnect(.lost)
        let former = reached
        // A former log that returns lacks entries, so its epoch is replaced.
        if former?.formerEpochs.contains(info.epoch) == true { return actions + [.renewEpoch, .reconnect] }
        let isOtherLog = former?.epoch != info.epoch
        // No fence fits above the highest possible id.
        let hasEnded = highest.later(byMilliseconds: limits.fenceLead) <= highest
        if !isOtherLog, hasEnded, info.last < highest { return actions + [.renewEpoch, .reconnect] }
        remembers = isFilled && !isOtherLog
        if !remembers {
            isFilled = false
            if isOtherLog { formerSeen = seen }
            seen = SeenSequences(nodes: limits.nodes, missing: limits.missing)
            actions.append(.startAnew(epoch: info.epoch, floor: info.floor))
        }
        if isOtherLog {
            actions.append(.gap(former == nil ? .neverFollowed : .epoch))
            reached = KeptPosition(after: former, epoch: info.epoch, primary: info.primary)
            (highest, lowestLate) = (.beginning, nil)
            // Orders from before the reconnection are still applied.
            for index in checkpoints.indices { checkpoints[index].kept = nil }
            (applied, formerCeiling) = (nil, .beginning)
        }
        (storeApplied, next) = (position, remembers ? min(position, info.last) : .beginning)
        let isTrimmed = isTrimmed(info)
        if isTrimmed {
            actions += [.raiseFloor(info.floor)] + (isOtherLog ? [] : [.gap(.trimmed)])
            reached?.added = isOtherLog ? info.removed : nil
        }
        let isNewPrimary = former.map { isOtherLog || $0.primary != info.primary || info.last < highest } ?? false
        losses.noteConnection(info, isOtherLog: isOtherLog, isNewPrimary: isNewPrimary, read: position, hasGoneBack: info.last < highest)
        let fence = isNewPrimary && !isOtherLog ? followNewPrimary(info, fleetMilliseconds ?? 0, &actions) : nil
        if !remembers { past = connectedLog == nil || isOtherLog ? storeApplied : min(past, storeApplied) }
        highest = max(highest, info.last)
        // An unchanged primary has all entries that an earlier process has read.
        if !isNewPrimary { formerCeiling = min(formerCeiling, highest) }
        if !remembers || isNewPrimary { (verified, removed) = (next, info.removed) }
        if isTrimmed { (verified, removed) = (max(next, info.floor), info.removed) }
        counted = isTrimmed ? nil : reached?.added
        (isCounting, isPrimaryUnread, entriesSinceInfo) = (false, isNewPrimary && !isOtherLog, 0)
        if isNewPrimary { losses.lift(to: highest) }
        (connectedLog, engineTime, state) = (info, nil, .catchingUp(to: info.last))
        return actions + [.mayAppend(fence: fence, isNewPrimary: isNewPrimary), .readFrom(next)]
    }

    /// Verifies that no entry was removed before it was read.
    mutating func verify(_ info: LogInfo, _ now: Int64) -> [Action] {
        if let change = change(to: info) { return disconnect(change) + [.reconnect] }
        lastInfoRead = now
        var actions: [Action] = []
        let isWhole = info.removed == removed || (info.last == next && info.added == counted)
        if info.lastDeleted > verified || !isWhole && info.floor > verified {
            actions.append(.raiseFloor(info.floor))
            if info.floor > storeApplied { actions += passed() }
            verified = info.floor
        }
        (verified, removed) = (max(verified, next), info.removed)
        guard state == .verifying else { return actions + keepDuringCatchUp() }
        isFilled = true
        if let connectedLog { startCounting(connectedLog) }
        counted = reached?.added
        actions += announceLosses(floor: info.floor)
        if losses.unannounced == nil { reached?.primary = info.primary }
        state = .missing(until: now + limits.waitForMissing)
        return actions + checkMissing(now) + checkpoint()
    }

    /// Handles a loss of unread entries. Their number is unknown until the catch-up ends.
    private mutating func passed() -> [Action] {
        if case .catchingUp = state { reached?.added = nil }
        return [.gap(.trimmed)]
    }

    /// Returns why the log is not the one that was followed; nil if it is.
    private func change(to info: LogInfo) -> DisconnectCause? {
        guard info.epoch == reached?.epoch else { return .otherLog }
        guard info.primary == connectedLog?.primary else { return .otherPrimary }
        // A log with fewer entries than were read was created again.
        return info.last >= next && info.added >= counted ?? 0 ? nil : .removed
    }

    /// Returns whether unread entries were removed, or the log was created again with the same epoch.
    private func isTrimmed(_ info: LogInfo) -> Bool {
        if info.lastDeleted > position { return true }
        // Entries removed before the first one were already read, unless another primary had unread entries.
        if let first = info.first, first <= position { return reached?.added.map { info.removed >= $0 } ?? false }
        // The log has only entries later than the reached position, so exactly those reached must be removed.
        if info.first == nil, info.last == position { return false }
        return reached?.added.map { $0 != info.removed } ?? (info.removed > 0)
    }

    /// Handles another primary, or one with fewer entries: entries may be lost, and ids may repeat.
    private mutating func followNewPrimary(_ info: LogInfo, _ fleetMilliseconds: UInt64, _ actions: inout [Action]) -> Fence? {
        storeApplied = min(position, info.last).earlier(byMilliseconds: limits.readAgain)
        next = min(next, storeApplied)
        reached?.added = nil
        // Upper bound of the former primary's ids.
        let bound = max(highest, position, formerCeiling, LogPosition(fleetMilliseconds))
        // Entries applied by an earlier process may be lost, and the mark table does not contain them.
        if !remembers { actions.append(.raiseFloor(max(position, formerCeiling))) }
        guard info.last < bound else { return nil }
        let fence = Fence(at: bound.later(byMilliseconds: limits.fenceLead), doubtedAfter: info.last)
        highest = fence.position
        actions.append(.doubt(after: fence.doubtedAfter, before: fence.position))
        return fence
    }
}
