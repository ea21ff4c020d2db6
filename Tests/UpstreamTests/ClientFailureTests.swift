// Tests of failures and pauses that apply to one client, or to one host.

import HTTPCore
import Testing

@testable import Upstream

@Suite("The failure memory: clients and hosts")
struct ClientFailureTests {
    @Test("a Retry-After pause applies to every client that received it, however many, and to no other client")
    func pausesOfClients() {
        let memory = Memory()
        for client in 1...8 as ClosedRange<UInt64> { memory.pause("/a", client: client, seconds: 300) }
        for client in 1...8 as ClosedRange<UInt64> { #expect(memory.stop("/a", client: client) == .pause) }
        #expect(memory.ask("/a", client: 9) == .go)
        memory.now = 299_000
        #expect(memory.checks("/a", client: 1) == false && memory.ask("/a", client: 9) == .go)
        memory.good("/a", client: 9)
        #expect(memory.ask("/a", client: 1) == .go)
    }

    @Test("failures and pauses of one host do not affect other hosts")
    func hosts() {
        let memory = Memory()
        for client in 1...2 as ClosedRange<UInt64> {
            for _ in 0..<2 { memory.memory.fail(Memory.scopes("/a", host: "a", client: client), .status(503), began: 0, now: 0) }
        }
        memory.memory.pause(Memory.scopes("/b", host: "a"), 429, retryAfter: 10_000, now: 0)
        for (target, host, isStopped) in [("/a", "a", true), ("/a", "b", false), ("/b", "a", true), ("/b", "b", false), ("/a", "", false)] {
            let admission = memory.memory.admit(Memory.scopes(target, host: host), .withCopy(mayCheckInBackground: true), now: 0)
            #expect((admission != .go) == isStopped, "\(host) \(target)")
        }
        for route in [nil, 1] {
            #expect(Memory.scopes("/a", host: "a", route: route).family != Memory.scopes("/a", host: "b", route: route).family)
        }
    }
}
