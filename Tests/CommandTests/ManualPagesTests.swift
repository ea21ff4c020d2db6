// Generates cistern(1) from the commands' help, and cistern.yaml(5) from the declarations of settings. With CISTERN_WRITE_MANUALS set, both
// are written instead of compared.

import Glibc
import JSON
import Settings
import TestSupport
import Testing

@Suite("Manual pages")
struct ManualPagesTests {
    private static let folder =
        String(#filePath.dropLast("Tests/CommandTests/ManualPagesTests.swift".count)) + "Configuration/manual/"

    private func compare(_ page: ManualPage, with name: String) throws {
        let path = Self.folder + name
        if getenv("CISTERN_WRITE_MANUALS") != nil {
            try TestTools.write(page.text, to: path)
        } else {
            let text = try CommandLineTool.run(program: "cat \(path)").text
            #expect(text == page.text, "write it anew with CISTERN_WRITE_MANUALS=1")
        }
        let warnings = try CommandLineTool.run(program: "groff -man -Tutf8 -Kutf8 -ww -z \(path)")
        #expect(warnings.status == 0 && warnings.text.isEmpty)
    }

    // MARK: cistern(1)

    private struct NoHelp: Error {}

    @Test("cistern(1) describes all commands and options as --help does")
    func commands() throws {
        guard let root = JSONValue(Array(try CommandLineTool.run("--experimental-dump-help").text.utf8))?["command"] else { throw NoHelp() }
        var page = ManualPage(title: "cistern", section: 1, group: "User Commands")
        page.section("NAME")
        page.paragraphs("cistern - forward requests to a JSON web API, and serve the last good response while it is down")
        page.section("SYNOPSIS")
        page.paragraphs("cistern serve --upstream URL [options]\n\ncistern command [options]")
        page.section("DESCRIPTION")
        page.paragraphs(
            """
            Cistern is a caching reverse proxy for JSON web APIs. Clients take its address as their base URL. While the API (the upstream) \
            responds, its responses are passed on and the good ones kept on disk. When it cannot be reached, fails, is too slow or sends what is \
            none, what was kept is served.
            """)
        page.section("COMMANDS")
        for command in root["subcommands"]?.array ?? [] where command["commandName"] != "help" { add(command, "cistern", to: &page) }
        addRest(to: &page)
        try compare(page, with: "cistern.1")
    }

    private func add(_ command: JSONValue, _ above: String, to page: inout ManualPage) {
        let name = "\(above) \(command["commandName"]?.string ?? "")"
        let shown = (command["arguments"]?.array ?? []).filter { argument in
            argument["shouldDisplay"] != false && !["version", "help"].contains(argument["valueName"]?.string)
        }
        let positional = shown.filter { $0["kind"] == "positional" }.map { usage(of: $0) }
        page.subsection(([name] + positional).joined(separator: " "))
        if let text = command["abstract"]?.string { page.paragraphs(text) }
        if let text = command["discussion"]?.string { page.paragraph(text) }
        for argument in shown { page.item(term(of: argument), meaning(of: argument)) }
        for inner in command["subcommands"]?.array ?? [] where inner["commandName"] != "help" { add(inner, name, to: &page) }
    }

    private func usage(of argument: JSONValue) -> String {
        let name = (argument["valueName"]?.string ?? "") + (argument["isRepeating"] == true ? "..." : "")
        return argument["isOptional"] == true ? "[\(name)]" : name
    }

    private func term(of argument: JSONValue) -> String {
        let value = argument["valueName"]?.string ?? ""
        guard argument["kind"] != "positional" else { return value }
        let names = (argument["names"]?.array ?? []).map { name in
            (name["kind"] == "short" ? "-" : "--") + (name["name"]?.string ?? "")
        }
        return names.joined(separator: ", ") + (argument["kind"] == "option" ? " \(value)" : "")
    }

    private func meaning(of argument: JSONValue) -> String {
        let text = argument["abstract"]?.string ?? ""
        guard argument["kind"] == "option", let usual = argument["defaultValue"]?.string, !text.contains("(default:") else { return text }
        return "\(text) (default: \(usual))"
    }

    private func addRest(to page: inout ManualPage) {
        page.section("SIGNALS")
        page.item(
            "SIGTERM, SIGINT",
            "End in good order: /readyz says 503 for timeouts.drain_delay, then nothing is accepted any more, and what runs finishes within "
                + "timeouts.shutdown. A second one ends at once.")
        page.item("SIGHUP", "Open the access log anew, and read the settings and certificates again, all of it or nothing.")
        page.item("SIGUSR1", "Open the access log anew.")
        page.item(
            "SIGUSR2",
            "Start the program that has this one's name by now, with the same arguments and --take-over: so an upgrade under a service manager loses "
                + "no connection. Where it cannot take over, the running one goes on.")
        page.section("EXIT STATUS")
        for (code, meaning) in [
            ("0", "All went well."), ("1", "It did not; a line on standard error tells why."), ("64", "The command line is wrong."),
            ("78", "The settings are wrong, or the cache directory cannot be used as they say: starting again does not help."),
        ] { page.item(code, meaning) }
        page.section("ENVIRONMENT")
        page.item("CISTERN_CONFIG", "The configuration file, where no --config names one.")
        page.item(
            "CISTERN_...", "Any setting: CISTERN_STORE_SIZE is store.size. The command line comes before these, and they before the file.")
        page.item("NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID", "Where and how often systemd is told how serve is: see sd_notify(3).")
        page.item(
            "LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES",
            "Sockets that systemd hands over: see sd_listen_fds(3), and listen in cistern.yaml(5).")
        page.section("FILES")
        page.item(
            "/etc/cistern/cistern.yaml",
            "The settings of the service, where Cistern is installed as a package; the commands of root go by them.")
        page.item("/var/cache/cistern", "What the service has kept, and admin.sock, by which commands reach it.")
        page.item("~/.cache/cistern", "The same, where nobody says otherwise.")
        page.section("SEE ALSO")
        page.paragraphs("cistern.yaml(5)")
    }

    // MARK: cistern.yaml(5)

    @Test("cistern.yaml(5) describes all settings as declared")
    func settings() throws {
        var page = ManualPage(title: "cistern.yaml", section: 5, group: "File Formats")
        page.section("NAME")
        page.paragraphs("cistern.yaml - the settings of cistern(1)")
        page.section("DESCRIPTION")
        page.paragraphs(
            """
            A YAML file with any of the settings, named by --config or CISTERN_CONFIG. A dot in a name stands for a group: store.size is size in the \
            group store. Every setting can also be given in the environment, as CISTERN_STORE_SIZE, and by --set store.size=1GiB. \
            cistern check tells all mistakes of a file with their lines.

            Durations are written as 1500ms, 30s, 2m or 1h, sizes as 512KiB, 64MiB or 2GiB. One example:

              upstream:
                url: https://api.example.com
              store:
                directory: /var/cache/cistern
                size: 4GiB
            """)
        page.section("SETTINGS")
        for setting in SettingsTable.current { add(setting, CisternSettings(), to: &page) }
        page.section("ROUTES")
        page.paragraphs("routes is a list; each route has a name, a path, and any of these:")
        for setting in RouteTable.current { page.item(setting.path, setting.help) }
        page.section("APIS")
        page.paragraphs(
            "apis is a list, in the place of upstream.url and of routes beside it; each API has routes of its own, and any of these. What says nothing of "
                + "an API is as the rest of the file has it.")
        let own = APITable.current.filter { !$0.help.hasPrefix("As ") }
        for setting in own { page.item(setting.path, setting.help) }
        page.paragraphs("And, with the meaning that the setting has for all, whatever of these is different for it:")
        let others = APITable.current.filter { $0.help.hasPrefix("As ") }.map(\.path)
        page.paragraph(others.joined(separator: ", ") + ".")
        page.section("ADDRESSES")
        page.paragraphs("listen and admin_listen are lists; each of them is an address in one word, or has any of these:")
        for setting in CisternSettings.Listener.table { page.item(setting.path, setting.help) }
        page.paragraph(
            "systemd:NAME is a socket that systemd listens on, with FileDescriptorName=NAME in its socket unit (systemd.socket(5)). Where listen is not "
                + "set, all that it hands over is listened on; what is called admin, for administration.")
        page.section("CERTIFICATES")
        page.paragraphs("tls.certificates is a list; each of them is certificate:key, or has any of these:")
        for setting in CisternSettings.Certificate.table { page.item(setting.path, setting.help) }
        page.section("SEE ALSO")
        page.paragraphs("cistern(1)")
        try compare(page, with: "cistern.yaml.5")
    }

    private func add(_ setting: Setting<CisternSettings>, _ defaults: CisternSettings, to page: inout ManualPage) {
        let usual = setting.text(in: defaults)
        page.item(setting.path, setting.help + (usual.isEmpty || usual == "\"\"" || usual == "[]" ? "" : " (default: \(usual))"))
    }
}
