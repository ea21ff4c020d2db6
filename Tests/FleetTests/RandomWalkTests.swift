// Random schedules of a fleet's events, checked against the true values. A schedule that is replayed by its seed records its events.

import TestSupport
import Testing

@testable import Fleet

/// One random schedule with its fleet.
struct RandomWalk {
    var fleet: ModelFleet
    /// Random numbers of the current step.
    var numbers: SeededGenerator
    let keys: Int
    var recoversAll: Bool

    init(_ random: SeededGenerator) {
        numbers = random
        let count = Int.random(in: 2...5, using: &numbers)
        keys = Int.random(in: 1...3, using: &numbers)
        var limits = LogFollower.Limits()
        // With one entry per portion, positions are persisted and reports requested for each entry.
        if numbers.isTrue(oneIn: 2) { (limits.entriesPerInfo, limits.portionBytes) = (1, 1) }
        (limits.keepInterval, limits.ceilingLead) = (numbers.isTrue(oneIn: 2) ? 0 : 2_000, numbers.isTrue(oneIn: 2) ? 5 : 10_000)
        fleet = ModelFleet(nodes: count, keys: keys, replicas: Int.random(in: 1...2, using: &numbers), limits)
        recoversAll = true
        fleet.engine.clock = Int64.random(in: -5_000...5_000, using: &numbers)
        fleet.isTraced = TestRun.environment("CISTERN_SEED") != nil
        for node in fleet.nodes.indices { fleet.connect(node) }
        fleet.engine.writeDown()
    }

    mutating func step(_ numbers: SeededGenerator) throws {
        self.numbers = numbers
        step()
        try check()
    }

    mutating func end() throws {
        fleet.checkEnd()
        try check()
    }

    private func check() throws {
        if let violation = fleet.violation { throw ScheduleFailure(([violation] + fleet.trace).joined(separator: "\n")) }
    }

    private mutating func step() {
        let node = Int.random(in: fleet.nodes.indices, using: &numbers)
        let key = Int.random(in: 0..<keys, using: &numbers)
        let choice = Int.random(in: 0..<100, using: &numbers)
        let time = fleet.time
        fleet.note("\(choice): node \(node) key \(key) at \(time)")
        switch choice {
        case ..<12: fleet.beginFetch(node, key: key)
        case ..<24:
            if !fleet.nodes[node].fetches.isEmpty {
                fleet.endFetch(node, fleet.nodes[node].fetches.indices.randomElement(using: &numbers)!)
            }
        case ..<36: fleet.take(node, key: key)
        case ..<40: fleet.purge(node, key: key, kind: [.target, .group, .selection].randomElement(using: &numbers)!)
        case ..<43: fleet.write(node, key: key)
        case ..<55: fleet.read(node, atMost: numbers.isTrue(oneIn: 3) ? 1 : .max)
        case ..<67: fleet.deliver(node, answerIsLost: numbers.isTrue(oneIn: 12))
        case ..<73: fleet.engine.replicate(to: Int.random(in: fleet.engine.replicas.indices, using: &numbers))
        case ..<77: fleet.report(node)
        case ..<79: fleet.keep(node)
        case ..<82: fleet.cut(node)
        case ..<88: fleet.connect(node)
        case ..<94: fleet.pass([1, 10, 100, 1_000].randomElement(using: &numbers)!)
        default: befall(node)
        }
    }

    /// Rare events.
    private mutating func befall(_ node: Int) {
        let what = Int.random(in: 0..<12, using: &numbers)
        fleet.note("befalls \(what)")
        switch what {
        case 0, 1: fleet.restart(node, isCrash: numbers.isTrue(oneIn: 2))
        case 2, 3, 4: failOver()
        case 5: fleet.trim(keeping: Int.random(in: 0...5, using: &numbers))
        case 6: if numbers.isTrue(oneIn: 4) { fleet.flush() }
        case 7: fleet.isOutOfMemory.toggle()
        case 8: fleet.purge(node, key: 0, kind: .all)
        case 10: fleet.engine.writeDown()
        case 11: numbers.isTrue(oneIn: 2) ? fleet.returnWithDump() : loseUnheard(node)
        case 9: fleet.time += [2_000, 30_000, 90_000].randomElement(using: &numbers)!
        default: break
        }
    }

    /// A purge is answered as durable while another node is disconnected. Then its sender may restart, and the engine returns without the
    /// purge.
    private mutating func loseUnheard(_ node: Int) {
        fleet.cut((node + 1) % fleet.nodes.count)
        fleet.connect(node)
        fleet.purge(node, key: Int.random(in: 0..<keys, using: &numbers))
        for _ in 0..<Int.random(in: 1...4, using: &numbers) {
            fleet.read(node)
            fleet.deliver(node)
            for replica in fleet.engine.replicas.indices { fleet.engine.replicate(to: replica) }
            fleet.deliver(node)
            fleet.report(node)
        }
        if numbers.isTrue(oneIn: 2) { fleet.restart(node) }
        fleet.returnWithDump()
    }

    /// Usually promotes the most recent replica, as a Cluster does. The new primary's clock is arbitrary.
    private mutating func failOver() {
        let best = fleet.engine.replicas.indices.max { fleet.engine.replicas[$0].version < fleet.engine.replicas[$1].version }!
        let replica = numbers.isTrue(oneIn: 4) ? fleet.engine.replicas.indices.randomElement(using: &numbers)! : best
        let clock =
            [0, -1_500, -60_000, -3_600_000, 3_600_000].randomElement(using: &numbers)! + Int64.random(in: -500...500, using: &numbers)
        let jumps = numbers.isTrue(oneIn: 3)
        fleet.failOver(
            to: replica, clock: jumps ? fleet.engine.clock + clock : fleet.engine.clock + Int64.random(in: -50...50, using: &numbers))
        let now = fleet.engine.clock
        fleet.note("new primary's clock \(now)")
    }
}

@Suite("Random schedules")
struct RandomWalkTests {
    @Test("no purged record is used, and every node finally applies all acknowledged messages")
    func walks() {
        RandomSchedules.run(2_000, steps: 120) {
            RandomWalk($0)
        } step: {
            try $0.step($1)
        } end: {
            try $0.end()
        }
    }
}
