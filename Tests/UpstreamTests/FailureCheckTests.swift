// Tests which requests check a failing scope, and how long Cistern waits for requests that are always slow.

import HTTPCore
import Testing

@testable import Upstream

@Suite("Checks of failing scopes, and slow requests")
struct FailureCheckTests {
    // MARK: Checks

    @Test("one request per recheck interval checks a failing key: in the background if possible, otherwise in the foreground")
    func checks() {
        let memory = Memory()
        for client in 0..<2 as Range<UInt64> { memory.bad("/a", client: client) }
        let stop = { (wait: Int64) in FailureStop(scope: .key, cause: .status(503), since: 0, wait: wait) }
        memory.now = 999
        #expect(memory.ask("/a") == .serveCopy(stop(1), checksInBackground: false))
        #expect(memory.check("/a") == .notYet(125))
        memory.now = 1_000
        #expect(memory.ask("/a") == .serveCopy(stop(0), checksInBackground: true))
        memory.bad("/a", began: 1_000)
        #expect(memory.ask("/a") == .serveCopy(stop(1_000), checksInBackground: false))
        memory.now = 2_000
        #expect(memory.ask("/a", .withCopy(mayCheckInBackground: false)) == .go)
        memory.bad("/a", began: 2_000)
        memory.now = 3_000
        #expect(memory.check("/a") == .due)
        memory.good("/a")
        #expect(memory.check("/a") == .over)
    }

    @Test("an unfinished check delays the next one by at most one and a half recheck intervals")
    func unfinishedCheck() {
        let memory = Memory()
        for client in 0..<2 as Range<UInt64> { memory.bad("/a", client: client) }
        memory.now = 1_000
        #expect(memory.checks("/a") == true)
        memory.now = 2_499
        memory.bad("/a", .transfer(.responseTimeout), began: 0)
        #expect(memory.checks("/a") == false)
        memory.now = 2_500
        #expect(memory.checks("/a") == true)
    }

    @Test("the client that checked least recently performs the next check, so one client cannot take all checks")
    func turns() {
        let memory = Memory()
        for client in [1, 2] as [UInt64] { memory.bad("/a", client: client) }
        memory.now = 1_000
        #expect(memory.checks("/a", client: 1) == true)
        memory.bad("/a", client: 1, began: 1_000)
        #expect(memory.checks("/a", client: 2) == false)
        memory.now = 2_000
        #expect(memory.checks("/a", client: 1) == false)
        #expect(memory.checks("/a", client: 2) == true)
        memory.bad("/a", client: 2, began: 2_000)
        // A turn that its client does not use passes to the other clients.
        #expect(memory.checks("/a", client: 1) == false && memory.checks("/a", client: 3) == false)
        memory.now = 3_249
        #expect(memory.checks("/a", client: 2) == false)
        memory.now = 3_250
        #expect(memory.checks("/a", client: 2) == true)
    }

    @Test("checks of a wide scope start frequently and slow down to one per recheck interval")
    func wideChecks() {
        let memory = Memory()
        memory.good("/x/0")
        memory.now = 11_000
        memory.failAll()
        var checks: [Int64] = []
        for time in stride(from: Int64(11_000), to: 16_000, by: 10) {
            memory.now = time
            // Requests of many keys, because each key is checked once per recheck.
            guard memory.checks("/y/\(time)") == true else { continue }
            checks.append(time)
            memory.bad("/y/\(time)", began: time)
        }
        #expect(checks.count >= 7 && checks.count <= 9)
        #expect(zip(checks, checks.dropFirst()).suffix(3).allSatisfy { $1 - $0 >= 1_000 })
    }

    @Test("keys share a budget of checks, and one client cannot exhaust it")
    func checkBudget() {
        let memory = Memory()
        for client in [1, 2] as [UInt64] {
            for number in 0..<100 { for _ in 0..<2 { memory.bad("/\(client)?\(number)", client: client) } }
        }
        memory.now = 1_500
        let counts = ([1, 2] as [UInt64]).map { client in (0..<100).count { memory.checks("/\(client)?\($0)", client: client) == true } }
        #expect(counts == [8, 4])
        memory.now = 2_500
        for number in 0..<100 { memory.bad("/2?\(number)", client: 2, began: 1_500) }
        #expect((0..<100).count { memory.checks("/2?\($0)", client: 2) == true } == 8)
    }

    // MARK: Usually slow keys

    @Test("a key that was always slow gets twice its usual response time; a key that was fast once keeps the limit")
    func alwaysSlow() {
        func patience(_ memory: Memory, _ target: String = "/poll", client: UInt64 = 1) -> Int64 {
            memory.memory.patience(Memory.scopes(target, client: client), limit: 1_500, atMost: 30_000)
        }
        let memory = Memory()
        for number in 1...20 {
            #expect(patience(memory) == 1_500)
            memory.now = Int64(number) * 5_000
            memory.good("/poll", took: 4_000)
        }
        #expect(patience(memory) == 8_000)
        #expect(patience(memory, "/poll?x") == 1_500)
        // One client's observations count for that client only; those of two clients count for all.
        #expect(patience(memory, client: 2) == 1_500)
        memory.good("/poll", client: 2, took: 4_000)
        #expect(patience(memory, client: 3) == 8_000)
        memory.good("/poll", took: 50)
        #expect(patience(memory) == 1_500)
        for _ in 0..<40 {
            memory.now += 1
            memory.good("/poll", took: 4_000)
        }
        #expect(patience(memory) == 1_500)

        let slower = Memory()
        for _ in 0..<20 {
            slower.now += 1
            slower.good("/poll", took: 29_000)
        }
        #expect(patience(slower) == 30_000)
        let degrading = Memory()
        degrading.good("/poll", took: 50)
        for _ in 0..<40 {
            degrading.now += 1
            degrading.good("/poll", took: 4_000)
        }
        #expect(patience(degrading) == 1_500 && degrading.ask("/poll") == .go)
    }
}
