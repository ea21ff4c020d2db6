// `cistern reload`: makes the running Cistern reload its settings, as SIGHUP does, and prints the result.

import ArgumentParser
import JSON

struct ReloadCommand: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Read the settings and certificates again, all of it or nothing.",
        discussion: """
            The file and what it names are read anew; the command line and the environment are those of the start. Where anything is wrong, all stays \
            as it was, and every mistake is told. Requests under way end as they began, and kept connections go on. A few settings need a restart: \
            they keep their values, and are named. SIGHUP does the same.
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
        var lines = isSame ? ["The settings are as they were."] : list("Changed:", changed)
        lines += list(changed.isEmpty ? "Nothing changes before a restart, which is needed for:" : "A restart is needed for:", awaiting)
        lines += list("Certificates in use:", names("certificates"))
        lines += names("warnings").map { "warning: " + $0 }
        return lines.map { $0 + "\n" }.joined()
    }
}
