// Tests of small safeguards of the admin interface and of files with secrets, with the real binary: a row for each.

import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("Access safeguards", .play)
struct AccessSafeguardTests {
    private let temporary = TestTools.temporaryDirectory()
    private var directory: String { temporary.path }

    /// A request to the admin interface, and the expected response.
    struct Row: Sendable, CustomStringConvertible {
        let description: String
        let method: String
        let target: String
        var token = "right-right-right-right-right-right"
        let status: Int
        var text = ""
    }

    private static let rows: [Row] = [
        Row(description: "a repeated prefix", method: "POST", target: "/-/purge?prefix=/a&prefix=/b", status: 400, text: "prefix"),
        Row(description: "a repeated tag", method: "POST", target: "/-/purge?tag=a&tag=a", status: 400, text: "tag"),
        Row(description: "a repeated flag", method: "POST", target: "/-/purge?all&soft=true&soft=false", status: 400, text: "soft"),
        Row(description: "an unknown parameter", method: "POST", target: "/-/purge?all&prefx=/a", status: 400, text: "prefx"),
        Row(description: "an empty parameter twice", method: "POST", target: "/-/purge?all&all", status: 400, text: "all"),
        Row(description: "a repeated filter", method: "GET", target: "/-/entries?prefix=/a&prefix=/b", status: 400),
        Row(description: "a repeated page size", method: "GET", target: "/-/why?last=1&last=2", status: 400),
        Row(description: "a repeated mode", method: "PUT", target: "/-/mode?mode=live&mode=offline", status: 400),
        Row(description: "a repeated fault", method: "POST", target: "/-/faults?path=/a&path=/b&status=500", status: 400),
        Row(description: "an unknown page", method: "GET", target: "/-/none", status: 404),
        Row(description: "a page", method: "GET", target: "/-/stats", status: 200),
        Row(description: "the description", method: "GET", target: "/-/openapi.json", status: 200),
        Row(description: "the page of the state", method: "GET", target: "/-/status", status: 200),
        Row(description: "metrics", method: "GET", target: "/metrics", status: 200),
        Row(description: "health", method: "GET", target: "/healthz", status: 200),
        Row(description: "a wrong token", method: "GET", target: "/-/stats", token: "wrong", status: 401),
        Row(description: "no token", method: "GET", target: "/-/stats", token: "", status: 401),
        Row(description: "a wrong token again", method: "POST", target: "/-/purge?all", token: "right", status: 401),
    ]

    @Test("repeated parameters are rejected, refusals are logged, responses forbid sniffing, and exposed secrets cause a warning")
    func all() throws {
        let (token, port) = ("\(directory)/token", TestTools.freePort())
        try TestTools.write(Self.rows[0].token + "\n", to: token)
        #expect(chmod(token, 0o666) == 0)
        let words =
            "--upstream http://127.0.0.1:9 --cache-dir \(directory)/cache --admin-listen 127.0.0.1:\(port) --set admin.token_file=\(token)"
        let serve = try RunningCommand("serve \(words)", in: directory)
        for row in Self.rows {
            let fields = row.token.isEmpty ? [] : [("Authorization", "Bearer \(row.token)")]
            let response = try #require(TestClient(port: port).request(row.method, row.target, fields, content: nil))
            #expect(response.status == row.status, "\(row)")
            #expect(response.text.contains(row.text), "\(row)")
            #expect(response.fields.filter { $0.name.lowercased() == "x-content-type-options" }.map(\.value) == ["nosniff"], "\(row)")
        }
        let refused = Self.rows.filter { $0.status == 401 }.count
        let metrics = try #require(TestClient(port: port).request("GET", "/metrics", [], content: nil)).text
        #expect(metrics.contains("\ncistern_admin_refused_total \(refused)\n"))
        // Errors on client addresses, from the upstream and from the parser.
        let client = try TestClient(port: serve.port)
        #expect(client.get("/a")?["X-Content-Type-Options"] == "nosniff")
        client.send("GET nonsense HTTP/1.1\r\n\r\n")
        #expect(client.readResponse()?["X-Content-Type-Options"] == "nosniff")
        let log = serve.stop().text
        let lines = log.split(separator: "\n").filter {
            $0.contains("refused a request to the admin interface from 127.0.0.1")
        }
        #expect(lines.count == 1, "\(log)")
        let warning = "admin.token_file: other users can read \(token)"
        #expect(log.contains(warning))
        #expect(try CommandLineTool.run("check \(words)").text.contains("warning: \(warning)"))
        #expect(chmod(token, 0o600) == 0)
        #expect(try !CommandLineTool.run("check \(words)").text.contains("may read"))
    }

    @Test(
        "a key file that other users can read or write causes a warning",
        arguments: [(0o600, false), (0o400, false), (0o640, geteuid() != 0), (0o644, true), (0o604, true), (0o620, true), (0o666, true)])
    func modes(mode: Int, isTold: Bool) throws {
        let certificates = try TestCertificates()
        let pair = try certificates.make("host", hosts: "DNS:a.test")
        #expect(chmod(pair.key, mode_t(mode)) == 0)
        try TestTools.write(
            """
            upstream: {url: "https://127.0.0.1:9", client_certificate: \(pair.certificate), client_key: \(pair.key)}
            listen: ["https://127.0.0.1:0"]
            tls: {certificates: [{certificate: \(pair.certificate), key: \(pair.key)}]}
            store: {directory: \(directory)/c}
            """, to: directory + "/f.yaml")
        let outcome = try CommandLineTool.run("check --config \(directory)/f.yaml")
        withExtendedLifetime(certificates) {}
        #expect(outcome.status == 0, "\(outcome.text)")
        for name in ["tls.certificates", "upstream.client_key"] {
            #expect(
                outcome.text.contains("warning: \(name): other users can read \(pair.key)") == isTold, "\(outcome.text)")
        }
    }
}
