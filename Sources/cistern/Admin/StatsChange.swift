// Computes rates from two responses of /-/stats.

import JSON

/// Number of requests per bucket of a latency histogram.
struct CountedTimes {
    let counts: [Int]
    let bounds: [Double]

    /// Upper bound of the bucket of a quantile, in seconds; nil without requests, infinite beyond the last bucket.
    func bound(_ share: Double) -> Double? {
        let wanted = Double(counts.reduce(0, +)) * share
        guard wanted > 0 else { return nil }
        var seen = 0
        for (count, bound) in zip(counts, bounds) {
            seen += count
            if Double(seen) >= wanted { return bound }
        }
        return .infinity
    }

    func text(_ share: Double) -> String {
        guard let bound = bound(share) else { return "-" }
        return bound == .infinity ? "> " + Printable.duration(bounds.last ?? 0) : "≤ " + Printable.duration(bound)
    }
}

struct StatsChange {
    /// Requests per second with one result.
    struct Result {
        let name: String
        let rate: Double
        let times: CountedTimes
    }

    /// Requests per second of an API or a route.
    struct Part {
        let name: String
        /// State of the upstream; nil for a route.
        let state: String?
        let rate: Double
        let fromStore: Double
        let rescued: Double
        let failed: Double
        /// nil for an API.
        let times: CountedTimes?
    }

    let results: [Result]
    let apis: [Part]
    let routes: [Part]
    let storeBytes: Int
    let upstreamBytes: Int
    private let state: String

    /// - Parameter seconds: time between the two responses.
    init(from before: JSONValue, to now: JSONValue, seconds: Double) {
        let samples = Samples(before: before, now: now, seconds: max(seconds, 0.001))
        results = (now["requests"]?.members ?? []).filter { $0.name != "own" }.map { member in
            Result(
                name: member.name, rate: samples.rate(member.value.integer, before["requests"]?[member.name]?.integer),
                times: samples.times(now["latency_seconds"]?[member.name], before["latency_seconds"]?[member.name]))
        }
        (apis, routes) = (samples.parts("apis"), samples.parts("routes"))
        func bytes(_ name: String) -> Int {
            Int(samples.rate(now["response_bytes"]?[name]?.integer, before["response_bytes"]?[name]?.integer))
        }
        (storeBytes, upstreamBytes) = (bytes("store"), bytes("upstream"))
        state = now["upstream"]?["state"]?.string ?? "unknown"
    }

    var rate: Double { results.reduce(0) { $0 + $1.rate } }

    /// One line for logs and pipes.
    var line: String {
        let parts = results.filter { $0.rate > 0 }.map { "\($0.name)=\(Printable.rounded($0.rate))" }
        let p99 = results.filter { $0.rate > 0 }.map { "\($0.name)_p99=\"\($0.times.text(0.99))\"" }
        return (["requests=\(Printable.rounded(rate))"] + parts + p99 + ["upstream=\(state)"]).joined(separator: " ")
    }
}

private struct Samples {
    let before: JSONValue
    let now: JSONValue
    let seconds: Double

    /// Increase of a counter; 0 if a restart has reset it to a lower value.
    private func increase(_ new: Int?, _ old: Int?) -> Int { max(0, (new ?? 0) - (old ?? 0)) }

    func rate(_ new: Int?, _ old: Int?) -> Double { Double(increase(new, old)) / seconds }

    func times(_ new: JSONValue?, _ old: JSONValue?) -> CountedTimes {
        let counts = { (latency: JSONValue?) in latency?["counts"]?.array?.map { $0.integer ?? 0 } ?? [] }
        let earlier = counts(old)
        return CountedTimes(
            counts: counts(new).enumerated().map { increase($1, $0 < earlier.count ? earlier[$0] : 0) },
            bounds: now["latency_bounds_seconds"]?.array?.compactMap(\.double) ?? [])
    }

    func parts(_ kind: String) -> [StatsChange.Part] {
        let known = before[kind]?.array ?? []
        return (now[kind]?.array ?? []).enumerated().map { index, part in
            let isThere = index < known.count && known[index]["name"] == part["name"]
            let earlier = isThere ? known[index] : known.first { $0["name"] == part["name"] }
            func sum(_ results: [String]) -> Double {
                results.reduce(0) { $0 + rate(part["requests"]?[$1]?.integer, earlier?["requests"]?[$1]?.integer) }
            }
            return StatsChange.Part(
                name: part["name"]?.string ?? "", state: part["state"] == nil ? nil : UpstreamWord.of(part),
                rate: sum(part["requests"]?.members?.map(\.name) ?? []),
                fromStore: sum(["hit", "revalidated", "stale", "collapsed", "rescued"]), rescued: sum(["rescued"]),
                failed: rate(part["server_errors"]?.integer, earlier?["server_errors"]?.integer),
                times: part["latency_seconds"].map { times($0, earlier?["latency_seconds"]) })
        }
    }
}
