// `cistern demo`: runs a sample API with Cistern in front, until it is stopped. Its subcommands play examples and end. None needs internet
// access.

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
            Prints the address of the status page, and commands to paste into another terminal: a hit and a rescue. The subcommands play \
            further examples and print each request and response. Needs no network.
            """,
        subcommands: [DemoLogin.self, DemoPreflight.self, DemoReplay.self])

    @Option(help: ArgumentHelp("Address to listen on.", valueName: "address"))
    var listen = "127.0.0.1:8080"

    @Option(help: "Directory of the stored responses. By default, a new temporary directory.")
    var cacheDir: String?

    func validate() throws {
        if let sentence = AddressMistake.sentence(listen) { throw ValidationError("--listen: \(sentence)") }
    }

    func run() throws {
        let signals = Signals()
        let stage = try DemoStage(listen: listen, cacheDirectory: cacheDir, level: .notice)
        defer { stage.stop() }
        let server = stage.server
        let chapters = DemoChapters(
            address: server.addresses.first.map { "\($0)" } ?? listen, adminURL: server.adminAddresses.first?.url ?? "",
            samplePort: stage.sample.port, controlPort: stage.sample.controlPort,
            program: DemoChapters.quoted(CommandLine.arguments.first ?? "cistern"), storeDirectory: stage.settings.store.directory)
        // The addresses are open already. Messages of the start follow.
        StandardOutput.write(chapters.start)
        stage.start()
        signals.wait()
    }
}

/// The sample API, and Cistern in front of it.
final class DemoStage {
    let sample: SampleAPI
    let settings: CisternSettings
    let server: ProxyServer
    /// Removed at the end.
    let temporary: TemporaryDirectory
    private let store: TemporaryDirectory

    /// Opens the addresses of both.
    init(listen: String = "127.0.0.1:0", cacheDirectory: String? = nil, level: Logger.Level) throws {
        guard let temporary = TemporaryDirectory("cistern-demo"), let store = TemporaryDirectory("cistern-demo-store") else {
            StandardError.write("cistern: cannot create a temporary directory: \(SystemError.words())\n")
            throw ExitCode.failure
        }
        (self.temporary, self.store) = (temporary, store)
        do {
            sample = try SampleAPI()
            settings = try Self.settings(for: sample, listen, level, in: temporary.path, storedIn: cacheDirectory ?? store.path)
            server = try Startup.makeServer(ProxySettings(settings), settings, LogSetup.start(settings.log))
        } catch {
            temporary.remove()
            store.remove()
            LogSetup.writer.finish()
            throw error
        }
    }

    func start() {
        sample.start()
        server.start()
    }

    func stop() {
        server.stop(deadline: .seconds(1))
        sample.stop()
        temporary.remove()
        store.remove()
        LogSetup.writer.finish()
    }

    private static func settings(
        for sample: SampleAPI, _ listen: String, _ level: Logger.Level, in directory: String, storedIn store: String
    ) throws -> CisternSettings {
        var settings = CisternSettings()
        settings.upstreamURL = "http://127.0.0.1:\(sample.port)"
        settings.listen = [CisternSettings.Listener(shortForm: listen)]
        settings.adminListen = ["127.0.0.1:0"]
        settings.log.level = level
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
