// Tests of `cistern status` with the real binary: the sentence, and the address of the status page.

import CacheStore
import Glibc
import Reactor
import TestSupport
import Testing

@Suite("cistern status", .play)
struct StatusCommandTests {
    private let temporary = TestTools.temporaryDirectory()
    private let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }

    private func serve(_ more: String) throws -> RunningCommand {
        try RunningCommand(
            "serve --upstream http://127.0.0.1:\(origin.port) --cache-dir \(temporary.path)/cache \(more)", in: temporary.path)
    }

    private func status(_ more: String = "", environment: String = "") throws -> CommandLineTool.Outcome {
        try CommandLineTool.run("status --admin unix:\(temporary.path)/cache/admin.sock \(more)", environment: environment)
    }

    @Test("status shows the server's state and the status page's URL; --open opens it in BROWSER")
    func opened() throws {
        let serve = try serve("--set admin_listen=127.0.0.1:0")
        #expect(try serve.get("/a").status == 200)
        let said = try status()
        #expect(said.status == 0 && said.lines.first == "The upstream is up.", "\(said.text)")
        let page = said.lines[1]
        #expect(page.hasPrefix("http://127.0.0.1:") && page.hasSuffix("/-/status"))
        let (script, opened) = (temporary.path + "/browser", temporary.path + "/opened")
        try TestTools.write("#!/bin/sh\nprintf '%s' \"$*\" > \(opened)\n", to: script)
        #expect(chmod(script, 0o700) == 0)
        #expect(try status("--open", environment: "BROWSER='/nowhere/none:\(script) --new' PATH=/nowhere").status == 0)
        #expect(String(decoding: FileContent.read(opened) ?? [], as: UTF8.self) == "--new " + page)
        #expect(try status("--open", environment: "PATH=/nowhere").text == "The upstream is up.\n\(page)\n")
    }

    @Test("a retired setting takes effect, and the log warns about it at start")
    func retired() throws {
        let serve = try serve("--set admin_listen=127.0.0.1:0 --set admin.names=named.test")
        #expect(try serve.get("/a").status == 200)
        let page = try status().lines[1]
        let port = try #require(page.split(separator: ":").last.flatMap { UInt16($0.prefix { $0 != "/" }) })
        for (host, isNamed) in [("named.test", true), ("other.test", false)] {
            let shown = try #require(TestClient(port: port).get("/-/status", [("Host", host)]))
            #expect(shown.text.contains("<bdi>/a</bdi>") == isNamed)
        }
        #expect(serve.stop().text.contains("admin.names will be removed in the next version: use admin.token_file"))
    }

    @Test("without admin_listen, status prints the state, and --open fails with the reason")
    func noAddress() throws {
        let serve = try serve("")
        #expect(try serve.get("/metrics").status == 200)
        #expect(try status().text.hasPrefix("The upstream has received no request yet.\n\ncistern "))
        let opened = try status("--open")
        #expect(opened.status == 1 && opened.text.contains("admin_listen is empty"))
    }
}
