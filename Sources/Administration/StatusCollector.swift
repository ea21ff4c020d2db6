// Gathers the figures of the status page. Requests that arrive during a gathering share the next one, so the cost is bounded by one thread,
// regardless of the number of requests.

import CachePolicy
import Explanation
import Figures
import Reactor
import ResponseCache
import Upstream

/// Figures of the service at one time.
struct StatusFigures: Sendable {
    let snapshot: MetricsSnapshot
    let sample: StatusSample
    let history: StatusHistory
    let sentence: StateSentence
    let store: CacheFigures
    /// Failures of each API, in the order of the APIs.
    let failures: [[OpenFailure]]
    let upstreams: [UpstreamSummary]
    /// Milliseconds since 1970, and of the monotonic clock.
    let wall: Int64
    let now: Int64
}

final class StatusCollector: Sendable {
    typealias Reply = @Sendable (StatusFigures) -> Void

    private struct State {
        var waiting: [Reply] = []
        var isGathering = false
    }

    /// Accessed on the interface's queue and the pages' queue.
    private let state = Mutex(State())

    /// - Parameter reply: called once, on the pages' queue.
    func gather(_ interface: AdminInterface, _ server: any AdministeredServer, reply: @escaping Reply) {
        let isFirst = state.withLock { state in
            state.waiting.append(reply)
            defer { state.isGathering = true }
            return !state.isGathering
        }
        if isFirst { gatherNext(interface, server) }
    }

    private func gatherNext(_ interface: AdminInterface, _ server: any AdministeredServer) {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isGathering = !state.waiting.isEmpty
            return state.waiting
        }
        guard !waiting.isEmpty else { return }
        server.collectMetrics { [self] snapshot in
            let figures = StatusFigures.take(snapshot, interface.apis, server)
            for reply in waiting { reply(figures) }
            gatherNext(interface, server)
        }
    }
}

extension StatusFigures {
    /// Records the current figures in the history, with a sample if one is due.
    static func take(_ snapshot: MetricsSnapshot, _ apis: [any AdministeredAPI], _ server: any AdministeredServer) -> StatusFigures {
        let now = server.monotonicMilliseconds
        let sample = StatusSample(snapshot, at: now)
        let failures = apis.map { $0.openFailures() }
        let upstreams = apis.map { UpstreamSummary($0.name, $0.report, now: now) }
        var sentence = StateSentence()
        var troubled: [String: Int64] = [:]
        for (index, api) in apis.enumerated() {
            let known = sentence.troubles.count
            let report = upstreams[index].report
            if report.isDown { sentence.outages.append(StateSentence.Outage(upstreams[index])) }
            if !report.isDown { sentence.addTroubles(api, failures[index], now: now) }
            // A failing address among several does not count, since another one is used.
            let failsInPart = sentence.troubles[known...].contains { $0.kind != .address }
            guard report.isDown || report.state == .failing || failsInPart else { continue }
            let scopes = failures[index].filter { $0.user == nil }.map(\.since)
            troubled[api.name] = report.since ?? (failsInPart ? scopes.min() : nil) ?? .min
        }
        let history = server.status.history.withLock { history in
            history.note(sample, troubled: troubled)
            return history
        }
        let down = Set(sentence.outages.map(\.name))
        sentence.upstreams = upstreams.filter { !$0.report.isDown }
        sentence.outages.sort { $0.seconds > $1.seconds }
        sentence.troubles.sort { $0.seconds > $1.seconds }
        sentence.since = history.counts(of: sample, ofAPIs: troubled.keys)
        sentence.failedRecently = down.reduce(0) { $0 + history.recent($1, at: sample).failed }
        sentence.recent = history.recent(at: sample, besides: Set(troubled.keys))
        let failed = apis.map { ($0.name, troubled[$0.name] != nil ? 0 : history.recent($0.name, at: sample).failed) }
        sentence.failing = apis.count == 1 ? [] : failed.filter { $0.1 > 0 }.sorted { $0.1 > $1.1 }.map(\.0)
        sentence.oldestCopy = snapshot.oldestAges[CacheResult.rescued.rawValue]
        sentence.modes = Array(Set(apis.map(\.modes.all).filter { $0 != .live }.map(\.rawValue))).sorted()
        sentence.exceptions = apis.reduce(0) { $0 + $1.modes.rules.count + $1.modes.routes.count }
        sentence.faults = server.faults.rules.count
        let store = server.cacheFigures
        sentence.isStoreWritable = apis.contains { $0.cache != nil } ? store.isWritable : nil
        sentence.storeRefusal = store.refusal.map { "\($0.words) (\($0.systemText))" }
        sentence.isStopping = !snapshot.isReady
        sentence.isBlind = snapshot.sharing?.isUpToDate == false
        return StatusFigures(
            snapshot: snapshot, sample: sample, history: history, sentence: sentence, store: store, failures: failures,
            upstreams: upstreams,
            wall: server.wallMilliseconds, now: now)
    }
}

extension StateSentence {
    /// Adds failures of an upstream that is not down. Paths are counted but not named, because the viewer may not be allowed to see them.
    /// Failures of single users are omitted.
    fileprivate mutating func addTroubles(_ api: any AdministeredAPI, _ open: [OpenFailure], now: Int64) {
        let suffix = api.name.isEmpty ? "" : " of \(api.name)"
        func add(_ kind: Trouble.Kind, _ same: [OpenFailure], _ words: (String) -> String) {
            guard let first = same.oldestScope else { return }
            let count = UInt64(same.count)
            troubles.append(
                Trouble(
                    kind, subject: words(NumberText.count(count, "path", "paths")), isMany: count > 1,
                    seconds: (now - first.since) / 1_000, cause: Self.words(ofCause: first.cause)))
        }
        for one in open where one.route != nil { add(.failing, [one]) { _ in "the route \(one.route ?? "")\(suffix)" } }
        let shared = open.filter { !$0.concernsAll && $0.route == nil && $0.user == nil }
        add(.failing, shared.filter { $0.kind != "pause" }) { $0 + suffix }
        add(.pause, shared.filter { $0.kind == "pause" }) { "\(api.name.isEmpty ? "it" : api.name) asked for a pause on \($0)" }
        let addresses = api.addresses
        let down = addresses.compactMap(\.down)
        guard addresses.count > 1, let first = down.min(by: { $0.since < $1.since }) else { return }
        troubles.append(
            Trouble(
                .address, subject: "\(down.count) of \(addresses.count) addresses\(suffix)", isMany: down.count > 1,
                seconds: (now - first.since) / 1_000, cause: Self.words(ofCause: first.error)))
    }
}

extension OpenFailure {
    /// Name of the failing route; nil for other scopes.
    var route: String? { name.hasPrefix("route:") ? String(name.dropFirst(6)) : nil }

    /// Whether it concerns all requests to the upstream.
    var concernsAll: Bool { kind == "address" || kind == "upstream" }
}

extension [OpenFailure] {
    var oldestScope: OpenFailure? { self.min { $0.since < $1.since } }
}
