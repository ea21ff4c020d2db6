// Figures of APIs.

/// Figures of one API, and the difference of its upstream's clock.
public struct APICounts: Sendable {
    /// Requests are counted only if there are several APIs.
    public var figures = LabelledFigures()
    public var clockSkew = ClockSkew()

    public init() {}

    mutating func add(_ other: APICounts) {
        figures.add(other.figures)
        clockSkew.merge(other.clockSkew)
    }
}

/// An API and the state of its upstream.
public struct APILine: Sendable {
    public let name: String
    /// Index of the API's counts.
    public let index: Int
    public let report: UpstreamReport
    /// The upstream's addresses in order, and whether each is reachable.
    public let addresses: [(address: String, isUp: Bool)]

    public init(name: String, index: Int, report: UpstreamReport, addresses: [(address: String, isUp: Bool)] = []) {
        (self.name, self.index, self.report, self.addresses) = (name, index, report, addresses)
    }
}

extension MetricsSnapshot {
    /// Adds the counts of one API.
    public mutating func addGone(_ event: String, _ count: UInt64) {
        if let index = gone.firstIndex(where: { $0.event == event }) { gone[index].count += count } else { gone.append((event, count)) }
    }

    /// Adds the counts of one API.
    public mutating func addUnknownField(_ field: String, _ finding: String, _ count: UInt64) {
        if let index = unknownFields.firstIndex(where: { $0.field == field && $0.finding == finding }) {
            unknownFields[index].count += count
        } else {
            unknownFields.append((field, finding, count))
        }
    }

    public mutating func add(_ counts: APICounts, ofAPI index: Int) {
        while apiCounts.count <= index { apiCounts.append(APICounts()) }
        apiCounts[index].add(counts)
    }

    /// The counts of an API. Requests are counted only if there are several APIs.
    public func counts(of api: APILine) -> APICounts { counts(ofAPI: api.index) }

    public func counts(ofAPI index: Int) -> APICounts { apiCounts.indices.contains(index) ? apiCounts[index] : APICounts() }

    /// Writes the metrics of each upstream, with API labels if there are several.
    func writeUpstreams(to writer: inout MetricsWriter) {
        let several = apis.map { (labels: "api=\"\($0.name)\"", counts: counts(of: $0)) }
        let counted = several.isEmpty ? [(labels: "", counts: counts(ofAPI: soleAPI))] : several
        write(.upstream, counted.map { ($0.labels, $0.counts.figures) }, to: &writer)
        writer.gauge(
            "cistern_upstream_clock_skew_seconds",
            "Minimum difference between the upstream's clock and this machine's, by the Date fields of the last five minutes; 0 if none is certain.",
            counted.compactMap { api in api.counts.clockSkew.latest(now: monotonicNow).map { (api.labels, Double($0) * 1e-3) } })
    }

    /// Writes the metrics of each API; nothing if there is only one, because all counts are then its own.
    func writeAPIs(to writer: inout MetricsWriter) {
        guard !apis.isEmpty else { return }
        write(.api, apis.map { ("api=\"\($0.name)\"", counts(of: $0).figures) }, to: &writer)
        writer.gauge(
            "cistern_api_up", "State of each API's upstream: 0 if it is down, or unknown after being down; otherwise 1.",
            apis.map { ("api=\"\($0.name)\"", $0.report.isDown ? 0 : 1) })
        writer.gauge(
            "cistern_api_state", "State of each API's upstream: 1 for the current state, 0 for the others.",
            apis.flatMap { api in api.report.stateLabels.map { ("api=\"\(api.name)\",\($0)", $1) } })
        writer.gauge(
            "cistern_api_state_since_seconds",
            "Time since which each API's upstream is failing or down (Unix time); 0 if it is neither.",
            apis.map { ("api=\"\($0.name)\"", $0.report.sinceSeconds(unixOffset)) })
        writer.gauge(
            "cistern_api_address_up", "Whether each address of an API's upstream counts as reachable.",
            apis.flatMap { api in
                api.addresses.map { ("api=\"\(api.name)\",address=\"\($0.address)\"", $0.isUp ? 1 : 0) }
            })
    }
}
