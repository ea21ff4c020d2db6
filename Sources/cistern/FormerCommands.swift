// Former names of commands. They go on working in this version; help, completions and manual pages do not mention them.

enum FormerCommands {
    /// The words that replace a command's name.
    static let replacements = [
        "stats": ["status"], "top": ["status", "--watch"], "healthcheck": ["status", "--check"], "fault": ["drill"],
    ]

    /// - Parameter arguments: those of the command line, without the program.
    static func replaced(_ arguments: [String]) -> [String] {
        guard let name = arguments.first else { return arguments }
        let rest = Array(arguments.dropFirst())
        if name == "help" { return [name] + rest.map { replacements[$0]?.first ?? $0 } }
        guard let words = replacements[name] else { return arguments }
        // Without a subcommand, fault listed faults, and drill takes the upstream away.
        let isListing = name == "fault" && !["add", "ls", "clear", "-h", "--help"].contains(rest.first)
        return words + (isListing ? ["ls"] : []) + rest
    }
}
