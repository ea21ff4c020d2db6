// Tests of `cistern purge` with the real binary: users, partitions, patterns, ages, dry runs, erasing, and mistakes.

import Glibc
import JSON
import Reactor
import ReverseProxy
import TestSupport
import Testing

@testable import CacheStore

@Suite("cistern purge", .play)
struct PurgeCommandTests {
    private let temporary = TestTools.temporaryDirectory()

    /// A tool with a proxy that has stored two targets for each of two users.
    private func tool() throws -> CommandLineTool {
        let play = try ProxyPlay(
            ScriptedOrigin { [.json("{\"of\":\"\($0["Authorization"] ?? "")\"}", ["Cache-Control: private, max-age=600"])] })
        for target in ["/orders/1/items", "/users/1"] {
            for user in ["t1", "t2"] { _ = try play.get(target, [("Authorization", "Bearer \(user)")]) }
        }
        play.flushStore()
        play.time.advance(by: .seconds(100))
        return CommandLineTool(play: play)
    }

    private func file(_ text: String) throws -> String {
        let path = temporary.path + "/credential"
        try TestTools.write(text, to: path)
        return path
    }

    private func left(_ tool: CommandLineTool) throws -> Int { try tool.run("ls --json").lines.count { $0.hasPrefix("{") } }

    @Test("a user is purged by a credential from a file, whoever may read it, or from standard input")
    func users() throws {
        let tool = try tool()
        let path = try file("t1\n")
        chmod(path, 0o644)
        let dry = try tool.run("purge --user \(path) --dry-run")
        #expect(dry.status == 0 && dry.text == "2 responses would be purged\n", "\(dry)")
        let outcome = try tool.run("purge --user \(path) --erase")
        #expect(outcome.status == 0 && outcome.lines.first == "2 responses purged", "\(outcome)")
        #expect(outcome.lines.last?.contains("bytes erased from 1 files") == true, "\(outcome)")
        let piped = try CommandLineTool.run(
            program: "printf 'Authorization: Bearer t2' | \(CommandLineTool.path) purge --user - --admin unix:\(tool.play.adminSocket)")
        #expect(piped.status == 0 && piped.text == "2 responses purged\n", "\(piped)")
        #expect(try left(tool) == 0)
    }

    @Test("a user whose partition is unknown now is reported as incomplete, with exit code 1, also in a dry run")
    func unknownUser() throws {
        let origin = ScriptedOrigin { request in
            guard request["Authorization"] != nil else { return [.json("{}", status: "401 No")] }
            return [.json("{\"id\":\"ann\"}", ["Cache-Control: private, max-age=600"])]
        }
        let play = try AdviceTrial.play("credentials: {identity: {lookup: {path: /me, identity: [/id]}}}", origin)
        let fields = [("Authorization", "Bearer t1")]
        _ = try play.get("/a", fields)
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", 1))
        for target in ["/a", "/b"] { _ = try play.get(target, fields) }
        let (tool, path) = (CommandLineTool(play: play), try file("t1"))
        // As after a crash.
        play.stop()
        unlink(play.directory + "/identities")
        try play.start()
        for arguments in ["--dry-run", ""] {
            let outcome = try tool.run("purge --user \(path) \(arguments)")
            #expect(outcome.status == 1 && outcome.text.contains("send a request with the credential"), "\(outcome)")
        }
        _ = try play.get("/a", fields)
        #expect(try play.waitFor("cistern_identity_lookups_total{result=\"told\"}", 1))
        let outcome = try tool.run("purge --user \(path)")
        #expect(outcome.status == 0 && outcome.text.hasSuffix("purged\n"), "\(outcome)")
        #expect(try left(tool) == 0)
    }

    @Test("a purge that the disk refuses is reported, with exit code 1")
    func refusedByDisk() throws {
        let error = Mutex<Int32>(0)
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }) {
            $0.store?.write = { descriptor, bytes, offset in
                let error = error.withLock { $0 }
                return error != 0 || WholeWrite.write(bytes, to: descriptor, at: offset) == bytes.count ? error : EIO
            }
        }
        _ = try play.get("/a")
        play.flushStore()
        error.withLock { $0 = EIO }
        let outcome = try CommandLineTool(play: play).run("purge /a")
        #expect(outcome.status == 1 && outcome.text.contains("purged in memory only"), "\(outcome)")
        #expect(try CommandLineTool(play: play).run("purge /a --json").text.contains("\"disk\":\"not_written\""))
        error.withLock { $0 = 0 }
    }

    @Test("a partition, a pattern and an age are combined")
    func conditions() throws {
        let tool = try tool()
        #expect(try tool.run("purge --matching '/orders/*/items' --older-than 1h").text.hasPrefix("0 responses purged"))
        #expect(try tool.run("purge --matching '/orders/*/items' --older-than 90s").text == "2 responses purged\n")
        let partition = JSONValue(Array(try tool.run("ls --json").lines[0].utf8))?["partition"]?.string ?? ""
        #expect(try tool.run("purge --partition \(partition) --prefix /users").text == "1 response purged\n")
        #expect(try left(tool) == 1)
    }

    @Test(
        "mistakes end with their exit code and a sentence, and no message contains the credential",
        arguments: [
            ("", 64, "Give --id, or --all, or one or more conditions"), ("--all --prefix /a", 64, "Give --id, or --all"),
            ("--all --soft --erase", 64, "--soft and --erase exclude each other"), ("--older-than 7", 64, "--older-than needs a duration"),
            ("--older-than 10ms", 64, "--older-than needs a duration"), ("--matching orders", 1, "the path must begin with /"),
            ("--partition xyz", 1, "partition must have 8 to 32 hexadecimal digits"), ("--user /none", 1, "/none cannot be read"),
            ("--user EMPTY", 1, "the credential is empty"), ("--user LONG", 1, "the credential is longer than 16 KiB"),
            ("--user UNKNOWN", 1, "No rule recognizes this credential"),
        ] as [(String, Int32, String)])
    func mistakes(_ row: (arguments: String, status: Int32, text: String)) throws {
        let tool = try tool()
        var arguments = row.arguments
        for (word, text) in [("EMPTY", "\n"), ("LONG", String(repeating: "s3cret", count: 4_000)), ("UNKNOWN", "X-Other: s3cret")] {
            guard let range = arguments.firstRange(of: word) else { continue }
            arguments.replaceSubrange(range, with: try file(text))
        }
        let outcome = try tool.run("purge \(arguments)")
        #expect(outcome.status == row.status && outcome.text.contains(row.text) && !outcome.text.contains("s3cret"), "\(outcome)")
        #expect(try left(tool) == 4)
    }
}
