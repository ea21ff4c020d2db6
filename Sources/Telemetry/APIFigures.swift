// What is told of each of several APIs.

/// Requests for one API, and what its upstream did.
public struct APICounts: Sendable {
    /// Requests by what was done with them, at the places of `CacheResult`; not counted where there is one API only.
    public var requests = [UInt64](repeating: 0, count: CacheResult.allCases.count)
    /// The upstream's responses by status class (1xx … 5xx).
    private var responses = [UInt64](repeating: 0, count: ExchangeRecord.statusClasses)
    /// Content of them, as it came.
    public var responseBytes: UInt64 = 0
    /// Microseconds until connections stood, and until TLS was agreed from then on; and from a request's sending to the first of its response.
    private var connecting = Histogram(bounds: Histogram.durations)
    private var securing = Histogram(bounds: Histogram.durations)
    private var firstByte = Histogram(bounds: Histogram.durations)

    public init() {}

    /// A response's head has come.
    /// - Parameter firstByte: microseconds from its request's sending; nil where that is not known.
    public mutating func countResponse(status: UInt16, firstByte microseconds: Int64?) {
        responses[min(max(Int(status) / 100, 1), responses.count) - 1] += 1
        if let microseconds { firstByte.observe(microseconds) }
    }

    /// A connection was made.
    /// - Parameters:
    ///   - connecting: microseconds until it stood, with the look-up of its name.
    ///   - securing: microseconds from then on until TLS was agreed; nil without TLS.
    public mutating func countConnection(connecting: Int64, securing: Int64?) {
        self.connecting.observe(connecting)
        if let securing { self.securing.observe(securing) }
    }

    mutating func add(_ other: APICounts) {
        for place in requests.indices { requests[place] += other.requests[place] }
        for place in responses.indices { responses[place] += other.responses[place] }
        responseBytes += other.responseBytes
        connecting.merge(other.connecting)
        securing.merge(other.securing)
        firstByte.merge(other.firstByte)
    }

    /// What each API's upstream did.
    /// - Parameter apis: with the label that tells them apart; empty for the only one.
    fileprivate static func writeUpstreams(_ apis: [(label: String, counts: APICounts)], to writer: inout MetricsWriter) {
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
    }
}

/// One API, and how its upstream is.
public struct APILine: Sendable {
    public let name: String
    /// By which it is counted.
    public let place: Int
    public let isUp: Bool
    /// Its addresses in order, and whether each can be reached.
    public let addresses: [(address: String, isUp: Bool)]

    public init(name: String, place: Int, isUp: Bool, addresses: [(address: String, isUp: Bool)] = []) {
        (self.name, self.place, self.isUp, self.addresses) = (name, place, isUp, addresses)
    }
}

extension MetricsSnapshot.Tokens {
    /// Of one API.
    public mutating func add(lookUps: (counts: [String: UInt64], remembered: Int), keys: (keys: Int, read: Int, failed: Int)) {
        self.lookUps.merge(lookUps.counts, uniquingKeysWith: +)
        lookUpsRemembered += lookUps.remembered
        self.keys += keys.keys
        keyReads += keys.read
        keyFailures += keys.failed
    }
}

extension MetricsSnapshot {
    /// Of one API.
    public mutating func addGone(_ event: String, _ count: UInt64) {
        if let place = gone.firstIndex(where: { $0.event == event }) { gone[place].count += count } else { gone.append((event, count)) }
    }

    public mutating func add(_ counts: APICounts, ofAPI place: Int) {
        while apiCounts.count <= place { apiCounts.append(APICounts()) }
        apiCounts[place].add(counts)
    }

    /// At the places of `CacheResult`; none where there is one API only.
    public func requests(for api: APILine) -> [UInt64] { counts(ofAPI: api.place).requests }

    private func counts(ofAPI place: Int) -> APICounts { apiCounts.indices.contains(place) ? apiCounts[place] : APICounts() }

    /// What each upstream did. With labels only where there are several.
    func writeUpstreams(to writer: inout MetricsWriter) {
        let counted = apis.map { ("api=\"\($0.name)\"", counts(ofAPI: $0.place)) }
        APICounts.writeUpstreams(counted.isEmpty ? [("", counts(ofAPI: soleAPI))] : counted, to: &writer)
    }

    /// Nothing where there is one API only: then all counts are its own.
    func writeAPIs(to writer: inout MetricsWriter) {
        guard !apis.isEmpty else { return }
        writer.counter(
            "cistern_api_requests", "Requests for each API, by result.",
            apis.flatMap { api in
                let requests = counts(ofAPI: api.place).requests
                return CacheResult.allCases.map { ("api=\"\(api.name)\",result=\"\($0.label)\"", Double(requests[$0.rawValue])) }
            })
        writer.gauge(
            "cistern_api_up", "Whether each API's upstream can be reached, and something of it is well.",
            apis.map { ("api=\"\($0.name)\"", $0.isUp ? 1 : 0) })
        writer.gauge(
            "cistern_api_address_up", "Whether each address of an API's upstream can be reached, as far as is known.",
            apis.flatMap { api in
                api.addresses.map { ("api=\"\(api.name)\",address=\"\($0.address)\"", $0.isUp ? 1 : 0) }
            })
    }
}
