// Tests of the simulation: the incremental one equals a replay of all events.

import TestSupport
import Testing

@testable import Advice

@Suite("Advice: simulated freshness")
struct SimulationTests {
    struct Event {
        let at: Int64
        let target: Int
        /// Content at the upstream.
        let data: UInt64
        let isForced: Bool
    }

    /// Replays the events for one target and lifetime, with the whole history at hand.
    private static func replay(_ events: [Event], lifetime: Int64) -> FreshnessEffect {
        var effect = FreshnessEffect()
        var fetched: Int?
        // Equal data after a change counts as changed, because clients have seen the data between.
        var versions: [Int] = []
        for (index, event) in events.enumerated() {
            versions.append(index == 0 ? 0 : versions[index - 1] + (event.data == events[index - 1].data ? 0 : 1))
        }
        for (index, event) in events.enumerated() {
            guard let copy = fetched, !event.isForced, event.at - events[copy].at < lifetime else {
                fetched = index
                continue
            }
            effect.saved += 1
            guard versions[copy] != versions[index] else { continue }
            effect.outdated += 1
            let current = versions.lastIndex(of: versions[copy]) ?? copy
            effect.longest = max(effect.longest, UInt32(event.at - events[current].at))
        }
        return effect
    }

    @Test("the incremental simulation equals a replay of the events")
    func property() {
        RandomSchedules<Void>.run(300) { generator in
            var observed = Observed()
            observed.admit("/users/900")
            let before = observed.summary("/users/*")?.counts.effects ?? []
            let pace = Int64.random(in: 1...40_000, using: &generator)
            let (targets, change) = (Int.random(in: 1...6, using: &generator), Int.random(in: 1...30, using: &generator))
            var (data, events): ([UInt64], [Event]) = (Array(repeating: 1, count: targets), [])
            for _ in 0..<200 {
                observed.now += Int64.random(in: 0...pace, using: &generator)
                let target = Int.random(in: 0..<targets, using: &generator)
                if Int.random(in: 0..<change, using: &generator) == 0 { data[target] = UInt64.random(in: 1...3, using: &generator) }
                let isForced = Int.random(in: 0..<20, using: &generator) == 0
                events.append(Event(at: observed.now, target: target, data: data[target], isForced: isForced))
                observed.fetch("/users/\(target)", .good(.hash(data[target]), isStated: false), isForced: isForced)
            }
            let counts = try #require(observed.summary("/users/*")?.counts)
            for (index, seconds) in FreshnessCandidates.seconds.enumerated() {
                var expected = before[index]
                for target in 0..<targets {
                    let effect = Self.replay(events.filter { $0.target == target }, lifetime: seconds * 1_000)
                    expected.saved += effect.saved
                    expected.outdated += effect.outdated
                    expected.longest = max(expected.longest, effect.longest)
                }
                try demand(counts.effects[index] == expected, "\(seconds) s: \(counts.effects[index]), not \(expected)")
            }
        }
    }

    @Test("an unchanged response, and a change, are seen; the bound is the time since the data was last current")
    func example() throws {
        var observed = Observed()
        observed.admit("/users/900")
        let before = try #require(observed.summary("/users/*")?.counts)
        for (seconds, data) in [(0, 1), (4, 1), (4, 2), (1, 2), (7, 3), (40, 3)] as [(Int64, UInt64)] {
            observed.now += seconds * 1_000
            observed.fetch("/users/1", data == 2 ? .good(.hash(2), isStated: false) : .good(.hash(data), isStated: false))
        }
        let counts = try #require(observed.summary("/users/*")?.counts)
        #expect((counts.changed - before.changed, counts.unchanged - before.unchanged) == (2, 3))
        #expect(counts.shortestChange == 8_000)
        let ten = try #require(FreshnessCandidates.seconds.firstIndex(of: 10))
        // At 0 s fetched; 4 s current; 8 s and 9 s out of date since 4 s; 16 s fetched; 56 s fetched.
        #expect(counts.effects[ten].saved - before.effects[ten].saved == 3)
        #expect(counts.effects[ten].outdated == 2 && counts.effects[ten].longest == 5_000)
    }

    @Test("data of unknown content counts as changed")
    func unknown() {
        var observed = Observed()
        observed.admit("/users")
        for _ in 0..<3 { observed.fetch("/users", .good(.hash(0), isStated: false)) }
        #expect(observed.summary("/users")?.counts.changed == 3)
    }

    @Test("a confirmation without an entity tag in a new slot causes no change by the following data")
    func confirmed() {
        var observed = Observed()
        observed.admit("/users")
        for data in [1, 1, 2] as [UInt64] { observed.fetch("/users", .good(.hash(data), isStated: false)) }
        #expect(observed.summary("/users")?.counts.changed == 1)
    }

    @Test("a deletion, and withdrawn access, are changes of followed targets", arguments: [401, 403, 404, 410] as [UInt16])
    func absent(_ status: UInt16) throws {
        var observed = Observed()
        observed.admit("/users/900")
        let before = try #require(observed.summary("/users/*")?.counts)
        for _ in 0..<3 {
            for outcome in [.good(.hash(1), isStated: false), .absent(status, isStorable: false)] as [ObservedFetch.Outcome] {
                observed.now += 4_000
                observed.fetch("/users/1", outcome)
                observed.fetch("/users/2", .absent(status, isStorable: false))
            }
        }
        let counts = try #require(observed.summary("/users/*")?.counts)
        #expect(counts.changed == 5 && counts.followed - before.followed == 6)
        let ten = FreshnessCandidates.seconds.firstIndex(of: 10) ?? 0
        // At 4 s fetched; 8 s and, after two changes, 12 s out of date; 16 s fetched and not stored; 20 s fetched; 24 s out of date.
        #expect(counts.effects[ten].outdated == 3 && counts.missing == 0)
    }

    @Test("a lifetime that harms one target is reported")
    func unsteady() {
        var observed = Observed()
        observed.admit("/users/900")
        for number in 0..<1_000 {
            observed.now += 1_000
            observed.fetch("/users/\(number % 10)", .good(.hash(number % 10 == 0 ? UInt64(number) + 1 : 1), isStated: false))
        }
        let unsteady = observed.summary("/users/*")?.unsteady ?? []
        #expect(unsteady == Set(FreshnessCandidates.seconds.indices.filter { FreshnessCandidates.seconds[$0] > 10 }))
    }

    @Test("only the last six hours are kept, and a part of them can be selected")
    func hours() {
        var observed = Observed()
        observed.admit("/users")
        for _ in 0..<10 {
            observed.now += ObservedPath.hour
            observed.fetch("/users")
        }
        #expect(observed.summary("/users")?.counts.requests == 6)
        #expect(observed.traffic.summary(0, since: observed.now - ObservedPath.hour, now: observed.now)?.counts.requests == 2)
        #expect(observed.traffic.summary(1, since: 0, now: 0) == nil)
    }

    @Test("random arguments cannot push out targets in use, and the number of targets is limited")
    func targets() {
        var observed = Observed()
        observed.admit("/users")
        let ten = FreshnessCandidates.seconds.firstIndex(of: 10) ?? 0
        let before = observed.summary("/users")?.counts.effects[ten].saved ?? 0
        for number in 0..<20_000 {
            observed.now += 5
            observed.fetch("/users?random=\(number)", .good(.hash(UInt64(number) + 1), isStated: false))
            if number % 100 == 0 { observed.fetch("/users") }
        }
        // All 200 fetches of the target but one in ten seconds.
        #expect((observed.summary("/users")?.counts.effects[ten].saved ?? 0) - before >= 188)
        #expect((observed.summary("/users")?.counts.followed ?? .max) < 400)
    }

    @Test(
        "the nearest lifetimes of a wanted one",
        arguments: [(1, 1, 1), (3, 2, 5), (30, 30, 30), (45, 30, 60), (900, 900, 900), (9_999, 900, 900)]
            as [(Int64, Int64, Int64)])
    func nearest(_ wanted: Int64, _ below: Int64, _ above: Int64) {
        let nearest = FreshnessCandidates.nearest(wanted)
        #expect(FreshnessCandidates.seconds[nearest.lowerBound] == below && FreshnessCandidates.seconds[nearest.upperBound] == above)
    }
}
