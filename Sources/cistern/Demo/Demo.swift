// `cistern demo`: runs a sample API with Cistern in front. Shows a hit, a rescue, a login with refresh, a CORS preflight and a replay,
// without internet access.

import ArgumentParser
import CacheStore
import Figures
import Glibc
import Identity
import Logging
import Reactor
import ReverseProxy
import Server
import Settings

struct Demo: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Try Cistern with a sample API.",
        discussion: """
            Prints commands to paste into another terminal: a hit and a rescue. It also shows a login that refreshes its token, a web app \
            of another origin, and a replay. Needs no network.
            """)

    @Option(help: ArgumentHelp("Address to listen on.", valueName: "address"))
    var listen = "127.0.0.1:8080"

    @Option(help: "Directory of the stored responses. By default, a new temporary directory.")
    var cacheDir: String?

    func run() throws {
        guard let temporary = TemporaryDirectory("cistern-demo"), let store = TemporaryDirectory("cistern-demo-store") else {
            StandardError.write("cistern: cannot create a temporary directory: \(SystemError.words())\n")
            throw ExitCode.failure
        }
        defer {
            temporary.remove()
            store.remove()
        }
        let signals = Signals()
        let sample = try SampleAPI()
        let settings = try settings(for: sample, in: temporary.path, storedIn: cacheDir ?? store.path)
        let logger = LogSetup.start(settings.log)
        defer { LogSetup.writer.finish() }
        let server = try Startup.makeServer(ProxySettings(settings), settings, logger)
        let chapters = DemoChapters(
            address: server.addresses.first.map { "\($0)" } ?? listen, samplePort: sample.port, controlPort: sample.controlPort,
            program: DemoChapters.quoted(CommandLine.arguments.first ?? "cistern"), storeDirectory: settings.store.directory,
            directory: temporary.path)
        sample.start(showing: chapters.all)
        server.start()
        StandardOutput.write(chapters.start)
        signals.wait()
        server.stop(deadline: .seconds(1))
        sample.stop()
    }

    private func settings(for sample: SampleAPI, in directory: String, storedIn store: String) throws -> CisternSettings {
        var settings = CisternSettings()
        settings.upstreamURL = "http://127.0.0.1:\(sample.port)"
        settings.listen = [CisternSettings.Listener(shortForm: listen)]
        settings.log.level = .notice
        settings.store.directory = store
        settings.store.size = 64 << 20
        let keys = directory + "/keys.json"
        let file = try NewFile(keys)
        try file.write(Array(sample.keySet.utf8))
        try file.finish()
        settings.otherRoute.rules.tokens.keys = keys
        settings.otherRoute.rules.tokens.settings.issuers = [SampleLogin.issuer]
        settings.otherRoute.rules.tokens.settings.audiences = [SampleLogin.audience]
        return settings
    }
}
