// `cistern status`: how things are, in a sentence, and where the status page is; `--open` opens that in a browser.

import ArgumentParser
import JSON

struct StatusCommand: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say how things are, and open the page that shows it.",
        discussion: "The page is on the addresses of admin_listen.")

    @Flag(help: "Open the page in a browser: BROWSER, or the desktop's.")
    var open = false

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let state = try client.value("GET", "stats")["state"]
        StandardOutput.write(Printable.text(state?["sentence"]?.string ?? "") + "\n")
        if let line = (try? client.value("GET", "share")).flatMap(Self.blindness) { StandardOutput.write(line + "\n") }
        let pages = state?["pages"]?.array?.compactMap(\.string) ?? []
        guard let page = pages.first else {
            guard open else { return }
            throw AdminFailure("there is no page to open: admin_listen is empty")
        }
        StandardOutput.write(Printable.text(page) + "\n")
        if open { Self.show(page) }
    }

    /// Where nodes share, and this one does not see what others purge.
    static func blindness(_ share: JSONValue) -> String? {
        guard share["seeing"] == false else { return nil }
        let since = share["blind_since"]?.string.map { " since \(Printable.text($0))" } ?? ""
        return "What other nodes purge is not seen\(since) (cistern share status says why)."
    }

    /// Without a browser the printed address has to do.
    private static func show(_ url: String) {
        let environment = Environment.all()
        for words in browsers(environment, opening: url) {
            guard case .success(let browser) = ChildProcess.start(words, environment) else { continue }
            _ = ChildProcess.wait(for: browser)
            return
        }
    }

    /// Those of BROWSER, as xdg-open reads it: commands with colons between them, `%s` for what they open; then whatever the desktop has.
    private static func browsers(_ environment: [String: String], opening url: String) -> [[String]] {
        let named = (environment["BROWSER"] ?? "").split(separator: ":").map { command -> [String] in
            let words = command.split(separator: " ").map(String.init)
            return words.contains("%s") ? words.map { $0 == "%s" ? url : $0 } : words + [url]
        }
        return named.filter { $0.count > 1 } + [["xdg-open", url]]
    }
}
