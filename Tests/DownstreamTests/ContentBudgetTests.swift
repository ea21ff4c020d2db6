// Tables that decide whether a request's content is read whole, and tests of the memory that is counted.

import Testing

@testable import Downstream

@Suite("Request content: buffered or streamed")
struct ContentBudgetTests {
    struct Announced: CustomTestStringConvertible {
        let testDescription: String
        let announced: Int?
        let limit: Int
        let expected: ContentTaking

        init(_ name: String, _ announced: Int?, limit: Int, _ expected: ContentTaking) {
            (testDescription, self.announced, self.limit, self.expected) = (name, announced, limit, expected)
        }
    }

    private static let rules = ContentRules(eachBytes: 1_000, totalBytes: 64_000)

    @Test(
        "the announced length decides whether content is buffered",
        arguments: [
            Announced("content up to the limit is buffered", 1_000, limit: 1_000, .whole),
            Announced("content above the limit is streamed from the start", 1_001, limit: 1_000, .streamed(.tooLong)),
            Announced("a route's greater limit", 5_000, limit: 5_000, .whole),
            Announced("content of unknown length is buffered at first", nil, limit: 1_000, .whole),
            Announced("limit 0: content is streamed", 1, limit: 0, .streamed(.tooLong)),
            Announced("limit 0: content of unknown length is streamed", nil, limit: 0, .streamed(.tooLong)),
            Announced("limit 0: empty content", 0, limit: 0, .whole),
            Announced("the greatest possible length", .max, limit: 1_000, .streamed(.tooLong)),
        ])
    func atTheHead(_ row: Announced) {
        #expect(Self.rules.decide(announced: row.announced, limit: row.limit) == row.expected)
    }

    struct More: CustomTestStringConvertible {
        let testDescription: String
        let held: Int
        let used: Int
        let limit: Int
        let expected: ContentTaking

        init(_ name: String, _ held: Int, used: Int, limit: Int = 1_000, _ expected: ContentTaking) {
            (testDescription, self.held, self.used, self.limit, self.expected) = (name, held, used, limit, expected)
        }
    }

    @Test(
        "the received length and the free memory decide whether content is buffered",
        arguments: [
            More("all memory is free: up to the limit", 1_000, used: 1_000, .whole),
            More("all memory is free: above the limit", 1_001, used: 1_001, .streamed(.tooLong)),
            More("a quarter of the memory is free: up to the limit", 1_000, used: 48_000, .whole),
            More("an eighth of the memory is free: half of the limit", 500, used: 56_000, .whole),
            More("an eighth of the memory is free: more than half of the limit", 501, used: 56_000, .streamed(.noCapacity)),
            More("little memory is free: little content", 15, used: 63_000, .whole),
            More("the total is exceeded", 1, used: 64_001, .streamed(.noCapacity)),
            More("no memory is free", 1, used: 64_000, .streamed(.noCapacity)),
            More("a route's greater limit while half of the memory is free", 5_000, used: 32_000, limit: 5_000, .whole),
            More(
                "a route's greater limit while less than half of the memory is free", 5_000, used: 32_001, limit: 5_000,
                .streamed(.noCapacity)),
            More("the common limit while less than half of the memory is free", 1_000, used: 32_001, limit: 5_000, .whole),
            More("content above the limit while no memory is free", 6_000, used: 64_001, limit: 5_000, .streamed(.tooLong)),
        ])
    func unchanged(_ row: More) {
        #expect(Self.rules.decide(held: row.held, used: row.used, limit: row.limit) == row.expected)
    }

    private func budget(each: Int, total: Int) -> ContentBudget {
        var settings = DownstreamSettings()
        (settings.requestBufferBytes, settings.requestBuffersBytes) = (each, total)
        return ContentBudget(settings)
    }

    @Test("however many slow requests use their full buffer, a small one finds space, and the total stays limited")
    func fairness() {
        let budget = budget(each: 256 << 10, total: 64 << 20)
        let slow = (0..<2_000).map { _ in ContentHold(budget, limit: 256 << 10) }
        var streamed = Set<Int>()
        for _ in 0..<256 {
            for (number, hold) in slow.enumerated() where !streamed.contains(number) && hold.take(1 << 10) != .whole {
                streamed.insert(number)
            }
        }
        #expect(streamed.count == 2_000)
        #expect(budget.heldBytes <= 64 << 20 && budget.heldBytes == slow.reduce(0) { $0 + $1.bytes })
        let small = (0..<100).map { _ in ContentHold(budget, limit: 256 << 10) }
        #expect(small.allSatisfy { $0.take(10 << 10) == .whole })
    }

    @Test("buffered content is released with its request, even after a refusal")
    func givenBack() {
        let budget = budget(each: 100, total: 1_000)
        var first: ContentHold? = ContentHold(budget, limit: 100)
        let second = ContentHold(budget, limit: 100)
        #expect(first?.take(60) == .whole && first?.take(60) == .streamed(.tooLong) && first?.take(40) == .whole)
        #expect(second.take(10) == .whole)
        #expect(budget.heldBytes == 110)
        first = nil
        #expect(budget.heldBytes == 10)
    }

    @Test("with both limits zero nothing is buffered")
    func nothing() {
        let budget = budget(each: 0, total: 0)
        #expect(budget.rules.decide(announced: nil, limit: 0) == .streamed(.tooLong))
        #expect(ContentHold(budget, limit: 1).take(1) == .streamed(.noCapacity))
        #expect(budget.heldBytes == 0)
    }
}
