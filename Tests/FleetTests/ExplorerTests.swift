// Explores all orders of a few events at two or three nodes. Each state is visited once.

import TestSupport
import Testing

@testable import Fleet

#if canImport(Glibc)
    import Glibc
#endif

/// Number of remaining events by kind. All other steps (connecting, reading, sending, replies, ends of fetches) are unlimited.
struct Budget: Hashable {
    var fetches = 0
    var purges = 0
    var writes = 0
    var failOvers = 0
    var restarts = 0
    var cuts = 0
    var lostAnswers = 0
    var trims = 0
    var flushes = 0
    var takes = 0
    var pauses = 0
    var replications = 1
    var dumps = 0
    /// Clock of a new primary relative to the former one's, in milliseconds.
    var clock: Int64 = 0
}

struct Explorer {
    struct State: Hashable {
        var fleet: ModelFleet
        var budget: Budget
    }

    enum Step {
        case connect(Int)
        case read(Int)
        case deliver(Int)
        case loseAnswer(Int)
        case report(Int)
        case keep(Int)
        case replicate(Int)
        case beginFetch(Int)
        case endFetch(Int)
        case take(Int)
        case purge(Int)
        case write(Int)
        case cut(Int)
        case restart(Int)
        case failOver(Int)
        case returnWithDump
        case trim
        case flush
        case pass
    }

    /// Whether applied positions are persisted at once. Otherwise persisting is a separate step.
    var keepsAtOnce = true
    /// Whether a node's internal steps run to their end as one step. This greatly reduces the number of orders.
    var isCoarse = false
    private(set) var visited: Set<Int> = []
    private(set) var ends = 0
    private(set) var counterexample: [String] = []
    private var path: [Step] = []

    /// - Returns: false if an invariant was violated.
    mutating func explore(_ state: State) -> Bool {
        guard visited.insert(state.hashValue).inserted else { return true }
        let steps = steps(from: state)
        if steps.isEmpty {
            ends += 1
            var fleet = state.fleet
            fleet.checkEnd()
            if let violation = fleet.violation { return found(violation) }
        }
        for step in steps {
            var next = state
            perform(step, on: &next)
            path.append(step)
            if let violation = next.fleet.violation { return found(violation) }
            guard explore(next) else { return false }
            path.removeLast()
        }
        return true
    }

    private mutating func found(_ violation: String) -> Bool {
        counterexample = path.map { "\($0)" } + [violation]
        return false
    }

    private func deliverAll(_ node: Int, _ state: inout State) {
        while state.fleet.nodes[node].outgoing != nil || state.fleet.nodes[node].isWaiting { state.fleet.deliver(node) }
    }

    private func steps(from state: State) -> [Step] {
        let (fleet, budget) = (state.fleet, state.budget)
        var steps: [Step] = []
        for (index, node) in fleet.nodes.enumerated() {
            if node.primary == nil { steps.append(.connect(index)) }
            if fleet.hasToRead(index) { steps.append(.read(index)) }
            if node.outgoing != nil || node.isWaiting { steps.append(.deliver(index)) }
            if node.outgoing != nil, budget.lostAnswers > 0 { steps.append(.loseAnswer(index)) }
            if node.report != nil, !keepsAtOnce { steps.append(.report(index)) }
            if node.keeping != nil, !keepsAtOnce { steps.append(.keep(index)) }
            if !node.fetches.isEmpty { steps.append(.endFetch(index)) }
            if budget.fetches > 0 { steps.append(.beginFetch(index)) }
            if budget.takes > 0, fleet.mayTake(index, key: 0) { steps.append(.take(index)) }
            if budget.purges > 0 { steps.append(.purge(index)) }
            if budget.writes > 0 { steps.append(.write(index)) }
            if budget.cuts > 0, node.primary != nil { steps.append(.cut(index)) }
            if budget.restarts > 0 { steps.append(.restart(index)) }
        }
        for replica in fleet.engine.replicas.indices {
            if budget.replications > 0, fleet.engine.replicas[replica].version != fleet.engine.content.version {
                steps.append(.replicate(replica))
            }
            if budget.failOvers > 0 { steps.append(.failOver(replica)) }
        }
        if budget.trims > 0, fleet.engine.content.entries.count > 1 { steps.append(.trim) }
        if budget.dumps > 0 { steps.append(.returnWithDump) }
        if budget.flushes > 0 { steps.append(.flush) }
        if budget.pauses > 0 { steps.append(.pass) }
        return steps
    }

    private func perform(_ step: Step, on state: inout State) {
        switch step {
        case .connect(let node):
            state.fleet.connect(node)
            if isCoarse { deliverAll(node, &state) }
        case .read(let node):
            state.fleet.read(node)
            while isCoarse, state.fleet.hasToRead(node), !state.fleet.nodes[node].follower.isMissing { state.fleet.read(node) }
        case .deliver(let node): if isCoarse { deliverAll(node, &state) } else { state.fleet.deliver(node) }
        case .report(let node): state.fleet.report(node)
        case .keep(let node): state.fleet.keep(node)
        case .replicate(let replica):
            state.budget.replications -= 1
            state.fleet.engine.replicate(to: replica)
        case .endFetch(let node): state.fleet.endFetch(node, 0)
        case .loseAnswer(let node):
            state.budget.lostAnswers -= 1
            state.fleet.deliver(node, answerIsLost: true)
        case .beginFetch(let node):
            state.budget.fetches -= 1
            state.fleet.beginFetch(node, key: 0)
        case .take(let node):
            state.budget.takes -= 1
            state.fleet.take(node, key: 0)
        case .purge(let node):
            state.budget.purges -= 1
            state.fleet.purge(node, key: 0)
        case .write(let node):
            state.budget.writes -= 1
            state.fleet.write(node, key: 0)
        case .cut(let node):
            state.budget.cuts -= 1
            state.fleet.cut(node)
        case .restart(let node):
            state.budget.restarts -= 1
            state.fleet.restart(node)
        case .failOver(let replica):
            state.budget.failOvers -= 1
            state.fleet.failOver(to: replica, clock: state.fleet.engine.clock + state.budget.clock)
        case .returnWithDump:
            state.budget.dumps -= 1
            state.fleet.returnWithDump()
        case .trim:
            state.budget.trims -= 1
            state.fleet.trim(keeping: 1)
        case .flush:
            state.budget.flushes -= 1
            state.fleet.flush()
        case .pass:
            state.budget.pauses -= 1
            state.fleet.pass(1_200)
        }
        if keepsAtOnce {
            for node in state.fleet.nodes.indices {
                state.fleet.report(node)
                state.fleet.keep(node)
                // Without checkpoints the report number has no effect, but would distinguish equal states.
                if state.fleet.nodes[node].follower.checkpoints.isEmpty { state.fleet.nodes[node].follower.lastReport = 0 }
            }
        }
        // The check changes nothing, so it runs for all nodes after each step.
        for node in state.fleet.nodes.indices { state.fleet.checkTake(node, key: 0) }
    }
}

struct Scenario: CustomTestStringConvertible {
    var testDescription: String
    var budget: Budget
    var nodes = 2
    /// Number of nodes that connect later, without any state.
    var late = 0
    var replicas = 1
    var keepsAtOnce = true
    var isCoarse = false

    init(_ description: String, nodes: Int = 2, _ budget: Budget) {
        (testDescription, self.nodes, self.budget) = (description, nodes, budget)
    }

    func with(_ change: (inout Scenario) -> Void) -> Scenario {
        var scenario = self
        change(&scenario)
        return scenario
    }

    /// All early nodes are in sync, and the log has an entry.
    var start: Explorer.State {
        var fleet = ModelFleet(nodes: nodes, keys: 1, replicas: replicas)
        for node in 0..<nodes - late {
            fleet.connect(node)
            for _ in 0..<2 { fleet.read(node) }
        }
        fleet.write(0, key: 0)
        fleet.deliver(0)
        for node in 0..<nodes - late {
            fleet.read(node)
            fleet.report(node)
            fleet.keep(node)
        }
        for replica in fleet.engine.replicas.indices { fleet.engine.replicate(to: replica) }
        fleet.engine.writeDown()
        fleet.time += 100
        return Explorer.State(fleet: fleet, budget: budget)
    }
}

@Suite("Exhaustive exploration of small histories")
struct ExplorerTests {
    /// Each takes less than 20 seconds in a debug build.
    static let scenarios: [Scenario] = [
        Scenario("a store and a purge", Budget(fetches: 1, purges: 1, takes: 1)),
        Scenario("two stores and a write", Budget(fetches: 2, writes: 1, takes: 1)),
        Scenario("a store and a purge", nodes: 3, Budget(fetches: 1, purges: 1)),
        Scenario("a split", Budget(fetches: 1, purges: 1, cuts: 1)),
        Scenario("a lost reply", Budget(fetches: 1, purges: 1, lostAnswers: 1)),
        Scenario("a restart", Budget(fetches: 1, purges: 1, restarts: 1)).with { ($0.keepsAtOnce, $0.isCoarse) = (false, true) },
        Scenario("the log is trimmed", Budget(fetches: 1, purges: 1, cuts: 1, trims: 1)).with { $0.isCoarse = true },
        Scenario("all data is deleted", Budget(fetches: 1, purges: 1, restarts: 1, flushes: 1)).with { $0.isCoarse = true },
        Scenario("a crash before a write of another node is flushed", Budget(fetches: 1, writes: 1, restarts: 1))
            .with { ($0.keepsAtOnce, $0.isCoarse) = (false, true) },
        Scenario("another primary, whose clock is behind", Budget(fetches: 1, purges: 1, failOvers: 1, clock: -5_000))
            .with { $0.isCoarse = true },
    ]

    /// Run for minutes; enabled by `FLEET_EXPLORE=1`.
    static let longScenarios: [Scenario] = [
        Scenario("another primary", Budget(fetches: 1, purges: 1, failOvers: 1)).with { $0.isCoarse = true },
        Scenario(
            "a lost write, and a restart after another primary's position was kept",
            Budget(fetches: 1, writes: 1, failOvers: 1, restarts: 1, replications: 0)
        )
        .with { $0.isCoarse = true },
        Scenario("the log is trimmed", Budget(fetches: 1, purges: 2, cuts: 1, trims: 1)).with { $0.isCoarse = true },
        Scenario("a node that is new at a primary whose clock is behind", Budget(fetches: 1, purges: 2, failOvers: 1, clock: -5_000))
            .with { ($0.isCoarse, $0.late) = (true, 1) },
        Scenario("an older dump, and a restart", Budget(fetches: 1, purges: 1, restarts: 1, cuts: 1, dumps: 1)).with { $0.isCoarse = true },
        Scenario("two splits", Budget(fetches: 1, purges: 1, cuts: 2, takes: 1)),
        Scenario("another primary", nodes: 3, Budget(fetches: 1, purges: 1, failOvers: 1)).with { $0.isCoarse = true },
        Scenario("another primary, whose clock is behind", nodes: 3, Budget(fetches: 1, purges: 1, failOvers: 1, clock: -5_000))
            .with { $0.isCoarse = true },
        Scenario(
            "a node that is new at a primary whose clock is behind", nodes: 3, Budget(fetches: 1, purges: 2, failOvers: 1, clock: -5_000)
        )
        .with { ($0.isCoarse, $0.late) = (true, 1) },
        Scenario("two successive primaries", Budget(fetches: 1, purges: 1, failOvers: 2, clock: -5_000)).with { $0.isCoarse = true },
        Scenario("a restart and another primary", Budget(fetches: 1, purges: 1, failOvers: 1, restarts: 1, clock: -50))
            .with { $0.isCoarse = true },
        Scenario("a restart", nodes: 3, Budget(fetches: 1, purges: 1, restarts: 1)).with { $0.isCoarse = true },
        Scenario("another primary, step by step", Budget(fetches: 1, purges: 1, failOvers: 1, takes: 1)),
    ]

    @Test("no purged record is used, and every node finally applies all acknowledged messages", .slow, arguments: scenarios)
    func all(scenario: Scenario) { explore(scenario) }

    @Test(
        "longer histories: no purged record is used, and every node finally applies all acknowledged messages",
        .enabled(if: getenv("FLEET_EXPLORE") != nil), arguments: longScenarios)
    func long(scenario: Scenario) { explore(scenario) }

    private func explore(_ scenario: Scenario) {
        var explorer = Explorer()
        (explorer.keepsAtOnce, explorer.isCoarse) = (scenario.keepsAtOnce, scenario.isCoarse)
        let isWell = explorer.explore(scenario.start)
        #expect(isWell, "\(explorer.counterexample.joined(separator: "\n"))")
        guard getenv("FLEET_EXPLORE") != nil else { return }
        print("\(scenario.testDescription), \(scenario.nodes) nodes: \(explorer.visited.count) states, \(explorer.ends) ends")
    }
}

extension LogFollower {
    fileprivate var isMissing: Bool { if case .missing = state { true } else { false } }
}
