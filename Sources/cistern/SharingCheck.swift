// Checks settings of sharing that depend on each other, and converts them to the types of the fleet level.

import CachePolicy
import Engine
import Glibc
import Reactor
import ReverseProxy
import Settings
import Sharing

enum SharingCheck {
    static func check(_ reader: inout SettingsReader) {
        let share = reader.settings.share
        guard !share.servers.isEmpty else { return }
        if !share.fleet.isEmpty, !share.fleet.isWord {
            reader.add(about: "share.fleet", "share.fleet must be letters, digits, - and _, not \"\(share.fleet)\"")
        }
        var areByTLS: Set<Bool> = []
        var databases: Set<Int> = []
        for text in share.servers {
            do throws(EngineAddressProblem) {
                let read = try EngineServer.read(text)
                areByTLS.insert(read.isTLS)
                databases.insert(read.database)
            } catch {
                reader.add(about: "share.servers", "share.servers: \"\(text)\" \(error.rawValue)")
            }
        }
        if areByTLS.count > 1 { reader.add(about: "share.servers", "share.servers: use rediss:// for all servers or for none") }
        if databases.count > 1 {
            reader.add(about: "share.servers", "share.servers: all servers must have the same database number, or none")
        }
        if share.secretFile.isEmpty {
            reader.add(about: "share.secret_file", "share.secret_file is missing: it encrypts the shared responses")
        } else if let text = FileContent.read(share.secretFile) {
            do throws(FleetSecrets.Problem) { _ = try FleetSecrets(file: text) } catch {
                reader.add(about: "share.secret_file", "share.secret_file: \(share.secretFile) \(sentence(error))")
            }
        } else {
            reader.add(about: "share.secret_file", "share.secret_file: \(SystemError.words(share.secretFile))")
        }
        if !share.user.isEmpty, share.passwordFile.isEmpty {
            reader.add(
                about: "share.user",
                "share.user needs share.password_file: without a password, Redis uses the user named default")
        }
        let password = share.passwordFile.isEmpty ? nil : FileContent.read(share.passwordFile)?.prefix { $0 != 0x0a && $0 != 0x0d }
        if password?.isEmpty == true {
            reader.add(
                about: "share.password_file", "share.password_file: \(share.passwordFile) has an empty first line: write the password there"
            )
        }
        for (name, file) in [
            ("password_file", share.passwordFile), ("tls.ca_file", share.caFile), ("tls.certificate", share.certificate),
            ("tls.key", share.key),
        ] where !file.isEmpty && FileContent.read(file) == nil {
            reader.add(about: "share.\(name)", "share.\(name): \(SystemError.words(file))")
        }
    }

    static func warnings(_ settings: CisternSettings) -> [String] {
        guard !settings.share.servers.isEmpty else { return [] }
        var warnings: [String] = []
        // Two installations on one Redis server would both use the default.
        if settings.share.fleet.isEmpty {
            warnings.append(
                "share.fleet is not set: the fleet's name is \(FleetSettings.unnamed); a later version will require the setting")
        }
        return warnings
    }

    /// Checks settings that an API may override.
    static func checkAPI(_ reader: inout SettingsReader) {
        let settings = reader.settings
        guard !settings.share.servers.isEmpty, settings.apis.isEmpty, settings.proxy.policy.isPrivate else { return }
        reader.add(
            about: "cache.role",
            "cache.role cannot be private with share.servers, because a private cache does not distinguish users")
    }

    /// A warning about sharing settings that have no effect; nil if there are none.
    static func idle(_ reader: SettingsReader) -> String? {
        guard reader.settings.share.servers.isEmpty else { return nil }
        let given = SettingsTable.all.map(\.path).filter { $0.hasPrefix("share.") && $0 != "share.servers" && reader.isGiven($0) }
        return given.isEmpty
            ? nil
            : "share.servers is empty, so nothing is shared with other nodes, and these settings have no effect: \(given.joined(separator: ", "))"
    }

    private static func sentence(_ problem: FleetSecrets.Problem) -> String {
        switch problem {
        case .none: "contains no secret"
        case .tooMany: "contains more than \(FleetSecrets.limit) secrets"
        case .tooShort(let line): "has fewer than \(FleetSecrets.leastBytes) characters in line \(line)"
        }
    }
}

extension FleetSettings {
    /// nil if nothing is shared.
    init?(_ settings: CisternSettings.Share) {
        let servers = settings.servers.compactMap { try? EngineServer.read($0) }
        guard !servers.isEmpty, let text = FileContent.read(settings.secretFile), let secrets = try? FleetSecrets(file: text) else {
            return nil
        }
        var engine = EngineSettings(servers: servers.map(\.server))
        engine.username = settings.user.isEmpty ? nil : settings.user
        engine.passwordFile = settings.passwordFile.isEmpty ? nil : settings.passwordFile
        engine.database = servers[0].database
        if servers.contains(where: \.isTLS) {
            func file(_ path: String) -> String? { path.isEmpty ? nil : path }
            let certificate = file(settings.certificate)
            engine.tls = EngineTLS(authorities: file(settings.caFile), certificate: certificate, key: file(settings.key) ?? certificate)
        }
        engine.patienceMilliseconds = Int64(settings.timeout)
        self.init(engine: engine, name: settings.fleet.isEmpty ? Self.unnamed : settings.fleet, secrets: secrets)
        keep = Int64(settings.keep)
        blindLimit = settings.blindLimit == 0 ? nil : Int64(settings.blindLimit)
        timeout = Int64(settings.timeout)
        afterGap = settings.afterGap
        collapses = settings.collapse
        contentLimitBytes = settings.contentLimit
    }

    fileprivate static let unnamed = "main"
}
