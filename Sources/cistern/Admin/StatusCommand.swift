// `cistern status`: prints the state of the server as a sentence, the address of the status page, and statistics since the start. --watch
// shows current rates, --json all numbers, --check the health.

import ArgumentParser
import JSON
import Reactor

struct StatusCommand: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the state of a running Cistern, and its counts since the start.",
        discussion: """
            For graphs and alerts use /metrics. A status page for browsers is served on the addresses of admin_listen.

            --check requests /healthz at the address that the settings give: the file, the environment and the options of this command. \
            Without such an address it uses the socket of the admin interface. Exits with 0 if the server is healthy, otherwise with 1.

            --watch refreshes a view on a terminal. Without a terminal, or if TERM is dumb, it writes a line each time. Colour shows the \
            state only, and is off if NO_COLOR is set. Keys:

            q, Ctrl-C   end
            p, space    pause and continue
            s           sort APIs and routes by requests, rescued, errors, time (P99) or name
            /           filter by name; Enter ends the input, Esc removes the filter
            """)

    @Flag(help: "Print all numbers as JSON.")
    var json = false

    @Flag(help: "Refresh the view continuously.")
    var watch = false

    @Flag(help: "Only check whether the server is healthy. With --admin, only this address is checked.")
    var check = false

    @Flag(help: "Open the status page in a browser: the command in BROWSER, or the desktop's default.")
    var open = false

    @OptionGroup var watching: StatusWatch

    /// Option of the former command `healthcheck`.
    @Option(help: .hidden) var address: String?
    @Option(help: .hidden) var port: UInt16?

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard [json, watch, check, open].count(where: \.self) < 2 else {
            throw ValidationError("Give one of --json, --watch, --check and --open.")
        }
    }

    func run() throws {
        guard check else { return try Self.reporting { try run(options.client()) } }
        let address = options.admin ?? address ?? port.map { "127.0.0.1:\($0)" }
        try Self.reporting { try HealthCheck(address: address, config: options.config, cacheDir: options.cacheDir).run() }
    }

    func run(_ client: AdminClient) throws {
        if watch { return try watching.run(client) }
        let stats = try client.value("GET", "stats")
        if json { return StandardOutput.write(stats.document) }
        StandardOutput.write(Printable.text(stats["state"]?["sentence"]?.string ?? "") + "\n")
        if let line = (try? client.value("GET", "share")).flatMap(Self.blindness) { StandardOutput.write(line + "\n") }
        let page = stats["state"]?["pages"]?.array?.first?.string
        if let page { StandardOutput.write(Printable.text(page) + "\n") }
        guard open else { return StandardOutput.write("\n" + StatsText.describe(stats)) }
        guard let page else { throw AdminFailure("there is no status page to open, because admin_listen is empty: set it to an address") }
        Self.show(page)
    }

    /// A sentence if this node does not receive purges of other nodes; otherwise nil.
    static func blindness(_ share: JSONValue) -> String? {
        guard share["seeing"] == false else { return nil }
        let since = share["blind_since"]?.string.map { " since \(Printable.text($0))" } ?? ""
        return "Purges of other nodes cannot be read\(since) (see cistern share status)."
    }

    /// Opens the URL in a browser. Without one, the user has the printed address.
    private static func show(_ url: String) {
        let environment = Environment.all()
        for words in browsers(environment, opening: url) {
            guard case .success(let browser) = ChildProcess.start(words, environment, resetting: Signals.taken) else { continue }
            _ = ChildProcess.wait(for: browser)
            return
        }
    }

    /// Commands of BROWSER in the format of xdg-open: separated by colons, with `%s` for the URL. The desktop's default browser follows.
    private static func browsers(_ environment: [String: String], opening url: String) -> [[String]] {
        let named = (environment["BROWSER"] ?? "").split(separator: ":").map { command -> [String] in
            let words = command.split(separator: " ").map(String.init)
            return words.contains("%s") ? words.map { $0 == "%s" ? url : $0 } : words + [url]
        }
        return named.filter { $0.count > 1 } + [["xdg-open", url]]
    }
}
