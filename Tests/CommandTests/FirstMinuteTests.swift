// The first minute with the real binary: an upstream as the argument, the settings file of the working directory, and requests on a terminal.

import CacheStore
import Glibc
import Logging
import Settings
import TestSupport
import Testing

@testable import cistern

@Suite("The first minute", .play)
struct FirstMinuteTests {
    private let directory = TestTools.temporaryDirectory()

    /// Runs a shell script in the directory, with the binary's path in BIN.
    private func run(_ script: String) throws -> CommandLineTool.Outcome {
        let unset = "unset CISTERN_CONFIG NOTIFY_SOCKET INVOCATION_ID LISTEN_PID SYSTEMD_EXEC_PID NO_COLOR"
        try TestTools.write(
            "umask 022; cd \(directory.path); \(unset); BIN=\(CommandLineTool.path)\n\(script)\n", to: directory.path + "/run.sh")
        return try CommandLineTool.run(program: "sh \(directory.path)/run.sh")
    }

    @Test("a URL, or a host and port, is the upstream, with the options of serve", arguments: ["http://127.0.0.1:", "127.0.0.1:"])
    func argument(prefix: String) throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        let command = try RunningCommand("\(prefix)\(origin.port) --cache-dir \(directory.path)/c", in: directory.path)
        #expect(try command.get("/a").status == 200)
        #expect(command.stop().status == 0 && origin.requests.map(\.target) == ["/a"])
    }

    @Test(
        "wrong arguments are refused without their secrets",
        arguments: [
            ("ftp://a.test", 78, "upstream.url has the scheme ftp"), ("http://ann:sesame@a.test", 78, "a user name or password"),
            ("localhost:70000", 78, "has a port outside 1 to 65535"), ("https://a.test?key=sesame", 78, "a query"),
            ("ann:sesame@a.test x", 64, "Unexpected argument 'x'"), ("a.test --upstream http://b.test", 64, "Give the upstream once"),
            ("stauts", 64, "did you mean cistern status?"), ("demo logn", 64, "did you mean cistern demo login?"),
            ("drill cleer", 64, "did you mean cistern drill clear?"), ("a.har", 64, "serve a recording with cistern replay"),
            ("http://a.test --listen 80800", 78, "has a port outside 0 to 65535"),
            ("drill --for 5", 64, "not 5; write 5s."), ("drill add --slow 1G", 64, "not 1G; write 1GiB."),
            ("check https://a.test --set cache.rescue_after=1h30m", 78, "give one number with one unit"),
        ])
    func refused(arguments: String, status: Int32, words: String) throws {
        let outcome = try run("$BIN \(arguments) --cache-dir \(directory.path)/c 2>&1 </dev/null || exit $?")
        if !arguments.hasPrefix("d") { #expect(outcome.status == status, "\(outcome.text)") }
        #expect(outcome.text.contains(words) && !outcome.text.contains("sesame"), "\(outcome.text)")
    }

    private let settings = "printf 'upstream: {url: \"http://127.0.0.1:1\"}\\nstore: {directory: c}\\nshards: 7\\n' > cistern.yaml\n"

    @Test(
        "cistern.yaml of the working directory is used only if no other user may change it, and nothing else is given",
        arguments: [
            ("", true, ""), ("chmod 666 cistern.yaml", false, "because it can be changed by every user"),
            ("chmod 664 cistern.yaml", false, "because it can be changed by its group"),
            ("chmod 777 .", false, "because it is in a directory that can be changed by every user"),
            ("chmod 775 .", false, "in a directory that can be changed by its group"),
            ("mv cistern.yaml x; ln -s x cistern.yaml", false, "because it is a symbolic link"),
            ("rm cistern.yaml; mkdir cistern.yaml", false, "because it is no regular file"), ("rm cistern.yaml", false, ""),
            ("export NOTIFY_SOCKET=/x", false, ""), ("export INVOCATION_ID=1", false, ""),
            ("echo 'shards: 3' > o; export CISTERN_CONFIG=o", false, ""),
        ])
    func workingDirectory(change: String, isUsed: Bool, words: String) throws {
        let outcome = try run("\(settings)\(change)\n$BIN check http://127.0.0.1:1 --print </dev/null; chmod 755 .")
        #expect(
            outcome.text.contains("shards: 7  # ./cistern.yaml:3") == isUsed || outcome.text.contains("shards: 7") == isUsed,
            "\(outcome.text)")
        #expect(words.isEmpty ? !outcome.text.contains("is not used") : outcome.text.contains(words), "\(outcome.text)")
    }

    @Test("a given file replaces that of the working directory, and the commands find its cache directory")
    func otherFile() throws {
        let given = try run(
            "\(settings)echo 'shards: 3' > other.yaml\n$BIN check http://127.0.0.1:1 --config other.yaml --print </dev/null")
        #expect(given.text.contains("shards: 3") && !given.text.contains("shards: 7"))
        #expect(try run("\(settings)$BIN ls </dev/null").text.contains("unix:c/admin.sock"))
    }

    @Test("check warns of a missing directory for ACME challenges")
    func challenges() throws {
        let challenges = "--set tls.acme_challenges=\(directory.path)"
        let missing = try run("$BIN check http://127.0.0.1:1 --cache-dir c \(challenges)/none </dev/null")
        #expect(missing.text.contains("warning: tls.acme_challenges: \(directory.path)/none cannot be read (No such file or directory)"))
        #expect(try !run("$BIN check http://127.0.0.1:1 --cache-dir c \(challenges) </dev/null").text.contains("acme_challenges"))
    }

    @Test("owner and mode decide whether another user could have written a file")
    func owners() {
        let rows: [(owner: uid_t, mode: mode_t, user: uid_t, fault: String?)] = [
            (1_000, 0o644, 1_000, nil), (0, 0o644, 1_000, nil), (0, 0o600, 0, nil), (1_001, 0o644, 1_000, "belongs to another user"),
            (1_000, 0o644, 0, "belongs to another user"), (1_000, 0o664, 1_000, "can be changed by its group"),
            (0, 0o1777, 0, "can be changed by every user"),
        ]
        for row in rows { #expect(WorkingDirectoryFile.fault(owner: row.owner, mode: row.mode, user: row.user) == row.fault) }
    }

    @Test("a process is a service by its variables, and INVOCATION_ID counts only without a terminal")
    func services() {
        let rows: [([String: String], Bool, Bool)] = [
            ([:], false, false), (["NOTIFY_SOCKET": "/x"], true, true), (["SYSTEMD_EXEC_PID": "7"], true, true),
            (["SYSTEMD_EXEC_PID": "8"], true, false), (["LISTEN_PID": "7"], true, true), (["INVOCATION_ID": "a"], true, false),
            (["INVOCATION_ID": "a"], false, true),
        ]
        for (environment, hasTerminal, isService) in rows {
            #expect(WorkingDirectoryFile.isService(environment, process: 7, hasTerminal: hasTerminal) == isService, "\(environment)")
        }
    }

    @Test("settings and the environment decide whether requests are shown, and in colour")
    func display() {
        var log = CisternSettings().log
        #expect(RequestDisplay.isWanted(log, isOutputTerminal: true))
        log.access = "stdout"
        #expect(!RequestDisplay.isWanted(log, isOutputTerminal: true) && RequestDisplay.isWanted(log, isOutputTerminal: false))
        for change in [{ $0.requests = false }, { $0.format = .json }, { $0.level = .warning }] as [(inout CisternSettings.Log) -> Void] {
            var log = CisternSettings().log
            change(&log)
            #expect(!RequestDisplay.isWanted(log, isOutputTerminal: false))
        }
        let colours: [([String: String], Bool)] = [
            (["TERM": "xterm"], true), (["TERM": "xterm", "NO_COLOR": ""], true), (["TERM": "xterm", "NO_COLOR": "1"], false),
            (["TERM": "dumb"], false), ([:], false),
        ]
        for (environment, isColoured) in colours { #expect(RequestDisplay.isColoured(environment) == isColoured, "\(environment)") }
    }

    /// What a terminal shows while requests are sent.
    private func terminal(_ origin: ScriptedOrigin, _ options: String = "", environment: String = "") throws -> String {
        try run(
            """
            mkfifo ready
            cat > play.sh <<'END'
            export TERM=xterm \(environment)
            \(CommandLineTool.path) http://127.0.0.1:\(origin.port) --listen 127.0.0.1:0 --cache-dir c --ready-fd 3 \(options) 3>ready </dev/null &
            read url < ready
            curl -s -o /dev/null "$url/users/7;sid=s3cr3t?name=s3cr3t&page=7&s3cr3t"
            curl -s -o /dev/null "$url/healthz"
            kill -INT $!
            wait
            END
            script -qec 'sh play.sh' /dev/null
            """
        ).text
    }

    @Test(
        "on a terminal each request is a coloured line without values of arguments, and own pages are omitted",
        .enabled(if: TestTools.has("script")))
    func requests() throws {
        let text = try terminal(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-store"])] })
        let lines = text.split(whereSeparator: \.isNewline).filter { $0.contains("/users") }
        #expect(lines.count == 1 && lines[0].contains(" \u{1b}[36m200 miss\u{1b}[0m"), "\(text)")
        #expect(lines.first?.contains(" GET /users/7…?name=…&page=…&… (no_store)") == true, "\(text)")
        #expect(!text.contains("s3cr3t") && !text.contains("healthz"))
    }

    @Test(
        "requests are not shown with --quiet, log.requests: off or JSON, and have no colour with NO_COLOR",
        .enabled(if: TestTools.has("script")),
        arguments: [
            ("--quiet", "", false), ("--set log.requests=off", "", false), ("--log-format json", "", false), ("", "NO_COLOR=1", true),
        ])
    func turnedOff(options: String, environment: String, isShown: Bool) throws {
        let text = try terminal(ScriptedOrigin { _ in [.json("{}")] }, options, environment: environment)
        #expect(text.contains("GET /users/7") == isShown && !text.contains("\u{1b}["), "\(text)")
    }

    @Test("without a terminal no request is shown")
    func noTerminal() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        let command = try RunningCommand("http://127.0.0.1:\(origin.port) --cache-dir \(directory.path)/c", in: directory.path)
        _ = try command.get("/users")
        #expect(!command.stop().text.contains("/users"))
    }
}
