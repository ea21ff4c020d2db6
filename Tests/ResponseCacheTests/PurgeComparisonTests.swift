// Tests that the work of comparing a record from another node with many purges is bounded.

import CachePolicy
import TestSupport
import Testing

@testable import ResponseCache

@Suite("Records of other nodes and many purges")
struct PurgeComparisonTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var target = "/users/1"
        var count = 1_024
        /// Number of records after which all purges are parsed.
        var records = 40
        /// Whether the record is compared with all purges, none of which selects it.
        let isCompared: Bool
        let purge: @Sendable (Int) -> PurgeCriteria
    }

    private static let oddTarget = "/" + String(repeating: "a%20;b/../", count: 100)

    @Test(
        "a record is compared with 1,024 usual purges; if the comparisons take long, it counts as purged",
        arguments: [
            Row(testDescription: "tags", isCompared: true) { number in criteria { $0.tag = "product-\(number)" } },
            Row(testDescription: "prefixes", isCompared: true) { number in criteria { $0.prefix = "/products/\(number)/" } },
            Row(testDescription: "patterns", isCompared: true) { number in criteria { $0.matching = "/products/\(number)/*" } },
            Row(testDescription: "long credentials", count: 120, records: 120, isCompared: true) { number in
                criteria { $0.user = .init(shared: [], sealed: [UInt8](repeating: UInt8(number % 250), count: 16_000)) }
            },
            Row(testDescription: "long exceptions", count: 400, records: 100, isCompared: true) { number in
                criteria { ($0.matching, $0.except) = ("/x/\(number)", (0..<100).map { "/products/\($0)/**" }) }
            },
            Row(testDescription: "many exceptions that match", count: 400, records: 100, isCompared: false) { number in
                criteria { ($0.matching, $0.except) = ("/users/*", (0..<200).map { "/products/\(number)/\($0)" } + ["/users/1"]) }
            },
            Row(testDescription: "a path with many readings", target: oddTarget, isCompared: false) { number in
                criteria { $0.matching = "/products/*/items/*/*/*/*/*/\(number)" }
            },
        ])
    func bounded(_ row: Row) throws {
        let cache = try FleetCache()
        let fields = [("X-User", "ann")]
        try cache.test.fetch(row.target, fields, [("Cache-Control", "private, max-age=60"), ("Cache-Tag", "t")])
        let record = try #require(cache.given.records.values.first).record
        let lookUp = try #require(try cache.lookUp(row.target, fields))
        let purges = (0..<row.count).map { FleetSelection(row.purge($0), apis: []).bytes }
        func compared(_ budget: PurgeBudget = PurgeBudget()) -> Int {
            let isPurged = cache.test.cache.purges(of: record, for: lookUp, within: budget)
            return purges.prefix { !isPurged($0) }.count
        }
        // The first records are compared with few purges, because the others have to be parsed.
        let first = compared()
        #expect(first < 100)
        for _ in 0..<row.records { _ = compared() }
        #expect(compared() >= first && (compared() == purges.count) == row.isCompared, "\(compared())")
        // All records of a search share one budget.
        let budget = PurgeBudget()
        #expect((0..<40).map { _ in compared(budget) }.last == 0)
    }
}
