// Tests of the memory and connections that all clients share, as far as tests over sockets do not cover them.

import Addresses
import TestSupport
import Testing

@testable import Downstream

@Suite("Connection limits across shards")
struct ConnectionBudgetTests {
    private let budget = ConnectionBudget(DownstreamSettings())
    private static let crowd = ConnectionBudget.crowd
    private static let heap = ConnectionBudget.heap

    @Test("memory is returned to the system once after most of many connections have closed")
    func crowd() {
        for _ in 0..<(Self.crowd - 1) { #expect(budget.take()) }
        for _ in 0..<(Self.crowd - 1) { budget.giveBack() }
        #expect(!budget.hasMemoryToReturn(), "too few")
        for _ in 0..<(2 * Self.crowd) { #expect(budget.take()) }
        for _ in 0..<(Self.crowd - 1) { budget.giveBack() }
        #expect(!budget.hasMemoryToReturn(), "most connections are still open")
        budget.giveBack()
        #expect(budget.hasMemoryToReturn())
        #expect(!budget.hasMemoryToReturn(), "it was returned before")
        for _ in 0..<Self.crowd { budget.giveBack() }
        #expect(budget.hasMemoryToReturn(), "memory of the remaining connections")
    }

    @Test("memory is returned to the system after most of many unsent bytes were sent")
    func unsent() {
        func hold(_ change: Int) -> Bool { budget.hold(change, of: Self.peer(1)) }
        #expect(hold(Self.heap - 1) && hold(1 - Self.heap))
        #expect(!budget.hasMemoryToReturn(), "not enough memory was released")
        #expect(hold(3 * Self.heap) && hold(-Self.heap))
        #expect(!budget.hasMemoryToReturn(), "most of the memory is still in use")
        #expect(hold(-2 * Self.heap) && budget.hasMemoryToReturn())
        #expect(!budget.hasMemoryToReturn(), "it was returned before")
    }

    // MARK: Shares of unsent responses

    @Test(
        "little memory lowers the limits of memory, but content of one request still fits",
        arguments: [(32 << 30, 512, 64), (4 << 30, 512, 64), (1 << 30, 128, 16), (256 << 20, 32, 8)])
    func memory(bytes: Int, unsent: Int, requestBuffers: Int) {
        var settings = DownstreamSettings()
        settings.requestBufferBytes = 8 << 20
        settings.limitMemory(to: bytes)
        #expect(settings.unsentLimitBytes == unsent << 20 && settings.requestBuffersBytes == requestBuffers << 20)
    }

    private static func limited(to limit: Int, trusting proxies: [IPNetwork] = []) -> ConnectionBudget {
        var settings = DownstreamSettings()
        (settings.unsentLimitBytes, settings.trustedProxies) = (limit, NetworkList(proxies))
        return ConnectionBudget(settings)
    }

    private static func peer(_ number: UInt32) -> PeerAddress { PeerAddress(IPAddress(ipv4: 0x0a00_0000 + number), port: 1) }

    private struct Shares {
        let attackers: UInt32
        let budget = ConnectionBudgetTests.limited(to: 1 << 20)
        var held: [(peer: PeerAddress, bytes: Int)]

        init(_ random: inout SeededGenerator) {
            let attackers = UInt32(1 + random.below(6))
            self.attackers = attackers
            held = (0..<64).map { _ in (ConnectionBudgetTests.peer(.random(in: 1...attackers, using: &random)), 0) }
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            let (place, piece) = (random.below(64), 1 + random.below(16 << 10))
            held[place].bytes += piece
            if !budget.hold(piece, of: held[place].peer) || random.isTrue(oneIn: 500) {
                try demand(budget.hold(-held[place].bytes, of: held[place].peer))
                held[place].bytes = 0
            }
            try demand(budget.unsentBytes == held.reduce(0) { $0 + $1.bytes })
            // Each further address may use half of the remaining memory.
            let room = (1 << 20) >> Int(attackers + 1)
            let other = ConnectionBudgetTests.peer(100)
            try demand(budget.hold(room, of: other) && budget.hold(-room, of: other), "\(attackers) attackers")
        }
    }

    /// Attackers read nothing on any number of connections. A connection that exceeds the limit is closed and releases its memory.
    @Test("clients that read nothing leave memory for the responses to other clients")
    func shares() {
        var cut: UInt64 = 0
        let isWhole = RandomSchedules.run(40, steps: 2_500) {
            Shares(&$0)
        } step: {
            try $0.step(&$1)
        } end: {
            cut += UInt64($0.budget.cut)
        }
        #expect(!isWhole || cut > 40)
    }

    @Test("one address may hold half of the memory for unsent responses, and a trusted proxy or Unix socket all of it")
    func halves() throws {
        let budget = Self.limited(to: 1_000, trusting: [try IPNetwork("10.0.0.9")])
        #expect(budget.hold(500, of: Self.peer(1)) && !budget.hold(1, of: Self.peer(1)))
        #expect(budget.hold(-501, of: Self.peer(1)) && budget.unsentBytes == 0)
        for proxy in [Self.peer(9), PeerAddress(nil, port: 0)] {
            #expect(budget.hold(1_000, of: proxy) && !budget.hold(1, of: proxy) && budget.hold(-1_001, of: proxy))
        }
        #expect(Self.limited(to: 0).hold(1 << 40, of: Self.peer(1)), "no limit")
    }

    @Test("for reading ahead, an address may use a fraction of the part of the memory that it has not used")
    func readingAhead() throws {
        let budget = Self.limited(to: 64_000)
        #expect(budget.hold(16_000, of: Self.peer(1)))
        #expect(budget.mayReadAhead(holding: 1_000, for: Self.peer(1)) && !budget.mayReadAhead(holding: 1_001, for: Self.peer(1)))
        #expect(budget.hold(1, of: Self.peer(1)) && !budget.mayReadAhead(holding: 1, for: Self.peer(1)))
        #expect(budget.mayReadAhead(holding: 900, for: Self.peer(2)))
        // Counting per address starts again.
        var settings = DownstreamSettings()
        (settings.unsentLimitBytes, settings.trustedProxies) = (64_000, NetworkList([try IPNetwork("10.0.0.9")]))
        budget.use(settings)
        #expect(budget.hold(-16_001, of: Self.peer(1)) && budget.unsentBytes == 0 && budget.hold(32_000, of: Self.peer(1)))
    }
}
