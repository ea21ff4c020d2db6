// Tests of the table of leases: its limit, and the share of each client.

import Engine
import HTTPCore
import Reactor
import ResponseCache
import Testing

@testable import Sharing

@Suite("The table of leases")
struct LeaseTableTests {
    private static func key(_ number: Int) -> HashedKey { HashedKey(Array("\(number)".utf8)) }

    private static func lease(_ client: UInt64) -> HeldLease {
        let keys = EngineKeys(fleet: "play").recordKeys(of: [UInt8](repeating: 1, count: 32))
        return HeldLease(recordKeys: keys, owner: ObjectIdentifier(NoFleetStorage.instance), client: client, began: 0, end: 200)
    }

    @Test("one client holds a part of the leases, and gets another one when one of its leases ends")
    func share() {
        var table = LeaseTable()
        func hold(_ client: UInt64, _ number: Int) -> Bool { table.hold(Self.lease(client), for: Self.key(number)) }
        for number in 0..<2_000 { #expect(hold(7, number) == (number < LeaseTable.clientLimit)) }
        #expect(hold(8, 2_000))
        let removed = [table.remove(Self.key(0)), table.remove(Self.key(0))]
        #expect(removed.map { $0?.client } == [7, nil])
        #expect(hold(7, 2_001) && !hold(7, 2_002))
        // A lease that is taken again counts once.
        #expect(hold(7, 1) && table.held.count == LeaseTable.clientLimit + 1)
        // So does one that another request of a client with many leases takes again.
        #expect(hold(7, 2_000) && table.held.count == LeaseTable.clientLimit + 1)
    }

    @Test("all clients together hold a limited number of leases; clients without an address have no share")
    func limit() {
        var table = LeaseTable()
        for number in 0..<2_000 {
            let isHeld = table.hold(Self.lease(number < 1_000 ? 0 : UInt64(number)), for: Self.key(number))
            #expect(isHeld == (number < LeaseTable.limit))
        }
        for number in 0..<2_000 { table.remove(Self.key(number)) }
        #expect(table.held.isEmpty)
        let isHeld = table.hold(Self.lease(0), for: Self.key(1))
        #expect(isHeld)
    }
}
