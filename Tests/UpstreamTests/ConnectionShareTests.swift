// Tests of connections that are divided among clients.

import TestSupport
import Testing

@testable import Upstream

@Suite("Connections divided among clients")
struct ConnectionShareTests {
    private typealias Queue = ConnectionQueue<Int>

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let connections: Int
        /// For each client: its path family, and the number of connections that it wants. All of one client arrive before those of the next.
        let wanted: [(family: UInt64, count: Int)]
        let held: [Int]

        init(_ testDescription: String, _ connections: Int, _ wanted: [(UInt64, Int)], _ held: [Int]) {
            (self.testDescription, self.connections, self.held) = (testDescription, connections, held)
            self.wanted = wanted.map { (family: $0.0, count: $0.1) }
        }
    }

    @Test(
        "one client holds half of the connections for a path family; other clients and families find free ones",
        arguments: [
            Row("one client has half", 12, [(1, 20)], [6]), Row("the larger half of an odd number", 13, [(1, 20)], [7]),
            Row("the next family has half of the rest", 12, [(1, 20), (2, 20), (3, 20)], [6, 3, 1]),
            Row("a second client of the family", 12, [(1, 20), (1, 20), (1, 20)], [6, 2, 0]),
            Row("other clients need few", 8, [(1, 8), (1, 1), (1, 1), (1, 1), (2, 1)], [4, 1, 1, 0, 1]),
            Row("many clients of one family", 12, Array(repeating: (1, 1), count: 12), [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]),
            Row("by default", UpstreamSettings(host: "a", port: 1).maximumConnections, [(1, 600), (1, 600), (1, 600)], [256, 64, 16]),
            Row("no client takes the last connection from other families", 2, [(1, 5), (1, 5), (2, 5)], [1, 0, 1]),
            Row("the only connection", 1, [(1, 5), (1, 5)], [1, 0]),
        ])
    func families(_ row: Row) {
        var queue = Queue(connections: row.connections, limit: 10)
        let held = row.wanted.enumerated().map { client, wanted in
            (0..<wanted.count).count { _ in
                queue.running < row.connections && queue.take(.family(wanted.family, of: UInt64(client)))
            }
        }
        #expect(held == row.held)
    }

    @Test(
        "one client's streamed contents hold half of the connections, and all clients' two thirds",
        arguments: [(12, 6, 2), (8, 4, 2), (2, 1, 0)])
    func streamed(row: (connections: Int, first: Int, second: Int)) {
        var queue = Queue(connections: row.connections, limit: 10)
        let held = (0..<2).map { client in
            (0..<row.connections).count { _ in
                queue.take(.streamedContent(of: UInt64(client), connections: row.connections))
            }
        }
        #expect(held == [row.first, row.second])
    }

    @Test("requests of another client overtake those that wait for their own client, and find a place in the queue")
    func overtaking() {
        var queue = Queue(connections: 8, limit: 8)
        let (hog, other, third) = (ConnectionShares.family(1, of: 1), ConnectionShares.family(1, of: 2), ConnectionShares.family(1, of: 3))
        #expect((0..<8).count { _ in queue.take(hog) } == 4)
        for number in 0..<4 {
            #expect(queue.mayEnter(hog))
            _ = queue.enter(number, hog)
        }
        #expect(!queue.mayEnter(hog) && queue.mayEnter(other))
        _ = queue.enter(10, other)
        _ = queue.enter(11, third)
        #expect([queue.next(), queue.next(), queue.next()] == [10, 11, nil])
        queue.release(other)
        queue.release(hog)
        #expect([queue.next(), queue.next()] == [0, nil])
    }

    /// A client that keeps its connections, and clients with one request at a time, in one share.
    private struct Walk {
        let connections: Int
        let isFamily: Bool
        var queue: Queue
        var held = 0

        init(_ random: inout SeededGenerator) {
            connections = 4 + random.below(40)
            isFamily = random.isTrue()
            queue = Queue(connections: connections, limit: 100)
        }

        func shares(of client: Int) -> ConnectionShares {
            isFamily ? .family(7, of: UInt64(client)) : .streamedContent(of: UInt64(client), connections: connections)
        }

        mutating func step(_ random: inout SeededGenerator) throws {
            switch random.below(4) {
            case 0 where held > 0:
                queue.release(shares(of: 0))
                held -= 1
                if queue.next() != nil { held += 1 }
            case 1:
                let other = shares(of: 1 + random.below(1_000))
                try demand(queue.take(other), "\(held) of \(connections) are held")
                queue.release(other)
                if queue.next() != nil { held += 1 }
            default:
                if queue.take(shares(of: 0)) { held += 1 } else if queue.mayEnter(shares(of: 0)) { _ = queue.enter(1, shares(of: 0)) }
            }
            try demand(held <= (connections + 1) / 2)
        }
    }

    @Test("random schedules: whatever one client holds and wants, a request of another client for the same share is served at once")
    func walk() {
        RandomSchedules.run(32, steps: 300) {
            Walk(&$0)
        } step: {
            try $0.step(&$1)
        }
    }
}
