// Tests with the real binary that a secret field for the upstream appears nowhere else: not in responses, logs, metrics, the admin
// interface, the store, archives and recordings.

import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("Secrecy of fields for the upstream", .slow, .play)
struct UpstreamFieldsSecrecyTests {
    private static let secrets = ["tell-nobody-in-file", "tell-nobody-in-variable", "tell-nobody-literally"]
    private static let isJSON = ("Content-Type", "application/json")

    private let temporary = TestTools.temporaryDirectory()
    private let origin = ScriptedOrigin { request in
        switch request.target {
        case "/failing": [.json("{}", status: "503 Service Unavailable")]
        case "/moved": [.answer("", type: "text/plain", status: "302 Found", ["Location: /users"])]
        default: [.json("{\"id\":1}", ["Vary: X-File-Key, X-Variable, Authorization", "Cache-Control: max-age=1"])]
        }
    }

    private func configure() throws -> String {
        try TestTools.write(Self.secrets[0] + "\n", to: temporary.path + "/key")
        chmod(temporary.path + "/key", 0o600)
        let file = temporary.path + "/cistern.yaml"
        try TestTools.write(
            """
            upstream:
              url: http://127.0.0.1:\(origin.port)
              fields:
                set: {X-File-Key: "file:\(temporary.path)/key", X-Variable: "env:UPSTREAM_FIELDS_SECRECY"}
                remove: [Referer]
            store: {directory: \(temporary.path)/cache}
            log: {level: trace, access: \(temporary.path)/access.log}
            admin: {debug_fields: [why, key, mode]}
            failure: {probe: GET /health}
            routes:
              - {name: users, path: /users/**, fields: {set: {Authorization: Bearer \(Self.secrets[2])}}}
            """, to: file)
        return file
    }

    private func expectNoSecret(_ text: String, _ what: String) {
        for secret in Self.secrets where text.contains(secret) { Issue.record("\(what) contains \(secret)") }
    }

    /// Checks all files below the directory, except the one that holds the secret.
    private func expectNoSecretInFiles(_ directory: String) throws {
        let found = try CommandLineTool.run(
            program: "grep -rlaF tell-nobody \(directory) --exclude=key --exclude=cistern.yaml || true")
        #expect(found.text.isEmpty)
    }

    private func use(_ serve: RunningCommand) throws {
        let fields = [("X-File-Key", "own"), ("Authorization", "Bearer own"), ("Cistern-Why", "1"), ("Cistern-Key", "1"), ("Referer", "r")]
        for target in ["/a", "/users/1", "/failing", "/moved", "/a?api_key=x"] {
            for own in [[], fields] {
                for method in ["GET", "HEAD", "POST"] {
                    let response = try serve.request(
                        method, target, own + [Self.isJSON], content: method == "POST" ? "{}" : nil)
                    expectNoSecret("\(response.statusLine)\(response.fields)\(response.text)", "\(method) \(target)")
                }
            }
        }
        _ = try serve.request("TRACE", "/a")
    }

    @Test("serve, its pages, its commands, its log and its store contain no secret; the upstream receives all")
    func served() throws {
        let file = try configure()
        let serve = try RunningCommand(
            "serve --config \(file)", in: temporary.path, environment: ["UPSTREAM_FIELDS_SECRECY": Self.secrets[1]])
        try use(serve)
        let admin = "--admin unix:\(temporary.path)/cache/admin.sock"
        for command in [
            "ls", "why", "why --json", "status", "status --json", "upstream", "show /a", "show /users/1", "mode",
            "reload",
            "export --har \(temporary.path)/all.har",
        ] {
            expectNoSecret(try CommandLineTool.run("\(command) \(admin)").text, command)
        }
        let socket = try CommandLineTool.run(
            program: "for p in stats why entries upstream mode status; do curl -s --unix-socket \(temporary.path)/cache/admin.sock "
                + "http://a/-/$p; done; true")
        expectNoSecret(socket.text, "the admin interface")
        for page in ["/metrics", "/healthz", "/readyz"] { expectNoSecret(try serve.get(page).text, page) }
        let checked = "check --print --config \(file)"
        let printed = try CommandLineTool.run(checked, environment: "UPSTREAM_FIELDS_SECRECY=\(Self.secrets[1])")
        #expect(printed.status == 0 && printed.text.contains("\"Authorization: REDACTED\""))
        expectNoSecret(printed.text, "check --print")
        #expect(try CommandLineTool.run(checked).status == 78)
        let log = serve.stop()
        #expect(log.status == 0)
        expectNoSecret(log.text, "the log")
        try expectNoSecretInFiles(temporary.path)
        for request in origin.requests {
            #expect(request["X-File-Key"] == Self.secrets[0] && request["X-Variable"] == Self.secrets[1] && request["Referer"] == nil)
            let isUser = request.target.hasPrefix("/users")
            #expect((request["Authorization"] == "Bearer \(Self.secrets[2])") == isUser)
        }
        #expect(Set(origin.requests.map(\.target)).isSuperset(of: ["/a", "/users/1", "/health"]))
    }

    @Test("a recording, with and without --with-secrets, contains only the clients' fields")
    func recorded() throws {
        let file = try configure()
        for option in ["", "--with-secrets"] {
            let record = try RunningCommand(
                "record --config \(file) --har \(temporary.path)/api.har \(option)", in: temporary.path,
                environment: ["UPSTREAM_FIELDS_SECRECY": Self.secrets[1]])
            try use(record)
            let outcome = record.stop(SIGINT)
            #expect(outcome.status == 0)
            expectNoSecret(outcome.text, "record")
            try expectNoSecretInFiles(temporary.path)
        }
        #expect(origin.requests.allSatisfy { $0["X-File-Key"] == Self.secrets[0] })
    }

    @Test("a reload reads the file again, and keeps the former value if the file is missing or empty")
    func rotated() throws {
        let file = try configure()
        let serve = try RunningCommand(
            "serve --config \(file)", in: temporary.path, environment: ["UPSTREAM_FIELDS_SECRECY": Self.secrets[1]])
        func reload() throws -> CommandLineTool.Outcome {
            try CommandLineTool.run("reload --admin unix:\(temporary.path)/cache/admin.sock")
        }
        func sent() throws -> String? {
            _ = try serve.request("POST", "/a", [Self.isJSON], content: "{}")
            return origin.requests.last { $0.method == "POST" }?["X-File-Key"]
        }
        #expect(try sent() == Self.secrets[0])
        try TestTools.write("another key\n", to: temporary.path + "/key")
        #expect(try sent() == Self.secrets[0])
        let reloaded = try reload()
        #expect(Array(reloaded.lines.prefix(3)) == ["Changed:", "  upstream.fields.set", "  routes.users"])
        #expect(reloaded.lines.count == 4 && reloaded.text.contains("warning: upstream.fields has changed"), "\(reloaded)")
        expectNoSecret(reloaded.text, "the reload")
        #expect(try sent() == "another key")
        try TestTools.write("\n", to: temporary.path + "/key")
        let refused = try reload()
        #expect(refused.status != 0 && refused.text.contains("\(temporary.path)/key is empty"))
        #expect(try sent() == "another key")
        #expect(serve.stop().status == 0)
    }
}
