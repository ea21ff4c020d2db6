// Random schedules of all that may befall a fleet, against the truth: two thousand, in a fast run a tenth of them, or as many as `FLEET_WALKS` says.
// `FLEET_SEED` repeats one.

import TestSupport
import Testing

@testable import Fleet

#if canImport(Glibc)
    import Glibc
#endif

/// SplitMix64: the same schedule for the same seed, everywhere.
struct SeededNumbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func isTrue(oneIn count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }
}

/// One schedule, and what it did.
struct RandomWalk {
    var fleet: ModelFleet
    var numbers: SeededNumbers
    let keys: Int
    var recoversAll: Bool

    init(seed: UInt64) {
        numbers = SeededNumbers(state: seed)
        let count = Int.random(in: 2...5, using: &numbers)
        keys = Int.random(in: 1...3, using: &numbers)
        var limits = LogFollower.Limits()
        // Positions are kept on the way, and reports asked for, at each entry.
        if numbers.isTrue(oneIn: 2) { (limits.entriesOnTheWay, limits.portionBytes) = (1, 1) }
        (limits.keepInterval, limits.ceilingLead) = (numbers.isTrue(oneIn: 2) ? 0 : 2_000, numbers.isTrue(oneIn: 2) ? 5 : 10_000)
        fleet = ModelFleet(nodes: count, keys: keys, replicas: Int.random(in: 1...2, using: &numbers), limits)
        recoversAll = true
        fleet.engine.clock = Int64.random(in: -5_000...5_000, using: &numbers)
    }

    mutating func run(steps count: Int) {
        for node in fleet.nodes.indices { fleet.connect(node) }
        for _ in 0..<count where fleet.violation == nil { step() }
        if fleet.violation == nil { fleet.checkEnd() }
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

    /// What is rare.
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
        case 9: fleet.time += [2_000, 30_000, 90_000].randomElement(using: &numbers)!
        default: break
        }
    }

    /// Mostly the best replica, as a cluster chooses; its clock may be anything.
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
    @Test("nothing purged is taken, and what was answered is obeyed by all in the end")
    func walks() {
        let environment = { (name: String) -> UInt64? in getenv(name).flatMap { UInt64(String(cString: $0)) } }
        let base = environment("FLEET_SEED") ?? UInt64.random(in: 0..<(1 << 40))
        let count = environment("FLEET_WALKS") ?? (TestRun.isFast ? 200 : 2_000)
        var failures = 0
        for seed in base..<base + count where failures < 20 {
            var walk = RandomWalk(seed: seed)
            walk.fleet.isTraced = count == 1
            walk.run(steps: 120)
            guard let violation = walk.fleet.violation else { continue }
            failures += 1
            Issue.record("FLEET_SEED=\(seed) FLEET_WALKS=1: \(violation)")
            if count == 1 { print(walk.fleet.trace.joined(separator: "\n")) }
        }
    }
}
