// `record … -- command` and `replay … -- command`: runs a command while listening. The command gets the address in its environment, and its
// exit code is returned.

import ArgumentParser
import Downstream
import Glibc
import HTTPCore
import Reactor

struct ServedCommand: ParsableArguments {
    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("Command to run. Cistern stops when the command ends, and returns its exit code.", valueName: "command"))
    var command: [String] = []

    @Option(
        name: .customLong("env"),
        help: ArgumentHelp("Environment variable with the address, for the command.", valueName: "name"))
    var variable = "API_URL"

    /// Default address with a command: any free port.
    static let usualAddress = "127.0.0.1:0"

    var isGiven: Bool { !command.isEmpty }

    func validate() throws {
        let isName = variable.utf8.allSatisfy { $0 == UInt8(ascii: "_") || $0.isASCIIDigit || $0.isASCIILetter }
        guard isName, let first = variable.utf8.first, !first.isASCIIDigit, !variable.hasPrefix("CISTERN_") else {
            throw ValidationError(
                "--env must be a name of letters, digits and _, such as API_URL, and must not begin with CISTERN_, the prefix of settings.")
        }
    }

    /// Blocks until the command has ended.
    /// - Returns: exit code as in a shell.
    func run(at url: String, _ signals: Signals) -> Int32 {
        var environment = Environment.all()
        environment[variable] = url
        switch ChildProcess.start(command, environment, resetting: Signals.taken) {
        case .success(let process): return signals.wait(for: process)
        case .failure(let failure):
            StandardError.write("cistern: \(command[0]): \(failure)\n")
            return failure.code == ENOENT ? 127 : 126
        }
    }
}

extension ListenAddress {
    /// URL of the address for clients.
    var url: String { ListenerSettings(self).url(at: self) }
}
