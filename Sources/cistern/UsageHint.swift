// Hints for unknown options, commands and arguments that are known from other programs. The message names Cistern's equivalent.

import ArgumentParser
import Settings

enum UsageHint {
    /// - Parameters:
    ///   - message: message of the argument parser, followed by the usage.
    ///   - word: first argument of the command line.
    /// - Returns: the message with a better first line; nil without a hint.
    static func message(_ message: String, after word: String?) -> String? {
        let lines = message.split(separator: "\n", omittingEmptySubsequences: false)
        let usage = lines.first { $0.hasPrefix("Usage: cistern ") } ?? ""
        guard let first = lines.first, let better = misspelt(word, usage) ?? option(first, usage) ?? argument(first, usage) else {
            return nil
        }
        return ([better[...]] + lines.dropFirst()).joined(separator: "\n")
    }

    // MARK: Options

    /// Only `serve` and `check` take settings.
    private static func option(_ line: Substring, _ usage: Substring) -> String? {
        let beginning = "Error: Unknown option '-"
        guard line.hasPrefix(beginning), let name = line.dropFirst(beginning.count).split(separator: "'").first else { return nil }
        if ["v", "V"].contains(name) { return "Error: Unknown option '-\(name)'; use --version" }
        guard name.hasPrefix("-"), takesSettings(usage), let meaning = SettingSuggestion.meaning(ofOption: String(name.dropFirst())) else {
            return nil
        }
        return "Error: Unknown option '-\(name)'\(words(meaning))"
    }

    private static func words(_ meaning: (setting: String?, note: String)) -> String {
        let note = meaning.note.isEmpty ? "" : ": \(meaning.note)"
        guard let setting = meaning.setting else { return note }
        return "; use \(use(setting))\(note)"
    }

    private static func use(_ setting: String) -> String {
        if let option = SettingsOptions.options[setting] { return option }
        if setting.hasPrefix("cistern ") { return setting }
        return SettingsTable.all.contains { $0.path == setting } ? "--set \(setting)=VALUE" : "\(setting) in the file"
    }

    // MARK: Arguments

    /// Without a command, `serve` gets the options of a misspelt one.
    private static func misspelt(_ word: String?, _ usage: Substring) -> String? {
        guard let word, !word.hasPrefix("-"), usage.hasPrefix("Usage: cistern serve"), !names.contains(word),
            UpstreamURL.named(by: word) == nil, !word.contains("/")
        else { return nil }
        return command(for: word)
    }

    private static func command(for word: String) -> String? {
        let lower = word.lowercased()
        guard let command = commands[lower] ?? SettingSuggestion.nearest(lower, among: names) else { return nil }
        return "Error: '\(word)' is not a command; did you mean cistern \(command)?"
    }

    /// Names of commands in other programs.
    static let commands = [
        "start": "serve", "run": "serve", "server": "serve", "daemon": "serve", "version": "--version", "validate": "check",
        "test": "check",
        "verify": "check", "configtest": "check", "health": "status --check", "ping": "status --check", "list": "ls", "keys": "ls",
        "get": "show",
        "cat": "show", "inspect": "show", "rm": "purge", "delete": "purge", "del": "purge", "ban": "purge", "invalidate": "purge",
        "flush": "purge --all", "clear": "purge --all", "metrics": "status", "log": "why --follow", "logs": "why --follow",
        "explain": "why", "preload": "warm", "info": "status", "config": "check", "offline": "mode offline", "restart": "reload",
    ]

    private static func takesSettings(_ usage: Substring) -> Bool {
        usage.hasPrefix("Usage: cistern serve") || usage.hasPrefix("Usage: cistern check")
    }

    private static func argument(_ line: Substring, _ usage: Substring) -> String? {
        // The first of several arguments determines the hint.
        let beginnings = ["Error: Unexpected argument '", " unexpected arguments: '"]
        guard let start = beginnings.compactMap({ line.firstRange(of: $0)?.upperBound }).first else { return nil }
        let argument = String(line[start...].prefix { $0 != "'" })
        if usage.hasPrefix("Usage: cistern record"), UpstreamURL.named(by: argument) != nil {
            return "\(line); give the upstream with --upstream"
        }
        guard takesSettings(usage) else { return subcommand(argument, usage) }
        if argument.hasSuffix(".yaml") || argument.hasSuffix(".yml") { return "\(line); give the settings file with --config" }
        if argument.hasSuffix(".har") { return "\(line); serve a recording with cistern replay" }
        // Without a command, serve gets the arguments.
        guard usage.hasPrefix("Usage: cistern serve") else { return nil }
        return command(for: argument)
    }

    /// Suggests a subcommand of the command in the usage.
    private static func subcommand(_ argument: String, _ usage: Substring) -> String? {
        let name = usage.dropFirst("Usage: cistern ".count).prefix { $0 != " " }
        let configuration = Cistern.configuration
        let all = configuration.groupedSubcommands.reduce(configuration.subcommands) { $0 + $1.subcommands }
        let names = all.first { $0._commandName == name }?.configuration.subcommands.map { $0._commandName } ?? []
        return SettingSuggestion.nearest(argument.lowercased(), among: names).map {
            "Error: '\(argument)' is not a command; did you mean cistern \(name) \($0)?"
        }
    }

    /// Names of all commands.
    static var names: [String] {
        let configuration = Cistern.configuration
        let commands = configuration.groupedSubcommands.reduce(configuration.subcommands) { $0 + $1.subcommands }
        return commands.map { $0._commandName }
    }
}
