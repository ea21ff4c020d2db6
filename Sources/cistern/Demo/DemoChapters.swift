// Texts of `cistern demo`: commands to paste, with explanations as comments, so that a chapter is also a script.

struct DemoChapters {
    /// Address of Cistern, as HOST:PORT.
    let address: String
    let samplePort: UInt16
    let controlPort: UInt16
    /// Command that runs this program.
    let program: String
    let storeDirectory: String
    /// Directory for output of the commands.
    let directory: String

    /// Chapters by their paths on the control port of the sample API.
    var all: [String: String] { ["/login": login, "/preflight": preflight, "/replay": replay] }

    var start: String {
        """

        A sample API runs on 127.0.0.1:\(samplePort), and Cistern in front of it on \(address). Paste into another terminal:

        \(Self.lines([
            ("curl -i http://\(address)/users", "a response of the API, which Cistern stores"),
            ("curl -i 'http://\(address)/posts?userId=1'", "fresh for a minute: the second time it is a hit"),
            ("curl -X POST http://\(control)/down", "takes the API down"),
            ("curl -i http://\(address)/users", "the API is down, and Cistern serves the stored response"),
            ("curl -X POST http://\(control)/up", "starts the API again"),
        ]))
        What Cistern did, and why:

        \(Self.lines([
            ("\(program) why --cache-dir \(Self.quoted(storeDirectory))", ""),
            ("curl -s http://\(address)/metrics | grep ^cistern_requests_total", ""),
        ]))
        More examples. Each of these commands prints further commands. Append | sh -v to run them:

        \(Self.lines([
            ("curl -s http://\(control)/login", "a login that refreshes"),
            ("curl -s http://\(control)/preflight", "a web app of another origin"),
            ("curl -s http://\(control)/replay", "recorded responses, without the API"),
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

    /// Extracts the token from a login's response.
    private static let token = #"sed 's/.*access_token":"//; s/".*//'"#

    private var control: String { "127.0.0.1:\(controlPort)" }

    private var login: String {
        """
        # A login that refreshes. Ada logs in, and Grace; their tokens are good for a minute.
        ADA=$(curl -s -d user=ada http://\(address)/login | \(Self.token))
        GRACE=$(curl -s -d user=grace http://\(address)/login | \(Self.token))
        # Ada's own data, which Cistern stores for her only:
        curl -si -H "Authorization: Bearer $ADA" http://\(address)/me
        # Her app gets a new token for the old one. Then the API goes down.
        ADA=$(curl -s -X POST -H "Authorization: Bearer $ADA" http://\(address)/token | \(Self.token))
        curl -s -X POST http://\(control)/down
        # The new token selects her stored response: it is signed, for the same user with the same rights (credentials.identity.jwt).
        curl -si -H "Authorization: Bearer $ADA" http://\(address)/me
        # Grace has sent no request before. She gets an error, and no data of Ada's.
        curl -si -H "Authorization: Bearer $GRACE" http://\(address)/me
        curl -s -X POST http://\(control)/up

        """
    }

    private var preflight: String {
        let origin = "-H 'Origin: \(SampleResources.appOrigin)'"
        let asking = "-H 'Access-Control-Request-Method: GET' -H 'Access-Control-Request-Headers: authorization'"
        return """
            # A web app of another origin: its browser sends a preflight request first, and then requests the data.
            curl -si -X OPTIONS \(origin) \(asking) http://\(address)/users
            curl -si \(origin) http://\(address)/users
            # The API goes down.
            curl -s -X POST http://\(control)/down
            # The preflight is still allowed, and the app may read the stored response (Access-Control-Allow-Origin).
            curl -si -X OPTIONS \(origin) \(asking) http://\(address)/users
            curl -si \(origin) http://\(address)/users
            # An origin that the API does not permit is still rejected.
            curl -si -X OPTIONS -H 'Origin: https://other.example' \(asking) http://\(address)/users
            curl -s -X POST http://\(control)/up

            """
    }

    private var replay: String {
        let archive = Self.quoted(directory + "/demo.har")
        return """
            # The responses to two requests are recorded, including the login, which must not be cached. Its token is redacted.
            \(program) record --upstream http://127.0.0.1:\(samplePort) --har \(archive) --log-level error -- sh -c 'curl -s $API_URL/users; curl -s -d user=ada $API_URL/login'
            # The API goes down, and the recording is replayed without it, as in tests and demonstrations.
            curl -s -X POST http://\(control)/down
            \(program) replay \(archive) -- sh -c 'curl -si $API_URL/users; curl -si -d user=ada $API_URL/login'
            # A request that was not recorded gets an error with the nearest recorded requests.
            \(program) replay \(archive) -- sh -c 'curl -s $API_URL/user'
            curl -s -X POST http://\(control)/up

            """
    }

    /// Quotes a word for a shell.
    static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x7a) || (0x2d...0x39).contains($0) || $0 == 0x5f }
        return isPlain && !word.isEmpty
            ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
