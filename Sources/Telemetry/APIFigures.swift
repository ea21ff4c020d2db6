// What is told of each of several APIs.

/// Requests for one API, by what was done with them.
public struct APIRequests: Sendable {
    /// At the places of `CacheResult`.
    public var counts = [UInt64](repeating: 0, count: CacheResult.allCases.count)

    public init() {}

    public mutating func add(_ other: APIRequests) {
        for place in counts.indices { counts[place] += other.counts[place] }
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

    public mutating func add(_ requests: APIRequests, ofAPI place: Int) {
        while apiRequests.count <= place { apiRequests.append(APIRequests()) }
        apiRequests[place].add(requests)
    }

    /// Nothing where there is one API only: then all counts are its own.
    func writeAPIs(to writer: inout MetricsWriter) {
        guard !apis.isEmpty else { return }
        writer.counter(
            "cistern_api_requests", "Requests for each API, by result.",
            apis.flatMap { api in
                let counts = apiRequests.indices.contains(api.place) ? apiRequests[api.place].counts : APIRequests().counts
                return CacheResult.allCases.map { ("api=\"\(api.name)\",result=\"\($0.label)\"", Double(counts[$0.rawValue])) }
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
