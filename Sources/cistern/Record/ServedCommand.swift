// `record … -- command` and `replay … -- command`: the command runs while it is listened, finds the address in its environment, and its exit
// code is ours.

import ArgumentParser
import Downstream
import Glibc

struct ServedCommand: ParsableArguments {
    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("What is run meanwhile. It ends when this does, with its exit code.", valueName: "command"))
    var command: [String] = []

    @Option(
        name: .customLong("env"),
        help: ArgumentHelp("The environment variable in which the command finds the address.", valueName: "name"))
    var variable = "API_URL"

    /// Where it listens if nobody says where: no test has to have a port of its own.
    static let usualAddress = "127.0.0.1:0"

    var isGiven: Bool { !command.isEmpty }

    func validate() throws {
        let isName = variable.utf8.allSatisfy { $0 == UInt8(ascii: "_") || (0x30...0x39).contains($0) || isLetter($0) }
        guard isName, let first = variable.utf8.first, !(0x30...0x39).contains(first), !variable.hasPrefix("CISTERN_") else {
            throw ValidationError(
                "--env must be a name of letters, digits and _, such as API_URL, and not begin with CISTERN_: that would name a setting.")
        }
    }

    private func isLetter(_ byte: UInt8) -> Bool { (0x41...0x5a).contains(byte & 0xdf) }

    /// Blocks until the command has ended.
    /// - Returns: its exit code, as a shell tells it.
    func run(at url: String, _ signals: Signals) -> Int32 {
        var environment = Environment.all()
        environment[variable] = url
        switch ChildProcess.start(command, environment) {
        case .success(let process): return signals.wait(for: process)
        case .failure(let failure):
            StandardError.write("cistern: \(command[0]): \(failure)\n")
            return failure.code == ENOENT ? 127 : 126
        }
    }
}

extension ListenAddress {
    /// For clients.
    var url: String { ListenerSettings(self).url(at: self) }
}
