// `cistern status` through the real binary: the sentence, where the page is, and a session by the address that --open gives.

import CSystem
import CacheStore
import Descriptors
import Glibc
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

    @Test("it says how things are and where the page is; --open gives an address that opens it, once, and a file for the browser alone")
    func opened() throws {
        let serve = try serve("--set admin_listen=127.0.0.1:0")
        #expect(try serve.get("/a").status == 200)
        let said = try status()
        #expect(said.status == 0 && said.lines.count == 2 && said.lines.first == "The upstream is up.", "\(said.text)")
        let page = try #require(said.lines.last)
        #expect(page.hasPrefix("http://127.0.0.1:") && page.hasSuffix("/-/status"))
        let port = try #require(page.split(separator: ":").last.flatMap { UInt16($0.prefix { $0 != "/" }) })
        let opened = try status("--open", environment: "XDG_RUNTIME_DIR=\(temporary.path) PATH=/nowhere")
        let url = try #require(opened.lines.last)
        #expect(opened.status == 0 && url.hasPrefix(page + "/enter?code="))
        let file = temporary.path + "/cistern-status.html"
        var facts = stat()
        #expect(stat(file, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        #expect(String(decoding: FileContent.read(file) ?? [], as: UTF8.self).contains("0;url=\(url)\""))
        let path = "/-/status/enter?code=" + url.split(separator: "=").last!
        for expected in [200, 403] as [Int] {
            let response = try #require(TestClient(port: port).get(path, [("Host", "127.0.0.1:\(port)")]))
            #expect(response.status == expected && (response["Set-Cookie"] != nil) == (expected == 200))
        }
    }

    @Test("the browser is BROWSER where that is set, without a directory of the user's own too")
    func browser() throws {
        let serve = try serve("--set admin_listen=127.0.0.1:0")
        #expect(try serve.get("/metrics").status == 200)
        let (script, opened) = (temporary.path + "/browser", temporary.path + "/opened")
        try TestTools.write("#!/bin/sh\n/bin/cat \"$2\" > \(opened)\n", to: script)
        #expect(chmod(script, 0o700) == 0)
        let said = try status("--open", environment: "BROWSER='/nowhere/none:\(script) --new' PATH=/nowhere")
        let url = try #require(said.lines.last)
        #expect(String(decoding: FileContent.read(opened) ?? [], as: UTF8.self).contains("0;url=\(url)\""))
    }

    @Test("without an address of its own there is no page to open, and the sentence is said all the same")
    func noAddress() throws {
        let serve = try serve("")
        #expect(try serve.get("/metrics").status == 200)
        #expect(try status().text == "The upstream has not been asked for anything yet.\n")
        let opened = try status("--open")
        #expect(opened.status == 1 && opened.text.contains("admin_listen is empty"))
    }
}
