// Samples of the last five minutes, and the counts before each API began to fail, for the graphs and the sentence of the status page.
// Bounded in size. Pure: times are passed in.

import Explanation
import Figures
import Reactor

/// Counters at one time.
struct StatusSample: Sendable {
    struct API: Sendable, Equatable {
        /// Client requests that were rescued, and those that got a 5xx response.
        var rescued: UInt64 = 0
        var failed: UInt64 = 0
        /// Responses of the upstream, and those with a 5xx status.
        var responses: UInt64 = 0
        var errors: UInt64 = 0

        func since(_ earlier: API?) -> API {
            let earlier = earlier ?? API()
            return API(
                rescued: rescued - min(rescued, earlier.rescued), failed: failed - min(failed, earlier.failed),
                responses: responses - min(responses, earlier.responses), errors: errors - min(errors, earlier.errors))
        }
    }

    /// Milliseconds of the monotonic clock.
    let at: Int64
    let requests: UInt64
    let fromStore: UInt64
    let rescued: UInt64
    let errors: UInt64
    let duration: Histogram
    /// Counters by name of the API.
    let apis: [String: API]

    /// Zero counters.
    init(at now: Int64) {
        at = now
        (requests, fromStore, rescued, errors) = (0, 0, 0, 0)
        (duration, apis) = (Histogram(), [:])
    }

    init(_ snapshot: MetricsSnapshot, at now: Int64) {
        let all = snapshot.summary
        at = now
        (requests, fromStore) = (all.total, all.fromStore)
        (rescued, errors, duration) = (all.count(of: .rescued), all.serverErrors, all.duration)
        func api(_ counts: APICounts, rescued: UInt64, failed: UInt64) -> API {
            API(
                rescued: rescued, failed: failed, responses: counts.figures.sum(.upstreamResponses),
                errors: counts.figures[.upstreamResponses, StatusClass.serverError])
        }
        guard !snapshot.apis.isEmpty else {
            apis = ["": api(snapshot.counts(ofAPI: snapshot.soleAPI), rescued: rescued, failed: errors)]
            return
        }
        let counted = snapshot.apis.map { line in
            let counts = snapshot.counts(of: line)
            let rescued = counts.figures[.apiRequests, CacheResult.rescued.rawValue]
            return (line.name, api(counts, rescued: rescued, failed: counts.figures[.apiServerErrors]))
        }
        apis = Dictionary(counted) { first, _ in first }
    }
}

extension RouteSummary {
    func count(of result: CacheResult) -> UInt64 { requests[result.rawValue] }

    /// Responses with content from the store or from a collapsed fetch.
    var fromStore: UInt64 { ([.hit, .revalidated, .stale, .collapsed, .rescued] as [CacheResult]).reduce(0) { $0 + count(of: $1) } }
    var total: UInt64 { requests.reduce(0, +) }
}

struct StatusHistory: Sendable {
    /// Oldest first.
    private(set) var samples: [StatusSample]
    /// Counters of each API before its first failure, with the time of that failure. nil: it has no failing scope.
    private var calm: [String: (counts: StatusSample.API?, since: Int64?)] = [:]

    /// Interval between samples, and the time for which they are kept, in milliseconds.
    static let interval: Int64 = 5_000
    static let span = interval * Int64(StatusPage.pointLimit)

    /// - Parameter began: time at which all counters were zero.
    init(began: Int64) { samples = [StatusSample(at: began)] }

    /// - Parameter troubled: APIs with a failing scope, and the times of their first failures. The state changes only after several failures,
    ///   and the requests meanwhile belong to the outage.
    mutating func note(_ sample: StatusSample, troubled: [String: Int64]) {
        calm = calm.filter { sample.apis[$0.key] != nil }
        for (name, counts) in sample.apis {
            guard let since = troubled[name] else {
                calm[name] = (counts, nil)
                continue
            }
            let known = calm[name]
            if let former = known?.since, former <= since { continue }
            let before = samples.last { $0.at <= since }
            calm[name] = (before == nil ? known?.counts : before?.apis[name], since)
        }
        // Tolerates timers that fire slightly early.
        guard samples.last.map({ sample.at - $0.at >= Self.interval - 100 }) ?? true else { return }
        samples.append(sample)
        samples.removeFirst(max(0, samples.count - StatusPage.pointLimit - 1))
        // After a pause, old samples would distort the last minutes. Two are kept for comparison.
        while samples.count > 2, sample.at - samples[0].at > Self.span + Self.interval { samples.removeFirst() }
    }

    /// Counts since failures of these APIs began.
    func counts(of sample: StatusSample, ofAPIs troubled: some Sequence<String>) -> StateSentence.Counts {
        troubled.reduce(into: StateSentence.Counts()) { sum, name in
            guard let counts = sample.apis[name]?.since(calm[name]?.counts) else { return }
            sum.rescued += counts.rescued
            sum.failed += counts.failed
        }
    }

    /// Counts of an API within the last five minutes.
    func recent(_ name: String, at sample: StatusSample) -> StatusSample.API {
        sample.apis[name, default: .init()].since(samples.first?.apis[name])
    }

    /// Counts within the last five minutes, without these APIs.
    func recent(at sample: StatusSample, besides troubled: Set<String>) -> StateSentence.Counts {
        guard !troubled.isEmpty else {
            // The total includes requests outside all APIs.
            let (rescued, failed) = (samples.first?.rescued ?? 0, samples.first?.errors ?? 0)
            return StateSentence.Counts(
                rescued: sample.rescued - min(sample.rescued, rescued), failed: sample.errors - min(sample.errors, failed))
        }
        return sample.apis.keys.reduce(into: StateSentence.Counts()) { sum, name in
            guard !troubled.contains(name) else { return }
            let counts = recent(name, at: sample)
            sum.rescued += counts.rescued
            sum.failed += counts.failed
        }
    }

    /// The value of `measure` for each pair of successive samples.
    func points(_ measure: (_ from: StatusSample, _ to: StatusSample) -> Double?) -> [Double?] {
        zip(samples, samples.dropFirst()).map { measure($0, $1) }
    }
}

/// State that outlives a single status page and reloads. Accessed on the pages' queues.
public final class StatusMemory: Sendable {
    /// Start of the process in milliseconds of the monotonic clock.
    let began: Int64
    let history: Mutex<StatusHistory>

    /// - Parameter now: milliseconds of the monotonic clock.
    public init(now: Int64) {
        began = now
        history = Mutex(StatusHistory(began: now))
    }

    /// Interval between samples in milliseconds.
    public static let interval = StatusHistory.interval
}
