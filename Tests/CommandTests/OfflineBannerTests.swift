// Runs the snippets of the guide Offline-Banner against the real binary, in each language with an installed interpreter.

import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("Offline banner guide", .slow, .play)
struct OfflineBannerTests {
    private static let ageSeconds = 7_200

    /// Runs a snippet while the upstream responds, and in an outage.
    /// - Parameters:
    ///   - program: name of the program's file.
    ///   - command: runs the file, which follows the command.
    private func play(_ language: String, _ program: String, _ command: String) throws {
        let snippet = try #require(try Guide("Offline-Banner").blocks(language).first)
        let lines = snippet.split(separator: "\n").filter { !$0.hasPrefix("import") && !$0.contains("FoundationNetworking") }
        #expect(lines.count <= 13, "The guide promises ten lines, and a request.")
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-cache", "Age: \(Self.ageSeconds)"])] }
        let (store, directory) = (TestTools.temporaryDirectory(), TestTools.temporaryDirectory())
        let serve = try RunningCommand("serve --upstream http://127.0.0.1:\(origin.port) --cache-dir \(store.path)", in: directory.path)
        defer { #expect(serve.stop().status == 0) }
        let file = directory.path + "/" + program
        try TestTools.write(snippet.replacing("127.0.0.1:8080", with: "127.0.0.1:\(serve.port)"), to: file)
        let good = try CommandLineTool.run(program: "\(command) \(file)")
        #expect(good.status == 0 && good.text.isEmpty, "\(good.text)")
        let confirmed = time(nil)
        #expect(try serve.get("/items").status == 200)
        origin.down()
        let outcome = try CommandLineTool.run(program: "\(command) \(file)")
        let times = stride(from: confirmed - Self.ageSeconds - 60, through: time(nil) - Self.ageSeconds + 60, by: 60).map(Self.clock)
        #expect(times.contains { outcome.text == "Data of \($0). The service is unreachable.\n" }, "\(outcome.text)")
    }

    /// Local time as HH:MM.
    private static func clock(_ seconds: Int) -> String {
        var (seconds, parts) = (time_t(seconds), tm())
        localtime_r(&seconds, &parts)
        let two = { (number: Int32) in (number < 10 ? "0" : "") + String(number) }
        return two(parts.tm_hour) + ":" + two(parts.tm_min)
    }

    @Test("Python", .enabled(if: TestTools.has("python3"), "python3 is not installed"))
    func python() throws { try play("python", "banner.py", "python3") }

    @Test("TypeScript, which is also JavaScript", .enabled(if: TestTools.has("node"), "node is not installed"))
    func typeScript() throws { try play("ts", "banner.mjs", "node") }

    @Test("Swift", .enabled(if: TestTools.has("swiftc"), "swiftc is not installed"))
    func swift() throws {
        try play("swift", "main.swift", "f() { test -e \"$1.out\" || swiftc -o \"$1.out\" \"$1\" && \"$1.out\"; }; f")
    }

    @Test("Kotlin", .enabled(if: TestTools.has("kotlinc") && TestTools.has("java"), "kotlinc is not installed: the snippet is not run"))
    func kotlin() throws {
        try play("kotlin", "banner.kt", "f() { kotlinc \"$1\" -include-runtime -d \"$1.jar\" 2>/dev/null && java -jar \"$1.jar\"; }; f")
    }
}
