// `cistern replay`: serves a recording, for tests without network access and for demonstrations.

import Archives
import ArgumentParser
import CachePolicy
import Dispatch
import Downstream
import Glibc
import HTTPCore
import Reactor

struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Serve an HTTP archive, such as one written by `record`, without an upstream.",
        discussion: """
            A request gets the response that was recorded for its method, target and content. Several recorded responses of one request \
            are served in their order, the last one repeatedly. Any credentials match recorded ones. A request that was not recorded gets \
            404, with the three most similar recorded requests.

            --ignore excludes parts of requests from the comparison. arguments=NAME,NAME excludes arguments of targets and forms. \
            body=/POINTER excludes a value in JSON content (RFC 6901). fields=NAME,NAME excludes fields that select among responses: \
            Range, credentials, and those of Vary. * stands for all. Requests that differ only in ignored parts share their responses, in \
            the recorded order.

            --echo /POINTER or --echo ARGUMENT also ignores a value. Strings of the JSON response that equal the recorded value are \
            replaced by the value of the request. --shift-dates moves dates by the age of the recording: fields, and strings in JSON \
            content.

            --capture-missing forwards requests that were not recorded, and adds their responses to the archive at the end. Secrets become \
            \(SecretRedaction.placeholder), as in recordings. A request also counts as not recorded if it has other values of the fields \
            that Vary names.

            The address is written to standard output. Serves until SIGINT or SIGTERM, and then reports on standard error. With a command \
            after --, serves while that command runs, and listens on any free port unless --listen names one. Ends with the command's exit \
            code if it is not 0. Exits with 2 if a request had no recorded response and was not captured, unless --allow-missing is \
            given. With --strict or --strict-order, also exits with 2 if a recorded response was never requested. Preflights do not \
            count. Exits with 1 if a file cannot be read or written, is no HTTP archive, or the address is not available.

            Examples:
              cistern replay api.har
              cistern replay api.har --once -- npm test
              cistern replay api.har --ignore arguments=nonce,ts --echo /requestId --shift-dates --report report.json -- npm test
              cistern replay api.har --capture-missing https://api.example.com
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

    @Option(
        help: ArgumentHelp(
            "Part of requests that is not compared: arguments=NAMES, fields=NAMES or body=POINTER. May be repeated.", valueName: "part"))
    var ignore: [String] = []

    @Option(
        help: ArgumentHelp(
            "JSON pointer or argument of requests. Its value is ignored, and replaces the recorded value in responses. May be repeated.",
            valueName: "value"))
    var echo: [String] = []

    @Flag(help: "Move dates in responses by the age of the recording.")
    var shiftDates = false

    @Option(
        help: ArgumentHelp(
            "JSON pointer of seconds or milliseconds since 1970 in responses, which --shift-dates also moves. May be repeated.",
            valueName: "pointer"))
    var shiftEpoch: [String] = []

    @Option(
        help: ArgumentHelp(
            "Forward requests that were not recorded to this base URL, and add their responses to the archive at the end.", valueName: "url"
        ))
    var captureMissing: String?

    @OptionGroup var redaction: RedactionOptions

    @Flag(help: "Exit with 2 also if a recorded response was never requested.")
    var strict = false

    @Flag(help: "Exit with 0 although requests had no recorded response.")
    var allowMissing = false

    @Option(
        help: ArgumentHelp(
            "File for a JSON report of requests without a recorded response, and of recorded responses that were never requested.",
            valueName: "file"))
    var report: String?

    @Option(help: ArgumentHelp("Delay of responses: none, or recorded for the recorded duration.", valueName: "which"))
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
        _ = try rules()
        if let report, FilePath.resolved(report) == FilePath.resolved(file) {
            throw ValidationError("--report must not be the archive.")
        }
        guard let captureMissing else {
            guard !redaction.withSecrets else { throw ValidationError("--with-secrets needs --capture-missing.") }
            return
        }
        guard !once, !strictOrder else { throw ValidationError("--capture-missing is not possible with --once or --strict-order.") }
        do throws(UpstreamURL.Mistake) { _ = try UpstreamURL(checking: captureMissing) } catch {
            throw ValidationError("--capture-missing \(error.clause)")
        }
    }

    private func rules() throws -> ReplayRules {
        do {
            return try ReplayRules(ignore: ignore, echo: echo, shiftsDates: shiftDates, epochs: shiftEpoch)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func run() throws { try Self.reportingFailure(serve) }

    private func serve() throws {
        let signals = Signals(isForCommand: served.isGiven)
        let address = try listening.address(for: served)
        let (recording, byteCount) = try read()
        // Fails before the replay if a file cannot be written.
        let reportFile = try report.map { try NewFile($0) }
        let capture = try capture(recording, byteCount).map { (settings: $0, file: try NewFile(file, isUpdate: true)) }
        let options = ReplayOptions(
            order: strictOrder ? .strict : once ? .once : .repeating, delays: delay == .recorded, origins: allowOrigin,
            capture: capture?.settings)
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
        let (replay, entries) = Self.stop(server)
        StandardError.write("\(replay.reportText)\n")
        let isArchiveWritten = Self.isDone {
            guard let capture, !entries.isEmpty else { return }
            try ArchiveUpdate.add(entries, capture.settings.writer, to: capture.file)
            StandardError.write("\(entries.count) exchanges added to \(file)\n")
        }
        let isReportWritten = Self.isDone { try reportFile?.finish(with: [replay.report]) }
        if status != 0 { throw ExitCode(status) }
        guard isArchiveWritten, isReportWritten else { throw ExitCode.failure }
        let isComplete = (allowMissing || replay.refused == 0) && (!strict && !strictOrder || replay.unused.isEmpty)
        guard isComplete else { throw ExitCode.unmatched }
    }

    /// Writes a file. Returns false, after a message, if that fails.
    private static func isDone(_ write: () throws -> Void) -> Bool {
        do { try write() } catch {
            StandardError.write("cistern: \(error)\n")
            return false
        }
        return true
    }

    private func read() throws -> (recording: Recording, byteCount: Int) {
        let rules = try rules()
        do throws(ArchiveReader.Mistake) {
            let origins = try origins()
            let reader = try ArchiveReader(ArchiveFile.read(file, isOptional: captureMissing != nil))
            let secrets = SecretRedaction(fields: CredentialSettings().fields, names: redaction.secret)
            let recording = try Recording(reader, origins: origins, secrets: secrets, rules, now: Int64(time(nil)))
            guard recording.responses.isEmpty, captureMissing == nil else { return (recording, reader.byteCount) }
            throw ArchiveReader.Mistake("it contains no response that can be served\(Self.text(recording.omitted))")
        } catch {
            throw AdminFailure("\(file): \(error)")
        }
    }

    private func capture(_ recording: Recording, _ byteCount: Int) throws -> CaptureSettings? {
        guard let captureMissing else { return nil }
        guard let upstream = UpstreamURL(captureMissing), let base = recording.captureOrigin(captureMissing) else {
            throw AdminFailure("--capture-missing is not an http or https URL")
        }
        StandardError.write("Requests that were not recorded are forwarded to \(captureMissing)\n")
        let secrets = redaction.withSecrets ? nil : recording.secrets
        return CaptureSettings(
            upstream: upstream, base: base,
            writer: ArchiveWriter(
                upstream: base.description, version: Version.text, secrets: secrets,
                session: RFC3339.format(milliseconds: Int64(time(nil)) * 1_000)),
            limitBytes: min(Recorder.heldLimitBytes, ArchiveReader.limitBytes - byteCount))
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

    /// Stops the server.
    /// - Returns: the numbers of the replay, and captured exchanges as texts of the archive.
    static func stop(_ server: ReplayServer) -> (replay: Replay, captured: [[UInt8]]) {
        let stopped = DispatchSemaphore(value: 0)
        // Written on the loop's thread.
        let result = Mutex<(Replay, [[UInt8]])?>(nil)
        server.stop(deadline: .seconds(1)) { replay, captured in
            result.withLock { $0 = (replay, captured) }
            stopped.signal()
        }
        stopped.wait()
        guard let outcome = result.withLock({ $0 }) else { preconditionFailure("a replay stopped without a result") }
        return outcome
    }
}

struct RedactionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Name of a further field, argument or JSON member with a secret. May be repeated.", valueName: "name"))
    var secret: [String] = []

    @Flag(help: "Write secrets unchanged.")
    var withSecrets = false
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
