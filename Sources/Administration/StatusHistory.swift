// The last five minutes in samples of counts, and what was counted before something began to fail: of these the page of the state makes its
// lines and its sentence. Bounded; pure: times are passed in.

import Explanation
import Locking
import StatusPage
import Telemetry

/// Counts at one moment.
struct StatusSample: Sendable {
    /// Of one API.
    struct API: Sendable, Equatable {
        /// Requests of clients: those that a copy rescued, and those that got a status of 5xx.
        var rescued: UInt64 = 0
        var failed: UInt64 = 0
        /// Of the upstream; and those of them with a status of 5xx.
        var responses: UInt64 = 0
        var errors: UInt64 = 0

        /// What was counted from `earlier` on.
        func since(_ earlier: API?) -> API {
            let earlier = earlier ?? API()
            return API(
                rescued: rescued - min(rescued, earlier.rescued), failed: failed - min(failed, earlier.failed),
                responses: responses - min(responses, earlier.responses), errors: errors - min(errors, earlier.errors))
        }
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

    /// Before anything was counted.
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
            let responses = counts.upstreamResponses
            return API(rescued: rescued, failed: failed, responses: responses.all, errors: responses.errors)
        }
        guard !snapshot.apis.isEmpty else {
            apis = ["": api(snapshot.counts(ofAPI: snapshot.soleAPI), rescued: rescued, failed: errors)]
            return
        }
        let counted = snapshot.apis.map { line in
            let counts = snapshot.counts(of: line)
            return (line.name, api(counts, rescued: counts.requests[CacheResult.rescued.rawValue], failed: counts.serverErrors))
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
    private(set) var samples: [StatusSample]
    /// What was counted of each API when nothing of it was failing last.
    private var calm: [String: StatusSample.API] = [:]

    /// Milliseconds from one sample to the next, and for how long they are kept.
    static let interval: Int64 = 5_000
    static let span = interval * Int64(StatusPage.pointLimit)

    /// - Parameter began: when nothing was counted yet.
    init(began: Int64) { samples = [StatusSample(at: began)] }

    /// - Parameter troubled: APIs with a failing scope.
    mutating func note(_ sample: StatusSample, troubled: Set<String>) {
        calm = calm.filter { sample.apis[$0.key] != nil }
        for (name, counts) in sample.apis where !troubled.contains(name) { calm[name] = counts }
        // Timers come a moment early or late.
        guard samples.last.map({ sample.at - $0.at >= Self.interval - 100 }) ?? true else { return }
        samples.append(sample)
        samples.removeFirst(max(0, samples.count - StatusPage.pointLimit - 1))
        // Where none was taken for long, the one before says nothing of the last minutes; but something has to be compared with.
        while samples.count > 2, sample.at - samples[0].at > Self.span + Self.interval { samples.removeFirst() }
    }

    /// What was counted since something of these APIs began to fail.
    func counts(of sample: StatusSample, since troubled: Set<String>) -> StateSentence.Counts {
        troubled.reduce(into: StateSentence.Counts()) { sum, name in
            guard let counts = sample.apis[name]?.since(calm[name]) else { return }
            sum.rescued += counts.rescued
            sum.failed += counts.failed
        }
    }

    /// What was counted of this API within the five minutes.
    func lately(_ name: String, at sample: StatusSample) -> StatusSample.API {
        sample.apis[name, default: .init()].since(samples.first?.apis[name])
    }

    /// Within the five minutes, of all but these.
    func lately(at sample: StatusSample, besides troubled: Set<String>) -> StateSentence.Counts {
        guard !troubled.isEmpty else {
            // Those that were for no API too.
            let (rescued, failed) = (samples.first?.rescued ?? 0, samples.first?.errors ?? 0)
            return StateSentence.Counts(
                rescued: sample.rescued - min(sample.rescued, rescued), failed: sample.errors - min(sample.errors, failed))
        }
        return sample.apis.keys.reduce(into: StateSentence.Counts()) { sum, name in
            guard !troubled.contains(name) else { return }
            let counts = lately(name, at: sample)
            sum.rescued += counts.rescued
            sum.failed += counts.failed
        }
    }

    /// What `measure` says of each sample and the one before it.
    func points(_ measure: (_ from: StatusSample, _ to: StatusSample) -> Double?) -> [Double?] {
        zip(samples, samples.dropFirst()).map { measure($0, $1) }
    }
}

/// What lasts from one page of the state to the next, and over reloads. Asked on the pages' queues.
public final class StatusMemory: Sendable {
    /// When the process began, in milliseconds of the clock that is never set.
    let began: Int64
    let history: Mutex<StatusHistory>

    /// - Parameter now: milliseconds of the clock that is never set.
    public init(now: Int64) {
        began = now
        history = Mutex(StatusHistory(began: now))
    }

    /// Milliseconds from one sample to the next.
    public static let interval = StatusHistory.interval
}
