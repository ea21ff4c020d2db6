// Sums whose lines are written by hand: each number that is counted is in them. A new one fails here until it has a value below, and its lines
// where counts are added up.

import Explanation
import Testing

@testable import Figures
@testable import ReverseProxy
@testable import Server
@testable import Upstream

/// All numbers in a value, by where they stand; what is empty counts as 0.
private func numbers(in value: Any, _ path: String = "") -> [String: Int64] {
    if let number = value as? any FixedWidthInteger { return [path: Int64(clamping: number)] }
    if let histogram = value as? Histogram {
        let counts = (0..<histogram.counts.count).map { ("\(path)[\($0)]", Int64(histogram.counts[$0])) }
        return Dictionary(uniqueKeysWithValues: counts + [(path + "[sum]", histogram.sum)])
    }
    let mirror = Mirror(reflecting: value)
    if mirror.children.isEmpty { return value is String || value is Bool ? [:] : [path: 0] }
    var all: [String: Int64] = [:]
    for (place, child) in mirror.children.enumerated() {
        var (name, inner) = (child.label.map { "." + $0 } ?? "[\(place)]", child.value)
        if mirror.displayStyle == .dictionary {
            let parts = Mirror(reflecting: child.value).children.map(\.value)
            (name, inner) = ("[\(parts[0])]", parts[1])
        }
        all.merge(numbers(in: inner, path + name)) { $1 }
    }
    return all
}

private func field(of path: String) -> String { String(path.split(separator: "[", maxSplits: 1)[0]) }

/// Fields without any number but 0, places in arrays aside.
private func emptyFields(_ numbers: [String: Int64]) -> [String] {
    Dictionary(grouping: numbers) { field(of: $0.key) }.filter { $0.value.allSatisfy { $0.value == 0 } }.map(\.key).sorted()
}

/// Fields that are not the same in both.
private func differences(_ one: [String: Int64], _ other: [String: Int64]) -> [String] {
    Set(Set(one.keys).union(other.keys).filter { one[$0] != other[$0] }.map(field(of:))).sorted()
}

@Suite("Sums of what is counted")
struct SumTests {
    /// Another value for each field.
    private struct Values {
        private var last = 1_000

        mutating func next() -> Int {
            last += 1
            return last
        }
    }

    private static func record(_ result: CacheResult) -> ExchangeRecord {
        var record = ExchangeRecord(result: result, method: .get, status: 503)
        (record.durationMicroseconds, record.upstreamMicroseconds, record.bodyBytes, record.source, record.age) = (9, 7, 3, .store, 5)
        (record.rescueCause, record.sharedPermission, record.notStored) = (0, 0, 0)
        return record
    }

    private static let exemplar = Exemplar(high: 1, low: 2, value: 3, wall: 4)

    @Test("of shards")
    func shards() {
        var counted = ShardMetrics(labels: MetricNames.labels)
        for result in CacheResult.allCases {
            counted.record(Self.record(result), at: 1)
            counted.note(Self.exemplar, of: result)
        }
        counted.refuse(0)
        counted.countContent(0)
        counted.upstreamFailed(0)
        counted.figures[.stored] = 1
        // They are looked at on the shard itself (`addOldestAges`).
        // `FigureTests` covers figures.
        let isAside = { (path: String) in path.hasPrefix(".oldestAges") || path.hasPrefix(".figures") }
        let wanted = numbers(in: counted)
        #expect(emptyFields(wanted).filter { !isAside($0) } == [])
        var sum = ShardMetrics(labels: MetricNames.labels)
        sum.merge(counted)
        #expect(differences(numbers(in: sum), wanted).filter { !isAside($0) } == [])
        sum.merge(counted)
        let twice = differences(numbers(in: sum), wanted.mapValues { 2 * $0 })
        // Of exemplars the latest stays.
        #expect(twice.filter { !isAside($0) } == [".exemplars"])
    }

    @Test("of a route")
    func routes() throws {
        let figures = RouteFigures(name: "r", labels: MetricNames.labels)
        figures.record(Self.record(.rescued))
        figures.note(Self.exemplar)
        var snapshot = MetricsSnapshot(shards: ShardMetrics(labels: MetricNames.labels))
        figures.add(to: &snapshot, at: 0)
        let wanted = numbers(in: try #require(Mirror(reflecting: figures).descendant("counts")))
        #expect(emptyFields(wanted) == [])
        #expect(differences(numbers(in: try #require(snapshot.routes.first).counts), wanted) == [])
    }

    @Test("of an API")
    func apis() {
        var counted = APICounts()
        counted.countRequest(Self.record(.rescued))
        counted.countNotStored(0, isServerError: true, of: 1)
        counted.countResponse(status: 503, firstByte: 7)
        counted.countConnection(connecting: 8, securing: 9)
        counted.responseBytes = 10
        counted.noteDate(100_000, received: 11, duration: 12, now: 3)
        let wanted = numbers(in: counted)
        #expect(emptyFields(wanted) == [])
        var snapshot = MetricsSnapshot(shards: ShardMetrics(labels: MetricNames.labels))
        snapshot.add(counted, ofAPI: 0)
        #expect(differences(numbers(in: snapshot.counts(ofAPI: 0)), wanted) == [])
    }

    @Test("of the upstream's side, and on to the page")
    func upstream() {
        var (values, counters) = (Values(), UpstreamCounters())
        counters[.upstreamRequests] = values.next()
        for end in ConnectionEnd.allCases { counters.ended[end] = values.next() }
        for end in HTTP2ExchangeEnd.allCases { counters.http2Ended[end] = values.next() }
        for place in counters.faults.indices { counters.faults[place] = values.next() }
        var past = PastCounts(tokensLooked: ["valid": UInt64(values.next())])
        past.upstream.add(counters)
        #expect(differences(numbers(in: past.upstream), numbers(in: counters)) == [])
        var snapshot = MetricsSnapshot(shards: ShardMetrics(labels: MetricNames.labels))
        past.add(to: &snapshot)
        let lost = Set(numbers(in: past).values).subtracting(numbers(in: snapshot).values)
        #expect(lost == [], "\(numbers(in: past).filter { lost.contains($0.value) }.keys)")
        #expect(snapshot.figures[.upstreamRequests] == counters[.upstreamRequests])
    }

    @Test("of what is served no more")
    func former() {
        var (values, past) = (Values(), PastFigures())
        past.failures.scopes = [MetricsSnapshot.Failures.ScopeLine(scope: "target", open: values.next(), opened: values.next())]
        past.failures.routes = [MetricsSnapshot.Failures.RouteLine(route: "r", isOpen: false)]
        (past.figures[.cookieSetsLeftOut], past.gone["served"]) = (values.next(), UInt64(values.next()))
        past.lookUps["told"] = UInt64(values.next())
        // Only served upstreams have a state.
        #expect(emptyFields(numbers(in: past)).filter { !$0.hasPrefix(".figures") } == [".failures.upstreams"])
        var snapshot = MetricsSnapshot(shards: ShardMetrics(labels: MetricNames.labels))
        snapshot.addPast(past)
        #expect(snapshot.figures[.cookieSetsLeftOut] == past.figures[.cookieSetsLeftOut])
        let lost = Set(numbers(in: past).values).subtracting(numbers(in: snapshot).values)
        #expect(lost == [], "\(numbers(in: past).filter { lost.contains($0.value) }.keys)")
    }
}
