// `cistern status`: how things are, in a sentence, and where the page of the state is; `--open` opens that in a browser, with a session.

import ArgumentParser
import CSystem
import Descriptors
import Glibc
import JSON

struct StatusCommand: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say how things are, and open the page that shows it.",
        discussion: """
            The page is on the addresses of admin_listen. Without a session it shows numbers, states and the names of APIs and routes; --open gives the \
            browser a session of an hour, which also sees targets, exchanges and what is stored, and may purge.
            """)

    @Flag(help: "Open the page in a browser (BROWSER, or the desktop's), with a session; the address is good once, for a minute.")
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
        guard open else { return StandardOutput.write(Printable.text(page) + "\n") }
        let response = try client.value("POST", "status/code")
        guard let path = response["path"]?.string, page.hasSuffix("/-/status") else { throw AdminFailure("no session can be had") }
        let url = String(page.dropLast("/-/status".utf8.count)) + path
        StandardOutput.write(url + "\n")
        Self.show(url)
    }

    /// Where nodes share, and this one does not see what others purge.
    static func blindness(_ share: JSONValue) -> String? {
        guard share["seeing"] == false else { return nil }
        let since = share["blind_since"]?.string.map { " since \(Printable.text($0))" } ?? ""
        return "What other nodes purge is not seen\(since) (cistern share status says why)."
    }

    /// The browser gets a file to open: what stands on a command line all users of a machine can read. Where there is no place for one, or no
    /// browser, the address has been said.
    private static func show(_ url: String) {
        let environment = Environment.all()
        let path = place(environment)
        unlink(path)
        let file = Descriptor(csystem_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600))
        guard file.isOpen else { return }
        // The address is ours: letters, digits and what stands in addresses.
        let content = Array("<!doctype html><title>Cistern</title><meta http-equiv=\"refresh\" content=\"0;url=\(url)\">\n".utf8)
        _ = WholeWrite.write(content, to: file.number)
        for words in browsers(environment, opening: path) {
            guard case .success(let browser) = ChildProcess.start(words, environment) else { continue }
            _ = ChildProcess.wait(for: browser)
            return
        }
    }

    /// A directory of the user's alone, or one where nobody can change what another has put there.
    private static func place(_ environment: [String: String]) -> String {
        if let own = environment["XDG_RUNTIME_DIR"], own.hasPrefix("/") { return own + "/cistern-status.html" }
        return "/tmp/cistern-status-\(getuid()).html"
    }

    /// Those of BROWSER, as xdg-open reads it: commands with colons between them, `%s` for what they open; then whatever the desktop has.
    private static func browsers(_ environment: [String: String], opening path: String) -> [[String]] {
        let named = (environment["BROWSER"] ?? "").split(separator: ":").map { command -> [String] in
            let words = command.split(separator: " ").map(String.init)
            return words.contains("%s") ? words.map { $0 == "%s" ? path : $0 } : words + [path]
        }
        return named.filter { $0.count > 1 } + [["xdg-open", path]]
    }
}
