// Tests of slots that are shared like connections.

import TestSupport
import Testing

@testable import Upstream

@Suite("Slots shared by several kinds of work")
struct ConnectionSlotsTests {
    private static func shares(_ family: Int, _ client: Int) -> ConnectionShares {
        var shares = ConnectionShares(ConnectionShare(.family(UInt64(family)), .free))
        shares.append(ConnectionShare(.client(UInt64(client)), .free))
        return shares
    }

    @Test(
        "one client or family that never releases takes at most half of the slots, and the next one finds a slot", arguments: [2, 3, 8, 64])
    func oneShareAtMostHalf(count: Int) {
        var slots = ConnectionSlots(count: count)
        var held = 0
        while slots.take(Self.shares(1, 1)) { held += 1 }
        #expect(held == (count + 1) / 2)
        // One client with many paths counts like one path with many clients.
        for number in 2..<100 {
            let (ofClient, ofFamily) = (slots.take(Self.shares(number, 1)), slots.take(Self.shares(1, number)))
            #expect(!ofClient && !ofFamily)
        }
        let another = slots.take(Self.shares(2, 2))
        #expect(another)
    }

    private struct Walk {
        let count: Int
        var slots: ConnectionSlots
        var healthy: ConnectionShares?

        init(_ random: inout SeededGenerator) {
            count = 8 + random.below(57)
            slots = ConnectionSlots(count: count)
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            switch random.below(4) {
            case 0: _ = slots.take(ConnectionSlotsTests.shares(1, 10 + random.below(10)))
            case 1: _ = slots.take(ConnectionSlotsTests.shares(10 + random.below(10), 1))
            default:
                if let healthy { slots.release(healthy) }
                healthy = healthy == nil ? ConnectionSlotsTests.shares(100, 100) : nil
                if let healthy { try demand(slots.take(healthy), "of \(count)") }
            }
            try demand(slots.taken <= count)
        }
    }

    @Test("random schedules: a path and a client that never release leave a free slot for those that do")
    func walk() {
        RandomSchedules.run(100, steps: 100) {
            Walk(&$0)
        } step: {
            try $0.step(&$1)
        }
    }

    @Test("without slots every request is denied")
    func none() {
        var slots = ConnectionSlots(count: 0)
        let (named, unnamed) = (slots.take(Self.shares(1, 1)), slots.take([]))
        #expect(!named && !unnamed)
    }
}
