// The order in which requests that wait get a connection, as lists of what happens and who goes.

import Testing

@testable import Upstream

@Suite("Who gets the next connection")
struct ConnectionQueueTests {
    private typealias Queue = ConnectionQueue<String>

    private static let slow = ConnectionShare(.failing, limit: 1)
    private static let half = ConnectionShare(.streamedContent, limit: 2)

    @Test("first come, first served; who gives up is passed over")
    func order() {
        var queue = Queue(limit: 10)
        let places = ["a", "b", "c", "d"].map { queue.enter($0, []) }
        queue.leave(places[0])
        queue.leave(places[2])
        queue.leave(places[2])
        #expect(queue.count == 2)
        #expect([queue.next(), queue.next(), queue.next()] == ["b", "d", nil])
        #expect(queue.count == 0)
    }

    @Test("others pass those whose share is full, and these go in their order as it gets free")
    func shares() {
        var queue = Queue(limit: 10)
        #expect(queue.take([Self.slow]) == true)
        #expect(queue.take([Self.slow]) == false)
        for (name, shares) in [("a", [Self.slow]), ("b", [Self.slow]), ("c", []), ("d", [Self.half])] { _ = queue.enter(name, shares) }
        #expect([queue.next(), queue.next(), queue.next()] == ["c", "d", nil])
        queue.release([Self.slow])
        #expect([queue.next(), queue.next()] == ["a", nil])
        queue.release([Self.slow])
        _ = queue.enter("e", [])
        #expect([queue.next(), queue.next(), queue.next()] == ["b", "e", nil])
    }

    @Test("a place in two shares is given when both have room, and keeps nobody out of the one that has")
    func twoShares() {
        var queue = Queue(limit: 10)
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

    @Test("who was let out of a share and gives up leaves the turn to the next of it")
    func turnIsPassedOn() {
        var queue = Queue(limit: 10)
        #expect(queue.take([Self.slow]) == true)
        let first = queue.enter("a", [Self.slow])
        _ = queue.enter("b", [Self.slow])
        #expect(queue.next() == nil)
        queue.release([Self.slow])
        queue.leave(first)
        #expect(queue.next() == "b")
    }

    @Test("one share has half of the queue at most, all that were full when they came three quarters")
    func bounds() {
        var queue = Queue(limit: 8)
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

    @Test("those who wait for a connection alone, and not for a share, have the whole queue")
    func wholeQueue() {
        var queue = Queue(limit: 8)
        for number in 0..<4 { _ = queue.enter("\(number)", [Self.slow]) }
        for number in 4..<8 {
            #expect(queue.mayEnter([Self.half]))
            _ = queue.enter("\(number)", [Self.half])
        }
        #expect(!queue.mayEnter([]))
    }

    private func fill(_ queue: inout Queue, _ share: ConnectionShare) {
        for _ in 0..<share.limit {
            let isTaken = queue.take([share])
            #expect(isTaken)
        }
    }

    @Test("a walk: nobody is forgotten, no share is overdrawn, and whoever may go goes before those who came later")
    func walk() {
        var numbers = SystemRandomNumberGenerator()
        let shares = (0..<4).map { ConnectionShare(.family(UInt64($0)), limit: $0 + 1) }
        var queue = ConnectionQueue<Int>(limit: .max / 4)
        var waiting: [(number: Int, shares: [ConnectionShare], place: ConnectionQueue<Int>.Place)] = []
        var running: [[ConnectionShare]] = []
        func isFull(_ share: ConnectionShare) -> Bool { running.count { $0.contains(share) } >= share.limit }
        for step in 0..<4_000 {
            switch Int.random(in: 0..<5, using: &numbers) {
            case 0, 1:
                let wanted = shares.filter { _ in Int.random(in: 0..<3, using: &numbers) == 0 }
                waiting.append((step, wanted, queue.enter(step, wanted)))
            case 2 where !waiting.isEmpty:
                queue.leave(waiting.remove(at: Int.random(in: 0..<waiting.count, using: &numbers)).place)
            case 3 where !running.isEmpty:
                queue.release(running.remove(at: Int.random(in: 0..<running.count, using: &numbers)))
            default:
                let wanted = waiting.first { !$0.shares.contains(where: isFull) }
                #expect(queue.next() == wanted?.number)
                guard let wanted else { continue }
                running.append(wanted.shares)
                waiting.removeAll { $0.number == wanted.number }
            }
            #expect(queue.count == waiting.count)
        }
    }
}
