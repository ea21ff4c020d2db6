// Tests of `cistern demo`: runs the printed commands and checks their output.

import Glibc
import TestSupport
import Testing

/// A running demo of the real binary, which ends on deinitialization.
private final class RunningDemo {
    private let pipe: UnsafeMutablePointer<FILE>
    private let process: pid_t
    private(set) var text = ""

    init() throws {
        guard let pipe = popen("echo $$; exec \(CommandLineTool.path) demo --listen 127.0.0.1:0 2>&1", "re") else {
            throw CommandLineTool.NotRun()
        }
        self.pipe = pipe
        process = pid_t(Self.line(pipe)?.dropLast() ?? "") ?? 0
        while !text.contains("Ctrl-C stops the API and Cistern."), let line = Self.line(pipe) { text += line }
    }

    deinit {
        if process > 1 { kill(process, SIGINT) }
        pclose(pipe)
    }

    private static func line(_ file: UnsafeMutablePointer<FILE>) -> String? {
        var line = [CChar](repeating: 0, count: 4_096)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        return String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Printed commands.
    var commands: [String] { text.split(separator: "\n").filter { $0.hasPrefix("  ") }.map { String($0.dropFirst(2)) } }

    /// - Parameter part: text that only the wanted command contains.
    func command(_ part: String) throws -> String { try #require(commands.first { $0.contains(part) }) }

    /// Runs commands in a shell.
    func run(_ script: String) throws -> String { try CommandLineTool.run(program: "{ \(script)\n}").text }
}

@Suite("Demo", .slow, .play, .enabled(if: TestTools.has("curl")))
struct DemoTests {
    @Test("the start text fits on a screen, and each command gives the result that its comment states")
    func start() throws {
        let demo = try RunningDemo()
        #expect(demo.text.split(separator: "\n", omittingEmptySubsequences: false).count <= 25)
        #expect(demo.commands.count == 10)
        let (users, posts) = (demo.commands[0], demo.commands[1])
        #expect(try demo.run(users).contains("fwd=uri-miss; stored"))
        #expect(try demo.run(posts + "\n" + posts).contains("cistern; hit; ttl="))
        #expect(try demo.run(demo.command("/down")).contains("The sample API is down."))
        #expect(try demo.run(demo.commands[3]).contains("detail=connection_refused"))
        #expect(try demo.run(demo.command("/up")).contains("The sample API is up."))
        #expect(try demo.run(demo.command(" why ")).contains("GET /users  200 rescued"))
        #expect(try demo.run(demo.command("/metrics")).contains("result=\"rescued\",method=\"GET\""))
    }

    @Test("the printed address has the status page, and it comes first")
    func statusPage() throws {
        let demo = try RunningDemo()
        let first = try #require(demo.text.split(separator: "\n").first)
        try #require(first.hasPrefix("Status page: http://127.0.0.1:") && first.hasSuffix("/-/status"))
        #expect(try demo.run("curl -s \(first.dropFirst("Status page: ".utf8.count))").contains("<title>"))
    }

    /// Runs an example to its end.
    private func play(_ name: String) throws -> String {
        let outcome = try CommandLineTool.run("demo \(name)")
        #expect(outcome.status == 0, "\(outcome.text)")
        return outcome.text
    }

    @Test("a refreshed token gets its user's stored response in an outage, and another user's token does not")
    func login() throws {
        let text = try play("login")
        let responses = text.components(separatedBy: "< HTTP/1.1 ").dropFirst().map(String.init)
        try #require(responses.count == 6)
        #expect(responses[2].hasPrefix("200") && responses[2].contains("stored") && responses[2].contains("\"name\":\"Ada\""))
        #expect(responses[4].hasPrefix("200") && responses[4].contains("detail=connection_refused"))
        #expect(responses[4].contains("\"name\":\"Ada\""))
        #expect(responses[5].hasPrefix("502") && !responses[5].contains("Ada\""))
    }

    @Test("preflights and requests of an allowed origin succeed before and during an outage; another origin gets no CORS fields")
    func preflight() throws {
        let text = try play("preflight")
        let responses = text.components(separatedBy: "< HTTP/1.1 ").dropFirst().map(String.init)
        try #require(responses.count == 5)
        for response in responses[..<4] {
            #expect(response.hasPrefix("200") && response.contains("Access-Control-Allow-Origin: https://app.example"))
        }
        #expect(responses[2].contains("Cache-Status: cistern; hit") && responses[3].contains("detail=connection_refused"))
        #expect(responses[4].hasPrefix("502") && !responses[4].contains("Access-Control-Allow-Origin"))
    }

    @Test("a recording is replayed while the API is down, with the login's token redacted")
    func replay() throws {
        let text = try play("replay")
        #expect(text.contains("2 exchanges recorded in demo.har"))
        let replayed = try #require(text.components(separatedBy: "The API goes down.").last)
        #expect(replayed.contains("[{\"id\":1,\"name\":\"Ada\"") && replayed.contains("{\"access_token\":\"REDACTED\""))
        #expect(replayed.contains("2 requests served, 1 without a recorded response"))
        #expect(replayed.contains("GET /user was not recorded. The most similar recorded requests are GET /users and POST /login."))
    }
}

extension String {
    fileprivate func components(separatedBy separator: String) -> [Substring] {
        split(separator: separator, omittingEmptySubsequences: false)
    }
}
