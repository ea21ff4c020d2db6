// `cistern demo`: a sample API and a Cistern in front of it, to see a hit, a rescue and the metrics within a minute, without internet.

import ArgumentParser
import CacheStore
import Glibc
import Reactor
import ReverseProxy
import Server
import Settings
import Telemetry

struct Demo: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Try it: a sample API, and Cistern in front of it.")

    @Option(help: ArgumentHelp("Where to listen.", valueName: "address"))
    var listen = "127.0.0.1:8080"

    @Option(help: "Where responses are kept; by default a new temporary directory.")
    var cacheDir: String?

    func run() throws {
        let signals = Signals()
        let sample = try SampleAPI()
        sample.start()
        var settings = CisternSettings()
        settings.upstream.url = "http://127.0.0.1:\(sample.port)"
        settings.listen = [listen]
        settings.log.level = "notice"
        let temporary = cacheDir == nil ? TemporaryDirectory("cistern-demo") : nil
        settings.store.directory = cacheDir ?? temporary?.path ?? ""
        settings.store.size = 64 << 20
        let logger = LogSetup.start(settings.log)
        defer { LogSetup.writer.finish() }
        let server = try Startup.makeServer(ProxySettings(settings), settings.log, logger)
        server.start()
        Self.explain(server.addresses.first.map { "\($0)" } ?? listen, sample, settings.store.directory)
        signals.wait()
        server.stop(deadline: .seconds(1))
        sample.stop()
        temporary?.remove()
    }

    private static func explain(_ address: String, _ sample: SampleAPI, _ directory: String) {
        let program = CommandLine.arguments.first ?? "cistern"
        print(
            """

            A sample API runs on 127.0.0.1:\(sample.port), and Cistern in front of it on \(address). Try, in another terminal:

              curl -i http://\(address)/users
                  a response of the API, kept by Cistern
              curl -i 'http://\(address)/posts?userId=1'
                  fresh for a minute: the second time it is a hit
              curl -s http://\(address)/metrics | grep ^cistern_requests_total
                  what happened so far

            Take the API down, and ask again: Cistern serves what it kept. Once more brings it up.

              curl -X POST http://127.0.0.1:\(sample.controlPort)/toggle

            Ask Cistern what it did, and why:

              \(program) why --cache-dir \(directory)

            Ctrl-C ends both.

            """)
        fflush(nil)
    }
}
