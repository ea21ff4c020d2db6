// `cistern reload`: has the running Cistern read its certificates again, as SIGHUP does, and tells what came of it.

import ArgumentParser
import JSON

struct ReloadCommand: AdminCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Read the certificates again, all of them or none.",
        discussion: """
            For a renewed certificate no restart is needed: connections that stand go on, new ones get the new certificate. Where something is wrong \
            with one of the files, all stays as it was. SIGHUP does the same.
            """)

    @OptionGroup var options: AdminOptions

    func run(_ client: AdminClient) throws {
        let outcome = try client.value("POST", "reload")
        let files = outcome["certificates"]?.array ?? []
        StandardOutput.write(files.isEmpty ? "No address speaks TLS: there is nothing to read.\n" : "In use:\n")
        for file in files { StandardOutput.write("  \(Printable.text(file.string ?? ""))\n") }
        for warning in outcome["warnings"]?.array ?? [] { StandardOutput.write("warning: \(Printable.text(warning.string ?? ""))\n") }
    }
}
