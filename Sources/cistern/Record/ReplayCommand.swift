// `cistern replay`: serves a recording, for tests without network access and for demonstrations.

import Archives
import ArgumentParser
import CachePolicy
import Dispatch
import Downstream
import Glibc
import Reactor

struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Serve an HTTP archive, such as one written by `record`, without an upstream.",
        discussion: """
            A request gets the response that was recorded for its method, target and content. Several recorded responses of one request \
            are served in their order, the last one repeatedly. Credentials may be any. A request that was not recorded gets 404, with the \
            three nearest recorded requests.

            The address is written to standard output. Serves until SIGINT or SIGTERM, and then reports on standard error. With a command \
            after --, serves while that command runs, listens on any free port unless --listen names one, and ends with the command's exit \
            code. Otherwise exits with 0. Exits with 1 if the file cannot be read, is no HTTP archive, or the address is not available. \
            With --once or --strict-order, also if a request had no recorded response; with --strict-order, also if a recorded response \
            was never requested.

            Examples:
              cistern replay api.har
              cistern replay api.har --once -- npm test
              cistern replay api.har --listen 127.0.0.1:0 --strict-order
              cistern replay browser.har --origin https://api.example.com --delay recorded
            """)

    @Argument(help: "HTTP archive, written by `record`, a browser, mitmproxy or Playwright.")
    var file: String

    @OptionGroup var served: ServedCommand

    @OptionGroup var listening: ListeningOptions

    @Option(help: ArgumentHelp("Serve only requests to this base URL. May be repeated. (default: all recorded ones)", valueName: "url"))
    var origin: [String] = []

    @Flag(help: "Serve each recorded response only once.")
    var once = false

    @Flag(help: "Require the requests in the order of the recording, each once.")
    var strictOrder = false

    @Option(help: ArgumentHelp("Delay of responses: none, or recorded for the upstream's recorded time.", valueName: "which"))
    var delay = Delay.none

    @Option(
        help: ArgumentHelp(
            "Origin of scripts that may read all responses, such as http://localhost:3000; * for all. May be repeated. (default: as recorded)",
            valueName: "origin"))
    var allowOrigin: [String] = []

    enum Delay: String, ExpressibleByArgument, CaseIterable { case none, recorded }

    func validate() throws {
        for origin in allowOrigin where origin != "*" && !SettingsCheck.isOrigin(origin) {
            throw ValidationError("--allow-origin: \(origin) is not an origin as browsers send it, such as http://localhost:3000.")
        }
    }

    func run() throws {
        do {
            try serve()
        } catch let failure as AdminFailure {
            StandardError.write("cistern: \(failure)\n")
            throw ExitCode.failure
        }
    }

    private func serve() throws {
        let signals = Signals(isForCommand: served.isGiven)
        let address = try listening.address(for: served)
        let recording = try read()
        let options = ReplayOptions(
            order: strictOrder ? .strict : once ? .once : .repeating, delays: delay == .recorded, origins: allowOrigin)
        let server: ReplayServer
        do throws(ListenError) {
            server = try ReplayServer(recording, options, at: address)
        } catch {
            throw AdminFailure("\(error)")
        }
        server.start()
        describe(recording)
        try listening.readiness.announce(server.address.url, to: served)
        var status: Int32 = 0
        if served.isGiven { status = served.run(at: server.address.url, signals) } else { signals.wait() }
        let isGood = isGood(Self.stop(server), options.order)
        if status != 0 { throw ExitCode(status) }
        guard isGood else { throw ExitCode.failure }
    }

    private func read() throws -> Recording {
        do throws(ArchiveReader.Mistake) {
            let origins = try origins()
            let reader = try ArchiveReader(try ArchiveFile.read(file))
            let secrets = SecretRedaction(fields: CredentialSettings().fields)
            let recording = try Recording(reader, origins: origins, secrets: secrets, now: Int64(time(nil)))
            guard recording.responses.isEmpty else { return recording }
            throw ArchiveReader.Mistake("it contains no response that can be served\(Self.text(recording.omitted))")
        } catch {
            throw AdminFailure("\(file): \(error)")
        }
    }

    private func origins() throws(ArchiveReader.Mistake) -> [ArchiveOrigin] {
        var origins: [ArchiveOrigin] = []
        for text in origin {
            guard let one = ArchiveOrigin(text) else {
                throw ArchiveReader.Mistake("--origin \(UpstreamURL.shown(text)) is not an http or https URL")
            }
            origins.append(one)
        }
        return origins
    }

    private static func text(_ omitted: [String: Int]) -> String {
        guard !omitted.isEmpty else { return "" }
        let reasons = omitted.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.value) because \($0.key)" }
        return "; omitted: " + reasons.joined(separator: ", ")
    }

    private func describe(_ recording: Recording) {
        let origins = recording.origins.map(\.description).joined(separator: ", ")
        StandardError.write("\(recording.responses.count) recorded responses of \(origins)\(Self.text(recording.omitted))\n")
        if recording.origins.count > 1 {
            StandardError.write("Requests to all of these origins are served by their path; --origin selects origins\n")
        }
    }

    /// Stops the server, and returns the numbers of the replay.
    static func stop(_ server: ReplayServer) -> Replay {
        let stopped = DispatchSemaphore(value: 0)
        // Written on the loop's thread.
        let result = Mutex<Replay?>(nil)
        server.stop(deadline: .seconds(1)) { replay in
            result.withLock { $0 = replay }
            stopped.signal()
        }
        stopped.wait()
        guard let replay = result.withLock({ $0 }) else { preconditionFailure("a replay stopped without a result") }
        return replay
    }

    private func isGood(_ replay: Replay, _ order: ReplayOrder) -> Bool {
        let left = replay.left == 0 ? "" : ", \(replay.left) recorded responses were never requested"
        StandardError.write("\(replay.served) requests served, \(replay.refused) without a recorded response\(left)\n")
        switch order {
        case .repeating: return true
        case .once: return replay.refused == 0
        case .strict: return replay.refused == 0 && replay.left == 0
        }
    }
}

/// Listening address of `record` and `replay`, and their readiness notification.
struct ListeningOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Address to listen on; port 0 for any free port. (default: 127.0.0.1:8080; with a command, any free port)", valueName: "address"
        ))
    var listen: String?

    @OptionGroup var readiness: ReadinessOptions

    func address(for command: ServedCommand) throws -> ListenAddress {
        let listen = listen ?? (command.isGiven ? ServedCommand.usualAddress : "127.0.0.1:8080")
        guard let address = ListenAddress(listen) else {
            throw AdminFailure("--listen: \(AddressMistake.sentence(listen) ?? "an address with TLS is not supported")")
        }
        return address
    }
}

struct ReadinessOptions: ParsableArguments {
    @Option(
        name: .customLong("ready-fd"),
        help: ArgumentHelp(
            "Also write the address to this open file descriptor once the server listens, and close it.", valueName: "number"))
    var descriptor: Int32?

    /// Announces that requests are accepted.
    /// - Parameter command: if given, it gets the URL in its environment, and standard output is left to it.
    func announce(_ url: String, to command: ServedCommand) throws {
        if !command.isGiven { StandardOutput.write("listening on \(url)\n") }
        try write(url)
    }

    /// Writes the URL to the descriptor of --ready-fd, if given.
    func write(_ url: String) throws {
        guard let descriptor else { return }
        let file = Descriptor(descriptor)
        let line = Array("\(url)\n".utf8)
        let written = WholeWrite.write(line, to: file.number)
        guard written == line.count else { throw AdminFailure("--ready-fd \(descriptor): \(SystemError.words())") }
    }
}

enum ArchiveFile {
    /// - Throws: a sentence if the file cannot be read. `ArchiveReader` rejects files that are too long.
    static func read(_ path: String) throws(ArchiveReader.Mistake) -> [UInt8] {
        guard let bytes = FileContent.read(path, limit: ArchiveReader.limitBytes + 1) else {
            throw ArchiveReader.Mistake(SystemError.words())
        }
        return bytes
    }
}
