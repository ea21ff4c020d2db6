// Tests of handwritten sums: each counter is included. A new counter fails here until it has a value below and is added in the sums.

import Explanation
import Testing

@testable import Figures
@testable import ReverseProxy
@testable import Server

/// All numbers in a value by their path; an empty value counts as 0.
private func numbers(in value: Any, _ path: String = "") -> [String: Int64] {
    if let number = value as? any FixedWidthInteger { return [path: Int64(clamping: number)] }
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

/// Fields that have only zeros, without regard to array indices.
private func emptyFields(_ numbers: [String: Int64]) -> [String] {
    Dictionary(grouping: numbers) { field(of: $0.key) }.filter { $0.value.allSatisfy { $0.value == 0 } }.map(\.key).sorted()
}

@Suite("Accumulated counters")
struct SumTests {
    /// A distinct value for each field.
    private struct Values {
        private var last = 1_000

        mutating func next() -> Int {
            last += 1
            return last
        }
    }

    @Test("counters of an API removed from a shard are included in the metrics snapshot")
    func upstream() {
        var (values, past) = (Values(), PastCounts())
        (past.figures[.upstreamRequests], past.tokenLookUps) = (values.next(), ["valid": UInt64(values.next())])
        var snapshot = MetricsSnapshot(values: MetricNames.values)
        past.add(to: &snapshot)
        #expect(
            snapshot.figures[.upstreamRequests] == past.figures[.upstreamRequests] && snapshot.tokens.lookUpResults == past.tokenLookUps)
    }

    @Test("counters of removed upstreams, routes and addresses are kept")
    func former() {
        var (values, past) = (Values(), ReplacedFigures())
        past.failures.scopes = [MetricsSnapshot.Failures.ScopeLine(scope: "target", open: values.next(), opened: values.next())]
        past.failures.routes = [MetricsSnapshot.Failures.RouteLine(route: "r", isOpen: false)]
        (past.figures[.setCookiesOmitted], past.gone["served"]) = (values.next(), UInt64(values.next()))
        past.lookUps["told"] = UInt64(values.next())
        // Only current upstreams have a state.
        #expect(emptyFields(numbers(in: past)).filter { !$0.hasPrefix(".figures") } == [".failures.upstreams"])
        var snapshot = MetricsSnapshot(values: MetricNames.values)
        snapshot.addPast(past)
        #expect(snapshot.figures[.setCookiesOmitted] == past.figures[.setCookiesOmitted])
        let lost = Set(numbers(in: past).values).subtracting(numbers(in: snapshot).values)
        #expect(lost == [], "\(numbers(in: past).filter { lost.contains($0.value) }.keys)")
    }
}
