// Tests of `cistern reload` and SIGHUP with the real binary and a changing file.

import CacheStore
import Glibc
import JSON
import Reactor
import TestSupport
import Testing

@testable import cistern

@Suite("Reload", .play)
struct ReloadCommandTests {
    private let temporary = TestTools.temporaryDirectory()
    private let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }
    private var file: String { temporary.path + "/cistern.yaml" }

    private func write(_ more: String) throws {
        try TestTools.write(
            "upstream: {url: \"http://127.0.0.1:\(origin.port)\"}\nstore: {directory: \(temporary.path)/cache}\n\(more)", to: file)
    }

    private func serve(_ more: String = "") throws -> RunningCommand {
        try RunningCommand("serve --config \(file) --set shards=2 \(more)", in: temporary.path)
    }

    private func reload() throws -> CommandLineTool.Outcome {
        try CommandLineTool.run("reload --admin unix:\(temporary.path)/cache/admin.sock")
    }

    @Test(
        "reload distinguishes unchanged, changed and restart-only settings",
        arguments: [
            ([:], "No setting has changed.\n"), (["changed": ["a"]], "Changed:\n  a\n"),
            (["awaiting_restart": ["b"]], "These settings need a restart; nothing else has changed:\n  b\n"),
            (["changed": ["a"], "awaiting_restart": ["b"]], "Changed:\n  a\nThese settings need a restart:\n  b\n"),
        ] as [(JSONValue, String)])
    func rendered(outcome: JSONValue, text: String) { #expect(ReloadCommand.text(outcome) == text) }

    @Test(
        "reload applies changes at once, names restart-only settings, and keeps command-line values", .slow)
    func applied() throws {
        try write("forwarding: {name: first}\n")
        let serve = try serve("--set cache.rescue_after=5s")
        let kept = try TestClient(port: serve.port)
        #expect(kept.get("/a")?["Cache-Status"]?.hasPrefix("first;") == true)
        try write("forwarding: {name: second}\nshards: 5\nadmin: {records: 7}\ncache: {rescue_after: 1s}\n")
        let outcome = try reload()
        #expect(outcome.status == 0)
        #expect(
            outcome.lines == ["Changed:", "  forwarding.name", "These settings need a restart:", "  admin.records"], "\(outcome.text)")
        #expect(kept.get("/a")?["Cache-Status"]?.hasPrefix("second; hit") == true)
        #expect(try serve.get("/metrics").text.contains("cistern_settings_last_reload{result=\"restart_needed\"} 1"))
        try write("forwarding: {name: second}\n")
        #expect(try reload().text == "No setting has changed.\n")
        let log = serve.stop()
        #expect(log.status == 0 && log.text.contains("settings that need a restart: admin.records; until then the former values apply"))
    }

    @Test("a settings file that is too long or no regular file is rejected, and a later reload works")
    func unreadable() throws {
        try write("forwarding: {name: first}\n")
        let serve = try serve()
        unlink(file)
        mkfifo(file, 0o600)
        #expect(try reload().text.contains("it is not a regular file"))
        unlink(file)
        try write(String(repeating: "#\n", count: 8 << 20) + "forwarding: {name: second}\n")
        #expect(try reload().text.contains("File too large"))
        try write(String(repeating: "#\n", count: 1 << 20) + "forwarding: {name: second}\n")
        #expect(try reload().lines == ["Changed:", "  forwarding.name"])
        #expect(try serve.get("/a")["Cache-Status"]?.hasPrefix("second;") == true)
    }

    @Test("a reload with errors changes nothing and reports each line; SIGHUP applies the corrected file")
    func refused() throws {
        try write("forwarding: {name: first}\n")
        let serve = try serve()
        try write("forwarding: {name: second}\ncache:\n  rescue_afer: 1s\n  rescue_with_shared: maybe\n")
        let outcome = try reload()
        #expect(outcome.status == 1)
        for part in ["Reload rejected, settings unchanged", "\(file):5: ", "rescue_after", "\(file):6: "] {
            #expect(outcome.text.contains(part), "\(part) in \(outcome.text)")
        }
        #expect(try serve.get("/a")["Cache-Status"]?.hasPrefix("first;") == true)
        unlink(file)
        #expect(try reload().text.contains("cannot be read"))
        #expect(try serve.get("/a")["Cache-Status"]?.hasPrefix("first;") == true)
        try write("forwarding: {name: third}\nlog: {access: \(temporary.path)/access.log}\n")
        serve.send(SIGHUP)
        while try serve.get("/a")["Cache-Status"]?.hasPrefix("third;") != true {}
        let log = serve.stop()
        #expect(log.status == 0 && log.text.contains("reload rejected, settings unchanged: "))
        #expect(FileContent.read(temporary.path + "/access.log").map { String(decoding: $0, as: UTF8.self) }?.contains("/a") == true)
    }

    @Test("commands reach the process with its settings file even if that file is invalid")
    func commandsReach() throws {
        try write("")
        let serve = try serve()
        func reload(_ more: String) throws -> CommandLineTool.Outcome { try CommandLineTool.run("reload --config \(file) \(more)") }
        try write("cache: {rescue_afer: 1s}\n")
        #expect(try reload("").text.contains("Reload rejected, settings unchanged"))
        #expect(try CommandLineTool.run("status --config \(file)").status == 0)
        // The file cannot be parsed.
        try write("cache: [\n")
        let lost = try reload("")
        #expect(lost.status == 1 && lost.text.contains("\(file):"))
        #expect(lost.text.contains("give --admin or --cache-dir"))
        let health = "status --check --config \(file)"
        #expect(try CommandLineTool.run("\(health) --admin 127.0.0.1:\(serve.port)").status == 0)
        #expect(try CommandLineTool.run("\(health) --cache-dir \(temporary.path)/cache").status == 0)
        #expect(try reload("--cache-dir \(temporary.path)/cache").text.contains("Reload rejected, settings unchanged"))
        #expect(serve.stop().status == 0)
    }

    @Test("after rapid successive reloads the file's last content is in effect", .slow)
    func quickly() throws {
        try write("forwarding: {name: first}\n")
        let serve = try serve()
        for _ in 1...10 {
            try write("forwarding: {name: second}\n")
            serve.send(SIGHUP)
            try write("forwarding: {name: first}\n")
            #expect(try reload().status == 0)
            #expect(try serve.get("/a")["Cache-Status"]?.hasPrefix("first;") == true)
        }
        #expect(serve.stop().status == 0)
    }

    @Test("a log path that cannot be opened is rejected without delaying later reloads or shutdown")
    func unreadLog() throws {
        try write("")
        let (serve, pipe) = (try serve(), temporary.path + "/pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        try write("log: {access: \(pipe)}\n")
        #expect(try reload().text.contains("cannot be opened"))
        try write("forwarding: {name: second}\n")
        #expect(try reload().status == 0)
        #expect(serve.stop().status == 0)
    }
}
