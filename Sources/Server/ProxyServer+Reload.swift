// Reading the settings again: all of what was read is taken, at one point on every shard, or nothing is. Requests under way end as they began.

import Administration
import Dispatch
import Downstream
import Locking
import Logging
import ReverseProxy
import Telemetry

/// What the settings are now, as they were read again.
package struct NewSettings: Sendable {
    package enum AccessLogChange: Sendable {
        case none
        case replaced(AccessLog?)
    }

    /// With those of the start where they need a restart.
    package var settings: ProxySettings
    /// What of them is another than before, and what would be after a restart.
    package var changed: [String] = []
    package var awaitingRestart: [String] = []
    package var warnings: [String] = []
    /// APIs that are served as before; of the only one, the empty name.
    package var unchangedAPIs: Set<String> = []
    package var accessLog = AccessLogChange.none
    /// Called once all shards have them.
    package var whenApplied: @Sendable () -> Void = {}

    package init(_ settings: ProxySettings) { self.settings = settings }
}

/// Why settings cannot be taken: every mistake, in a sentence each.
package struct SettingsMistakes: Error {
    package let sentences: [String]

    package init(_ sentences: [String]) { self.sentences = sentences }
}

/// Reads them. Called on a queue where it may take its time.
package typealias SettingsReading = @Sendable () throws(SettingsMistakes) -> NewSettings

/// How often settings were read again, and what came of it.
struct ReloadCounts: Sendable {
    private var counts = [UInt64](repeating: 0, count: ReloadOutcome.labels.count)
    private var last: (label: String, seconds: Int64)?
    /// Those in which certificates were read again, and those in which something was wrong with them.
    var certificates = 0
    var failedCertificates = 0

    mutating func count(_ outcome: ReloadOutcome, at seconds: Int64) {
        if let place = ReloadOutcome.labels.firstIndex(of: outcome.label) { counts[place] += 1 }
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
    /// From now on `reload` has the settings read in this way. Without it only files are read again that they name.
    package func followSettings(_ read: @escaping SettingsReading) { readSettings.withLock { $0 = read } }

    /// - Parameter then: called once all of it holds on every shard, or all stays as it was. From any thread.
    package func reload(then: @escaping @Sendable (ReloadOutcome) -> Void) {
        // Logs may have been moved away, whatever becomes of the rest.
        reopenAccessLog()
        reloadQueue.async { [self] in
            do throws(SettingsMistakes) {
                try reloadNow { [self] applied in end(.applied(applied), then) }
            } catch {
                for sentence in error.sentences { logger.error("the settings stay as they were: \(sentence)") }
                end(.refused(error.sentences), then)
            }
        }
    }

    private func end(_ outcome: ReloadOutcome, _ then: (ReloadOutcome) -> Void) {
        reloads.withLock { $0.count(outcome, at: wallMilliseconds / 1_000) }
        then(outcome)
    }

    /// Everything that may fail comes first, and changes nothing.
    private func reloadNow(then: @escaping @Sendable (AppliedSettings) -> Void) throws(SettingsMistakes) {
        let former = serving
        let read = readSettings.withLock { $0 }
        let new = if let read { try read() } else { NewSettings(unchanged: former) }
        let process = new.changed.isEmpty ? former.process : makeProcess(new, after: former.process)
        let (certificates, prepared) = try readCertificates(new.settings.listening, after: former)
        let apis = try makeAPIs(new, of: process, after: former)
        let listeners = try bind(new.settings, after: former)
        let listening = new.settings.listening
        let serving = Serving(
            process: process, apis: apis, listeners: listeners,
            interface: AdminInterface(server: self, apis: apis, settings: new.settings.admin), pages: former.pages,
            challenges: listening.challengeDirectory.map { AcmeChallenges(directory: $0) }, certificates: certificates,
            past: former.past(besides: apis, process, now: monotonicMilliseconds))
        let made = shards.enumerated().map { place, shard in shard.prepare(serving, besides: former, prepared?[place]) }
        use(serving, after: former)
        for api in apis where !former.apis.contains(where: { $0 === api }) { api.state.startKeys(now: monotonicMilliseconds) }
        onEachShard { [self] in
            $0.use(made[$0.shard.number], onFailure: logHandshake)
        } then: { [self] in
            ServedListener.remove(former.listeners, butNot: listeners)
            if former.process.accessLog !== process.accessLog { reloadQueue.async { former.process.accessLog?.finish() } }
            new.whenApplied()
            tell(new, serving)
            then(
                AppliedSettings(
                    changed: new.changed, awaitingRestart: new.awaitingRestart,
                    certificates: certificates?.certificates.entries.map { $0.settings.file } ?? [],
                    warnings: new.warnings + (certificates?.warnings ?? []).map(\.description)))
        }
    }

    /// From here on this is what is served. What the administrator changes is changed there, and what was changed before is known there.
    private func use(_ serving: Serving, after former: Serving) {
        state.withLock { current in
            for api in serving.apis {
                guard let before = former.apis.first(where: { $0.name == api.name }), before !== api else { continue }
                api.state.keepModes(of: before.state)
            }
            serving.process.limit()
            current = serving
        }
    }

    private func makeProcess(_ new: NewSettings, after former: ProcessState) -> ProcessState {
        let accessLog = if case .replaced(let log) = new.accessLog { log } else { former.accessLog }
        return ProcessState(new.settings, accessLog: accessLog, after: former)
    }

    private func readCertificates(
        _ listening: ListeningSettings, after former: Serving
    ) throws(SettingsMistakes) -> (ServedCertificates?, [ServerTLS.Prepared]?) {
        do throws(CertificateError) {
            let certificates = try ServedCertificates(listening, after: former.certificates, now: wallMilliseconds / 1_000)
            return (certificates, try certificates?.prepared(shards: shardCount))
        } catch {
            reloads.withLock { $0.failedCertificates += 1 }
            throw SettingsMistakes(error.mistakes.isEmpty ? [error.description] : error.mistakes.map(\.description))
        }
    }

    private func makeAPIs(_ new: NewSettings, of process: ProcessState, after former: Serving) throws(SettingsMistakes) -> [ServedAPI] {
        do {
            return try ServedAPI.all(of: process, server: self, after: former.apis, unchanged: new.unchangedAPIs)
        } catch {
            throw SettingsMistakes(["\(error)"])
        }
    }

    private func bind(_ settings: ProxySettings, after former: Serving) throws(SettingsMistakes) -> [ServedListener] {
        do throws(ListenError) {
            return try ServedListener.all(settings, after: former.listeners, handed: &handed, logger)
        } catch {
            throw SettingsMistakes([error.description])
        }
    }

    private func tell(_ new: NewSettings, _ serving: Serving) {
        for warning in new.warnings { logger.warning("\(warning)") }
        logCertificates(serving)
        let changed = new.changed.isEmpty ? "nothing in them is new" : "changed: \(new.changed.joined(separator: ", "))"
        logger.notice("the settings were read again; \(changed)")
        if !new.changed.isEmpty { logServing(serving) }
        if !new.awaitingRestart.isEmpty {
            logger.warning("a restart is needed for \(new.awaitingRestart.joined(separator: ", ")): until then the old values hold")
        }
    }
}

extension NewSettings {
    /// Those that hold now.
    fileprivate init(unchanged serving: Serving) {
        self.init(serving.settings)
        unchangedAPIs = Set(serving.apis.map(\.name))
    }
}

extension Serving {
    /// What was counted before, where others count from now on.
    fileprivate func past(besides apis: [ServedAPI], _ process: ProcessState, now: Int64) -> MetricsSnapshot {
        var past = past
        for api in self.apis where !apis.contains(where: { $0 === api }) {
            api.addCounts(to: &past, besides: apis.first { $0.name == api.name }, now: now)
        }
        if process.accessLog !== self.process.accessLog { past.accessLogDropped += self.process.accessLog?.dropped ?? 0 }
        return past
    }
}

extension MetricsSnapshot {
    /// Adds what was counted by those that are served no more.
    mutating func addPast(_ past: MetricsSnapshot) {
        for (event, count) in past.gone { addGone(event, count) }
        cookieSetsLeftOut += past.cookieSetsLeftOut
        tokens.lookUps.merge(past.tokens.lookUps, uniquingKeysWith: +)
        tokens.keyReads += past.tokens.keyReads
        tokens.keyFailures += past.tokens.keyFailures
        failures.scopes = past.failures.scopes
        accessLogDropped += past.accessLogDropped
    }
}
