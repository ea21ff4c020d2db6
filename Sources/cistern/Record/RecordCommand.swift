// `cistern record`: runs the proxy without a store, and records its exchanges.

import Administration
import Archives
import ArgumentParser
import CachePolicy
import Figures
import Logging
import ReverseProxy
import Server
import Settings
import Upstream

struct Record: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Forward requests to the upstream, and write them with their responses to an HTTP archive at the end.",
        discussion: """
            Nothing is cached: every request goes to the upstream, and every response is recorded, whatever its status and content. The \
            archive is written on SIGINT or SIGTERM. Secrets are written as \(SecretRedaction.placeholder): credential fields, cookies, and \
            arguments and members with names of secrets. `replay` accepts any value for them. Other contents are written unchanged, so \
            check the file before you share it. Only the file's owner can read it.

            --only, --except and --methods select what is recorded. Other requests are only forwarded.

            Settings are given as with `serve`. Settings of the store (--cache-size, --rescue-after, --strict) have no effect here. \
            --cache-dir is used only for the certificate of --tls-self-signed.

            The address is written to standard output. With a command after --, records while that command runs, and ends with its exit code. It then \
            listens on any free port unless the settings name one. Otherwise exits with 0 if the archive is written. Exits \
            with 1 if that failed or there was nothing to write; a file of that name stays unchanged. Exits with 78 if the settings are \
            wrong.

            Examples:
              cistern record --upstream https://api.example.com --har api.har
              cistern record --upstream http://localhost:3000 --har api.har --secret customer-number
              cistern record --upstream https://api.example.com --har api.har --only '/orders/**' --methods GET,POST
              cistern record --upstream https://api.example.com --har api.har -- npm test
            """)

    @OptionGroup var options: SettingsOptions

    @Option(help: ArgumentHelp("File to write the archive to.", valueName: "file"))
    var har: String

    @OptionGroup var redaction: RedactionOptions

    @Option(help: ArgumentHelp("Record only paths that match a pattern, as in routes. May be repeated.", valueName: "pattern"))
    var only: [String] = []

    @Option(help: ArgumentHelp("Do not record paths that match a pattern. May be repeated.", valueName: "pattern"))
    var except: [String] = []

    @Option(help: ArgumentHelp("Record only these methods, separated by commas.", valueName: "methods"))
    var methods = ""

    @OptionGroup var readiness: ReadinessOptions

    @OptionGroup var served: ServedCommand

    func validate() throws { _ = try filter() }

    private func filter() throws -> RecordingFilter {
        do { return try RecordingFilter(only: only, except: except, methods: methods) } catch { throw ValidationError("\(error)") }
    }

    func run() throws {
        var options = options
        if let file = options.useWorkingDirectory() { StandardError.write("cistern: \(file.sentence)\n") }
        let reader = try options.checkedReader()
        var settings = reader.settings
        // The terminal belongs to the command.
        if served.isGiven { settings.log.requests = false }
        if served.isGiven, !reader.isGiven("listen") { settings.listen = [CisternSettings.Listener(shortForm: ServedCommand.usualAddress)] }
        let signals = Signals(isForCommand: served.isGiven)
        let logger = LogSetup.start(settings.log)
        DescriptorLimit.raise()
        defer { LogSetup.writer.finish() }
        // Fails before the recording if the file cannot be written.
        try Self.reportingFailure { try record(settings, signals, logger, into: try NewFile(har)) }
    }

    private func record(_ settings: CisternSettings, _ signals: Signals, _ logger: Logger, into file: NewFile) throws {
        guard settings.apis.isEmpty else {
            throw AdminFailure("record supports a single upstream: give --upstream, and a settings file without apis")
        }
        var proxy = ProxySettings(settings)
        proxy.store = nil
        // The default socket belongs to the Cistern that uses this cache directory.
        if !proxy.admin.isSocketRequired { proxy.admin.socket = nil }
        // /metrics and the health pages may be paths of the upstream.
        proxy.listening.servesOwnPages = false
        let recorder = Recorder(try filter())
        let server = try Startup.makeServer(proxy, settings, logger, recorder: recorder)
        server.start()
        let status = try waitForStop(server, signals)
        server.stop(deadline: settings.stopping.deadline)
        guard !recorder.isEmpty else {
            StandardError.write("cistern: \(recorder.summary): \(har) is not written\n")
            throw ExitCode(status == 0 ? 1 : status)
        }
        let upstream = proxy.upstream.origin + proxy.upstream.basePath
        let secrets = SecretRedaction(fields: proxy.policy.credentials.fields, names: redaction.secret)
        let writer = ArchiveWriter(upstream: upstream, version: Version.text, secrets: redaction.withSecrets ? nil : secrets)
        try recorder.write(to: file, writer, upstream: upstream)
        try file.finish()
        StandardError.write("\(recorder.summary) in \(har)\n")
        if status != 0 { throw ExitCode(status) }
    }

    /// Blocks until a signal to stop, or until the command has ended.
    /// - Returns: exit code of the command, or 0.
    private func waitForStop(_ server: ProxyServer, _ signals: Signals) throws -> Int32 {
        guard let url = server.urls.first else { preconditionFailure("no address is listened on") }
        try readiness.announce(url, to: served)
        if served.isGiven { return served.run(at: url, signals) }
        signals.wait(onHangUp: { server.reopenAccessLog() })
        return 0
    }
}
