// The command line: `cistern serve` (the default), `check`, `demo`, and the commands that query a running Cistern.

import ArgumentParser
import CSystem
import Glibc

@main
enum Program {
    static func main() {
        reserveStandardDescriptors()
        exit(StandardOutput.finish(run(Array(CommandLine.arguments.dropFirst()))))
    }

    /// Runs the command.
    /// - Returns: its exit code.
    private static func run(_ words: [String]) -> Int32 {
        do {
            var command = try Cistern.parseAsRoot(FormerCommands.replaced(words))
            try command.run()
            return EXIT_SUCCESS
        } catch let mistake as UpstreamArgument.Mistake {
            StandardError.write((UsageHint.message(mistake.message, after: nil) ?? mistake.message) + "\n")
            return ExitCode.validationFailure.rawValue
        } catch {
            let code = Cistern.exitCode(for: error)
            let full = Cistern.fullMessage(for: error)
            let message = UsageHint.message(full, after: words.first) ?? full
            guard !message.isEmpty else { return code.rawValue }
            // The help and the version are output.
            if code == .success { StandardOutput.write(message + "\n") } else { StandardError.write(message + "\n") }
            return code.rawValue
        }
    }

    /// Opens /dev/null in place of a closed standard input, output or error. Otherwise a file of the store would get that descriptor,
    /// and log lines would be written into the file.
    private static func reserveStandardDescriptors() {
        // open(2) returns the lowest free number.
        while case let descriptor = csystem_open("/dev/null", O_RDWR, 0), descriptor >= 0 {
            guard descriptor > STDERR_FILENO else { continue }
            close(descriptor)
            return
        }
    }
}

struct Cistern: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cistern",
        abstract: "A caching reverse proxy for JSON web APIs: serves the last good response while the API is down.",
        version: Version.text,
        subcommands: [Serve.self, Check.self, NotifyCommand.self, Demo.self, Record.self, ReplayCommand.self],
        groupedSubcommands: [
            CommandGroup(
                name: "Inspecting a running Cistern",
                subcommands: [
                    StatusCommand.self, List.self, Show.self, Purge.self, Why.self, Advise.self, Mode.self, UpstreamCommand.self,
                    Export.self,
                    Import.self,
                    Warm.self, ReloadCommand.self, ShareCommand.self, Drill.self,
                ])
        ],
        defaultSubcommand: Serve.self)
}

enum Version {
    static let text = "0.1.0"
}

extension ExitCode {
    /// A request to a replay had no recorded response, or a recorded response was never requested.
    static let unmatched = ExitCode(2)
    /// EX_CONFIG of sysexits.h.
    static let configuration = ExitCode(78)
    /// The operation will complete later: EX_TEMPFAIL of sysexits.h.
    static let later = ExitCode(75)
}
