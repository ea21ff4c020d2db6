// `cistern mode`: shows and switches what is asked of the upstream and what comes from the store.

import ArgumentParser
import HTTPCore
import ReverseProxy

struct Mode: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show or switch the mode: live, offline, record or replay.",
        discussion: """
            live     As the rules say.
            offline  The upstream is never asked; what is not stored gets 504.
            record   The upstream is always asked, what may be stored is, and no copy stands in for it.
            replay   What is stored is served, however old; else as live.

            It holds until Cistern ends; cache.mode is the mode at its start.

            Examples:
              cistern mode
              cistern mode offline
              cistern mode replay --prefix /users
              cistern mode --reset --prefix /users
            """)

    @Argument(help: "The mode to switch to.")
    var mode: ServingMode?

    @Option(help: "Only paths that begin with this; the longest that fits counts.")
    var prefix: String?

    @Flag(help: "Have the paths with --prefix as all others again.")
    var reset = false

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard mode == nil || !reset else { throw ValidationError("Give a mode or --reset, not both.") }
        guard prefix == nil || mode != nil || reset else { throw ValidationError("Give a mode for --prefix, or --reset.") }
        guard !reset || prefix != nil else { throw ValidationError("--reset needs --prefix.") }
    }

    func run(_ client: AdminClient) throws {
        let modes =
            if let mode {
                try client.value("PUT", "mode", [("mode", mode.rawValue), ("prefix", prefix)])
            } else if reset {
                try client.value("DELETE", "mode", [("prefix", prefix)])
            } else {
                try client.value("GET", "mode")
            }
        var table = TextTable([("MODE", false), ("PATHS", false)])
        for rule in modes["prefixes"]?.array ?? [] { table.add([rule["mode"]?.string ?? "", rule["prefix"]?.string ?? ""]) }
        let isSplit = modes["prefixes"]?.array?.isEmpty == false
        table.add([modes["mode"]?.string ?? "", isSplit ? "all others" : "all"])
        StandardOutput.write(table.text)
    }
}

extension ServingMode: ExpressibleByArgument {}
