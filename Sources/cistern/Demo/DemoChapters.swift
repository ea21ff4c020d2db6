// Text of `cistern demo`: commands to paste, with their explanations.

struct DemoChapters {
    /// Address of Cistern, as HOST:PORT.
    let address: String
    /// Base URL of the admin interface.
    let adminURL: String
    let samplePort: UInt16
    let controlPort: UInt16
    /// Command that runs this program.
    let program: String
    let storeDirectory: String

    var start: String {
        """

        Status page: \(adminURL)/-/status

        A sample API runs on 127.0.0.1:\(samplePort), and Cistern in front of it on \(address). Paste into another terminal:

        \(Self.lines([
            ("curl -i http://\(address)/users", "a response of the API, which Cistern stores"),
            ("curl -i 'http://\(address)/posts?userId=1'", "fresh for a minute: the second time it is a hit"),
            ("curl -X POST http://127.0.0.1:\(controlPort)/down", "takes the API down"),
            ("curl -i http://\(address)/users", "the API is down, and Cistern serves the stored response"),
            ("curl -X POST http://127.0.0.1:\(controlPort)/up", "starts the API again"),
        ]))
        What Cistern did, and why:

        \(Self.lines([
            ("\(program) why --cache-dir \(Self.quoted(storeDirectory))", ""),
            ("curl -s \(adminURL)/metrics | grep ^cistern_requests_total", ""),
        ]))
        More examples, which run alone:

        \(Self.lines([
            ("\(program) demo login", "a login that refreshes"),
            ("\(program) demo preflight", "a web app of another origin"),
            ("\(program) demo replay", "recorded responses, without the API"),
        ]))
        Ctrl-C stops the API and Cistern.

        """
    }

    /// Commands, followed by aligned comments.
    private static func lines(_ rows: [(command: String, comment: String)]) -> String {
        let width = rows.map(\.command.count).max() ?? 0
        return rows.map { row in
            guard !row.comment.isEmpty else { return "  \(row.command)\n" }
            return "  \(row.command)\(String(repeating: " ", count: width - row.command.count))   # \(row.comment)\n"
        }.joined()
    }

    /// Quotes a word for a shell.
    static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x7a) || (0x2d...0x39).contains($0) || $0 == 0x5f }
        return isPlain && !word.isEmpty
            ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
