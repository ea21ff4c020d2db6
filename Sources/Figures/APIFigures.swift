// Metrics of each of several APIs.

/// Counts of the requests for one API, and of its upstream's responses and connections.
public struct APICounts: Sendable {
    /// Number of requests by `CacheResult`. Counted only if there are several APIs.
    public var requests = [UInt64](repeating: 0, count: CacheResult.allCases.count)
    /// Number of these requests with a status of 5xx.
    public var serverErrors: UInt64 = 0
    /// Number of responses that were not stored, by index in `MetricLabels`, and number of these with a status of 5xx; empty before the
    /// first one.
    private var notStored: [UInt64] = []
    private var errorsNotStored: [UInt64] = []
    /// The upstream's responses by status class (1xx … 5xx).
    private var responses = [UInt64](repeating: 0, count: StatusClass.count)
    /// Difference of the upstream's clock.
    private var clockSkew = ClockSkew()
    /// Bytes of content of these responses, as received.
    public var responseBytes: UInt64 = 0
    /// Microseconds until a connection was established, from then until the TLS handshake ended, and from sending a request to the first
    /// byte of its response.
    private var connecting = Histogram(bounds: Histogram.durations)
    private var securing = Histogram(bounds: Histogram.durations)
    private var firstByte = Histogram(bounds: Histogram.durations)

    public init() {}

    /// Counts a response that was not stored.
    /// - Parameters:
    ///   - reason: index of the reason.
    ///   - reasons: number of reasons.
    public mutating func countNotStored(_ reason: Int, isServerError: Bool, of reasons: Int) {
        RouteCounts.count(reason, of: reasons, in: &notStored)
        if isServerError { RouteCounts.count(reason, of: reasons, in: &errorsNotStored) }
    }

    /// Number of the upstream's responses, and of those with a status of 5xx.
    public var upstreamResponses: (all: UInt64, errors: UInt64) { (responses.reduce(0, +), responses[responses.count - 1]) }

    /// Counts a response when its head is received.
    /// - Parameter firstByte: microseconds since the request was sent; nil if unknown.
    public mutating func countResponse(status: UInt16, firstByte microseconds: Int64?) {
        responses[StatusClass.index(of: status)] += 1
        if let microseconds { firstByte.observe(microseconds) }
    }

    /// Records the Date field of a response that was just generated.
    /// - Parameters:
    ///   - date: milliseconds since 1970, as is `received`.
    ///   - duration: milliseconds since the request was sent.
    ///   - now: milliseconds of the monotonic clock.
    public mutating func noteDate(_ date: Int64, received: Int64, duration: Int64, now: Int64) {
        clockSkew.note(date: date, received: received, duration: duration, now: now)
    }

    /// Counts a new connection.
    /// - Parameters:
    ///   - connecting: microseconds until it was established, including name resolution.
    ///   - securing: microseconds from then until the TLS handshake ended; nil without TLS.
    public mutating func countConnection(connecting: Int64, securing: Int64?) {
        self.connecting.observe(connecting)
        if let securing { self.securing.observe(securing) }
    }

    mutating func add(_ other: APICounts) {
        for place in requests.indices { requests[place] += other.requests[place] }
        for place in responses.indices { responses[place] += other.responses[place] }
        responseBytes += other.responseBytes
        serverErrors += other.serverErrors
        RouteCounts.add(other.notStored, to: &notStored)
        RouteCounts.add(other.errorsNotStored, to: &errorsNotStored)
        clockSkew.merge(other.clockSkew)
        connecting.merge(other.connecting)
        securing.merge(other.securing)
        firstByte.merge(other.firstByte)
    }

    func summary(_ name: String, _ duration: Histogram, _ labels: MetricLabels) -> RouteSummary {
        RouteSummary(
            name: name, requests: requests, serverErrors: serverErrors, duration: duration,
            notStored: MetricsSnapshot.mostFrequent(labels.notStored, notStored, without: errorsNotStored))
    }

    /// Writes the metrics of each API's upstream.
    /// - Parameters:
    ///   - apis: APIs with their labels; the label is empty if there is only one.
    ///   - now: milliseconds of the monotonic clock.
    fileprivate static func writeUpstreams(
        _ apis: [(label: String, counts: APICounts)], now: Int64, to writer: inout MetricsWriter
    ) {
        writer.counter(
            "cistern_upstream_responses", "Responses of the upstream, by status class; those of faults that are injected too.",
            apis.flatMap { api in
                api.counts.responses.enumerated().map { place, count in
                    ((api.label.isEmpty ? "" : api.label + ",") + "status_class=\"\(place + 1)xx\"", Double(count))
                }
            })
        writer.counter(
            "cistern_upstream_response_bytes", "Bytes of content that the upstream has sent, with its coding.",
            apis.map { ($0.label, Double($0.counts.responseBytes)) })
        writer.histogram(
            "cistern_upstream_connect_seconds", "Until a connection to the upstream stood, with the look-up of its name.", scale: 1e-6,
            apis.map { ($0.label, $0.counts.connecting) })
        writer.histogram(
            "cistern_upstream_tls_seconds", "From then on until TLS was agreed.", scale: 1e-6, apis.map { ($0.label, $0.counts.securing) })
        writer.histogram(
            "cistern_upstream_first_byte_seconds", "From a request's sending to the first of its response.", scale: 1e-6,
            apis.map { ($0.label, $0.counts.firstByte) })
        writer.gauge(
            "cistern_upstream_clock_skew_seconds",
            "The upstream's clock less this machine's, as far as the Date fields of the last five minutes must differ; 0 if they need not.",
            apis.compactMap { api in api.counts.clockSkew.latest(now: now).map { (api.label, Double($0) * 1e-3) } })
    }
}

/// An API and the state of its upstream.
public struct APILine: Sendable {
    public let name: String
    /// Index of the API's counts.
    public let place: Int
    public let report: UpstreamReport
    /// The upstream's addresses in order, and whether each is reachable.
    public let addresses: [(address: String, isUp: Bool)]

    public init(name: String, place: Int, report: UpstreamReport, addresses: [(address: String, isUp: Bool)] = []) {
        (self.name, self.place, self.report, self.addresses) = (name, place, report, addresses)
    }
}

extension MetricsSnapshot {
    /// Adds the counts of one API.
    public mutating func addGone(_ event: String, _ count: UInt64) {
        if let place = gone.firstIndex(where: { $0.event == event }) { gone[place].count += count } else { gone.append((event, count)) }
    }

    /// Adds the counts of one API.
    public mutating func addUnknownField(_ field: String, _ finding: String, _ count: UInt64) {
        if let place = unknownFields.firstIndex(where: { $0.field == field && $0.finding == finding }) {
            unknownFields[place].count += count
        } else {
            unknownFields.append((field, finding, count))
        }
    }

    public mutating func add(_ counts: APICounts, ofAPI place: Int) {
        while apiCounts.count <= place { apiCounts.append(APICounts()) }
        apiCounts[place].add(counts)
    }

    /// The counts of an API. Requests are counted only if there are several APIs.
    public func counts(of api: APILine) -> APICounts { counts(ofAPI: api.place) }

    /// The counts of the API at this index.
    public func counts(ofAPI place: Int) -> APICounts { apiCounts.indices.contains(place) ? apiCounts[place] : APICounts() }

    /// Writes the metrics of each upstream, with API labels if there are several.
    func writeUpstreams(to writer: inout MetricsWriter) {
        let counted = apis.map { ("api=\"\($0.name)\"", counts(ofAPI: $0.place)) }
        APICounts.writeUpstreams(counted.isEmpty ? [("", counts(ofAPI: soleAPI))] : counted, now: monotonicNow, to: &writer)
    }

    /// Writes the metrics of each API; nothing if there is only one, because all counts are then its own.
    func writeAPIs(to writer: inout MetricsWriter) {
        guard !apis.isEmpty else { return }
        writer.counter(
            "cistern_api_requests", "Requests for each API, by result.",
            apis.flatMap { api in
                let requests = counts(ofAPI: api.place).requests
                return CacheResult.allCases.map { ("api=\"\(api.name)\",result=\"\($0.label)\"", Double(requests[$0.rawValue])) }
            })
        writer.counter(
            "cistern_api_server_errors", "Requests for each API that were answered with a status of 5xx, by the upstream or by Cistern.",
            apis.map { ("api=\"\($0.name)\"", Double(counts(ofAPI: $0.place).serverErrors)) })
        writer.gauge(
            "cistern_api_up", "0 while each API's upstream is down, or unknown and down last; else 1.",
            apis.map { ("api=\"\($0.name)\"", $0.report.isDown ? 0 : 1) })
        writer.gauge(
            "cistern_api_state", "The state of each API's upstream: 1 for the present one, 0 for the others.",
            apis.flatMap { api in api.report.stateLabels.map { ("api=\"\(api.name)\",\($0)", $1) } })
        writer.gauge(
            "cistern_api_state_since_seconds",
            "First failure of the present period in which the API's upstream is failing or down (Unix time); 0 if there is none.",
            apis.map { ("api=\"\($0.name)\"", $0.report.sinceSeconds(unixOffset)) })
        writer.gauge(
            "cistern_api_address_up", "Whether each address of an API's upstream can be reached, as far as is known.",
            apis.flatMap { api in
                api.addresses.map { ("api=\"\(api.name)\",address=\"\($0.address)\"", $0.isUp ? 1 : 0) }
            })
    }
}
