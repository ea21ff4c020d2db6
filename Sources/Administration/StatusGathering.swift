// What the page of the state shows, gathered from all that counts. Whoever asks while it is being gathered gets the next, together with all who
// asked meanwhile: so the page costs as much as one thread has, whoever asks for it how often.

import CachePolicy
import Explanation
import FaultInjection
import Locking
import ResponseCache
import Telemetry

/// What is known of the service at one moment.
struct StatusFigures: Sendable {
    let snapshot: MetricsSnapshot
    let sample: StatusSample
    let history: StatusHistory
    let sentence: StateSentence
    let store: CacheFigures
    /// Of each API, in their order.
    let failures: [[OpenFailure]]
    /// Milliseconds: since 1970, and of the clock that is never set.
    let wall: Int64
    let now: Int64
}

final class StatusGathering: Sendable {
    typealias Reply = @Sendable (StatusFigures) -> Void

    private struct State {
        var waiting: [Reply] = []
        var isGathering = false
    }

    /// Asked on the interface's queue and the pages'.
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
            let figures = StatusFigures(snapshot, interface.apis, server)
            for reply in waiting { reply(figures) }
            gatherNext(interface, server)
        }
    }
}

extension StatusFigures {
    /// Takes a sample where one is due.
    init(_ snapshot: MetricsSnapshot, _ apis: [any AdministeredAPI], _ server: any AdministeredServer) {
        let now = server.monotonicMilliseconds
        let sample = StatusSample(snapshot, at: now)
        let failures = apis.map { $0.openFailures() }
        let troubled = Set(zip(apis, failures).filter { api, open in !api.isUp || open.contains { $0.user == nil } }.map(\.0.name))
        let history = server.status.history.withLock { history in
            history.note(sample, troubled: troubled)
            return history
        }
        let store = server.cacheFigures
        var sentence = StateSentence()
        sentence.apis = apis.count
        for (api, open) in zip(apis, failures) { sentence.add(api, open, now: now) }
        sentence.outages.sort { $0.seconds > $1.seconds }
        sentence.troubles.sort { $0.seconds > $1.seconds }
        let counts = history.counts(of: sample, since: troubled)
        sentence.rescued = troubled.isEmpty ? history.rescuedLately(at: sample) : counts.rescued
        sentence.failed = troubled.isEmpty ? 0 : counts.failed
        sentence.oldestCopy = snapshot.oldestAges[CacheResult.rescued.rawValue]
        sentence.isAsked = snapshot.connections.upstreamRequests > 0 || sample.requests > 0
        sentence.modes = Array(Set(apis.map(\.modes.all).filter { $0 != .live }.map(\.rawValue))).sorted()
        sentence.exceptions = apis.reduce(0) { $0 + $1.modes.rules.count + $1.modes.routes.count }
        sentence.faults = server.faults.rules.count
        sentence.isStoreWritable = apis.contains { $0.cache != nil } ? store.isWritable : nil
        sentence.isStopping = !snapshot.isReady
        self.init(
            snapshot: snapshot, sample: sample, history: history, sentence: sentence, store: store, failures: failures,
            wall: server.wallMilliseconds, now: now)
    }
}

extension StateSentence {
    /// What is known to fail of one API. Paths are counted and not named: whoever sees this may not see them.
    fileprivate mutating func add(_ api: any AdministeredAPI, _ open: [OpenFailure], now: Int64) {
        let wide = open.filter { $0.kind == "address" || $0.kind == "upstream" }
        if !api.isUp, let first = wide.min(by: { $0.since < $1.since }) {
            outages.append(Outage(name: api.name, seconds: (now - first.since) / 1_000, cause: Self.words(ofCause: first.cause)))
            return
        }
        let place = api.name.isEmpty ? "" : " of \(api.name)"
        for one in open where one.route != nil {
            troubles.append(
                Trouble(
                    place: "the route \(one.route ?? "")\(place)", isMany: false, seconds: (now - one.since) / 1_000,
                    cause: Self.words(ofCause: one.cause)))
        }
        let paths = open.filter { $0.route == nil && $0.user == nil && $0.kind != "pause" }
        guard let first = paths.min(by: { $0.since < $1.since }) else { return }
        let count = UInt64(paths.count)
        troubles.append(
            Trouble(
                place: ShownFigures.count(count, "path", "paths") + place, isMany: count > 1, seconds: (now - first.since) / 1_000,
                cause: Self.words(ofCause: first.cause)))
    }
}

extension OpenFailure {
    /// The name of the route that fails; nil where it is no route.
    var route: String? { name.hasPrefix("route:") ? String(name.dropFirst(6)) : nil }
}
