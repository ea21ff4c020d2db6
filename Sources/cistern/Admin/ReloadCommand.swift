// `cistern reload`: has the running Cistern read its settings again, as SIGHUP does, and tells what came of it.

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
        Self.list("Changed:", outcome["changed"], orElse: "The settings are as they were.")
        Self.list("A restart is needed for:", outcome["awaiting_restart"])
        Self.list("Certificates in use:", outcome["certificates"])
        for warning in outcome["warnings"]?.array ?? [] { StandardOutput.write("warning: \(Printable.text(warning.string ?? ""))\n") }
    }

    private static func list(_ heading: String, _ names: JSONValue?, orElse sentence: String? = nil) {
        let names = names?.array ?? []
        guard !names.isEmpty else {
            if let sentence { StandardOutput.write(sentence + "\n") }
            return
        }
        StandardOutput.write(heading + "\n")
        for name in names { StandardOutput.write("  \(Printable.text(name.string ?? ""))\n") }
    }
}
