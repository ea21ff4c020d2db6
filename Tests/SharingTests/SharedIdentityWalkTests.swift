// Random schedules of nodes that look up users and follow one log, against a model of the upstream. Sessions change their users at any
// node. After a node has applied the entry of a write, it uses no partition of a former user.

import CachePolicy
import Fleet
import Identity
import Reactor
import ResponseCache
import TestSupport
import Testing

@testable import Sharing

/// Milliseconds, read by the nodes.
private final class WalkClock: Sendable {
    private let time = Mutex<Int64>(0)

    var now: Int64 {
        get { time.withLock { $0 } }
        set { time.withLock { $0 = newValue } }
    }
}

/// One node with its look-up results.
private struct IdentityNode {
    static let blindLimit: Int64 = 30_000

    let table: LookedUpIdentities
    let tables = IdentityTables()
    let link: FleetLogLink
    /// Number of log entries that the node has read.
    var position = 0
    var isConnected = true
    var lookUps: [(started: StartedLookUp, token: Int, user: UInt8)] = []
    var reads: [(told: LookedUpIdentity, token: Int, user: UInt8?)] = []
    /// Writes without a response, which the upstream may still process until this time.
    var lost: [(until: Int64, token: Int, end: () -> Void)] = []
    var active: [(write: IdentityWrite, token: Int, isRejected: Bool)] = []
    /// For each partition without a known user: the users whose responses are stored in it.
    var own: [[UInt8]: Set<UInt8>] = [:]
    /// For each token, index of the first user of its history that the node may use.
    var known: [Int]

    init(_ clock: WalkClock, tokens: Int) {
        var settings = LookUpSettings()
        settings.path = "/me"
        let link = FleetLogLink(blindLimit: Self.blindLimit, afterGap: .stale, since: 0)
        self.link = link
        table = LookedUpIdentities(settings) { link.blindPeriod(at: Timestamp(milliseconds: clock.now)) }
        tables.add([table])
        known = (0..<tokens).map { _ in 0 }
    }

    func isSuspended(_ token: Int) -> Bool { lost.contains { $0.token == token } || active.contains { $0.token == token } }
}

private struct SharedIdentityModel {
    private let clock = WalkClock()
    private var nodes: [IdentityNode]
    /// The users of each token at the upstream, with the time from which they have it.
    private var history: [[(since: Int64, user: UInt8)]]
    private var log: [LogEntry] = []
    /// Number of entries that were removed from the log.
    private var removed = 0
    /// Writes that the upstream may process until this time, although no response will arrive.
    private var pending: [(until: Int64, token: Int)] = []
    private(set) var counts = (hits: 0, ownHits: 0, ended: 0, blind: 0, gaps: 0)

    init(_ random: inout SeededGenerator) {
        history = (0..<3).map { _ in [(since: Int64(0), user: UInt8(random.below(2)))] }
        let (common, count) = (clock, 2 + random.below(2))
        nodes = (0..<count).map { _ in IdentityNode(common, tokens: 3) }
        for node in nodes { node.link.see(until: Timestamp(milliseconds: 1_500)) }
    }

    private func user(_ token: Int) -> UInt8 { history[token].last?.user ?? 0 }
    private func hash(_ token: Int, _ random: inout SeededGenerator) -> [UInt8] { [UInt8(token), UInt8(random.below(2))] }
    private static func token(_ token: Int) -> [UInt8] { [UInt8](repeating: UInt8(token), count: FleetMembership.tokenBytes) }

    mutating func step(_ random: inout SeededGenerator) throws {
        let (node, token) = (random.below(nodes.count), random.below(history.count))
        switch random.below(14) {
        case 0: pass(Int64(random.below(random.isTrue(oneIn: 4) ? 40_000 : 2_000)), &random)
        case 1, 2:
            if let started = nodes[node].table.begin(hash(token, &random), token: Self.token(token), now: clock.now) {
                nodes[node].lookUps.append((started, token, user(token)))
            }
        case 3, 4: finishLookUp(node, &random)
        case 5, 6: try read(node, token, &random)
        case 7: finishRead(node, &random)
        case 8:
            let isRejected = random.below(4) == 0
            let write = IdentityWrite([Self.token(token)], in: nodes[node].tables.all)
            nodes[node].active.append((write, token, isRejected))
        case 9: finishWrite(node, &random)
        case 10, 11, 12: follow(node, upTo: log.count - random.below(2))
        default: changeLink(node, &random)
        }
    }

    private mutating func pass(_ milliseconds: Int64, _ random: inout SeededGenerator) {
        let now = clock.now + milliseconds
        var left: [(until: Int64, token: Int)] = []
        for one in pending {
            if one.until <= now || random.isTrue(oneIn: 3) { change(one.token, &random) } else { left.append(one) }
        }
        (pending, clock.now) = (left, now)
        for node in nodes.indices {
            for one in nodes[node].lost where one.until <= now {
                one.end()
                nodes[node].known[one.token] = history[one.token].count - 1
            }
            nodes[node].lost.removeAll { $0.until <= now }
        }
    }

    private mutating func change(_ token: Int, _ random: inout SeededGenerator) {
        history[token].append((clock.now, UInt8(random.below(2))))
    }

    /// The upstream determined the user when the look-up began, or does so now.
    private mutating func finishLookUp(_ node: Int, _ random: inout SeededGenerator) {
        guard !nodes[node].lookUps.isEmpty else { return }
        let lookUp = nodes[node].lookUps.remove(at: random.below(nodes[node].lookUps.count))
        let partition = [random.isTrue() ? lookUp.user : user(lookUp.token)]
        nodes[node].table.end(lookUp.started, random.below(8) == 0 ? .failed : .lookedUp(partition: partition), now: clock.now)
    }

    /// The users that a node may take a token for: those since the last write that it knows, and while it is disconnected for longer, those
    /// of the time limit.
    private func allowed(_ node: Int, _ token: Int) -> Set<UInt8> {
        var first = nodes[node].known[token]
        if nodes[node].link.blindPeriod(at: Timestamp(milliseconds: clock.now)) != nil {
            let oldest = clock.now - IdentityNode.blindLimit
            first = max(first, history[token].lastIndex { $0.since <= oldest } ?? 0)
        }
        return Set(history[token][first...].map(\.user))
    }

    private mutating func read(_ node: Int, _ token: Int, _ random: inout SeededGenerator) throws {
        let isBlind = nodes[node].link.blindPeriod(at: Timestamp(milliseconds: clock.now)) != nil
        let told = nodes[node].table.find(hash(token, &random), tokens: [Self.token(token)], now: clock.now)
        let (allowed, name) = (self.allowed(node, token), "node \(node), token \(token) of user \(user(token))")
        if let partition = told.partition {
            counts.hits += 1
            if isBlind { counts.blind += 1 }
            try demand(!nodes[node].isSuspended(token), "\(name) is known during a write")
            try demand(allowed.contains { [$0] == partition }, "\(name) reads responses of \(partition), allowed are \(allowed)")
        }
        if !told.isCurrent, let found = nodes[node].own[told.ownPartition(told.hash)] {
            counts.ownHits += 1
            try demand(found.isSubset(of: allowed), "\(name) reads responses of \(found) in its own partition, allowed are \(allowed)")
        }
        nodes[node].reads.append((told, token, random.isTrue() ? user(token) : nil))
    }

    private mutating func finishRead(_ node: Int, _ random: inout SeededGenerator) {
        guard !nodes[node].reads.isEmpty else { return }
        let read = nodes[node].reads.remove(at: random.below(nodes[node].reads.count))
        guard !read.told.isCurrent, read.told.isUnchanged else { return }
        nodes[node].own[read.told.ownPartition(read.told.hash), default: []].insert(read.user ?? user(read.token))
    }

    /// A write that is not rejected changes the user. Its response, or its loss, is announced.
    private mutating func finishWrite(_ node: Int, _ random: inout SeededGenerator) {
        guard !nodes[node].active.isEmpty else { return }
        let (write, token, isRejected) = nodes[node].active[random.below(nodes[node].active.count)]
        let isLost = !isRejected && random.below(3) == 0
        if isRejected {
            write.isWithoutEffect = true
        } else if isLost {
            pending.append((clock.now + IdentityWrite.lossMilliseconds, token))
            _ = write.noteLoss(now: clock.now)
            noteLoss(of: token, at: node)
        } else {
            change(token, &random)
        }
        nodes[node].active.removeAll { $0.write === write }
        guard !isRejected else { return }
        if !isLost { nodes[node].known[token] = history[token].count - 1 }
        let message = LogMessage(tokens: [[UInt8](repeating: 9, count: FleetMembership.tokenBytes), Self.token(token)], isLost: isLost)
        log.append(LogEntry(message, origin: LogOrigin(node: UInt64(node), sequence: UInt64(log.count + 1))))
    }

    // MARK: The log

    private mutating func follow(_ node: Int, upTo end: Int) {
        guard nodes[node].isConnected else { return }
        if nodes[node].position < removed {
            apply([.everything(isSoft: true, coversWrites: true)], at: node)
            nodes[node].position = removed
            counts.gaps += 1
        }
        while nodes[node].position < end {
            let entry = LogEntry(fields: LogEntry.adding(sealedArgument: [], to: log[nodes[node].position].fields))
            let message = LogMessage(entry.message.kind, argument: log[nodes[node].position].message.argument, isSoft: entry.message.isSoft)
            // A node has applied its own entries.
            if entry.origin?.node != UInt64(node) { apply(FleetOrder.orders(of: message), at: node) }
            nodes[node].position += 1
        }
        if nodes[node].position == log.count { nodes[node].link.see(until: Timestamp(milliseconds: clock.now + 1_500)) }
    }

    private mutating func apply(_ orders: [FleetOrder], at node: Int) {
        for order in orders {
            let (tokens, isLost): ([[UInt8]]?, Bool) =
                switch order {
                case .identities(let tokens, let isLost): (tokens, isLost)
                case .everything, .mark, .purge: (nil, false)
                }
            _ = nodes[node].tables.followWrite(with: tokens, isLost: isLost, now: clock.now)
            counts.ended += 1
            for token in history.indices where tokens?.contains(Self.token(token)) ?? true {
                nodes[node].known[token] = history[token].count - 1
                if isLost { noteLoss(of: token, at: node) }
            }
        }
    }

    private mutating func noteLoss(of token: Int, at node: Int) {
        let (table, clock) = (nodes[node].table, clock)
        nodes[node].lost.append((clock.now + IdentityWrite.lossMilliseconds, token, { _ = table.endLosses(now: clock.now) }))
    }

    /// Connects or disconnects a node. While one is disconnected, the log may lose entries.
    private mutating func changeLink(_ node: Int, _ random: inout SeededGenerator) {
        nodes[node].isConnected.toggle()
        guard !nodes[node].isConnected else { return follow(node, upTo: log.count) }
        if random.isTrue() { nodes[node].link.lose(at: Timestamp(milliseconds: clock.now)) }
        if random.below(4) == 0 { removed = log.count }
    }
}

@Suite("Changes of a token's user on several nodes")
struct SharedIdentityWalk {
    @Test("after a node has applied a write, no request with its token gets responses of a former user")
    func walk() {
        var sum = (hits: 0, ownHits: 0, ended: 0, blind: 0, gaps: 0)
        let isWhole = RandomSchedules.run(5_000, steps: 120) {
            SharedIdentityModel(&$0)
        } step: {
            try $0.step(&$1)
        } end: {
            let one = $0.counts
            sum = (sum.hits + one.hits, sum.ownHits + one.ownHits, sum.ended + one.ended, sum.blind + one.blind, sum.gaps + one.gaps)
        }
        let isVaried = [sum.hits, sum.ownHits, sum.ended, sum.gaps].allSatisfy { $0 > 1_000 } && sum.blind > 20
        #expect(!isWhole || isVaried, "\(sum)")
    }

    @Test("a message that replaces writes, or that cannot be read, concerns all tokens; a purge of everything concerns none")
    func messages() {
        let hash = [UInt8](repeating: 7, count: FleetMembership.tokenBytes)
        #expect(FleetOrder.orders(of: LogMessage(tokens: [hash, hash], isLost: true)) == [.identities([hash, hash], isLost: true)])
        for message in [LogMessage.everythingStale, LogMessage(.unknown, isSoft: true), LogMessage(.identities, argument: [1])] {
            #expect(FleetOrder.orders(of: message) == [.everything(isSoft: true, coversWrites: true)])
        }
        #expect(FleetOrder.orders(of: LogMessage(.all, isSoft: true)) == [.everything(isSoft: true)])
        #expect(LogMessage.everythingStale.tableMarks == [.all] && LogMessage(tokens: [hash], isLost: false).tableMarks.isEmpty)
    }

    @Test("what a node knows about users ends once in each period without the log, also after the clock was set back")
    func periods() {
        let link = FleetLogLink(blindLimit: 30_000, afterGap: .stale, since: 0)
        func period(_ now: Int64) -> Int64? { link.blindPeriod(at: Timestamp(milliseconds: now)) }
        #expect([0, 29_999, 30_000, 59_999, 60_000].map(period) == [nil, nil, 30_000, 30_000, 60_000])
        link.see(until: Timestamp(milliseconds: 70_000))
        #expect(period(69_999) == nil && period(99_999) == nil && period(100_000) == 100_000)
        link.lose(at: Timestamp(milliseconds: 65_000))
        #expect(period(64_999) == 35_000 && period(94_999) == nil && period(95_000) == 95_000)
        let unlimited = FleetLogLink(blindLimit: nil, afterGap: .stale, since: 0)
        #expect(unlimited.blindPeriod(at: Timestamp(milliseconds: 1_000_000)) == nil)
    }
}
