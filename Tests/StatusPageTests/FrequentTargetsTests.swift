// Tables of the most frequent targets, counted with limited memory.

import Testing

@testable import Explanation

@Suite("Frequent targets")
struct FrequentTargetsTests {
    private static func counted(_ targets: [String], capacity: Int) -> [String] {
        var table = FrequentTargets(capacity: capacity)
        for target in targets { table.count(Array(target.utf8)[...], ofAPI: 0) }
        return RecentTargets.most(table.counted, limit: 10).map { one in
            "\(String(decoding: one.target, as: UTF8.self))\(one.isAtLeast ? ">=" : "=")\(one.count)"
        }
    }

    @Test(
        "counts are exact while the table has room, and never too high afterwards",
        arguments: [
            ([], []), (["a"], ["a=1"]), (["a", "b", "a"], ["a=2", "b=1"]), (["b", "a"], ["a=1", "b=1"]),
            (["a", "a", "b", "c", "c"], ["a=2", "c=2", "b=1"]),
            // d replaces b, and e replaces d, without taking over their counts.
            (["a", "a", "b", "c", "c", "d"], ["a=2", "c=2", "d>=1"]), (["a", "a", "b", "c", "c", "d", "e", "e"], ["a=2", "c=2", "e>=2"]),
        ] as [([String], [String])])
    func room(targets: [String], told: [String]) {
        #expect(Self.counted(targets, capacity: 3) == told)
    }

    @Test("a target above the share threshold is always listed, at any position among any number of others")
    func share() {
        for place in 0..<3 {
            let targets = (0..<3_000).map { $0 % 10 == place ? "/often" : "/\($0)" }
            let told = Self.counted(targets, capacity: 64)
            #expect(told.first == "/often=300", "\(told)")
        }
        var late = FrequentTargets(capacity: 8)
        for number in 0..<800 { late.count(Array("/\(number)".utf8)[...], ofAPI: 0) }
        for _ in 0..<200 { late.count(Array("/late".utf8)[...], ofAPI: 0) }
        let first = RecentTargets.most(late.counted, limit: 1)
        #expect(first.first?.target == Array("/late".utf8) && first.first?.count == 200 && first.first?.isAtLeast == true)
    }

    @Test("long targets with a common beginning stay distinct, and so do those of several APIs")
    func apart() {
        var table = FrequentTargets(capacity: 64)
        let long = "/" + String(repeating: "x", count: 300)
        for number in 0..<12 { table.count(Array("\(long)\(number)".utf8)[...], ofAPI: 0) }
        for api in [1, 2, 2] as [UInt16] { table.count(Array("/a".utf8)[...], ofAPI: api) }
        let told = RecentTargets.most(table.counted, limit: 20)
        #expect(told.count == 14 && told.count { $0.isCut && $0.count == 1 && $0.target.count == FrequentTargets.targetBytes } == 12)
        #expect(told.first?.api == 2 && told.first?.count == 2 && told.first?.isCut == false)
    }

    @Test("counts of several event loops and periods are summed and expire after an hour")
    func spans() {
        let target = Array("/a".utf8)[...]
        var (one, other) = (RecentTargets(), RecentTargets())
        for minute in [0, 9, 10, 30] as [Int64] { one.count(target, ofAPI: 0, now: minute * 60_000) }
        other.count(target, ofAPI: 0, now: 50 * 60_000)
        func told(at minute: Int64) -> UInt64? {
            let now = minute * 60_000
            return RecentTargets.most(one.counted(now: now) + other.counted(now: now), limit: 10).first?.count
        }
        #expect(
            told(at: 50) == 5 && told(at: 59) == 5 && told(at: 60) == 3 && told(at: 70) == 2 && told(at: 90) == 1 && told(at: 110) == nil)
        #expect(RecentTargets.since(now: 59 * 60_000) == 0 && RecentTargets.since(now: 60 * 60_000) == 600_000)
        one.count(target, ofAPI: 0, now: 90 * 60_000)
        #expect(told(at: 90) == 2)
    }
}
