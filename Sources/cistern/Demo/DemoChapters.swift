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
            ("curl -i http://\(address)/users", "a response of the API, kept by Cistern"),
            ("curl -i 'http://\(address)/posts?userId=1'", "fresh for a minute: the second time it is a hit"),
            ("curl -X POST http://\(control)/down", "takes the API down"),
            ("curl -i http://\(address)/users", "the API is down, and Cistern serves what it kept"),
            ("curl -X POST http://\(control)/up", "and up again"),
        ]))
        What Cistern did, and why:

        \(Self.lines([
            ("\(program) why --cache-dir \(Self.quoted(storeDirectory))", ""),
            ("curl -s http://\(address)/metrics | grep ^cistern_requests_total", ""),
        ]))
        There is more to see. Each of these shows commands, and with | sh -v behind it runs them:

        \(Self.lines([
            ("curl -s http://\(control)/login", "a login that refreshes"),
            ("curl -s http://\(control)/preflight", "a web app of another origin"),
            ("curl -s http://\(control)/replay", "what was recorded, with no API at all"),
        ]))
        Ctrl-C ends both.

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
        # Ada's own data, which Cistern keeps for her alone:
        curl -si -H "Authorization: Bearer $ADA" http://\(address)/me
        # Her app gets a new token for the old one. Then the API goes down.
        ADA=$(curl -s -X POST -H "Authorization: Bearer $ADA" http://\(address)/token | \(Self.token))
        curl -s -X POST http://\(control)/down
        # The new token brings her own copy: it is signed, and for the same user with the same rights (credentials.identity.jwt).
        curl -si -H "Authorization: Bearer $ADA" http://\(address)/me
        # Grace has not asked before. There is nothing for her, and nothing of Ada's.
        curl -si -H "Authorization: Bearer $GRACE" http://\(address)/me
        curl -s -X POST http://\(control)/up

        """
    }

    private var preflight: String {
        let origin = "-H 'Origin: \(SampleResources.appOrigin)'"
        let asking = "-H 'Access-Control-Request-Method: GET' -H 'Access-Control-Request-Headers: authorization'"
        return """
            # A web app of another origin: its browser asks first whether it may (a preflight), and then for the data.
            curl -si -X OPTIONS \(origin) \(asking) http://\(address)/users
            curl -si \(origin) http://\(address)/users
            # The API goes down.
            curl -s -X POST http://\(control)/down
            # The preflight is still allowed, and the app gets the copy and may read it (Access-Control-Allow-Origin).
            curl -si -X OPTIONS \(origin) \(asking) http://\(address)/users
            curl -si \(origin) http://\(address)/users
            # Another origin, which the API has not let in, is not let in now either.
            curl -si -X OPTIONS -H 'Origin: https://other.example' \(asking) http://\(address)/users
            curl -s -X POST http://\(control)/up

            """
    }

    private var replay: String {
        let archive = Self.quoted(directory + "/demo.har")
        return """
            # What two requests get is recorded, also what no cache may keep, such as the login: its token is covered.
            \(program) record --upstream http://127.0.0.1:\(samplePort) --har \(archive) --log-level error -- sh -c 'curl -s $API_URL/users; curl -s -d user=ada $API_URL/login'
            # The API goes down, and what was recorded is replayed without it, as tests and stands want it.
            curl -s -X POST http://\(control)/down
            \(program) replay \(archive) -- sh -c 'curl -si $API_URL/users; curl -si -d user=ada $API_URL/login'
            # What was not recorded says so, and what is near.
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
