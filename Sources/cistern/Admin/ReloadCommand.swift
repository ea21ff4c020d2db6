// `cistern reload`: makes the running Cistern reload its settings, as SIGHUP does, and prints the result.

import ArgumentParser
import JSON

struct ReloadCommand: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Reload the settings and certificates: all of them, or none after a mistake.",
        discussion: """
            Reads the configuration file and the files that it names again. The command line and the environment keep their values. If \
            there is a mistake, nothing changes, and every mistake is reported. Active requests are completed under the former settings, \
            and connections stay open. Settings that need a restart keep their values, and are listed. SIGHUP has the effect of this \
            command.
            """)

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let outcome = try client.value("POST", "reload")
        StandardOutput.write(Self.text(outcome))
    }

    static func text(_ outcome: JSONValue) -> String {
        func names(_ member: String) -> [String] { (outcome[member]?.array ?? []).map { Printable.text($0.string ?? "") } }
        func list(_ heading: String, _ names: [String]) -> [String] { names.isEmpty ? [] : [heading] + names.map { "  " + $0 } }
        let (changed, awaiting) = (names("changed"), names("awaiting_restart"))
        let isSame = changed.isEmpty && awaiting.isEmpty
        var lines = isSame ? ["No setting has changed."] : list("Changed:", changed)
        lines += list(
            changed.isEmpty ? "These settings need a restart; nothing else has changed:" : "These settings need a restart:", awaiting)
        lines += list("Certificates in use:", names("certificates"))
        lines += names("warnings").map { "warning: " + $0 }
        return lines.map { $0 + "\n" }.joined()
    }
}
