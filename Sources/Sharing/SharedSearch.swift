// One look-up in the shared level. Record and lease are read in one round trip; a marker of Vary leads to a variant in a second one. While
// another node has the lease, `LeaseWait` names the next question. Without `wait` it looks once, without a lease.

import CachePolicy
import Engine
import Fleet
import HTTPCore
import Reactor
import ResponseCache

/// Touched on its level's loop only.
final class SharedSearch {
    private let level: FleetLevel
    let lookUp: SharedLookUp
    let key: HashedKey
    private let cache: ResponseCache
    /// nil: without a lease.
    private var wait: LeaseWait?
    private var question = LeaseWait.Question.look
    private var waiting: [any SharedWaiter] = []
    /// Requests that continued without it.
    private var gone: [any SharedWaiter] = []
    private var missing = 0
    /// Places of the look-up, then those of variants.
    private var asked: [Asked] = []
    private var hasTaken = false
    private var refusal: SharedRefusal?
    private var hasFailed = false
    /// Requests that join later continue at once.
    private var isLate = false
    private var isOver = false
    private var lease = LeaseState.unknown
    private var hasWaited = false
    /// Its number in the level's line; nil: none.
    private var waitingNumber: Int?
    private var timer: LoopTimer?

    private struct Asked {
        let place: SharedPlace
        let lies: RecordPlace
    }

    /// - Parameter wait: longest wait for another node's lease, in milliseconds; nil: none.
    init(_ level: FleetLevel, _ lookUp: SharedLookUp, _ key: HashedKey, _ cache: ResponseCache, wait: Int64?) {
        (self.level, self.lookUp, self.key, self.cache) = (level, lookUp, key, cache)
        self.wait = wait.map { LeaseWait(deadline: level.loop.batchMilliseconds + $0) }
    }

    private var node: FleetNode { level.node }
    var mayWait: Bool { wait != nil }

    func join(_ waiter: any SharedWaiter) {
        guard !isLate else {
            level.figures.lookUps[.late, default: 0] += 1
            gone.append(waiter)
            _ = waiter.sharedEnded(.late, nil)
            return
        }
        if hasWaited { waiter.sharedWaits() }
        waiting.append(waiter)
    }

    func start() {
        asked.reserveCapacity(lookUp.places.count)
        for place in lookUp.places { asked.append(Asked(place: place, lies: lies(of: place))) }
        ask(mayWait && node.settings.collapses ? .take : .look)
    }

    /// Starts a round. Variants of an earlier round are read again.
    private func ask(_ question: LeaseWait.Question) {
        (self.question, lease, hasFailed, refusal) = (question, .unknown, false, nil)
        // A short stall of the engine does not end the wait for a lease.
        guard question != .poll else { return poll() }
        waitingNumber = level.patience.add(self, at: level.loop.time.monotonicMilliseconds)
        ask(asked.indices, withLease: question == .take || hasWaited)
    }

    private func poll() {
        missing += 1
        var commands = EngineCommands()
        commands.add(FleetLevel.Words.get, asked[0].lies.lease)
        level.client.sendAll(commands, patienceMilliseconds: Self.patience) { [self] replies in
            noteLease(replies[0])
            hasFailed = lease == .unknown
            noteReply()
        }
    }

    private func lies(of place: SharedPlace) -> RecordPlace {
        node.keys.place(of: node.settings.secrets.all[place.secret].name(of: place.key))
    }

    private func ask(_ places: Range<Int>, withLease: Bool) {
        missing += 1
        for number in places {
            let lies = asked[number].lies
            var commands = EngineCommands(room: FleetLevel.commandBytes)
            commands.add(FleetLevel.Words.get, lies.record)
            if withLease, number == 0 {
                if question == .take {
                    commands.add(FleetLevel.Words.set, lies.lease, level.leaseWords)
                } else {
                    commands.add(FleetLevel.Words.get, lies.lease)
                }
            }
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

    /// Patience of the commands. A request continues earlier.
    private static let patience: Int64 = 250

    private func use(_ replies: [EngineReply], _ number: Int) {
        if let record = replies.first { take(record, number) }
        if replies.count > 1 { noteLease(replies[1]) }
    }

    private func noteLease(_ reply: EngineReply) {
        switch reply {
        case .nothing where question != .take: lease = .free
        // The request may have its response by now, so the lease is of no use.
        case .nothing where isLate || isOver: level.giveBack(asked[0].lies)
        case .nothing: lease = .taken
        case .bytes(let holder) where holder == node.name: lease = .ofThisNode
        case .bytes(let value):
            let mark = value.count == 1 ? LeaseMark(rawValue: value[0]) : nil
            lease = mark.map { .marked($0) } ?? .ofAnother
            guard let mark else { break }
            level.figures.leases[.alone, default: 0] += 1
            level.noteMark(mark, lookUp.keys.own)
        default: lease = .unknown
        }
    }

    private func take(_ reply: EngineReply, _ number: Int) {
        switch reply {
        case .bytes(let value):
            let (place, lies) = (asked[number].place, asked[number].lies)
            guard let given = level.open(value, at: place, lying: lies) else { return refuse(.unreadable) }
            take(given, place)
        case .nothing: break
        default: hasFailed = true
        }
    }

    private func take(_ given: GivenRecord, _ place: SharedPlace) {
        let marks = cache.marks(concerning: given.record, for: lookUp)
        let refusal = node.refusal(of: given.version, concerning: marks, isMeant: cache.purges(of: given.record, for: lookUp))
        if let refusal { return refuse(SharedRefusal(rawValue: refusal.rawValue) ?? .marked) }
        let time = level.loop.time
        guard let responseTime = node.wallTime(ofFleet: given.fleetTime, wallNow: time.wallMilliseconds, now: time.monotonicMilliseconds)
        else {
            return refuse(.clock)
        }
        switch cache.take(given.record, of: Timestamp(milliseconds: responseTime), at: place, for: lookUp) {
        case .taken: hasTaken = true
        case .leads(let variant):
            let lies = lies(of: variant)
            guard !asked.contains(where: { $0.lies == lies }) else { return }
            asked.append(Asked(place: variant, lies: lies))
            ask(asked.count - 1..<asked.count, withLease: false)
        case .notTaken: refuse(.notNewer)
        case .notGood: refuse(.notGood)
        }
    }

    private func refuse(_ reason: SharedRefusal) {
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
            if lease == .ofAnother || lease == .free { level.figures.leases[.waitedInVain, default: 0] += 1 }
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
        for one in waiting { one.sharedWaits() }
        return true
    }

    private func end(_ outcome: SharedOutcome) {
        stopTiming()
        if hasWaited, !isLate { level.waitingForNodes -= 1 }
        isOver = true
        level.ended(self)
        if hasWaited, outcome == .found { level.figures.leases[.followed, default: 0] += 1 }
        level.figures.lookUps[outcome, default: 0] += UInt64(waiting.count)
        let (going, late) = (waiting, gone)
        (waiting, gone) = ([], [])
        goOn(going, outcome)
        if outcome == .found { for one in late { one.sharedCameLate() } }
    }

    /// A lease is given back if no request follows.
    private func goOn(_ going: [any SharedWaiter], _ outcome: SharedOutcome) {
        guard lease == .taken else {
            for one in going { _ = one.sharedEnded(outcome, refusal) }
            return
        }
        let own = lookUp.keys.own
        level.hold(asked[0].lies, for: own == key.bytes ? key : HashedKey(own))
        if outcome == .found { level.ended(own, .free, by: 0) } else { level.figures.leases[.won, default: 0] += 1 }
        var goesOn = false
        for one in going where one.sharedEnded(outcome, refusal) { goesOn = true }
        if !goesOn { level.ended(own, .free, by: 0) }
        // Late replies do not concern it.
        lease = .unknown
    }

    /// The request continues without the look-up.
    func giveUp() {
        stopTiming()
        if hasWaited, !isLate { level.waitingForNodes -= 1 }
        isLate = true
        level.figures.lookUps[.late, default: 0] += UInt64(waiting.count)
        let going = waiting
        waiting = []
        gone += going
        for one in going { _ = one.sharedEnded(.late, nil) }
    }
}
