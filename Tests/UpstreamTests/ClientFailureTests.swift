// Whom failures and pauses are for: one client, or one host.

import HTTPCore
import Testing

@testable import Upstream

@Suite("The failure memory: clients and hosts")
struct ClientFailureTests {
    @Test("a pause of one who has no credentials may be that client's alone: others look, once each recheck, until many were told the same")
    func pausesOfClients() {
        let memory = Memory()
        func pause(_ client: UInt64) {
            memory.memory.pause(Memory.scopes("/a", client: client), 429, retryAfter: 300_000, now: memory.now)
        }
        func looks(_ client: UInt64, mayLookBehind: Bool = true) -> Bool? {
            switch memory.memory.admit(Memory.scopes("/a", client: client), .withCopy(mayLookBehind: mayLookBehind), now: memory.now) {
            case .serveCopy(_, let looksBehind): looksBehind
            case .go, .refuse: nil
            }
        }
        pause(1)
        #expect(looks(1) == false && looks(2) == false)
        memory.now = 1_000
        // Being told again does not keep the others from looking.
        pause(1)
        #expect(looks(1) == false)
        #expect(looks(2) == true && looks(2) == false && looks(3) == false)
        memory.now = 2_000
        // What cannot be asked in the background looks itself.
        #expect(looks(3, mayLookBehind: false) == nil && looks(3) == false)
        memory.memory.succeed(Memory.scopes("/a", client: 3), isQuick: true, now: memory.now)
        #expect(looks(1) == nil)
        for client in 1...8 as ClosedRange<UInt64> { pause(client) }
        memory.now = 10_000
        #expect(looks(9) == false)
    }

    @Test("a host's failures and pauses are its own")
    func hosts() {
        let memory = Memory()
        for user in 1...2 as ClosedRange<UInt64> {
            for _ in 0..<5 { memory.memory.fail(Memory.scopes("/a", host: "a", user: user), .status(503), began: 0, now: 0) }
        }
        memory.memory.pause(Memory.scopes("/b", host: "a"), 429, retryAfter: 10_000, now: 0)
        for (target, host, isStopped) in [("/a", "a", true), ("/a", "b", false), ("/b", "a", true), ("/b", "b", false), ("/a", "", false)] {
            let admission = memory.memory.admit(Memory.scopes(target, host: host), .withCopy(mayLookBehind: true), now: 0)
            #expect((admission != .go) == isStopped, "\(host) \(target)")
        }
        for route in [nil, 1] {
            #expect(Memory.scopes("/a", host: "a", route: route).family != Memory.scopes("/a", host: "b", route: route).family)
        }
    }
}
