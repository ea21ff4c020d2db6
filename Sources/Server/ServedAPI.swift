// One API, as the server and the administrator's pages use it, and its counts for the page at /metrics.

import Addresses
import Administration
import CachePolicy
import Explanation
import Figures
import HTTPCore
import JSON
import Logging
import Reactor
import ResponseCache
import ReverseProxy
import Sharing
import TakeOver
import Upstream

final class ServedAPI: Sendable {
    let state: APIState
    unowned let server: ProxyServer

    private init(_ state: APIState, of server: ProxyServer) { (self.state, self.server) = (state, server) }

    /// Creates all APIs of the settings.
    /// - Parameters:
    ///   - former: the APIs that are served now.
    ///   - unchanged: names of the former APIs that are kept as they are.
    ///   - inherited: the store that another process has handed over; nil if there is none.
    /// - Throws: `StoreError` if the store cannot be opened.
    static func all(
        of process: ProcessState, server: ProxyServer, after former: [ServedAPI] = [], unchanged: Set<String> = [],
        inherited: HandedCache? = nil
    ) throws -> [ServedAPI] {
        let settings = process.settings.apis.isEmpty ? [process.settings] : process.settings.apis
        var all: [ServedAPI] = []
        for one in settings {
            let before = former.first { $0.name == one.apiName }
            if let before, unchanged.contains(one.apiName) {
                all.append(before)
                continue
            }
            let beside = former.first?.state ?? all.first?.state
            all.append(ServedAPI(try APIState(one, of: process, beside: beside, after: before?.state, inherited: inherited), of: server))
        }
        // All nodes of a fleet have one upstream for an API of one name.
        server.fleet?.served = Dictionary(all.map { ($0.name, $0.state.upstreamName) }, uniquingKeysWith: { first, _ in first })
        return all
    }

    var isKeyedByScheme: Bool { settings.policy.keyFields.contains(ConnectionField.scheme) }

    /// The former API with this name. If there is none, the former single API, which has no name.
    func former(in apis: [ServedAPI]) -> ServedAPI? { apis.first { $0.name == name } ?? apis.first { $0.name.isEmpty } }

    /// Compares with the former API of this name only: stored responses of an API with another name are not found.
    func warningsOfNarrowing(since apis: [ServedAPI]) -> [String] {
        apis.first { $0.name == name }.map { settings.warningsOfNarrowing(since: $0.settings) } ?? []
    }

    private var settings: ProxySettings { state.settings }

    // MARK: Figures

    func addFigures(to snapshot: inout MetricsSnapshot, now: Int64) {
        let modes = self.modes
        let lines = ServingMode.allCases.map { mode in
            let exceptions = modes.exceptions(with: mode)
            return MetricsSnapshot.ModeLine(
                mode: mode.rawValue, isForAll: modes.all == mode, prefixes: exceptions.prefixes, routes: exceptions.routes)
        }
        snapshot.modes = snapshot.modes.isEmpty ? lines : zip(snapshot.modes, lines).map { $0.with($1) }
        snapshot.figures[.collapsedWaiting] += state.collapsed.waiting
        let failures = state.health.summary(now: now)
        snapshot.failures.add(failures)
        snapshot.figures[.setCookiesOmitted] += state.cache?.cookieOrigins?.leftOut ?? 0
        if let traffic = state.traffic {
            snapshot.figures[.observedPaths] += traffic.count
            traffic.addCounts(to: &snapshot.figures)
        }
        for (event, count) in state.cache?.gone?.counts ?? [] { snapshot.addGone(event, UInt64(count)) }
        for report in state.cache?.unknownFields.reports ?? [] {
            snapshot.addUnknownField(report.name, report.kind.rawValue, UInt64(report.count))
        }
        let (lookUps, keys) = (state.lookUpFigures(), state.keyFigures())
        snapshot.tokens.lookUps.merge(lookUps.counts, uniquingKeysWith: +)
        snapshot.figures[.lookUpsRemembered] += lookUps.remembered
        snapshot.figures[.tokenKeys] += keys.keys
        snapshot.figures[.tokenKeysRead] += keys.read
        snapshot.figures[.tokenKeysFailed] += keys.failed
        if name.isEmpty {
            snapshot.soleAPI = Int(index)
        } else {
            let addresses = addresses.map { ($0.url, $0.down == nil) }
            snapshot.apis.append(APILine(name: name, index: Int(index), report: failures.upstream, addresses: addresses))
        }
    }
}

extension ServedAPI {
    /// Adds the counts of this API, which is being replaced, to the past counts.
    /// - Parameter successor: the new API of this name, which may continue some of the counts; nil if there is none.
    func addCounts(to past: inout ReplacedFigures, besides successor: ServedAPI?, now: Int64) {
        let next = successor?.state
        if next?.health !== state.health { past.failures.addOpened(state.health.summary(now: now)) }
        if let origins = state.cache?.cookieOrigins, origins !== next?.cache?.cookieOrigins {
            past.figures[.setCookiesOmitted] += origins.leftOut
        }
        if let gone = state.cache?.gone, gone !== next?.cache?.gone {
            for (event, count) in gone.counts { past.gone[event, default: 0] += UInt64(count) }
        }
        state.traffic?.addCounts(to: &past.figures)
        past.lookUps.merge(state.lookUpFigures(besides: next).counts, uniquingKeysWith: +)
        let keys = state.keyFigures(besides: next)
        past.figures[.tokenKeysRead] += keys.read
        past.figures[.tokenKeysFailed] += keys.failed
    }
}

extension ServedAPI: AdministeredAPI {
    var name: String { state.name }
    var index: UInt16 { state.index }
    var cache: APICacheState? { state.cache }
    var policy: CachePolicySettings { settings.policy }
    var upstreamURL: String { settings.upstream.origin + settings.upstream.basePath }
    var addresses: [AddressState] {
        let urls = settings.upstream.atEachAddress.map { $0.origin + $0.basePath }
        guard urls.count > 1 else {
            let stop = state.health.openScopes(now: server.monotonicMilliseconds).first { $0.scope == .address }?.stop
            return [AddressState(url: urls[0], down: stop.map { ($0.since, $0.cause.text) })]
        }
        let down = state.health.downAddresses
        return urls.enumerated().map { place, url in AddressState(url: url, down: down[place].map { ($0.since, $0.error.text) }) }
    }

    var strippedPath: [UInt8] { settings.strippedPath }
    var routeNames: [String] { state.routes.all.dropLast().map(\.name) }

    func explainedRoute(of target: [UInt8]) -> ExplainedRoute { state.routes.explained(target) }

    // MARK: Failures

    var remembersFailures: Bool { state.health.isOn }
    var report: UpstreamReport { state.health.report(now: server.monotonicMilliseconds) }

    func openFailures() -> [OpenFailure] {
        state.health.openScopes(now: server.monotonicMilliseconds).map { open in
            let user: UInt64? = if case .pause(_, let user) = open.scope, user != 0 { user } else { nil }
            return OpenFailure(
                name: state.health.name(of: open.scope), kind: open.scope.kind.rawValue, since: open.stop.since,
                cause: open.stop.cause.label, details: open.stop.cause.details, advice: open.stop.cause.advice?.text,
                setting: open.stop.setting.rawValue, settingValue: value(of: open.stop.setting), effect: open.scope.effect,
                wait: open.stop.wait, checkedAt: open.checkedAt, user: user)
        }
    }

    var lastFailure: LastFailure? {
        state.health.first.last.map { last in
            LastFailure(
                at: last.at, cause: last.cause.label, details: last.cause.details, certificate: last.certificate,
                advice: last.cause.advice?.text, path: last.path, isOver: last.isOver)
        }
    }

    private func value(of setting: FailureSetting) -> String {
        let failure = settings.upstream.failure
        return switch setting {
        case .threshold: "\(failure.threshold) in a row"
        case .window: NumberText.duration(microseconds: failure.window * 1_000)
        case .retryAfterLimit: NumberText.span(failure.retryAfterLimit / 1_000)
        case .recheck: NumberText.duration(microseconds: failure.recheck * 1_000)
        }
    }

    func resetFailures(_ name: String?) -> Int { state.health.reset(name, now: server.monotonicMilliseconds) }

    // MARK: Modes

    var modes: ModeTable { state.modes }

    func changeModes(_ change: (inout ModeTable) -> Bool, then: @escaping @Sendable () -> Void) -> Bool {
        // The API of this name may have been replaced by a reload.
        let (state, changed) = server.state.withLock { serving in
            let current = serving?.apis.first { $0.name == name }?.state ?? self.state
            return (current, current.changeModes(change))
        }
        guard let changed else { return false }
        let exceptions =
            changed.rules.map { "\($0.mode.rawValue) for \($0.prefix)" }
            + changed.routes.sorted { $0.key < $1.key }.map { "\($0.value.rawValue) for the route \(state.routes.all[$0.key].name)" }
        let subject = name.isEmpty ? "the mode" : "the mode of \(name)"
        server.logger.notice("\(subject) is \(([changed.all.rawValue] + exceptions).joined(separator: ", "))")
        server.process.peer.send(.modes(state.passedModes))
        server.useModes(of: state, then: then)
        return true
    }

    // MARK: Archives

    func mayBeAsked(for target: ArraySlice<UInt8>) -> Bool {
        let apis = server.serving.apis
        guard !name.isEmpty, let place = apis.firstIndex(where: { $0 === self }) else { return true }
        return ServedAPIs(apis.map(\.settings.scope)).mayBe(place, for: target)
    }

    func judge(_ archived: ArchivedResponse) -> ArchiveJudgement {
        let route = state.routes.all[state.routes.index(of: archived.request.pathAndQuery)]
        let good = route.good
        let examination = ContentExamination(
            ContentExamination.Arrived(
                archived.content, .identity,
                isJSON: MediaType(of: archived.response.fields)?.isJSON == true,
                JSONTextChecker.check(archived.content.span, settings.policy.reading), isDelimited: true),
            ContentExamination.Demands(
                good, kept: route.kept, storedBytes: nil,
                makesTag: settings.policy.makesTag(for: archived.response),
                limitBytes: settings.content.bufferLimitBytes))
        let findings = examination.findings()
        let flaw = route.kept.faultOfHead(archived.response) == nil ? findings?.flaw : .notKept
        return ArchiveJudgement(good: good, flaw: flaw, ownTag: findings?.ownTag, isLenient: findings?.isLenient ?? false)
    }
}

extension ProxyServer {
    /// Passes the current modes to all shards. Concurrent changes may reach a shard in either order, so the shard reads the current modes.
    func useModes(of state: APIState, then: @escaping @Sendable () -> Void) {
        onEachShard({ served in served.forEachAPI { if $0.apiState === state { $0.modes = state.modes } } }, then: then)
    }
}
