// The last five minutes in samples of counts, and what was counted before something began to fail: of these the page of the state makes its
// lines and its sentence. Bounded; pure: times are passed in.

import Locking
import StatusPage
import Telemetry

/// Counts at one moment.
struct StatusSample: Sendable {
    struct API: Sendable, Equatable {
        var rescued: UInt64 = 0
        var failed: UInt64 = 0
    }

    /// Milliseconds of the clock that is never set.
    let at: Int64
    let requests: UInt64
    let fromStore: UInt64
    let rescued: UInt64
    let errors: UInt64
    let duration: Histogram
    /// By the APIs' names.
    let apis: [String: API]

    init(_ snapshot: MetricsSnapshot, at now: Int64) {
        let all = snapshot.summary
        at = now
        (requests, fromStore) = (all.requests.reduce(0, +), all.fromStore)
        (rescued, errors, duration) = (all.count(of: .rescued), all.serverErrors, all.duration)
        guard !snapshot.apis.isEmpty else {
            apis = ["": API(rescued: rescued, failed: errors)]
            return
        }
        let counted = snapshot.apis.map { api in
            let counts = snapshot.apiCounts.indices.contains(api.place) ? snapshot.apiCounts[api.place] : APICounts()
            return (
                api.name,
                API(rescued: counts.requests[CacheResult.rescued.rawValue], failed: counts.requests[CacheResult.error.rawValue])
            )
        }
        apis = Dictionary(counted) { first, _ in first }
    }
}

extension RouteSummary {
    func count(of result: CacheResult) -> UInt64 { requests[result.rawValue] }

    /// Responses for which the upstream did not have to send any content to this client.
    var fromStore: UInt64 { ([.hit, .revalidated, .stale, .collapsed, .rescued] as [CacheResult]).reduce(0) { $0 + count(of: $1) } }
    var total: UInt64 { requests.reduce(0, +) }
}

struct StatusHistory: Sendable {
    /// Oldest first.
    private(set) var samples: [StatusSample] = []
    /// What was counted of each API when nothing of it was failing last.
    private var calm: [String: StatusSample.API] = [:]

    /// Milliseconds from one sample to the next.
    static let interval: Int64 = 5_000

    /// - Parameter troubled: the APIs of which something fails now.
    mutating func note(_ sample: StatusSample, troubled: Set<String>) {
        calm = calm.filter { sample.apis[$0.key] != nil }
        for (name, counts) in sample.apis where !troubled.contains(name) { calm[name] = counts }
        // Timers come a moment early or late.
        guard samples.last.map({ sample.at - $0.at >= Self.interval - 100 }) ?? true else { return }
        samples.append(sample)
        samples.removeFirst(max(0, samples.count - StatusPage.pointLimit - 1))
    }

    /// What was counted since something of these APIs began to fail.
    func counts(of sample: StatusSample, since troubled: Set<String>) -> StatusSample.API {
        troubled.reduce(into: StatusSample.API()) { sum, name in
            guard let counts = sample.apis[name] else { return }
            let before = calm[name] ?? StatusSample.API()
            sum.rescued += counts.rescued - min(counts.rescued, before.rescued)
            sum.failed += counts.failed - min(counts.failed, before.failed)
        }
    }

    /// Rescued within the five minutes.
    func rescuedLately(at sample: StatusSample) -> UInt64 {
        guard let first = samples.first else { return 0 }
        return sample.rescued - min(sample.rescued, first.rescued)
    }

    /// What `measure` says of each sample and the one before it.
    func points(_ measure: (_ from: StatusSample, _ to: StatusSample) -> Double?) -> [Double?] {
        zip(samples, samples.dropFirst()).map { measure($0, $1) }
    }
}

/// What lasts from one page of the state to the next, and over reloads. Asked on the pages' queues.
public final class StatusMemory: Sendable {
    let history = Mutex(StatusHistory())
    /// Asked on the loops too, for the time that it takes to compare.
    let sessions = Mutex(StatusSessions())

    public init() {}

    /// Milliseconds from one sample to the next.
    public static let interval = StatusHistory.interval
}
