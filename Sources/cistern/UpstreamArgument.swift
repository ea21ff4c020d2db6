// The argument of `serve` and `check` that names the upstream: a URL, or a host with an optional port.

import ArgumentParser

struct UpstreamArgument: ParsableArguments {
    /// A wrong argument. It is found after parsing, so that the parser reports unknown options first.
    struct Mistake: Error {
        let message: String

        /// - Parameter command: name of the command that has the argument.
        fileprivate init(_ sentence: String, of command: String) {
            let usage = "Usage: cistern \(command) [<upstream>] [<options>]\n  See 'cistern \(command) --help' for more information."
            message = "Error: \(sentence)\n\(usage)"
        }
    }

    @Argument(
        help: ArgumentHelp(
            "Base URL of the API, as with --upstream: https://api.example.com, or localhost:3000 for http://localhost:3000.",
            valueName: "upstream"))
    var words: [String] = []

    func apply(to options: inout SettingsOptions, of command: String) throws(Mistake) {
        guard let first = words.first else { return }
        let wrong = UpstreamURL.named(by: first) == nil ? first : words.dropFirst().first
        // `UsageHint` completes the message.
        if let wrong { throw Mistake("Unexpected argument '\(UpstreamURL.shown(wrong))'", of: command) }
        guard options.upstream == nil else { throw Mistake("Give the upstream once: as an argument or with --upstream.", of: command) }
        options.upstream = UpstreamURL.named(by: first)
    }
}
