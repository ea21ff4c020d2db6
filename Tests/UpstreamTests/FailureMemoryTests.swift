// The failure memory as lists of events and responses; the time is given.

import HTTPCore
import TestSupport
import Testing

@testable import Upstream

@Suite("Failure memory")
struct FailureMemoryTests {
    // MARK: The address

    private func unreachable() -> Memory {
        let memory = Memory()
        for _ in 0..<5 { memory.refused() }
        return memory
    }

    @Test("an address counts as out of reach after failures in a row, none of which began before something was heard of it")
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

    @Test("out of reach: copies at once, reads without one are refused; a write is tried unless an attempt has just failed")
    func unreachableRequests() {
        let memory = unreachable()
        let stop = FailureStop(scope: .address, cause: .transfer(.connectionRefused), since: 0, wait: 1_000)
        #expect(memory.ask("/a") == .serveCopy(stop, looksBehind: false))
        #expect(memory.ask("/b", .reading) == .refuse(stop))
        memory.now = 999
        #expect(memory.ask("/c", .writing) == .refuse(stop))
        memory.now = 1_000
        #expect(memory.ask("/c", .writing) == .go)
        #expect(memory.ask("/b", .reading) == .refuse(stop))
    }

    @Test("a connection is tried each recheck, never less often, and its success is the end of it")
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

    @Test("what failed while it was out of reach says nothing of the paths afterwards; nor what was asked then and fails late")
    func era() {
        let memory = Memory()
        memory.good("/x/0")
        memory.now = 11_000
        memory.good("/other")
        memory.failFamily("/x/")
        #expect(memory.stop("/x/0") == .family)
        for _ in 0..<5 { memory.refused() }
        memory.now = 12_000
        memory.reach()
        #expect(memory.ask("/x/0") == .go)
        for number in 0..<9 {
            for user in [1, 2] as [UInt64] { memory.bad("/x/\(number)", user: user, .transfer(.connectionReadTimeout), began: 11_500) }
        }
        memory.now = 30_000
        #expect(memory.open == [])
    }

    // MARK: One path

    @Test("a path counts as failing after failures in a row; only copies of it are held to it")
    func target() {
        let memory = Memory()
        for number in 0..<4 as Range<UInt64> { memory.bad("/a", user: number) }
        #expect(memory.ask("/a") == .go)
        memory.bad("/a?b=c", user: 9)
        #expect(memory.stop("/a?d") == .target)
        #expect(memory.ask("/a", .reading) == .go)
        #expect(memory.ask("/a", .writing) == .go)
        #expect(memory.ask("/b") == .go)
        memory.good("/a?e", user: 7)
        #expect(memory.ask("/a") == .go)
        #expect(memory.changes() == ["+target", "-target"])
    }

    @Test("what one user sees fail, or with the same arguments, stops nobody else")
    func witnesses() {
        let memory = Memory()
        for _ in 0..<50 { memory.bad("/me", user: 1) }
        #expect(memory.stop("/me", user: 1) == .target)
        #expect(memory.ask("/me", user: 2) == .go)
        for _ in 0..<50 { memory.bad("/search?q=bad") }
        #expect(memory.stop("/search?q=bad") == .target)
        #expect(memory.ask("/search?q=good") == .go)

        let wide = Memory()
        wide.good("/u/0", user: 2)
        wide.now = 11_000
        for number in 0..<50 { wide.bad("/u/\(number)", user: 1) }
        #expect(wide.stop("/u/60", user: 1) == .upstream || wide.stop("/u/60", user: 1) == .family)
        #expect(wide.ask("/u/60", user: 2) == .go)
    }

    @Test("failures that lie further apart than the window are no row")
    func sparse() {
        let memory = Memory()
        for number in 0..<20 as Range<UInt64> {
            memory.now += 10_001
            memory.bad("/a", user: number)
        }
        #expect(memory.ask("/a") == .go)
    }

    @Test("a good response that is late leaves a path as it is, and shows that its family is well")
    func late() {
        let memory = Memory()
        for number in 0..<5 as Range<UInt64> {
            memory.bad("/reports/1", user: number, .slow)
            memory.good("/reports/1", user: number, isQuick: false)
        }
        #expect(memory.stop("/reports/1") == .target)
        memory.now = 20_000
        memory.good("/other")
        memory.failFamily("/reports/", paths: 4)
        #expect(memory.ask("/reports/9") == .go)
        memory.good("/reports/1")
        #expect(memory.ask("/reports/1") == .go)
    }

    // MARK: A family

    @Test("a family counts as failing after five different paths, none having succeeded within the window; any success ends it")
    func family() {
        let memory = Memory()
        memory.good("/f/0")
        memory.good("/other")
        memory.now = 9_999
        memory.failFamily("/f/")
        #expect(memory.ask("/f/9") == .go)
        memory.now = 10_500
        memory.good("/other")
        memory.failFamily("/f/", paths: 1)
        #expect(memory.stop("/f/9") == .family)
        #expect(memory.ask("/f/9", .reading) == .go && memory.ask("/f/9", .writing) == .go)
        #expect(memory.ask("/f") == .go && memory.ask("/f/g/1") == .go)
        memory.good("/f/77")
        #expect(memory.ask("/f/9") == .go)
    }

    @Test("four paths are no family, however often they fail")
    func fourPaths() {
        let memory = Memory()
        memory.good("/other")
        for _ in 0..<40 {
            memory.now += 1_000
            memory.good("/other")
            memory.failFamily("/f/", paths: 4)
        }
        #expect(memory.ask("/f/9") == .go)
        #expect(memory.stop("/f/3") == .target)
    }

    @Test("paths of a route are one family, whatever their directories")
    func routes() {
        let memory = Memory()
        memory.memory.succeed(Memory.scopes("/a/1", route: 3), isQuick: true, now: 0)
        memory.now = 10_000
        memory.good("/other/1")
        for number in 0..<5 {
            for user in [1, 2] as [UInt64] {
                memory.memory.fail(Memory.scopes("/a\(number)/1", user: user, route: 3), .status(503), began: 10_000, now: 10_000)
            }
        }
        guard case .serveCopy(let stop, _) = memory.memory.admit(Memory.scopes("/z", route: 3), .withCopy(mayLookBehind: true), now: 10_000)
        else {
            Issue.record("not stopped")
            return
        }
        #expect(stop.scope == .family)
        #expect(memory.memory.openScopes(now: 10_000).contains { $0.scope == .family(.route(3)) })
        #expect(memory.ask("/a0/2") == .go)
    }

    @Test("junk tells of its own path only: never of a family or of all")
    func junk() {
        let memory = Memory()
        memory.good("/f/0")
        memory.now = 20_000
        for number in 1...9 {
            for user in [1, 2] as [UInt64] {
                for _ in 0..<5 { memory.bad("/f/\(number)", user: user, .junk) }
            }
            #expect(memory.stop("/f/\(number)") == .target)
        }
        #expect(memory.ask("/f/0") == .go && memory.ask("/g/1") == .go)
        #expect(memory.memory.openScopes(now: memory.now).allSatisfy { $0.scope.kind == .target })
    }

    @Test("a path that was found well while its family failed goes by itself from then on")
    func apart() {
        let memory = Memory()
        memory.good("/f/0")
        memory.now = 10_000
        memory.good("/other")
        memory.failFamily("/f/")
        #expect(memory.stop("/f/good") == .family)
        memory.good("/f/good")
        memory.now = 20_000
        memory.good("/other")
        memory.failFamily("/f/")
        #expect(memory.stop("/f/unknown") == .family)
        #expect(memory.ask("/f/good") == .go)
        memory.bad("/f/good", user: 1)
        #expect(memory.stop("/f/good") == .family)
    }

    // MARK: All

    @Test("all counts as failing after three paths and no success at all; of one family it tells nothing of the others")
    func upstream() {
        let memory = Memory()
        memory.good("/a/0")
        memory.now = 10_000
        memory.failFamily("/a/", paths: 2)
        #expect(memory.ask("/a/1") == .go)
        memory.failFamily("/a/", paths: 3)
        #expect(memory.stop("/a/9") == .upstream)
        #expect(memory.ask("/b/9") == .go)
        memory.failFamily("/b/", paths: 1)
        #expect(memory.stop("/c/9") == .upstream)
        #expect(memory.ask("/c/9", .reading) == .go && memory.ask("/c/9", .writing) == .go)
        // Which families have failed is known, however many paths of one fail last.
        memory.failFamily("/a/", paths: 40)
        #expect(memory.stop("/c/9") == .upstream)
        memory.good("/c/9")
        #expect(memory.ask("/a/9") == .go && memory.ask("/b/9") == .go)
    }

    // MARK: Looking

    @Test("one request a recheck looks: in the background where it can, else itself")
    func looks() {
        let memory = Memory()
        for number in 0..<5 as Range<UInt64> { memory.bad("/a", user: number) }
        let stop = { (wait: Int64) in FailureStop(scope: .target, cause: .status(503), since: 0, wait: wait) }
        memory.now = 999
        #expect(memory.ask("/a") == .serveCopy(stop(1), looksBehind: false))
        #expect(memory.look(.target, "/a") == .notYet(1))
        memory.now = 1_000
        #expect(memory.ask("/a") == .serveCopy(stop(0), looksBehind: true))
        #expect(memory.ask("/a") == .serveCopy(stop(1_000), looksBehind: false))
        memory.now = 2_000
        #expect(memory.ask("/a", .withCopy(mayLookBehind: false)) == .go)
        #expect(memory.ask("/a", .withCopy(mayLookBehind: false)) == .serveCopy(stop(1_000), looksBehind: false))
        memory.now = 3_000
        #expect(memory.look(.target, "/a") == .due)
        #expect(memory.look(.target, "/a") == .notYet(1_000))
        memory.good("/a")
        #expect(memory.look(.target, "/a") == .over)
        #expect(memory.look(.family, "/a") == .over && memory.look(.upstream, "/a") == .over)
    }

    @Test("while all fails, or the family, nothing within it is looked at beside")
    func oneLook() {
        let memory = Memory()
        memory.good("/f/0")
        memory.now = 10_000
        memory.good("/other")
        memory.failFamily("/f/", paths: 5)
        memory.now = 10_100
        for number in 0..<5 as Range<UInt64> { memory.bad("/f/1", user: number) }
        memory.now = 11_100
        #expect(memory.look(.target, "/f/1") == .notYet(1_000))
        #expect(memory.look(.family, "/f/1") == .due)
        memory.now = 21_000
        memory.failFamily("/f/", paths: 5)
        memory.failFamily("/g/", paths: 1)
        memory.now = 22_000
        #expect(memory.look(.family, "/f/1") == .notYet(1_000))
        #expect(memory.look(.upstream, "/f/1") == .due)
    }

    @Test("what nobody has looked at for two rechecks is asked as if it had not failed")
    func lapse() {
        let memory = Memory()
        for number in 0..<5 as Range<UInt64> { memory.bad("/a", user: number) }
        memory.now = 2_000
        #expect(memory.open == [.target])
        memory.now = 2_001
        #expect(memory.open == [])
        #expect(memory.ask("/a") == .go)
        #expect(memory.changes() == ["+target", "-target"])
    }

    // MARK: Pauses

    @Test("a pause is one user's, on one path, no longer than allowed, and over when the upstream has answered well")
    func pauses() {
        let memory = Memory { $0.retryAfterLimit = 60_000 }
        memory.pause("/login", user: 1, seconds: 300)
        #expect(memory.stop("/login", user: 1) == .pause)
        #expect(memory.stop("/login?x", user: 1) == .pause)
        #expect(memory.ask("/login", user: 1, .reading) == .go && memory.ask("/login", user: 1, .writing) == .go)
        #expect(memory.ask("/login", user: 2) == .go && memory.ask("/login") == .go && memory.ask("/a", user: 1) == .go)
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

    @Test("a long wish is cut, never an overflow")
    func longWish() {
        let memory = Memory()
        memory.memory.pause(Memory.scopes("/a"), 503, retryAfter: .max, now: 0)
        #expect(memory.stop("/a") == .pause)
        memory.memory.pause(Memory.scopes("/b"), 503, retryAfter: -1, now: 0)
        #expect(memory.ask("/b") == .go)
    }

    // MARK: The whole

    @Test("switched off, nothing is remembered")
    func off() {
        let memory = Memory { $0.isOn = false }
        for _ in 0..<50 {
            memory.refused()
            memory.failFamily("/a/")
            memory.pause("/a/1", user: 1, seconds: 20)
        }
        #expect(memory.ask("/a/1", user: 1) == .go)
        #expect(memory.open == [] && memory.changes() == [])
    }

    @Test("a scope is reset by its key")
    func reset() {
        let memory = unreachable()
        memory.pause("/p", user: 1, seconds: 20)
        for number in 0..<5 as Range<UInt64> { memory.bad("/a", user: number, .slow) }
        #expect(memory.open == [.address, .target, .pause])
        for scope in memory.memory.openScopes(now: 0) { memory.memory.reset(scope) }
        #expect(memory.open == [])
        #expect(memory.ask("/p", user: 1) == .go && memory.ask("/a") == .go)
    }

    @Test("however many paths fail, so many are remembered and no more, and what is well stays well", .slow)
    func bounded() {
        let memory = Memory()
        for number in 0..<60_000 {
            memory.now += 1
            memory.bad("/random/\(number)/x", user: 1)
            memory.bad("/random/\(number)", user: 2)
            if number % 100 == 0 { memory.good("/well") }
            memory.pause("/random/\(number)", user: 3, seconds: 300)
        }
        #expect(memory.ask("/well") == .go && memory.ask("/well", user: 1) == .go)
        #expect(memory.open.count <= FailureMemory.targetLimit + FailureMemory.familyLimit + FailureMemory.pauseLimit)
    }

    @Test("a table forgets what was not used lately, and keeps what is to be kept, within bounds")
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

    /// What fails, and how: each at a share of the traffic.
    private enum Bad: CaseIterable { case onePath, oneUser, onePathOfOneUser }

    @Test("one path or one user fails in any way: no neighbour is ever stopped", .slow, arguments: [1, 5, 9])
    func neighbours(tenths: Int) {
        var random = Seeded(state: 4_711 + UInt64(tenths))
        for bad in Bad.allCases {
            let memory = Memory()
            for _ in 0..<20_000 {
                memory.now += Int64.random(in: 0...20, using: &random)
                let fails = Int.random(in: 0..<10, using: &random) < tenths
                let user: UInt64 = fails && bad != .onePath ? 1 : .random(in: 2...9, using: &random)
                let path = fails && bad != .oneUser ? "/f/bad" : "/f/\(Int.random(in: 0..<20, using: &random))"
                let response = memory.ask(path, user: user)
                if !fails { #expect(response == .go, "\(bad): \(path) of \(user) at \(memory.now)") }
                guard response == .go else { continue }
                guard fails else {
                    memory.good(path, user: user)
                    continue
                }
                switch Int.random(in: 0..<6, using: &random) {
                case 0: memory.bad(path, user: user, .slow, began: memory.now - 1_500)
                case 1: memory.bad(path, user: user, .transfer(.connectionReadTimeout), began: memory.now - 30_000)
                case 2: memory.bad(path, user: user, .transfer(.connectionTerminated))
                case 3: memory.bad(path, user: user, .junk)
                case 4: memory.pause(path, user: user, seconds: 300)
                default: memory.bad(path, user: user)
                }
            }
        }
    }

    @Test("repeats are a share of what is sent")
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

/// SplitMix64: the same walk each time.
private struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }
}
