// Former names of commands, which still work in this version. Help, completions and manual pages omit them.

enum FormerCommands {
    static let replacements = [
        "stats": ["status"], "top": ["status", "--watch"], "healthcheck": ["status", "--check"], "fault": ["drill"],
    ]

    /// - Parameter arguments: command line arguments without the program name.
    static func replaced(_ arguments: [String]) -> [String] {
        guard let name = arguments.first else { return arguments }
        let rest = Array(arguments.dropFirst())
        if name == "help" { return [name] + rest.map { replacements[$0]?.first ?? $0 } }
        guard let words = replacements[name] else { return arguments }
        // Without a subcommand, `fault` listed faults, whereas `drill` starts an outage.
        let isListing = name == "fault" && !["add", "ls", "clear", "-h", "--help"].contains(rest.first)
        return words + (isListing ? ["ls"] : []) + rest
    }
}
