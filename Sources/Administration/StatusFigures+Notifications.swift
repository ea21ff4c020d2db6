// The conditions that operators are notified of, as the status page sees them.

import CachePolicy
import Explanation
import Figures
import Notifications

extension AdminInterface {
    /// Samples the counters for the graphs of the status page. Must be called periodically.
    /// - Parameter then: receives the conditions that apply, on the pages' queue.
    public func noteSample(then: @escaping @Sendable (NotificationSample) -> Void) {
        gathering.gather(self, server) { [apis] figures in then(NotificationSample(figures, apis)) }
    }
}

extension NotificationSample {
    fileprivate init(_ figures: StatusFigures, _ served: [any AdministeredAPI]) {
        self.init(now: figures.now, wall: figures.wall)
        (apis, isDrill) = (Set(served.map(\.name)), figures.sentence.faults > 0)
        // Conditions of the process have no API.
        apis.insert("")
        let wall = { (monotonic: Int64) in figures.wall - (figures.now - monotonic) }
        for (upstream, failures) in zip(figures.upstreams, figures.failures) {
            let report = upstream.report
            if report.isDown {
                add(.upstream, api: upstream.name, since: report.since.map(wall), cause: report.cause ?? "")
            } else {
                addPaths(of: upstream.name, failures.narrow, since: wall)
            }
            if figures.history.recent(upstream.name, at: figures.sample).rescued > 0 { add(.rescues, api: upstream.name) }
        }
        if figures.sentence.isStoreWritable == false { add(.store, cause: figures.sentence.storeRefusal ?? "") }
        addCertificates(figures.snapshot.clientTLS.certificates)
        if let sharing = figures.snapshot.sharing, !sharing.isUpToDate {
            add(.fleet, cause: sharing.troubles.first { $0.count > 0 }?.label ?? "")
        }
    }

    private mutating func add(_ condition: NotifiedCondition, api: String = "", since: Int64? = nil, cause: String = "") {
        conditions.append(ObservedCondition(condition, api: api, since: since, cause: cause))
    }

    /// Routes come first, then paths by the start of their failures. Argument values are left out.
    private mutating func addPaths(of api: String, _ failures: [OpenFailure], since wall: (Int64) -> Int64) {
        guard let first = failures.oldestScope else { return }
        var parts: [String] = []
        var seen: Set<String> = []
        for one in failures.sorted(by: { ($0.route == nil ? 1 : 0, $0.since, $0.name) < ($1.route == nil ? 1 : 0, $1.since, $1.name) }) {
            let part = one.route.map { "route \($0)" } ?? one.path
            if seen.insert(part).inserted { parts.append(part) }
        }
        conditions.append(ObservedCondition(.path, api: api, since: wall(first.since), cause: first.cause, parts: parts))
    }

    /// Several certificates may have one name: the first to expire counts.
    private mutating func addCertificates(_ certificates: [(name: String, secondsLeft: Int64)]) {
        for one in certificates.sorted(by: { $0.secondsLeft < $1.secondsLeft }) where one.secondsLeft < StatusView.soonSeconds {
            let hasExpired = one.secondsLeft <= 0
            conditions.append(
                ObservedCondition(
                    .certificate, subject: one.name,
                    cause: hasExpired ? "has expired" : "expires in \(NumberText.span(one.secondsLeft))",
                    parts: hasExpired ? ["soon", "expired"] : ["soon"]))
        }
    }
}

extension OpenFailure {
    /// The path without arguments.
    var path: String { SecretNames.pathAlone(name.drop { $0 != ":" }.dropFirst().utf8) }
}

extension [OpenFailure] {
    /// Failures of routes and paths, without pauses that the upstream requested.
    var narrow: [OpenFailure] { filter { !$0.concernsAll && $0.kind != "pause" } }
}
