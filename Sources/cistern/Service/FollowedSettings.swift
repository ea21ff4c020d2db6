// The current settings of a service, and their reload. A reload reads the file and referenced files anew; command line and environment stay
// as at the start.

import Figures
import Glibc
import Reactor
import ReverseProxy
import Server
import Settings

final class FollowedSettings: Sendable {
    private let options: SettingsOptions
    private let activated: ActivatedSockets
    /// Current settings. Changed by a reload, read at shutdown.
    private let state: Mutex<CisternSettings>

    init(_ options: SettingsOptions, _ activated: ActivatedSockets, _ settings: CisternSettings) {
        (self.options, self.activated) = (options, activated)
        state = Mutex(settings)
    }

    var current: CisternSettings { state.withLock { $0 } }

    func read() throws(SettingsMistakes) -> NewSettings {
        let reader = options.read(.regular)
        guard reader.mistakes.isEmpty else {
            let areOfCertificates = reader.mistakes.contains { $0.sentence.hasPrefix("tls.certificates") }
            throw SettingsMistakes(reader.mistakesInOrder.map { "\($0)" }, areOfCertificates: areOfCertificates)
        }
        let former = current
        let change = SettingsChange(from: former, to: reader.settings)
        var new = NewSettings(try assignSockets(change.settings, reader))
        (new.changed, new.awaitingRestart) = (change.changed, change.awaitingRestart)
        new.unchangedAPIs = change.unchangedAPIs
        new.warnings =
            reader.retirements.map(\.description) + AccessCheck.warnings(change.settings) + SecretFiles.warnings(change.settings)
            + (DescriptorLimit.fit(&new.settings).map { [$0] } ?? [])
        let log = change.settings.log
        if (former.log.access, former.log.accessFormat) != (log.access, log.accessFormat) || former.log.accessFields != log.accessFields {
            new.accessLog = .replaced { () throws(SettingsMistakes) in try Self.accessLog(log) }
        }
        new.whenApplied = { [self] in
            state.withLock { $0 = change.settings }
            LogSetup.use(change.settings.log)
        }
        return new
    }

    private func assignSockets(_ settings: CisternSettings, _ reader: SettingsReader) throws(SettingsMistakes) -> ProxySettings {
        var proxy = ProxySettings(settings)
        do throws(ActivatedSockets.Mistake) {
            try activated.assign(
                to: &proxy.listening, isListenGiven: reader.isGiven("listen"), isAdminGiven: reader.isGiven("admin_listen"))
        } catch {
            throw SettingsMistakes([error.description])
        }
        return proxy
    }

    private static func accessLog(_ log: CisternSettings.Log) throws(SettingsMistakes) -> AccessLog? {
        guard log.access != "off" else { return nil }
        guard let opened = Startup.accessLog(log) else {
            throw SettingsMistakes(["log.access: \(log.access) cannot be opened: \(SystemError.words())"])
        }
        return opened
    }
}
