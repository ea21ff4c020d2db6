// Tests of the failure memory as lists of events and decisions, with explicit times.

import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("The failure memory")
struct FailureMemoryTests {
    // MARK: The address

    private func unreachable() -> Memory {
        let memory = Memory()
        for _ in 0..<5 { memory.refused() }
        return memory
    }

    @Test("an address counts as unreachable after consecutive failures of requests that began after its last response")
    func address() {
        let memory = Memory()
        for _ in 0..<4 { memory.refused() }
        #expect(memory.ask("/a") == .go)
        memory.now = 10
        memory.reach()
        for _ in 0..<20 { memory.refused(began: 9) }
        #expect(memory.ask("/a") == .go)
        for _ in 0..<5 { memory.refused() }
        #expect(memory.stop("/a") == .address)
        memory.now = 20
        memory.reach()
        #expect(memory.ask("/a") == .go)
        #expect(memory.changes() == ["+address", "-address"])
        #expect(memory.memory.openedCount(of: .address) == 1)
    }

    @Test("unreachable address: stored responses at once, reads refused without one, writes sent unless an attempt has just failed")
    func unreachableRequests() {
        let memory = unreachable()
        let stop = FailureStop(scope: .address, cause: .transfer(.connectionRefused), since: 0, wait: 1_000)
        #expect(memory.ask("/a") == .serveCopy(stop, checksInBackground: false))
        #expect(memory.ask("/b", .reading) == .refuse(stop) && memory.ask("/b", .excluded) == .go)
        memory.now = 999
        #expect(memory.ask("/c", .writing) == .refuse(stop))
        memory.now = 1_000
        #expect(memory.ask("/c", .writing) == .go)
        #expect(memory.ask("/b", .reading) == .refuse(stop))
    }

    @Test("a connection attempt is made every recheck interval, and its success marks the address reachable")
    func attempts() {
        let memory = unreachable()
        #expect(memory.attempt() == .notYet(1_000))
        for second in 1...100 as ClosedRange<Int64> {
            memory.now = second * 1_000 - 1
            #expect(memory.attempt() == .notYet(1))
            memory.now = second * 1_000
            #expect(memory.attempt() == .due)
            #expect(memory.attempt() == .notYet(1_000))
            memory.refused()
        }
        memory.reach()
        #expect(memory.attempt() == .over)
        #expect(memory.ask("/a", .writing) == .go)
    }

    @Test("failures during an unreachable period, also late ones, do not count against later requests")
    func returned() {
        let memory = Memory()
        memory.good("/x/0")
        memory.now = 11_000
        memory.failAll()
        #expect(memory.stop("/x/0") == .upstream)
        for _ in 0..<5 { memory.refused() }
        memory.now = 12_000
        memory.reach()
        #expect(memory.ask("/x/0") == .go)
        memory.now = 30_000
        for number in 0..<9 {
            for client in [1, 2] as [UInt64] {
                memory.bad("/x/\(number)", client: client, .transfer(.connectionReadTimeout), began: 11_500)
            }
        }
        #expect(memory.open == [] && memory.ask("/x/0") == .go)
    }

    // MARK: One key

    @Test("two consecutive failures open a key, for everyone if two clients saw them; only requests with a stored response stop")
    func key() {
        let memory = Memory()
        memory.bad("/a", client: 1)
        #expect(memory.ask("/a") == .go)
        memory.bad("/a", client: 2)
        for client in 1...3 as ClosedRange<UInt64> { #expect(memory.stop("/a", client: client) == .key) }
        #expect(memory.ask("/a", .reading) == .go)
        #expect(memory.ask("/a", .writing) == .go)
        #expect(memory.ask("/b") == .go && memory.ask("/a?b=c") == .go)
        memory.good("/a", client: 7)
        #expect(memory.ask("/a") == .go)
        #expect(memory.changes() == ["+key", "-key"])
    }

    @Test("after a success, provoked failures of two clients affect no others, for twice as long each time")
    func doubt() {
        let memory = Memory()
        for round in 0..<4 {
            for client in [1, 2] as [UInt64] { memory.bad("/a", client: client) }
            #expect(memory.stop("/a", client: 3) == .key)
            memory.good("/a", client: 9)
            let until = memory.now + 10_000 << round
            while memory.now < until {
                memory.good("/other", client: 9)
                for client in [1, 2] as [UInt64] { memory.bad("/a", client: client) }
                #expect(memory.ask("/a", client: 3) == .go, "\(round) \(memory.now)")
                memory.now += 500
            }
        }
        // One client's failures stop that client meanwhile.
        memory.good("/a", client: 9)
        for _ in 0..<2 { memory.bad("/a", client: 1) }
        #expect(memory.stop("/a", client: 1) == .key && memory.ask("/a", client: 3) == .go)
    }

    @Test("failures that only one client sees, with any credentials or arguments, do not affect other clients")
    func witnesses() {
        let memory = Memory()
        for _ in 0..<50 { memory.bad("/me", client: 1) }
        #expect(memory.stop("/me", client: 1) == .key)
        #expect(memory.ask("/me", client: 2) == .go)
        for number in 0..<50 { memory.bad("/search?q=\(number)", client: 1) }
        #expect(memory.ask("/search?q=good", client: 1) == .go && memory.ask("/search?q=1", client: 2) == .go)

        let wide = Memory()
        wide.good("/u/0", client: 2)
        wide.now = 11_000
        for number in 0..<50 { wide.bad("/u/\(number)", client: 1, user: UInt64(number)) }
        #expect(wide.stop("/u/60", client: 1) == .upstream)
        #expect(wide.ask("/u/60", client: 2) == .go)
    }

    @Test("credentials distinguish clients of one address only after a good response to them")
    func provenUsers() {
        for isProven in [true, false] {
            let memory = Memory()
            for user in [1, 2] as [UInt64] { memory.good("/login", client: 9, user: isProven ? user : 0) }
            memory.now = 20_000
            for number in 0..<5 { memory.bad("/\(number)", client: 9, user: UInt64(1 + number % 2)) }
            #expect(memory.open.contains(.upstream))
            #expect((memory.stop("/other", client: 8) == .upstream) == isProven)
            // Requests with and without credentials may come from one client.
            let alone = Memory()
            alone.good("/login", client: 9, user: 1)
            alone.now = 20_000
            for number in 0..<6 { alone.bad("/\(number)", client: 9, user: UInt64(number % 2)) }
            #expect(alone.stop("/other", client: 8) == nil)
        }
    }

    @Test("variants, users and hosts have separate failure keys")
    func keys() {
        let all = [
            Memory.scopes("/a").key, Memory.scopes("/a?b").key, Memory.scopes("/a", variant: 1).key, Memory.scopes("/a", user: 1).key,
            Memory.scopes("/a", host: "h").key,
        ]
        #expect(Set(all).count == 5)
        #expect(Memory.scopes("/a", client: 1).key == Memory.scopes("/a", client: 2).key)
    }

    @Test("failures further apart than the window do not count as consecutive")
    func sparse() {
        let memory = Memory()
        for number in 0..<20 as Range<UInt64> {
            memory.now += 10_001
            memory.good("/other")
            memory.bad("/a", client: number)
            #expect(memory.ask("/a") == .go && memory.open == [])
        }
    }

    @Test("a failed request that was sent before the last success does not count")
    func late() {
        let memory = Memory()
        memory.now = 5_000
        memory.good("/a")
        for _ in 0..<9 { memory.bad("/a", .transfer(.responseTimeout), began: 4_999) }
        #expect(memory.ask("/a") == .go)
    }

    @Test("another key's success does not close a key that fails alone, and closes one that failed while everything failed")
    func ownFailures() {
        let memory = Memory()
        for _ in 0..<2 { memory.bad("/a") }
        memory.now = 10
        memory.good("/other")
        #expect(memory.ask("/a") == .go)
        memory.bad("/a")
        memory.now = 20
        memory.good("/other")
        #expect(memory.stop("/a") == .key)
    }

    // MARK: The upstream and the routes

    @Test("the upstream scope opens after five failures on five keys by two clients without a success; one success closes it")
    func upstream() {
        let memory = Memory()
        memory.good("/x/0")
        memory.now = 9_999
        memory.failAll()
        #expect(memory.ask("/new") == .go)
        memory.now = 10_000
        memory.bad("/x/0")
        #expect(memory.stop("/new", client: 3) == .upstream)
        #expect(memory.ask("/new", .reading) == .go && memory.ask("/new", .writing) == .go)
        memory.good("/x/77")
        #expect(memory.ask("/new") == .go)
        for number in 0..<5 { #expect(memory.ask("/x/\(number)") == .go) }
    }

    @Test("if fewer than five keys were used in the last hour, failures of all of them open the upstream scope")
    func fewKeys() {
        let memory = Memory()
        for number in 0..<3 { memory.good("/\(number)") }
        memory.now = 20_000
        for _ in 0..<5 { memory.bad("/0", client: 2) }
        memory.bad("/1")
        #expect(memory.open == [.key])
        memory.bad("/2")
        #expect(memory.stop("/2", client: 3) == .upstream)
        let hour = Memory()
        for number in 0..<3 { hour.good("/\(number)") }
        hour.now = 3_600_001
        for client in 0..<5 as Range<UInt64> { hour.bad("/0", client: client) }
        #expect(hour.open.contains(.upstream))
    }

    @Test("one client's failures stop that client; a second client's failure extends them to all; a success closes them")
    func secondWitness() {
        func single() -> Memory {
            let memory = Memory()
            memory.good("/x/0")
            memory.now = 11_000
            for number in 0..<5 { memory.bad("/x/\(number)", client: 1) }
            #expect(memory.stop("/y", client: 1) == .upstream && memory.ask("/y", client: 2) == .go)
            return memory
        }
        let (failed, well) = (single(), single())
        failed.bad("/y", client: 2)
        for client in 1...3 as ClosedRange<UInt64> { #expect(failed.stop("/y", client: client) == .upstream) }
        well.good("/y", client: 2)
        #expect(well.ask("/y", client: 1) == .go && well.open == [])
    }

    @Test("a route's scope opens separately, whatever its directories, and other routes are unaffected")
    func routes() {
        let memory = Memory()
        memory.good("/a/1", route: 3)
        memory.now = 10_000
        memory.good("/other/1")
        for number in 0..<5 {
            for client in [1, 2] as [UInt64] { memory.bad("/a\(number)/1", client: client, route: 3) }
        }
        #expect(memory.stop("/z", route: 3) == .route)
        #expect(memory.open.contains(.route) && !memory.open.contains(.upstream))
        #expect(memory.ask("/z") == .go && memory.ask("/z", route: 4) == .go)
        memory.good("/z", route: 3)
        #expect(memory.stop("/a1/1", route: 3) == nil)
    }

    @Test("a key that failed while others succeeded opens no wide scope, and a wide scope does not cover it")
    func ownKeys() {
        let memory = Memory()
        for second in 0..<20 as Range<Int64> {
            memory.now = second * 1_000
            memory.bad("/bad", client: 2)
            memory.good("/well", client: 1)
        }
        memory.now = 30_000
        for number in 0..<40 { memory.bad("/bad", client: UInt64(number)) }
        #expect(memory.open == [.key])
    }

    @Test(
        "invalid responses and login pages for all requests open the upstream scope like other failures",
        arguments: [FailureCause.junk, .status(302), .status(500)])
    func anyCause(cause: FailureCause) {
        let memory = Memory()
        memory.good("/f/0")
        memory.now = 20_000
        for number in 1...5 {
            for client in [1, 2] as [UInt64] { memory.bad("/f/\(number)", client: client, cause) }
        }
        #expect(memory.stop("/g", client: 3) == .upstream)
    }

    // MARK: Silence

    @Test("a stored response is served at once only within two recheck intervals of a failure; only evidence closes the reported scope")
    func silence() {
        let memory = Memory()
        memory.bad("/a", client: 1)
        memory.bad("/a", client: 2)
        memory.now = 2_000
        #expect(memory.stop("/a") == .key)
        memory.now = 2_001
        #expect(memory.ask("/a") == .go)
        memory.now = 4_000_000
        #expect(memory.open == [.key] && memory.changes() == ["+key"])
        memory.bad("/a", client: 3)
        #expect(memory.stop("/a") == .key)
        memory.good("/a")
        #expect(memory.open == [] && memory.changes() == ["-key"])

        let wide = Memory()
        wide.good("/x/0")
        wide.now = 11_000
        wide.failAll()
        wide.now = 14_000
        #expect(wide.ask("/x/9") == .go && wide.memory.isDown)
        wide.now = 4_000_000
        #expect(wide.memory.isDown && wide.open == [.upstream])
        wide.good("/x/9")
        #expect(!wide.memory.isDown)
    }

    // MARK: Pauses

    @Test("a Retry-After pause applies to one client and key, is capped, and ends with a good response")
    func pauses() {
        let memory = Memory { $0.retryAfterLimit = 60_000 }
        memory.pause("/login", user: 1, seconds: 300)
        #expect(memory.stop("/login", user: 1) == .pause)
        #expect(memory.ask("/login", user: 1, .reading) == .go && memory.ask("/login", user: 1, .writing) == .go)
        #expect(memory.ask("/login?x", user: 1) == .go && memory.ask("/login", user: 2) == .go && memory.ask("/a", user: 1) == .go)
        #expect(memory.ask("/login", client: 2, user: 1) == .go)
        memory.now = 59_999
        #expect(memory.stop("/login", user: 1) == .pause)
        memory.now = 60_000
        #expect(memory.ask("/login", user: 1) == .go)
        memory.pause("/login", user: 1, seconds: 20)
        memory.good("/login", user: 2)
        #expect(memory.stop("/login", user: 1) == .pause)
        memory.good("/login", user: 1)
        #expect(memory.ask("/login", user: 1) == .go)
        let none = Memory { $0.retryAfterLimit = 0 }
        none.pause("/a", user: 1, seconds: .max / 1000)
        #expect(none.ask("/a", user: 1) == .go)
    }

    @Test("a 503 pause ends with any success of the upstream or its route; a 429 pause is unaffected by them")
    func unavailable() {
        let memory = Memory()
        for (target, status) in [("/limited", 429), ("/unavailable", 503)] as [(String, Status)] {
            memory.pause(target, status, seconds: 300)
            #expect(memory.stop(target) == .pause)
        }
        // Neither a failure nor outcomes on a route are evidence that the pause is over.
        memory.pause("/routed", route: 0, 503, seconds: 300)
        memory.bad("/other", client: 2, .status(500))
        #expect(memory.stop("/unavailable") == .pause && memory.stop("/routed", route: 0) == .pause)
        memory.now = 10_000
        memory.good("/other", client: 2)
        #expect(memory.ask("/unavailable") == .go && memory.stop("/limited") == .pause && memory.stop("/routed", route: 0) == .pause)
        #expect(memory.open == [.pause, .pause])
        memory.good("/r", client: 2, route: 0)
        #expect(memory.ask("/routed", route: 0) == .go && memory.open == [.pause])
        // When the upstream asks again, a new pause starts.
        memory.pause("/unavailable", 503, seconds: 300)
        #expect(memory.stop("/unavailable") == .pause)
        memory.now = 309_999
        #expect(memory.stop("/unavailable") == .pause && memory.ask("/limited") == .go)
    }

    @Test("a very long Retry-After is capped without overflow")
    func longRetryAfter() {
        let memory = Memory()
        memory.memory.pause(Memory.scopes("/a"), 503, retryAfter: .max, now: 0)
        #expect(memory.stop("/a") == .pause)
        memory.memory.pause(Memory.scopes("/b"), 503, retryAfter: -1, now: 0)
        #expect(memory.ask("/b") == .go)
    }

    // MARK: All scopes

    @Test("a disabled failure memory records nothing")
    func off() {
        let memory = Memory { $0.isOn = false }
        for _ in 0..<50 {
            memory.refused()
            memory.failAll("/a/")
            memory.pause("/a/1", user: 1, seconds: 20)
        }
        #expect(memory.ask("/a/1", user: 1) == .go)
        #expect(memory.open == [] && memory.changes() == [])
    }

    @Test("an administrator can reset an open scope by its key")
    func reset() {
        let memory = unreachable()
        memory.pause("/p", user: 1, seconds: 20)
        for client in 0..<2 as Range<UInt64> { memory.bad("/a", client: client, .transfer(.responseTimeout)) }
        #expect(Set(memory.open) == [.address, .key, .pause])
        for scope in memory.memory.openScopes(now: 0) { memory.memory.reset(scope, now: 0) }
        #expect(memory.open == [])
        #expect(memory.ask("/p", user: 1) == .go && memory.ask("/a") == .go)
    }

    @Test("failures on any number of paths use bounded memory and do not affect healthy paths", .slow)
    func bounded() {
        let memory = Memory()
        for number in 0..<60_000 {
            memory.now += 1
            for _ in 0..<2 { memory.bad("/random/\(number)", client: 1) }
            if number % 100 == 0 { memory.good("/well", client: 2) }
            memory.pause("/random/\(number)", client: 3, seconds: 300)
        }
        #expect(memory.ask("/well", client: 2) == .go && memory.ask("/well", client: 1) == .go)
        #expect(memory.open.count <= 2 * FailureMemory.keyLimit + 1)
    }

    @Test("a full table evicts the least recently used entries and keeps protected ones")
    func recent() {
        var table = RecentTable<Int>(limit: 100) { $0 < 0 }
        for key in 0..<10 as Range<UInt64> { table.change(key) { $0 = key < 5 ? -1 : 1 } }
        for key in 100..<10_000 as Range<UInt64> {
            table.change(key) { $0 = 1 }
            table.change(9) { _ in }
            #expect(table.count <= 125)
        }
        #expect((0..<10 as Range<UInt64>).map { table[$0] != nil } == [true, true, true, true, true, false, false, false, false, true])
        table.change(0) { $0 = nil }
        #expect(table[0] == nil)
        for key in 0..<10_000 as Range<UInt64> { table.change(key) { $0 = -1 } }
        #expect(table.count <= 125)
    }

    @Test("the retry budget allows a percentage of the requests sent")
    func budget() {
        var budget = RetryBudget(percent: 10)
        var spent = 0
        while budget.spend() { spent += 1 }
        #expect(spent == 10)
        for _ in 0..<9 { budget.earn() }
        let isTooEarly = budget.spend()
        budget.earn()
        let isDue = budget.spend()
        var none = RetryBudget(percent: 0)
        let isSpent = none.spend()
        #expect(!isTooEarly && isDue && !isSpent)
    }
}
