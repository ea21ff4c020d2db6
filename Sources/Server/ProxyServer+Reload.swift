// Reloads the settings. All shards take all new settings between two of their events, or nothing changes. Active requests end under the
// former settings.

import Administration
import Dispatch
import Downstream
import Figures
import Logging
import Notifying
import Reactor
import ReverseProxy
import Tracing
import Upstream

/// Reloaded settings, compared with the former ones.
public struct NewSettings: Sendable {
    public enum AccessLogChange: Sendable {
        case none
        /// Opens the new access log. Called last, because it creates a file. Returns nil for no access log.
        case replaced(@Sendable () throws(SettingsMistakes) -> AccessLog?)
    }

    /// The new settings, with the values of the start where a change needs a restart.
    public var settings: ProxySettings
    /// Settings that have changed, and settings that change only after a restart.
    public var changed: [String] = []
    public var awaitingRestart: [String] = []
    public var warnings: [String] = []
    /// Names of the APIs with unchanged settings. The name of a single API is empty.
    public var unchangedAPIs: Set<String> = []
    public var accessLog = AccessLogChange.none
    /// Called once all shards use the settings.
    public var whenApplied: @Sendable () -> Void = {}

    public init(_ settings: ProxySettings) { self.settings = settings }
}

/// Why settings are rejected: one sentence for each mistake.
public struct SettingsMistakes: Error {
    public let sentences: [String]
    /// Whether a certificate is invalid.
    public let areOfCertificates: Bool

    public init(_ sentences: [String], areOfCertificates: Bool = false) {
        (self.sentences, self.areOfCertificates) = (sentences, areOfCertificates)
    }
}

/// Reads the settings. Called on a queue that may block.
public typealias SettingsReading = @Sendable () throws(SettingsMistakes) -> NewSettings

/// Number of reloads by outcome, and the last outcome.
struct ReloadCounts: Sendable {
    private var counts = [UInt64](repeating: 0, count: ReloadOutcome.labels.count)
    private var last: (label: String, seconds: Int64)?
    /// Number of successful reloads that read certificates, and number of reloads that failed because of certificates.
    var certificates = 0
    var failedCertificates = 0

    mutating func count(_ outcome: ReloadOutcome, at seconds: Int64) {
        if let index = ReloadOutcome.labels.firstIndex(of: outcome.label) { counts[index] += 1 }
        last = (outcome.label, seconds)
        if case .applied(let applied) = outcome, !applied.certificates.isEmpty { certificates += 1 }
    }

    var figures: MetricsSnapshot.Reloads {
        var figures = MetricsSnapshot.Reloads()
        figures.counts = zip(ReloadOutcome.labels, counts).map { ($0, $1) }
        figures.last = last.map { ($0.label, $0.seconds) }
        return figures
    }
}

extension ProxyServer {
    /// Sets the function with which `reload` reads the settings. Without it, a reload reads only the files that the settings name.
    public func followSettings(_ read: @escaping SettingsReading) { readSettings.withLock { $0 = read } }

    /// - Parameter then: called from any thread once all shards use the new settings, or the reload was rejected.
    public func reload(then: @escaping @Sendable (ReloadOutcome) -> Void) {
        // The access log is reopened even if the reload fails, because it may have been rotated.
        reopenAccessLog()
        reloadQueue.async { [self] in
            let outcome: ReloadOutcome
            do throws(SettingsMistakes) {
                guard !process.peer.hasAll else { throw SettingsMistakes(["another process has taken over: reload that process"]) }
                outcome = .applied(try reloadNow())
            } catch {
                for sentence in error.sentences { logger.error("reload rejected, settings unchanged: \(sentence)") }
                if error.areOfCertificates { reloads.withLock { $0.failedCertificates += 1 } }
                outcome = .refused(error.sentences)
            }
            reloads.withLock { $0.count(outcome, at: wallMilliseconds / 1_000) }
            then(outcome)
        }
    }

    /// Waits for a running reload, for `lastReloadPatience` at most. A reload that ends later changes nothing.
    func endReloads() {
        let isOver = DispatchSemaphore(value: 0)
        reloadQueue.async { isOver.signal() }
        if isOver.wait(timeout: .now() + Self.lastReloadPatience) == .timedOut {
            logger.warning("a reload is still running at shutdown; it is abandoned and changes nothing")
        }
    }

    private static let lastReloadPatience = DispatchTimeInterval.seconds(1)

    /// All steps that may fail come first and change nothing. Returns when all shards use the new settings.
    private func reloadNow() throws(SettingsMistakes) -> AppliedSettings {
        let former = serving
        let read = readSettings.withLock { $0 }
        var new = if let read { try read() } else { NewSettings(unchanged: former) }
        let listening = new.settings.listening
        let (certificates, prepared) = try readCertificates(listening, after: former)
        let listeners = try bind(new.settings, certificates, after: former)
        let process: ProcessState
        do {
            process = try makeProcess(new, after: former.process)
        } catch {
            ServedListener.remove(listeners, butNot: former.listeners)
            throw error
        }
        let apis = try makeAPIs(new, of: process, after: former)
        new.warnings += Self.warnings(apis, after: former)
        new.changed += certificates?.renewed(since: former.certificates) ?? []
        let serving = Serving(
            process: process, apis: apis, listeners: listeners,
            interface: AdminInterface(server: self, apis: apis, settings: new.settings.admin), pages: former.pages,
            challenges: listening.challengeDirectory.map { AcmeChallenges(directory: $0) }, certificates: certificates, past: former.past)
        let made = shards.enumerated().map { index, shard in shard.prepare(serving, besides: former, prepared?[index]) }
        guard use(serving, after: former) else { throw SettingsMistakes(["the process is stopping"]) }
        let isDone = DispatchSemaphore(value: 0)
        onEachShard { [self] in
            $0.use(made[$0.shard.number], onFailure: logHandshake)
        } then: {
            isDone.signal()
        }
        isDone.wait()
        purgeExcluded(after: former) { isDone.signal() }
        isDone.wait()
        rememberSharing()
        new.whenApplied()
        finish(new, serving, after: former)
        return AppliedSettings(
            changed: new.changed, awaitingRestart: new.awaitingRestart,
            certificates: certificates?.certificates.entries.map { $0.settings.file } ?? [],
            warnings: new.warnings + (certificates?.warnings ?? []).map(\.description))
    }

    /// Makes `new` the current value. Modes that an administrator changed meanwhile are kept.
    /// - Returns: false if the process is stopping, so that nothing may change.
    private func use(_ new: Serving, after former: Serving) -> Bool {
        state.withLock { current in
            guard isReloadable else { return false }
            for api in new.apis {
                guard let before = api.former(in: former.apis), before !== api else { continue }
                api.state.keep(before.state.passedModes)
            }
            new.process.limit()
            var serving = new
            serving.past = former.past(besides: new.apis, new.process, now: monotonicMilliseconds)
            current = serving
            return true
        }
    }

    /// Releases what only the former settings used, and logs the reload. Called when all shards use the new settings.
    private func finish(_ new: NewSettings, _ serving: Serving, after former: Serving) {
        for api in serving.apis where !former.apis.contains(where: { $0 === api }) { api.state.startKeys(now: monotonicMilliseconds) }
        ServedListener.remove(former.listeners, butNot: serving.listeners)
        for listener in serving.listeners { listener.restrict() }
        if former.process.accessLog !== serving.process.accessLog { former.process.accessLog?.finish() }
        if former.process.spans !== serving.process.spans { former.process.spans?.finish() }
        // The files of the targets are read again, even if no setting has changed.
        notifier.use(new.settings.notify)
        if !serving.settings.admin.allowsFaults, !faults.rules.isEmpty {
            changeFaults {
                _ = $0.remove(nil)
            } then: { _ in
            }
        }
        logReload(new, serving)
    }

    /// Warnings about changes that hide stored responses, or let more clients receive them.
    private static func warnings(_ apis: [ServedAPI], after former: Serving) -> [String] {
        let narrowed = apis.flatMap { $0.warningsOfNarrowing(since: former.apis) }
        return nameWarnings(apis, after: former) + removalWarnings(apis, after: former) + schemeWarnings(apis, after: former) + narrowed
    }

    /// Cache keys contain the API's name.
    private static func removalWarnings(_ apis: [ServedAPI], after former: Serving) -> [String] {
        guard !apis[0].name.isEmpty else { return [] }
        let removed = former.apis.filter { one in !one.name.isEmpty && one.state.cache != nil && !apis.contains { $0.name == one.name } }
        return removed.map {
            "API \($0.name) is removed: its stored responses are not used while no API has this name, not even in an outage. To rename an API, purge them, or keep the name and change path, host or upstream"
        }
    }

    /// With both schemes in use, the keys of https requests contain the scheme. With one scheme, no key does.
    private static func schemeWarnings(_ apis: [ServedAPI], after former: Serving) -> [String] {
        let (were, are) = (former.apis[0].isKeyedByScheme, apis[0].isKeyedByScheme)
        guard were != are else { return [] }
        return [
            are
                ? "responses to https requests now have separate cache keys: https requests do not use responses stored before, not even in an outage"
                : "responses to https requests no longer have separate cache keys: https requests use responses stored for http requests"
        ]
    }

    private static func nameWarnings(_ apis: [ServedAPI], after former: Serving) -> [String] {
        let wasAlone = former.apis[0].name.isEmpty
        guard wasAlone != apis[0].name.isEmpty else { return [] }
        let names = wasAlone ? "the APIs have names now" : "the only API has no name now"
        return ["\(names), and cache keys contain the name: responses stored before are not used, not even in an outage"]
    }

    private func makeProcess(_ new: NewSettings, after former: ProcessState) throws(SettingsMistakes) -> ProcessState {
        guard !new.changed.isEmpty else { return former }
        let accessLog = if case .replaced(let open) = new.accessLog { try open() } else { former.accessLog }
        return ProcessState(new.settings, accessLog: accessLog, after: former)
    }

    private func readCertificates(
        _ listening: ListeningSettings, after former: Serving
    ) throws(SettingsMistakes) -> (ServedCertificates?, [ServerTLS.Prepared]?) {
        do throws(CertificateError) {
            let certificates = try ServedCertificates(listening, ticketKeys, now: wallMilliseconds / 1_000)
            return (certificates, try certificates?.prepared(shards: shardCount))
        } catch {
            throw SettingsMistakes(
                error.mistakes.isEmpty ? [error.description] : error.mistakes.map(\.description), areOfCertificates: true)
        }
    }

    private func makeAPIs(_ new: NewSettings, of process: ProcessState, after former: Serving) throws(SettingsMistakes) -> [ServedAPI] {
        do {
            return try ServedAPI.all(of: process, server: self, after: former.apis, unchanged: new.unchangedAPIs)
        } catch {
            throw SettingsMistakes(["\(error)"])
        }
    }

    private func bind(
        _ settings: ProxySettings, _ certificates: ServedCertificates?, after former: Serving
    ) throws(SettingsMistakes) -> [ServedListener] {
        let asksTheSame = certificates?.certificates.clientRules == former.certificates?.certificates.clientRules
        do throws(ListenError) {
            return try ServedListener.all(settings, after: former.listeners, asksTheSame: asksTheSame, activated: &activated, logger)
        } catch {
            throw SettingsMistakes([error.description])
        }
    }

    private func logReload(_ new: NewSettings, _ serving: Serving) {
        for warning in new.warnings { logger.warning("\(warning)") }
        logCertificates(serving)
        let changed = new.changed.isEmpty ? "no setting changed" : "changed: \(new.changed.joined(separator: ", "))"
        logger.notice("settings reloaded; \(changed)")
        if !new.changed.isEmpty { logServing(serving) }
        if !new.awaitingRestart.isEmpty {
            logger.warning(
                "settings that need a restart: \(new.awaitingRestart.joined(separator: ", ")); until then the former values apply")
        }
    }
}

extension NewSettings {
    /// The current settings.
    fileprivate init(unchanged serving: Serving) {
        self.init(serving.settings)
        unchangedAPIs = Set(serving.apis.map(\.name))
    }
}

extension Serving {
    /// Adds the final counts of replaced APIs, and of a replaced access log.
    fileprivate func past(besides apis: [ServedAPI], _ process: ProcessState, now: Int64) -> ReplacedFigures {
        var past = past
        for api in self.apis where !apis.contains(where: { $0 === api }) {
            api.addCounts(to: &past, besides: apis.first { $0.name == api.name }, now: now)
        }
        if process.accessLog !== self.process.accessLog { past.figures[.accessLogDropped] += self.process.accessLog?.dropped ?? 0 }
        return past
    }
}
