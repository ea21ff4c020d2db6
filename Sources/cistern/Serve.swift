// `cistern serve`: reads the settings, starts the proxy, and runs until it is stopped. Also `cistern check`, which only reads and checks
// the settings.

import Administration
import ArgumentParser
import CSystem
import CacheStore
import Downstream
import Figures
import Glibc
import Logging
import Reactor
import ReverseProxy
import Server
import Settings
import Sharing

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Start the proxy.",
        discussion: """
            Clients use Cistern's address as their base URL. While the upstream responds, its responses are forwarded, and good ones are \
            stored. When it fails, stored responses are served. Every setting can also be given in a YAML file or as CISTERN_… in the \
            environment. The command line overrides the environment, and that overrides the file. Without --config, the file cistern.yaml \
            of the working directory is read, if no other user may change it. Services do not read it.

            On a terminal, each request is shown as a line, without the values of arguments. --quiet turns that off.

            Examples:
              cistern https://api.example.com
              cistern localhost:3000 --listen :9000
            """)

    @OptionGroup var argument: UpstreamArgument

    @OptionGroup var options: SettingsOptions

    @OptionGroup var readiness: ReadinessOptions

    @Flag(
        name: .customLong("take-over"),
        help: """
            Take over from the running Cistern with this admin.socket, also from another version. It passes its listeners and its cache, \
            and completes its active requests. No connection is lost. If the take-over fails, the other process continues.
            """)
    var takesOver = false

    func run() throws {
        var options = options
        try argument.apply(to: &options, of: "serve")
        let signals = Signals()
        let file = options.useWorkingDirectory()
        // The reader may miss what the refused file contains.
        if let file, file.isRefused { StandardError.write("cistern: \(file.sentence)\n") }
        let reader = try options.checkedReader(isStoring: !takesOver, takesOver: takesOver)
        let settings = reader.settings
        let logger = LogSetup.start(settings.log)
        if let file, !file.isRefused { logger.notice("\(file.sentence)") }
        DescriptorLimit.raise()
        for retirement in reader.retirements { logger.warning("\(retirement)") }
        for warning in SettingsCheck.warnings(settings) {
            logger.warning("\(warning)")
        }
        try Startup.checkEngine(settings, logger)
        let predecessor = takesOver ? try Startup.predecessor(settings, logger) : nil
        var (proxy, activated) = try Startup.placingActivatedSockets(reader, after: predecessor, logger)
        if let warning = DescriptorLimit.fit(&proxy) { logger.warning("\(warning)") }
        defer { LogSetup.writer.finish() }
        csystem_return_large_memory()
        let server = try Startup.makeServer(proxy, settings, logger, after: predecessor)
        let followed = FollowedSettings(options, activated, settings)
        do throws(TakeOverError) {
            try server.waitToTakeOver()
        } catch {
            throw Startup.notTakenOver(error.description, logger)
        }
        // Before the other process can exit: systemd would take its exit for the end of the service.
        let manager = ServiceManager(Environment.all(), isTakingOver: takesOver)
        if takesOver { manager?.notifyMainPID() }
        server.followSettings { () throws(SettingsMistakes) in try followed.read() }
        server.start()
        let service = Service(server, manager, logger)
        service.allowTakeOver(signals)
        if options.tlsSelfSigned {
            logger.notice(
                "the certificate is self-signed, SHA-256 fingerprint \(SelfSigned.fingerprint(settings)): use it for local tests only")
        }
        if let url = server.urls.first { try readiness.write(url) }
        // About half of the resident pages were used only during startup: for settings, help texts and linking.
        csystem_release_program_pages()
        service.run(until: signals)
        service.stop(followed.current.stopping, signals, logger)
        guard server.hasLostSuccessor else { return }
        logger.critical("the process that took over exited before it served requests: no Cistern is running now; start one")
        LogSetup.writer.finish()
        throw ExitCode.failure
    }
}

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Check the settings and report every mistake, without starting the proxy.")

    @OptionGroup var argument: UpstreamArgument

    @OptionGroup var options: SettingsOptions

    @Flag(
        name: .customLong("print"),
        help: "Print the effective settings as a settings file, each with its origin: default, file and line, environment or command line.")
    var prints = false

    @Flag(name: .customLong("schema"), help: "Print the JSON Schema of the settings file, for editors. Reads no settings.")
    var printsSchema = false

    func run() throws {
        if printsSchema { return print(String(decoding: SettingsSchema.document, as: UTF8.self), terminator: "") }
        var options = options
        try argument.apply(to: &options, of: "check")
        if let file = options.useWorkingDirectory() { if !prints || file.isRefused { StandardError.write("\(file.sentence)\n") } }
        options = options.ofService { file in if !prints { print("Settings file of the service: \(file)") } }
        let reader = try options.checkedReader(isStoring: true)
        if prints { return print(reader.effective, terminator: "") }
        var settings = ProxySettings(reader.settings)
        for retirement in reader.retirements { print("warning: \(retirement)") }
        let apis = settings.apis.isEmpty ? [settings] : settings.apis
        let warnings =
            apis.flatMap { $0.routes + [$0.otherRoute] }.flatMap(\.warnings) + apis.flatMap(\.exclusionWarnings)
            + SettingsCheck.warnings(reader.settings)
        for warning in warnings + StartCheck.warnings(reader.settings, settings) { print("warning: \(warning)") }
        if let warning = DescriptorLimit.fit(&settings) { print("warning: \(warning)") }
        for warning in CertificatesCheck.warnings(reader.settings) { print("warning: \(warning)") }
        if let warning = SharingCheck.idle(reader) { print("warning: \(warning)") }
        let isShared = checkSharing(reader.settings, settings)
        if !reader.setByPolicy.isEmpty {
            print("cache.policy: \(StandardPolicy.name) sets:")
            for setting in SettingsTable.all where reader.setByPolicy.contains(setting.path) {
                print("  \(setting.path): \(setting.text(in: reader.settings))")
            }
        }
        guard isShared else { throw ExitCode.configuration }
        print("The settings are valid.")
    }

    /// Checks what a fleet needs, if the settings enable sharing.
    /// - Returns: false if sharing is impossible.
    private func checkSharing(_ settings: CisternSettings, _ proxy: ProxySettings) -> Bool {
        guard let findings = SharingStartCheck.findings(FleetSettings(settings.share), loops: proxy.shards) else { return true }
        for warning in findings.warnings { print("warning: \(warning)") }
        for note in findings.notes { print(note) }
        for mistake in findings.mistakes { StandardError.write("cistern: \(mistake)\n") }
        return findings.mistakes.isEmpty
    }
}

extension SettingsOptions {
    /// The options with the settings file of the service, if no source could contain an upstream.
    /// - Parameter announce: called with the file.
    func ofService(announce: (String) -> Void = { _ in }) -> SettingsOptions {
        guard !namesUpstream, let file = AdminOptions.serviceFile else { return self }
        announce(file)
        var options = self
        options.config = file
        return options
    }

    /// Whether any source could contain an upstream.
    private var namesUpstream: Bool {
        let environment = Environment.all()
        return config != nil || upstream != nil || !others.isEmpty || environment.keys.contains { $0.hasPrefix("CISTERN_") }
    }

    /// Returns the settings. With mistakes, writes them to standard error and exits with 78.
    /// - Parameters:
    ///   - isStoring: whether the cache directory is used.
    ///   - takesOver: whether another process hands over the cache directory.
    func checkedReader(isStoring: Bool = false, takesOver: Bool = false) throws -> SettingsReader {
        var reader = read()
        if isStoring || takesOver { StartCheck.checkDefaultDirectory(&reader) }
        if isStoring { StartCheck.checkDirectory(&reader) }
        guard reader.mistakes.isEmpty else {
            for mistake in reader.mistakesInOrder { StandardError.write("cistern: \(mistake)\n") }
            throw ExitCode.configuration
        }
        return reader
    }
}

enum Startup {
    /// Exits with a configuration error if the Redis servers can never be used for sharing.
    static func checkEngine(_ settings: CisternSettings, _ logger: Logger) throws {
        guard let refusal = SharingStartCheck.refusal(FleetSettings(settings.share)) else { return }
        logger.critical("\(refusal)")
        LogSetup.writer.finish()
        throw ExitCode.configuration
    }

    /// The running process with everything that it hands over.
    static func predecessor(_ settings: CisternSettings, _ logger: Logger) throws -> Predecessor {
        let proxy = ProxySettings(settings)
        do throws(TakeOverError) {
            return try Predecessor(of: proxy.admin.socket, version: proxy.version)
        } catch {
            throw notTakenOver(error.description, logger)
        }
    }

    /// Logs why the take-over failed.
    static func notTakenOver(_ reason: String, _ logger: Logger) -> ExitCode {
        logger.critical("the take-over failed: \(reason)")
        LogSetup.writer.finish()
        return ExitCode.failure
    }

    /// The settings, with listeners replaced by the sockets that systemd handed to this process or its predecessor.
    static func placingActivatedSockets(
        _ reader: SettingsReader, after predecessor: Predecessor?, _ logger: Logger
    ) throws -> (ProxySettings, ActivatedSockets) {
        var proxy = ProxySettings(reader.settings)
        do throws(ActivatedSockets.Mistake) {
            let activated = if let predecessor { ActivatedSockets(predecessor.activated) } else { try ActivatedSockets(Environment.all()) }
            try activated.assign(
                to: &proxy.listening, isListenGiven: reader.isGiven("listen"), isAdminGiven: reader.isGiven("admin_listen"))
            return (proxy, activated)
        } catch {
            predecessor?.giveUp(error.description)
            logger.critical("\(error)")
            LogSetup.writer.finish()
            throw ExitCode.configuration
        }
    }

    /// nil if the log file cannot be opened.
    static func accessLog(_ log: CisternSettings.Log) -> AccessLog? {
        AccessLog(
            path: log.access == "stdout" ? nil : log.access, format: log.accessFormat,
            fields: log.accessFields.compactMap(AccessField.init(rawValue:)))
    }

    static func makeServer(
        _ proxy: ProxySettings, _ settings: CisternSettings, _ logger: Logger, recorder: (any ExchangeRecorder)? = nil,
        after predecessor: Predecessor? = nil
    ) throws -> ProxyServer {
        var accessLog: AccessLog?
        let log = settings.log
        if log.access != "off" {
            accessLog = self.accessLog(log)
            if accessLog == nil {
                let code = errno
                let advice = code == ENOENT ? "; create its directory" : ""
                logger.critical("the access log \(log.access) cannot be opened: \(SystemError.words(code))\(advice)")
                throw ExitCode.configuration
            }
        }
        do {
            return try ProxyServer(
                proxy, fleet: FleetSettings(settings.share), logger: logger, accessLog: accessLog, requestLines: RequestDisplay.lines,
                recorder: recorder, after: predecessor)
        } catch  where predecessor != nil {
            predecessor?.giveUp("\(error)")
            throw notTakenOver("\(error)", logger)
        } catch let error as StoreError {
            logger.critical("\(error)")
            throw ExitCode.configuration
        } catch let error as ListenError {
            logger.critical("\(error)\(advice(error.code))")
        } catch {
            logger.critical("\(error)")
        }
        throw ExitCode.failure
    }

    /// Advice for an address that cannot be listened on.
    private static func advice(_ code: Int32) -> String {
        switch code {
        case EADDRINUSE: "; stop the program that listens on this address, or choose another address"
        case EACCES: "; use a port above 1023, or a directory in which this user may create files"
        case EADDRNOTAVAIL: "; this machine has no such address"
        case ENOENT: "; create its directory"
        default: ""
        }
    }
}

enum StandardError {
    /// Writes lines. Replaces control characters, because an argument of the command may contain them.
    static func write(_ text: String) { writeUnchanged(Printable.lines(text)) }

    /// Writes text with control characters for the terminal.
    static func writeUnchanged(_ text: String) { _ = WholeWrite.write(Array(text.utf8), to: STDERR_FILENO) }
}
