// Tests of waiting for another node's lease, as a table, and for concurrent requests with random schedules.

import Fleet
import HTTPCore
import TestSupport
import Testing

@Suite("Waiting for another node's lease")
struct LeaseWaitTests {
    @Test(
        "the wait ends when the lease is taken, a mark or a foreign value is found, or Redis does not reply",
        arguments: [LeaseState.taken, .ofThisNode, .marked(.eachNode), .marked(.eachRequest), .foreign, .unknown])
    func proceeding(state: LeaseState) {
        var wait = LeaseWait(deadline: 1_000)
        let step1 = wait.handle(state, to: .take, now: 0)
        #expect(step1 == .proceed)
    }

    @Test("a missing lease is taken only after its holder had time to renew it")
    func missing() {
        var wait = LeaseWait(deadline: 1_000)
        let rows: [(LeaseState, LeaseWait.Question, Int64, LeaseWait.Step)] = [
            (.ofAnother, .take, 0, .askLater(.poll, milliseconds: 20)), (.free, .poll, 20, .ask(.check)),
            (.free, .check, 21, .askLater(.check, milliseconds: 20)), (.free, .check, 85, .askLater(.check, milliseconds: 5)),
            // The lease was renewed in the meantime.
            (.ofAnother, .check, 90, .askLater(.poll, milliseconds: 20)), (.free, .poll, 110, .ask(.check)),
            (.free, .check, 180, .ask(.take)), (.taken, .take, 181, .proceed),
        ]
        for (state, question, now, expected) in rows {
            let step = wait.handle(state, to: question, now: now)
            #expect(step == expected, "\(state), \(now)")
        }
    }

    @Test("a missing lease is taken at once if the stored record cannot be used by this node")
    func oldRecord() {
        var wait = LeaseWait(deadline: 1_000)
        let steps = [
            wait.handle(.ofAnother, to: .take, hasOldRecord: true, now: 0), wait.handle(.free, to: .poll, now: 20),
            wait.handle(.free, to: .check, hasOldRecord: true, now: 21),
        ]
        #expect(steps == [.askLater(.poll, milliseconds: 20), .ask(.check), .ask(.take)])
    }

    @Test("only a number in hexadecimal digits with a near expiry is a lease")
    func values() {
        let rows: [(String, LeaseState)] = [
            ("1", .ofAnother), ("0123456789abcdef", .ofAnother), ("-", .marked(.eachRequest)), ("+", .marked(.eachNode)),
            ("", .foreign), ("*", .foreign), ("--", .foreign), ("somebody", .foreign), ("ABC", .foreign), ("0123456789abcdef0", .foreign),
        ]
        for (value, expected) in rows { #expect(LeaseState(ofOther: Array(value.utf8)) == expected, "\(value)") }
        let times: [(Int64, LeaseState)] = [
            (-2, .ofAnother), (-1, .foreign), (0, .ofAnother), (200, .ofAnother), (2_000, .ofAnother), (2_001, .foreign),
        ]
        for (left, expected) in times { #expect(LeaseState.ofAnother.left(left) == expected, "\(left)") }
        #expect(LeaseState.marked(.eachNode).left(-1) == .marked(.eachNode))
    }

    @Test("the wait ends at its deadline")
    func deadline() {
        var wait = LeaseWait(deadline: 30)
        let step10 = wait.handle(.ofAnother, to: .take, now: 20)
        #expect(step10 == .askLater(.poll, milliseconds: 10))
        let step11 = wait.handle(.ofAnother, to: .poll, now: 30)
        #expect(step11 == .proceed)
    }

    @Test("a failed holder is replaced at most 300 ms after its last renewal")
    func times() {
        #expect(LeaseTimes.expiry + LeaseTimes.grace + LeaseTimes.poll <= 300 && LeaseTimes.expiry >= 2 * LeaseTimes.renewal)
    }

    // MARK: Concurrent requests

    private func schedule(_ random: inout SeededGenerator, _ kind: CrowdSchedule.Kind) -> CrowdSchedule {
        let nodes = Int.random(in: 1...4, using: &random)
        let whole = Int64.random(in: 1...4_800, using: &random)
        let clients = (0..<Int.random(in: 1...20, using: &random)).map { _ in
            (at: Int64.random(in: 0...whole, using: &random), node: Int.random(in: 0..<nodes, using: &random))
        }
        return CrowdSchedule(kind: kind, nodes: nodes, head: Int64.random(in: 0...whole, using: &random), whole: whole, clients: clients)
    }

    @Test("no client waits longer than twice the upstream's response time, whatever cannot be shared", arguments: 0..<400)
    func bound(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let kind = CrowdSchedule.Kind.allCases[Int(seed % 5)]
        var schedule = schedule(&random, kind)
        // A longer fetch would be ended by the deadline of the wait.
        if kind == .tooLong { (schedule.head, schedule.whole) = (schedule.head / 2, min(schedule.whole, 2_400)) }
        schedule.head = min(schedule.head, schedule.whole)
        let crowd = ModelCrowd(schedule)
        crowd.run()
        for client in crowd.clients {
            let took = (client.ended ?? .max / 2) - client.arrival
            #expect(took <= 2 * schedule.whole + 50, "\(schedule)")
        }
        switch kind {
        case .shareable: #expect(crowd.requests == 1, "\(schedule)")
        case .tooLong: #expect(crowd.requests <= schedule.nodes, "\(schedule)")
        case .unshareable, .fault, .broken: #expect(crowd.requests == schedule.clients.count, "\(schedule)")
        }
    }

    @Test("once a target is known to be unshareable, no client waits", arguments: 0..<200)
    func known(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var schedule = schedule(&random, [.unshareable, .fault, .broken][Int(seed % 3)])
        // Other nodes learn it from the mark, which lasts ten times as long.
        let second = (1...6).map { (at: 2 * schedule.whole + 60 + Int64($0), node: Int.random(in: 0..<schedule.nodes, using: &random)) }
        schedule.clients[0].at = 0
        schedule.head = schedule.whole
        schedule.clients += second
        let crowd = ModelCrowd(schedule)
        crowd.run()
        guard schedule.whole >= 10 else { return }
        for client in crowd.clients.suffix(second.count) {
            #expect((client.ended ?? .max / 2) - client.arrival <= schedule.whole * 11 / 10 + 50, "\(schedule)")
        }
    }

    @Test("a short stall of Redis does not cause a second upstream request for collapsed requests", arguments: 0..<200)
    func stall(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var schedule = schedule(&random, .shareable)
        schedule.whole = min(schedule.whole, 4_000)
        // A look-up that begins during the stall would find no lease and ask the upstream, so all clients arrive before.
        for number in schedule.clients.indices { schedule.clients[number].at = min(schedule.clients[number].at, Int64(number)) }
        schedule.clients[0].at = 0
        let start = Int64.random(in: 30...max(30, schedule.whole), using: &random)
        schedule.stall = start..<start + Int64.random(in: 1...240, using: &random)
        let crowd = ModelCrowd(schedule)
        crowd.run()
        #expect(crowd.requests == 1, "\(schedule)")
        #expect(crowd.clients.allSatisfy { $0.ended != nil })
    }

    @Test("a failed node costs the clients of other nodes 300 ms and one upstream request", arguments: 0..<200)
    func death(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var schedule = schedule(&random, .shareable)
        schedule.clients[0].at = 0
        schedule.whole = min(schedule.whole, 2_000)
        let death = Int64.random(in: 5...max(5, schedule.whole - 1), using: &random)
        schedule.death = death
        let crowd = ModelCrowd(schedule)
        crowd.run()
        let dead = schedule.clients[0].node
        for client in crowd.clients where client.node != dead {
            #expect((client.ended ?? .max / 2) - max(client.arrival, death) <= 320 + schedule.whole, "\(schedule)")
        }
        #expect(crowd.requests <= 2, "\(schedule)")
    }
}
