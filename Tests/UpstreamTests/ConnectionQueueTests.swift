// Tests of the order in which waiting requests get a connection, as lists of events and results.

import TestSupport
import Testing

@testable import Upstream

@Suite("Queue for upstream connections")
struct ConnectionQueueTests {
    private typealias Queue = ConnectionQueue<String>

    private static let slow = ConnectionShare(.failing, .connections(1))
    private static let half = ConnectionShare(.streamedContent, .connections(2))

    @Test("waiting requests are served in order of arrival; cancelled ones are skipped")
    func order() {
        var queue = Queue(connections: 100, limit: 10)
        let places = ["a", "b", "c", "d"].map { queue.enter($0, []) }
        queue.leave(places[0])
        queue.leave(places[2])
        queue.leave(places[2])
        #expect(queue.count == 2)
        #expect([queue.next(), queue.next(), queue.next()] == ["b", "d", nil])
        #expect(queue.count == 0)
    }

    @Test("requests overtake those whose share is exhausted; the latter resume in order when the share has capacity")
    func shares() {
        var queue = Queue(connections: 100, limit: 10)
        #expect(queue.take([Self.slow]) == true)
        #expect(queue.take([Self.slow]) == false)
        let wanted: [(String, ConnectionShares)] = [("a", [Self.slow]), ("b", [Self.slow]), ("c", []), ("d", [Self.half])]
        for (name, shares) in wanted { _ = queue.enter(name, shares) }
        #expect([queue.next(), queue.next(), queue.next()] == ["c", "d", nil])
        queue.release([Self.slow])
        #expect([queue.next(), queue.next()] == ["a", nil])
        queue.release([Self.slow])
        _ = queue.enter("e", [])
        #expect([queue.next(), queue.next(), queue.next()] == ["b", "e", nil])
    }

    @Test("a running request joins another share if it has capacity, and releases it with its connection")
    func join() {
        var queue = Queue(connections: 4, limit: 10)
        let share = ConnectionShare(.streams, .connections(2))
        for _ in 0..<3 { #expect(queue.take([]) == true) }
        #expect([queue.join([share]), queue.join([share]), queue.join([share])] == [true, true, false])
        queue.release([share])
        #expect(queue.join([share]) == true)
        // A running request already holds its connection, so the last one is still free.
        #expect(queue.take([ConnectionShare(.family(1), .free)]) == true)
    }

    @Test("a request of two shares waits until both have capacity, and does not block requests of one share")
    func twoShares() {
        var queue = Queue(connections: 100, limit: 10)
        for share in [Self.slow, Self.half, Self.half] { #expect(queue.take([share]) == true) }
        _ = queue.enter("both", [Self.half, Self.slow])
        _ = queue.enter("half", [Self.half])
        #expect(queue.next() == nil)
        queue.release([Self.half])
        #expect([queue.next(), queue.next()] == ["half", nil])
        queue.release([Self.slow])
        #expect(queue.next() == nil)
        queue.release([Self.half])
        #expect(queue.next() == "both")
        for share in [Self.slow, Self.half] { #expect(queue.take([share]) == false) }
    }

    @Test("a request that cancels after its share was freed passes its turn to the next request of the share")
    func cancelledTurn() {
        var queue = Queue(connections: 100, limit: 10)
        #expect(queue.take([Self.slow]) == true)
        let first = queue.enter("a", [Self.slow])
        _ = queue.enter("b", [Self.slow])
        #expect(queue.next() == nil)
        queue.release([Self.slow])
        queue.leave(first)
        #expect(queue.next() == "b")
    }

    @Test("one share may fill half of the queue; all shares that were exhausted on arrival may fill three quarters")
    func bounds() {
        var queue = Queue(connections: 100, limit: 8)
        fill(&queue, Self.slow)
        fill(&queue, Self.half)
        for number in 0..<4 { _ = queue.enter("\(number)", [Self.slow]) }
        #expect(!queue.mayEnter([Self.slow]))
        #expect(queue.mayEnter([Self.half]))
        for number in 4..<6 { _ = queue.enter("\(number)", [Self.half]) }
        #expect(!queue.mayEnter([Self.half]))
        #expect(queue.mayEnter([]))
        for number in 6..<8 { _ = queue.enter("\(number)", []) }
        #expect(!queue.mayEnter([]))
    }

    @Test("requests that wait only for a connection, not for a share, may fill the whole queue")
    func wholeQueue() {
        var queue = Queue(connections: 100, limit: 8)
        for number in 0..<4 { _ = queue.enter("\(number)", [Self.slow]) }
        for number in 4..<8 {
            #expect(queue.mayEnter([Self.half]))
            _ = queue.enter("\(number)", [Self.half])
        }
        #expect(!queue.mayEnter([]))
    }

    private func fill(_ queue: inout Queue, _ share: ConnectionShare) {
        while queue.take([share]) {}
    }

    private static func family(_ number: Int) -> ConnectionShare { ConnectionShare(.family(UInt64(number)), .free) }

    struct SlowRow: CustomTestStringConvertible {
        let connections: Int
        /// Number of waiting requests of each family. All of one family arrive before those of the next.
        let wanted: [Int]
        let held: [Int]
        let testDescription: String

        init(_ testDescription: String, _ connections: Int, _ wanted: [Int], _ held: [Int]) {
            (self.testDescription, self.connections, self.wanted, self.held) = (testDescription, connections, wanted, held)
        }
    }

    @Test(
        "a path family holds fewer connections than are free, so that other families find a free one",
        arguments: [
            SlowRow("one family has half", 12, [20], [6]), SlowRow("one family has the larger half of an odd number", 13, [20], [7]),
            SlowRow("the next family has half of the rest", 12, [20, 20, 20], [6, 3, 2]),
            SlowRow("a family without a connection takes the last one", 2, [5, 5], [1, 1]), SlowRow("the only connection", 1, [5], [1]),
            SlowRow("families take no more than they need", 12, [1, 2, 20], [1, 2, 5]),
            SlowRow("long polls by default", UpstreamSettings(host: "a", port: 1).maximumConnections, [150, 128], [150, 128]),
        ])
    func slowFamilies(_ row: SlowRow) {
        var queue = Queue(connections: row.connections, limit: 1_000)
        let held = row.wanted.enumerated().map { family, wanted in
            (0..<wanted).count { _ in queue.take([Self.family(family)]) }
        }
        #expect(held == row.held)
    }

    @Test("a freed connection goes to the first request whose family is below its limit, past families at their limit")
    func freed() {
        var queue = Queue(connections: 6, limit: 10)
        for family in [1, 1, 1, 2, 3] {
            let isTaken = queue.take([Self.family(family)])
            #expect(isTaken)
        }
        _ = queue.enter("first", [Self.family(1)])
        _ = queue.enter("second", [Self.family(2)])
        #expect(queue.next() == nil)
        queue.release([Self.family(1)])
        #expect([queue.next(), queue.next()] == ["second", nil])
        queue.release([Self.family(1)])
        #expect([queue.next(), queue.next()] == ["first", nil])
    }

    @Test("a background request is served last, but not starved by later client requests")
    func postponed() {
        var queue = Queue(connections: 2, limit: 100)
        _ = queue.enter("background", [], isBackground: true)
        var served: [String] = []
        for number in 0..<10 {
            _ = queue.enter("\(number)", [])
            served.append(queue.next() ?? "nobody")
        }
        #expect(served.firstIndex(of: "background").map { (2...5).contains($0) } == true, "\(served)")
    }

    @Test("background requests are served last and may fill only half of the queue")
    func background() {
        var queue = Queue(connections: 4, limit: 4)
        for name in ["x", "y"] {
            #expect(queue.mayEnter([], isBackground: true))
            _ = queue.enter(name, [], isBackground: true)
        }
        #expect(!queue.mayEnter([], isBackground: true) && queue.mayEnter([]))
        for name in ["a", "b"] { _ = queue.enter(name, []) }
        #expect([queue.next(), queue.next(), queue.next(), queue.next(), queue.next()] == ["a", "b", "x", "y", nil])
    }

    /// A waiting request, for comparison with the queue by a linear search.
    private struct Walker {
        let number: Int
        let shares: ConnectionShares
        let place: ConnectionQueue<Int>.Waiter
    }

    private struct Walk {
        private static let connections = 12
        private static let fixed = (0..<3).map { ConnectionShare(.family(UInt64(100 + $0)), .connections($0 + 1)) }
        private static let families = (0..<4).map(ConnectionQueueTests.family)

        var queue = ConnectionQueue<Int>(connections: connections, limit: .max / 4)
        var waiting: [Walker] = []
        var running: [ConnectionShares] = []
        var number = 0

        private func isFull(_ share: ConnectionShare) -> Bool {
            let held = running.count { $0.contains(share) }
            let free = Self.connections - running.count
            return switch share.limit {
            case .connections(let count): held >= count
            case .free: held > 0 && held >= free
            case .twiceFree: held > 0 && (free < 2 || held >= 2 * free)
            case .exceptReserve: held > 0 && free <= 2
            case .part:
                if case .clientInFamily(let family, _) = share.name {
                    held > 0 && held + running.count { $0.contains { $0.name == .family(family) } } >= 2 * free
                } else {
                    false
                }
            }
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            number += 1
            switch random.below(5) {
            case 0, 1:
                var wanted: ConnectionShares = []
                for share in Self.fixed where random.isTrue(oneIn: 4) { wanted.append(share) }
                if random.isTrue() { wanted.append(random.pick(Self.families)) }
                if random.isTrue() {
                    // Some numbers differ in their high bits only.
                    let family = random.isTrue() ? random.below(8) : 32 * random.below(100)
                    wanted.append(contentsOf: .family(200 + UInt64(family), of: UInt64(random.below(3))))
                }
                waiting.append(Walker(number: number, shares: wanted, place: queue.enter(number, wanted)))
            case 2 where !waiting.isEmpty: queue.leave(waiting.remove(at: random.below(waiting.count)).place)
            case 3 where !running.isEmpty: queue.release(running.remove(at: random.below(running.count)))
            default:
                // As in production: no request is taken from the queue without a free connection.
                guard running.count < Self.connections else { return }
                let wanted = waiting.first { !$0.shares.contains(where: isFull) }
                try demand(queue.next() == wanted?.number)
                guard let wanted else { return }
                running.append(wanted.shares)
                waiting.removeAll { $0.number == wanted.number }
            }
            try demand(queue.count == waiting.count)
            for share in running.joined() { try demand(queue.held(by: share.name) == running.count { $0.contains(share) }) }
        }
    }

    @Test("random schedules: no request is lost, no share exceeds its limit, and admissible requests are served in order of arrival")
    func walk() {
        RandomSchedules.run(16, steps: 500) { _ in
            Walk()
        } step: {
            try $0.step(&$1)
        }
    }
}
