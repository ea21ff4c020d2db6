// Slots that are divided as connections are.

import TestSupport
import Testing

@testable import Upstream

@Suite("Slots that many kinds of work have in common")
struct SharedSlotsTests {
    private static func shares(_ family: Int, _ client: Int) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(UInt64(family)), .free))
        shares.append(ConnectionShare(.client(UInt64(client)), .free))
        return shares
    }

    @Test(
        "whoever takes all it can get, and keeps it, has half of them at most, and the next one still finds one", arguments: [2, 3, 8, 64])
    func hog(count: Int) {
        var slots = SharedSlots(count: count)
        var held = 0
        while slots.take(Self.shares(1, 1)) { held += 1 }
        #expect(held == (count + 1) / 2)
        // One client with many paths, and one path with many clients, are the same.
        for number in 2..<100 {
            let (ofClient, ofFamily) = (slots.take(Self.shares(number, 1)), slots.take(Self.shares(1, number)))
            #expect(!ofClient && !ofFamily)
        }
        let another = slots.take(Self.shares(2, 2))
        #expect(another)
    }

    @Test("random schedules: a bad path and a bad client never give back, and healthy ones that do always find a slot")
    func walk() {
        var generator = SeededGenerator(seed: Soak.seed)
        for _ in 0..<(Soak.steps ?? 10_000) / 100 {
            let count = Int.random(in: 8...64, using: &generator)
            var slots = SharedSlots(count: count)
            var healthy: [ConnectionShares] = []
            for _ in 0..<100 {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: _ = slots.take(Self.shares(1, Int.random(in: 10..<20, using: &generator)))
                case 1: _ = slots.take(Self.shares(Int.random(in: 10..<20, using: &generator), 1))
                case 2 where !healthy.isEmpty: slots.release(healthy.removeFirst())
                default:
                    let number = 100 + healthy.count
                    let shares = Self.shares(number, number)
                    guard healthy.count < 1 else { continue }
                    let isTaken = slots.take(shares)
                    #expect(isTaken)
                    healthy.append(shares)
                }
                #expect(slots.taken <= count)
            }
        }
    }

    @Test("without any slot nobody gets one")
    func none() {
        var slots = SharedSlots(count: 0)
        let (named, unnamed) = (slots.take(Self.shares(1, 1)), slots.take([]))
        #expect(!named && !unnamed)
    }
}
