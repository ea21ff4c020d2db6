// One lookup in the shared level. Record and lease are read in one round trip; a marker of Vary leads to a variant in a second one. While
// another node has the lease, `LeaseWait` determines the next question. Without `wait`, the lookup reads once and takes no lease.

import CachePolicy
import Engine
import Fleet
import HTTPCore
import Reactor
import ResponseCache

/// Used on its level's loop only.
final class SharedSearch {
    private let level: FleetLevel
    let lookUp: FleetLookUp
    let key: HashedKey
    private let cache: ResponseCache
    /// State of the wait for another node's lease; nil if the lookup takes no lease.
    private var wait: LeaseWait?
    private var question = LeaseWait.Question.check
    private var waiting: [any FleetWaiter] = []
    /// Requests that continued before the lookup ended.
    private var departed: [any FleetWaiter] = []
    private var missing = 0
    /// Records to read: first those of the lookup, then those of variants.
    private var records: [WantedRecord] = []
    private var hasTaken = false
    private var refusal: FleetRefusal?
    private var hasFailed = false
    /// True if requests that join later continue at once.
    private var isLate = false
    private var isOver = false
    /// Limits the comparisons of all records with purges.
    private let purgeBudget = PurgeBudget()
    private var lease = LeaseState.unknown
    private var hasWaited = false
    /// Whether the other node's lease is known to have an expiry.
    private var isExpiryKnown = false
    /// Number in the level's queue; nil if it is not queued.
    private var waitingNumber: Int?
    private var timer: LoopTimer?

    private struct WantedRecord {
        let location: FleetLocation
        let recordKeys: RecordKeys
    }

    /// - Parameter wait: maximum wait for another node's lease, in milliseconds; nil: the lookup takes no lease.
    init(_ level: FleetLevel, _ lookUp: FleetLookUp, _ key: HashedKey, _ cache: ResponseCache, wait: Int64?) {
        (self.level, self.lookUp, self.key, self.cache) = (level, lookUp, key, cache)
        self.wait = wait.map { LeaseWait(deadline: level.loop.batchMilliseconds + $0) }
    }

    private var node: FleetNode { level.node }
    var mayWait: Bool { wait != nil }

    func join(_ waiter: any FleetWaiter) {
        guard !isLate else {
            level.figures.lookUps[.late, default: 0] += 1
            departed.append(waiter)
            _ = waiter.fleetLookUpEnded(.late, nil)
            return
        }
        if hasWaited { waiter.fleetWaits() }
        waiting.append(waiter)
    }

    func start() {
        records.reserveCapacity(lookUp.locations.count)
        for location in lookUp.locations { records.append(WantedRecord(location: location, recordKeys: recordKeys(of: location))) }
        ask(mayWait && node.settings.collapses ? .take : .check)
    }

    /// Starts a round. Variants of an earlier round are read again.
    private func ask(_ question: LeaseWait.Question) {
        (self.question, lease, hasFailed, refusal) = (question, .unknown, false, nil)
        // A short stall of the engine does not end the wait for a lease.
        guard question != .poll else { return poll() }
        waitingNumber = level.patience.add(self, at: level.loop.time.monotonicMilliseconds)
        read(records.indices, withLease: question == .take || hasWaited)
    }

    private func poll() {
        missing += 1
        var commands = EngineCommands()
        commands.add(FleetLevel.Words.get, records[0].recordKeys.lease)
        if !isExpiryKnown, level.mayReadExpiry { commands.add(FleetLevel.Words.pttl, records[0].recordKeys.lease) }
        level.client.sendAll(commands, patienceMilliseconds: Self.patience) { [self] replies in
            noteLease(replies[0])
            if replies.count > 1 { noteExpiry(replies[1]) }
            hasFailed = lease == .unknown
            noteReply()
        }
    }

    private func noteExpiry(_ reply: EngineReply) {
        if reply.failure == .commandForbidden { level.noteExpiryRefused() }
        guard lease == .ofAnother, let left = reply.integer else { return }
        isExpiryKnown = left >= 0
        lease = lease.left(left)
    }

    private func recordKeys(of location: FleetLocation) -> RecordKeys {
        node.keys.recordKeys(of: node.settings.secrets.all[location.secret].name(of: location.key))
    }

    private func read(_ places: Range<Int>, withLease: Bool) {
        missing += 1
        for number in places {
            let recordKeys = records[number].recordKeys
            var commands = EngineCommands(room: FleetLevel.commandBytes)
            // A lease is released after its record was stored, so a record that is read after the lease is not missed.
            if withLease, number == 0 {
                if question == .take {
                    commands.add(FleetLevel.Words.set, recordKeys.lease, level.leaseWords)
                } else {
                    commands.add(FleetLevel.Words.get, recordKeys.lease)
                }
            }
            commands.add(FleetLevel.Words.get, recordKeys.record)
            missing += 1
            level.client.sendAll(
                commands, patienceMilliseconds: Self.patience, late: { [self] in use($0, number) },
                then: { [self] replies in
                    use(replies, number)
                    noteReply()
                })
        }
        noteReply()
    }

    /// Timeout of the commands in milliseconds. A waiting request continues earlier.
    private static let patience: Int64 = 250

    private func use(_ replies: [EngineReply], _ number: Int) {
        if let record = replies.last { take(record, number) }
        if replies.count > 1 { noteLease(replies[0]) }
    }

    private func noteLease(_ reply: EngineReply) {
        switch reply {
        case .nothing where question != .take: lease = .free
        // The request may have its response by now, so it does not need the lease.
        case .nothing where isLate || isOver: level.releaseLease(records[0].recordKeys)
        case .nothing: lease = .taken
        case .bytes(let holder) where holder == node.name: lease = .ofThisNode
        case .bytes(let value):
            lease = LeaseState(ofOther: value)
            guard case .marked(let mark) = lease else { break }
            level.figures.leases[.alone, default: 0] += 1
            level.noteMark(mark, lookUp.keys.own)
        default: lease = .unknown
        }
    }

    private func take(_ reply: EngineReply, _ number: Int) {
        switch reply {
        case .bytes(let value):
            let (location, recordKeys) = (records[number].location, records[number].recordKeys)
            guard let versioned = level.open(value, at: location, recordKeys: recordKeys) else { return refuse(.unreadable) }
            take(versioned, location)
        case .nothing: break
        default: hasFailed = true
        }
    }

    private func take(_ versioned: VersionedRecord, _ location: FleetLocation) {
        let marks = cache.marks(concerning: versioned.record, for: lookUp)
        let isMeant = cache.purges(of: versioned.record, for: lookUp, within: purgeBudget)
        let refusal = node.refusal(of: versioned.version, concerning: marks, isMeant: isMeant)
        if let refusal { return refuse(FleetRefusal(rawValue: refusal.rawValue) ?? .marked) }
        let time = level.loop.time
        guard
            let responseTime = node.wallTime(ofFleet: versioned.fleetTime, wallNow: time.wallMilliseconds, now: time.monotonicMilliseconds)
        else {
            return refuse(.clock)
        }
        switch cache.takeFromNode(versioned.record, of: Timestamp(milliseconds: responseTime), at: location, for: lookUp) {
        case .taken: hasTaken = true
        case .leads(let variant):
            let recordKeys = recordKeys(of: variant)
            guard !records.contains(where: { $0.recordKeys == recordKeys }) else { return }
            records.append(WantedRecord(location: variant, recordKeys: recordKeys))
            read(records.count - 1..<records.count, withLease: false)
        case .notTaken: refuse(.notNewer)
        case .notGood: refuse(.notGood)
        }
    }

    private func refuse(_ reason: FleetRefusal) {
        refusal = reason
        level.figures.refusals[reason, default: 0] += 1
    }

    private func noteReply() {
        missing -= 1
        guard missing == 0 else { return }
        if hasTaken { return end(.found) }
        let now = level.loop.time.monotonicMilliseconds
        let isOld = refusal == .marked || refusal == .notNewer
        let step = isLate ? nil : wait?.handle(lease, to: question, hasOldRecord: isOld, now: now)
        switch step {
        case .ask(let next):
            stopTiming()
            ask(next)
        case .askLater(let next, let milliseconds):
            guard mayWaitForNode() else { return end(.missing) }
            stopTiming()
            timer = level.loop.schedule(after: .milliseconds(milliseconds)) { [self] in ask(next) }
        case .proceed, nil:
            if lease == .ofAnother || lease == .free { level.figures.leases[.waitTimedOut, default: 0] += 1 }
            end(hasFailed ? .failed : refusal != nil ? .refused : .missing)
        }
    }

    private func stopTiming() {
        waitingNumber.map(level.patience.leave)
        timer?.cancel()
        (waitingNumber, timer) = (nil, nil)
    }

    private func mayWaitForNode() -> Bool {
        guard !waiting.isEmpty else { return false }
        guard !hasWaited else { return true }
        guard level.waitingForNodes < FleetLevel.waitingLimit else { return false }
        level.waitingForNodes += 1
        hasWaited = true
        for one in waiting { one.fleetWaits() }
        return true
    }

    private func end(_ outcome: FleetOutcome) {
        stopTiming()
        if hasWaited, !isLate { level.waitingForNodes -= 1 }
        isOver = true
        level.ended(self)
        if hasWaited, outcome == .found { level.figures.leases[.followed, default: 0] += 1 }
        level.figures.lookUps[outcome, default: 0] += UInt64(waiting.count)
        let (continuing, late) = (waiting, departed)
        (waiting, departed) = ([], [])
        resume(continuing, outcome)
        if outcome == .found { for one in late { one.fleetResponseCameLate() } }
    }

    /// Resumes requests. Releases the lease if no request sends a fetch.
    private func resume(_ continuing: [any FleetWaiter], _ outcome: FleetOutcome) {
        guard lease == .taken else {
            for one in continuing { _ = one.fleetLookUpEnded(outcome, refusal) }
            return
        }
        let own = lookUp.keys.own
        let target = own == key.bytes ? key : HashedKey(own)
        let isHeld = level.hold(records[0].recordKeys, for: target, by: continuing.first?.clientNumber ?? 0)
        if outcome == .found {
            level.ended(own, .free, by: 0)
        } else if isHeld {
            level.figures.leases[.won, default: 0] += 1
        }
        var isLeaseUsed = false
        for one in continuing where one.fleetLookUpEnded(outcome, refusal) { isLeaseUsed = true }
        if !isLeaseUsed { level.ended(own, .free, by: 0) }
        // Late replies no longer apply to this lease.
        lease = .unknown
    }

    /// Resumes the request without the lookup's result.
    func giveUp() {
        stopTiming()
        if hasWaited, !isLate { level.waitingForNodes -= 1 }
        isLate = true
        level.figures.lookUps[.late, default: 0] += UInt64(waiting.count)
        let continuing = waiting
        waiting = []
        departed += continuing
        for one in continuing { _ = one.fleetLookUpEnded(.late, nil) }
    }
}
