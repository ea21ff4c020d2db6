// `cistern mode`: shows and switches the modes, which control use of the upstream and of stored responses.

import ArgumentParser
import CachePolicy
import JSON

struct Mode: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show or switch the mode: live, offline, record or replay.",
        discussion: """
            live     Copies are served and rescue as the settings say.
            offline  No requests are sent to the upstream. A request without a copy gets 504.
            record   Every request is sent to the upstream. Responses are stored, and no copy is served.
            replay   Copies are served at any age. A request without one is handled as in live.

            Without a mode, shows the modes in effect. A mode that is set here lasts until Cistern ends or a reload sets another one. At \
            the start, cache.mode and the modes of routes apply. For a path, the longest prefix decides, then its route, then the mode of \
            all paths.

            Examples:
              cistern mode
              cistern mode offline
              cistern mode replay --prefix /users
              cistern mode offline --route search
              cistern mode --reset --prefix /users
            """)

    @Argument(help: "The mode to switch to.")
    var mode: ServingMode?

    @Option(help: "Only paths with this prefix. The longest matching prefix applies.")
    var prefix: String?

    @Option(help: ArgumentHelp("Only paths of this route.", valueName: "name"))
    var route: String?

    @OptionGroup var which: APIOption

    @Flag(help: "Remove the mode of --prefix or --route.")
    var reset = false

    @OptionGroup var options: AdminOptions

    func validate() throws {
        guard mode == nil || !reset else { throw ValidationError("Give a mode or --reset, not both.") }
        let isPart = prefix != nil || route != nil
        guard !isPart || mode != nil || reset else { throw ValidationError("Give a mode for --prefix or --route, or --reset.") }
        guard !reset || isPart else { throw ValidationError("--reset needs --prefix or --route.") }
        guard prefix == nil || route == nil else { throw ValidationError("Give --prefix or --route, not both.") }
    }

    func run(_ client: AdminClient) throws {
        let modes =
            if let mode {
                try client.value("PUT", "mode", [("mode", mode.rawValue), ("prefix", prefix), ("route", route), which.argument])
            } else if reset {
                try client.value("DELETE", "mode", [("prefix", prefix), ("route", route), which.argument])
            } else {
                try client.value("GET", "mode", [which.argument])
            }
        StandardOutput.write(APIOption.text(modes, Self.describe))
    }

    private static func describe(_ modes: JSONValue) -> String {
        var table = TextTable([("MODE", false), ("PATHS", false)])
        for rule in modes["prefixes"]?.array ?? [] { table.add([rule["mode"]?.string ?? "", rule["prefix"]?.string ?? ""]) }
        for rule in modes["routes"]?.array ?? [] { table.add([rule["mode"]?.string ?? "", "route " + (rule["route"]?.string ?? "")]) }
        let isSplit = modes["prefixes"]?.array?.isEmpty == false || modes["routes"]?.array?.isEmpty == false
        table.add([modes["mode"]?.string ?? "", isSplit ? "all others" : "all"])
        return table.text
    }
}

extension ServingMode: ExpressibleByArgument {}
