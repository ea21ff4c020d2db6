// A connection to the log comes and goes: what the node knows is held against what is there.

extension LogFollower {
    mutating func leave(_ cause: BlindCause) -> [Action] {
        let wasSeeing = state == .seeing
        state = .away
        owesReading = false
        echo.awaited = nil
        return wasSeeing ? [.blind(since: lastAnswer, cause)] : []
    }

    mutating func tick(_ now: Int64) -> [Action] {
        let wasStopped = now - lastTick > limits.silence
        lastTick = now
        if state != .away, now - lastAnswer > limits.silence { return leave(wasStopped ? .stopped : .silence) + [.reconnect] }
        if case .missing(let until) = state, now >= until { return abandonMissing() + checkpoint() }
        if let failing = listenForEcho(now) { return failing }
        let greeting = greetInTime(now)
        // Who does not read, because too much waits to be obeyed, hears nothing else.
        let rest = owesReading ? limits.looking / 4 : limits.looking
        let mayLook = state == .seeing || state == .mute || (owesReading && state != .away)
        guard mayLook, now - lastLook >= rest else { return greeting }
        lastLook = now
        return greeting + [.look]
    }

    /// A clock that counts while a machine is stopped as well; where it was set forward that looks the same, and the log is met again all the same.
    mutating func noteTime(_ time: UInt64) -> [Action] {
        defer { engineTime = time }
        guard let engineTime, time > engineTime, time - engineTime > limits.stillness else { return [] }
        return leave(.stopped) + [.reconnect]
    }

    mutating func connect(_ info: LogInfo, fleetMilliseconds: UInt64?) -> [Action] {
        var actions = leave(.lost)
        let former = reached
        // A log that was left and is back lacks all that was said since, and more may know its records than who knows what they lack.
        if former?.formerEpochs.contains(info.epoch) == true { return actions + [.renewEpoch, .reconnect] }
        let isOtherLog = former?.epoch != info.epoch
        // Above the last ids that there are no fence can lie. No clock has made them.
        let hasEnded = highest.later(byMilliseconds: limits.fenceLead) <= highest
        if !isOtherLog, hasEnded, info.last < highest { return actions + [.renewEpoch, .reconnect] }
        remembers = isFilled && !isOtherLog
        if !remembers {
            isFilled = false
            seen = SeenSequences(nodes: limits.nodes, missing: limits.missing)
            actions.append(.startAnew(epoch: info.epoch, floor: info.floor))
        }
        if isOtherLog {
            actions.append(.gap(former == nil ? .neverFollowed : .epoch))
            reached = KeptPosition(after: former, epoch: info.epoch, primary: info.primary)
            (highest, lowestLate) = (.beginning, nil)
            // What waits to be obeyed still does.
            for index in checkpoints.indices { checkpoints[index].kept = nil }
            (applied, formerCeiling) = (nil, .beginning)
        }
        (obeyed, next) = (position, remembers ? min(position, info.last) : .beginning)
        let isTrimmed = isTrimmed(info)
        if isTrimmed {
            actions += [.raiseFloor(info.floor)] + (isOtherLog ? [] : [.gap(.trimmed)])
            reached?.added = isOtherLog ? info.removed : nil
        }
        let isNewPrimary = former.map { isOtherLog || $0.primary != info.primary || info.last < highest } ?? false
        losses.meet(info, isOtherLog: isOtherLog, isNewPrimary: isNewPrimary, read: position, hasGoneBack: info.last < highest)
        let fence = isNewPrimary && !isOtherLog ? meet(info, fleetMilliseconds ?? 0, &actions) : nil
        if !remembers { past = met == nil || isOtherLog ? obeyed : min(past, obeyed) }
        highest = max(highest, info.last)
        // The same primary has all that an earlier process has read of it.
        if !isNewPrimary { formerCeiling = min(formerCeiling, highest) }
        if !remembers || isNewPrimary { (verified, removed) = (next, info.removed) }
        if isTrimmed { (verified, removed) = (max(next, info.floor), info.removed) }
        counted = isTrimmed ? nil : reached?.added
        (isCounting, isMeeting, onTheWay) = (false, isNewPrimary && !isOtherLog, 0)
        if isNewPrimary { losses.lift(to: highest) }
        (met, engineTime, state) = (info, nil, .catchingUp(to: info.last))
        return actions + [.mayAppend(fence: fence, isNewPrimary: isNewPrimary), .readFrom(next)]
    }

    /// What was read was all that there was, unless more than that was removed from the log's beginning meanwhile.
    mutating func verify(_ info: LogInfo, _ now: Int64) -> [Action] {
        if let change = change(to: info) { return leave(change) + [.reconnect] }
        lastLook = now
        var actions: [Action] = []
        let isWhole = info.removed == removed || (info.last == next && info.added == counted)
        if info.lastDeleted > verified || !isWhole && info.floor > verified {
            actions.append(.raiseFloor(info.floor))
            if info.floor > obeyed { actions += passed() }
            verified = info.floor
        }
        (verified, removed) = (max(verified, next), info.removed)
        guard state == .verifying else { return actions + keepOnTheWay() }
        isFilled = true
        if let met { startCounting(met) }
        counted = reached?.added
        actions += tellLosses(floor: info.floor)
        if losses.owed == nil { reached?.primary = info.primary }
        state = .missing(until: now + limits.waitForMissing)
        return actions + lookForMissing(now) + checkpoint()
    }

    /// Entries were removed unread. How many there were is not known before all is read.
    private mutating func passed() -> [Action] {
        if case .catchingUp = state { reached?.added = nil }
        return [.gap(.trimmed)]
    }

    /// Why it is not the log that was met; nil where it is.
    private func change(to info: LogInfo) -> BlindCause? {
        guard info.epoch == reached?.epoch else { return .otherLog }
        guard info.primary == met?.primary else { return .otherPrimary }
        // With less than was read it was removed whole, and is another one under the same name.
        return info.last >= next && info.added >= counted ?? 0 ? nil : .removed
    }

    /// Whether entries that were never read are gone from the log's beginning, or it was made anew without another epoch.
    private func isTrimmed(_ info: LogInfo) -> Bool {
        if info.lastDeleted > position { return true }
        // What went before the first is some of what was reached, unless another primary had entries that this node never read.
        if let first = info.first, first <= position { return reached?.added.map { info.removed >= $0 } ?? false }
        // All that is there was appended later than what was reached. What went before must be just what was reached.
        if info.first == nil, info.last == position { return false }
        return reached?.added.map { $0 != info.removed } ?? (info.removed > 0)
    }

    /// Another server is asked, or the same with less than it had: entries may be lost, and ids may have begun again below what they were.
    private mutating func meet(_ info: LogInfo, _ fleetMilliseconds: UInt64, _ actions: inout [Action]) -> Fence? {
        obeyed = min(position, info.last).earlier(byMilliseconds: limits.readAgain)
        next = min(next, obeyed)
        reached?.added = nil
        // The former primary has given no id above this one.
        let bound = max(highest, position, formerCeiling, LogPosition(fleetMilliseconds))
        // What an earlier process obeyed may be lost: the table is filled without it.
        if !remembers { actions.append(.raiseFloor(max(position, formerCeiling))) }
        guard info.last < bound else { return nil }
        let fence = Fence(at: bound.later(byMilliseconds: limits.fenceLead), doubtedAfter: info.last)
        highest = fence.position
        actions.append(.doubt(after: fence.doubtedAfter, before: fence.position))
        return fence
    }
}
