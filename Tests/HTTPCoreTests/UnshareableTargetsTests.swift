// Tests how long a target is remembered as unshareable, and how much of the table one client can use.

import HTTPCore
import Testing

@Suite("Targets with unshareable responses")
struct UnshareableTargetsTests {
    private func target(_ number: Int, of client: UInt64 = 0) -> SeededHash { SeededHash(client << 32 | UInt64(number)) }

    @Test(
        "a target is remembered for ten times the upstream's time, within bounds",
        arguments: [(0, 100), (-5, 100), (10, 100), (11, 110), (3_000, 30_000), (60_000, 600_000), (.max, 600_000)] as [(Int64, Int64)])
    func duration(upstream: Int64, milliseconds: Int64) {
        #expect(UnshareableTargets.milliseconds(upstream: upstream) == milliseconds)
    }

    @Test("an entry expires by itself and is removed by a shareable response")
    func ending() {
        var targets = UnshareableTargets()
        targets.note(target(1), for: 100, by: 1, now: 0)
        targets.note(target(2), for: 100, by: 1, now: 0)
        #expect(targets.contains(target(1), now: 99) && !targets.contains(target(1), now: 100))
        targets.forget(target(1))
        let wasThere = targets.forget(target(2))
        #expect(wasThere && !targets.contains(target(2), now: 0) && targets.isEmpty)
    }

    @Test("a client with very many targets does not displace the entries of other clients")
    func greedyClient() {
        var targets = UnshareableTargets()
        targets.note(target(0, of: 1), for: 1_000, by: 1, now: 0)
        for number in 0..<3 * UnshareableTargets.limit { targets.note(target(number, of: 2), for: 1_000, by: 2, now: 0) }
        targets.note(target(1, of: 1), for: 1_000, by: 1, now: 0)
        #expect(targets.contains(target(0, of: 1), now: 0) && targets.contains(target(1, of: 1), now: 0))
        let own = (0..<3 * UnshareableTargets.limit).count { targets.contains(target($0, of: 2), now: 0) }
        #expect(own == UnshareableTargets.clientLimit)
        // When its targets expire, the client can add others.
        targets.note(target(7, of: 3), for: 1_000, by: 2, now: 1_000)
        #expect(targets.contains(target(7, of: 3), now: 1_000))
    }

    @Test("the number of entries is limited, whichever clients add them")
    func full() {
        var targets = UnshareableTargets()
        let clients = UInt64(UnshareableTargets.limit / UnshareableTargets.clientLimit) + 2
        for client in 1...clients {
            for number in 0..<UnshareableTargets.clientLimit { targets.note(target(number, of: client), for: 1_000, by: client, now: 0) }
        }
        let all = (1...clients).reduce(0) { sum, client in
            sum + (0..<UnshareableTargets.clientLimit).count { targets.contains(target($0, of: client), now: 0) }
        }
        #expect(all == UnshareableTargets.limit)
    }
}
