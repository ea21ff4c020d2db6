// Of several APIs, the one that a command is for.

import ArgumentParser
import JSON

struct APIOption: ParsableArguments {
    @Option(help: ArgumentHelp("Only this one of several APIs.", valueName: "name"))
    var api: String?

    var argument: (String, String?) { ("api", api) }

    /// What is told of each API, under its name; of the only one without.
    static func text(_ value: JSONValue, _ describe: (JSONValue) -> String) -> String {
        guard let apis = value["apis"]?.array else { return describe(value) }
        return apis.map { "\($0["api"]?.string ?? "")\n\n\(describe($0))" }.joined(separator: "\n")
    }
}
