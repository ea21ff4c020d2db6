// The option that selects one of several APIs.

import ArgumentParser
import JSON

struct APIOption: ParsableArguments {
    @Option(help: ArgumentHelp("Name of the API, if there are several.", valueName: "name"))
    var api: String?

    var argument: (String, String?) { ("api", api) }

    /// Text about each API under its name; with a single unnamed API, only its text.
    static func text(_ value: JSONValue, _ describe: (JSONValue) -> String) -> String {
        guard let apis = value["apis"]?.array else { return describe(value) }
        return apis.map { "\($0["api"]?.string ?? "")\n\n\(describe($0))" }.joined(separator: "\n")
    }
}
