// Tests of notifications with the real binary: `cistern notify test`, commands of a running Cistern, and mistakes in the settings.

import CacheStore
import Glibc
import JSON
import Reactor
import TestSupport
import Testing

@Suite("Notifications of the real binary", .play)
struct NotifyTests {
    private let temporary = TestTools.temporaryDirectory()
    private let origin = ScriptedOrigin { _ in [.json("1", ["Cache-Control: no-cache"])] }

    private func path(_ name: String) -> String { temporary.path + "/" + name }

    private func write(_ text: String, _ name: String, mode: mode_t = 0o600) throws {
        try TestTools.write(text, to: path(name))
        #expect(chmod(path(name), mode) == 0)
    }

    /// Writes settings with these entries of `notify`.
    private func settings(_ notify: String) throws {
        try write("upstream: {url: \"http://127.0.0.1:\(origin.port)\"}\nnotify:\n\(notify)\n", "cistern.yaml")
    }

    private func run(_ command: String) throws -> CommandLineTool.Outcome {
        try CommandLineTool.run("\(command) --config \(path("cistern.yaml"))")
    }

    private func content(_ name: String) -> String? { FileContent.read(path(name)).map { String(decoding: $0, as: UTF8.self) } }

    // MARK: cistern notify test

    @Test("notify test reports the result of each target, and never shows a URL")
    func test() throws {
        let webhook = ScriptedOrigin { request in
            request.target == "/hush" ? [.json("{}")] : [.json("{}", status: "404 None")]
        }
        try write("http://127.0.0.1:\(webhook.port)/hush\n", "good.url")
        try write("http://127.0.0.1:\(webhook.port)/hush/none", "bad.url")
        try write("#!/bin/sh\necho \"$CISTERN_EVENT for you\"\ncat > \"$0.json\"\nexit 3\n", "hook", mode: 0o700)
        try settings(
            """
              - {name: chat, url_file: \(path("good.url")), format: slack}
              - {name: ops, url_file: \(path("bad.url"))}
              - {name: pager, command: [\(path("hook"))]}
            """)
        let all = try run("notify test")
        #expect(all.status == 1)
        #expect(
            all.lines.sorted() == [
                "chat: sent", "ops: failed: the response has status 404", "pager: failed: the command ended with exit code 3",
                "test for you",
            ])
        #expect(try run("notify test chat").status == 0)
        let missing = try run("notify test none")
        #expect(missing.status == 1 && missing.text.contains("there are chat, ops, pager"))
        let value = JSONValue(FileContent.read(path("hook.json")) ?? [])
        #expect(value?["event"] == "test" && value?["version"] == 1)
        #expect(JSONValue(webhook.requests[0].content)?["text"]?.string?.hasSuffix("this is a test of the notifications") == true)
        for shown in [all.text, try run("check --print").text, try run("check").text] { #expect(!shown.contains("hush")) }
        webhook.down()
        let away = try run("notify test chat")
        #expect(away.status == 1 && away.text.hasPrefix("chat: failed: ") && !away.text.contains("hush"))
    }

    @Test("the environment of a command is minimal, and it has no other descriptors")
    func environment() throws {
        try write("#!/bin/sh\nenv | cut -d= -f1 | sort | tr '\\n' ' '\nls /proc/$$/fd | tr '\\n' ' '\n", "hook", mode: 0o700)
        try settings("  - {command: [\(path("hook"))]}")
        let outcome = try CommandLineTool.run(
            "notify test --config \(path("cistern.yaml"))", environment: "HUSH=1 LD_LIBRARY_PATH_X=1")
        #expect(outcome.status == 0)
        let names = Set(outcome.text.split(whereSeparator: \.isWhitespace).map(String.init))
        #expect(names.contains("CISTERN_EVENT") && names.contains("PATH") && !names.contains("HUSH") && !names.contains("HOME"))
        // 10 or 255 is the shell's descriptor of the script.
        #expect(names.compactMap { Int($0) }.allSatisfy { $0 <= 2 || $0 == 10 || $0 == 255 })
    }

    // MARK: A running Cistern

    /// Whether a process exists and has not ended.
    private func isRunning(_ process: Int32) -> Bool {
        let state = FileContent.read("/proc/\(process)/stat").map { String(decoding: $0, as: UTF8.self) }
        return state.map { !$0.contains(") Z ") } ?? false
    }

    @Test("an outage runs the command; one that hangs is killed with its children, reaped, and delays no request", .slow)
    func outage() throws {
        try write("#!/bin/sh\ncat >> \"$0.json\"\n", "quick", mode: 0o700)
        try write("#!/bin/sh\nsleep 300 &\necho $! > \"$0.child\"\necho $$ > \"$0.pid\"\nwait\n", "slow", mode: 0o700)
        try settings(
            """
              - {name: quick, command: [\(path("quick")), -x, "a b"]}
              - {name: slow, command: [\(path("slow"))], timeout: 200ms, events: [upstream_down]}
            """)
        let serve = try RunningCommand("serve --config \(path("cistern.yaml")) --cache-dir \(path("cache"))", in: temporary.path)
        for number in 1...6 { _ = try serve.get("/\(number)") }
        origin.down()
        for number in 1...6 { _ = try serve.get("/\(number)") }
        #expect(try eventually { content("quick.json")?.contains("upstream_down") == true })
        #expect(try eventually { try serve.get("/metrics").text.contains("cistern_notifications_waiting{target=\"slow\"} 1") })
        let numbers = try ["slow.child", "slow.pid"].map { name in
            #expect(try eventually { content(name)?.hasSuffix("\n") == true })
            return try #require(Int32((content(name) ?? "").prefix { $0.isNumber }))
        }
        #expect(try eventually { numbers.allSatisfy { !isRunning($0) } })
        // Reaped.
        #expect(try eventually { FileContent.read("/proc/\(numbers[1])/stat") == nil })
        #expect(try eventually { serve.text.contains("notifications to slow cannot be delivered: the command was killed") })
        for line in (content("quick.json") ?? "").split(separator: "\n") { #expect(JSONValue(Array(line.utf8))?["event"] != nil) }
        #expect(serve.stop().status == 0)
    }

    // MARK: Mistakes

    @Test(
        "each mistake has its own sentence",
        arguments: [
            ("{name: a}", "notify: a: set either url_file or command"),
            ("{name: a, url_file: https://hooks.example.com/x}", "url_file must be the path of a file that contains the URL"),
            ("{name: a, url_file: DIR/none}", "notify: a: url_file: DIR/none cannot be read: No such file or directory"),
            ("{name: a, url_file: DIR/word}", "url_file: DIR/word must contain one http or https URL without user and fragment"),
            ("{name: a, url_file: DIR/user}", "url_file: DIR/user must contain one http or https URL without user and fragment"),
            ("{name: a, url_file: DIR/url, secret_file: DIR/short}", "DIR/short must contain one word of at least 16 characters"),
            ("{name: a, url_file: DIR/url, events: [up]}", "notify: a: event \"up\" is none of upstream_down, upstream_up"),
            ("{name: a, url_file: DIR/url, apis: [x]}", "notify: a: api \"x\" is none of the apis: there is only one, without a name"),
            ("{name: a b, url_file: DIR/url}", "name must be letters, digits, - and _, not \"a b\""),
            ("{name: a, command: [logger]}", "command must begin with the absolute path of a program, not \"logger\""),
            ("{name: a, command: [/nowhere/x]}", "command: /nowhere/x cannot be run: No such file or directory"),
            ("{name: a, command: [/bin/true], token_file: DIR/url}", "token_file is for webhooks only, not for a command"),
            ("{name: a, command: [/bin/true], timeout: 2m}", "notify.timeout must be between 100ms and 1m, not 2m"),
            ("DIR/url\n  - DIR/url", "notify: two targets have the name webhook: set a name for each"),
        ])
    func mistakes(_ entry: String, _ sentence: String) throws {
        try write("https://hooks.example.com/hush?x=hush", "url")
        try write("hush hush", "word")
        try write("https://hush:hush@hooks.example.com/", "user")
        try write("hush", "short")
        try settings("  - " + entry.replacing("DIR", with: temporary.path))
        let outcome = try run("check")
        #expect(outcome.status == 78 && !outcome.text.contains("hush"))
        #expect(outcome.text.contains(sentence.replacing("DIR", with: temporary.path)), "\(outcome.text)")
    }

    @Test("check warns about a file with a URL that others can read")
    func open() throws {
        try write("https://hooks.example.com/hush", "url", mode: 0o644)
        try settings("  - \(path("url"))")
        let outcome = try run("check")
        #expect(outcome.status == 0 && outcome.text.contains("notify: webhook: url_file: other users can read \(path("url"))"))
    }
}
