// Tests of messages about unusable files and directories: each contains the path and the operating system's error text.

import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("File error messages", .slow)
struct FileMessagesTests {
    /// Root may read all files, so the commands run as another user.
    private static let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"

    /// A directory with a file, both accessible to root only.
    private struct Closed: ~Copyable {
        let directory = TestTools.temporaryDirectory()
        var path: String { directory.path }
        var file: String { path + "/closed" }

        init() throws {
            try TestTools.write("upstream: {url: \"http://a.test\"}\n", to: file)
            chmod(file, 0o600)
            mkdir(path + "/inner", 0o700)
            chmod(path, 0o755)
        }
    }

    private func run(_ arguments: String) throws -> CommandLineTool.Outcome {
        try CommandLineTool.run(program: "XDG_CACHE_HOME=/tmp \(Self.nobody) \(CommandLineTool.path) \(arguments)")
    }

    @Test(
        "a setting with an unreadable file is reported with permission denied",
        .enabled(if: geteuid() == 0),
        arguments: [
            "upstream.ca_file", "upstream.client_key", "admin.token_file", "tls.certificates", "share.secret_file", "share.password_file",
            "credentials.identity.jwt.keys", "share.tls.ca_file",
        ])
    func settings(_ setting: String) throws {
        let closed = try Closed()
        let outcome = try run("check --upstream http://a.test --set share.servers=redis://a --set \(setting)=\(closed.file)")
        let line = outcome.lines.first { $0.contains("\(setting)") && $0.contains(closed.file) }
        // The keys may also be at a URL.
        let reason = setting == "credentials.identity.jwt.keys" ? "cannot be read as a file" : "cannot be read"
        #expect(outcome.status == 78 && line?.hasSuffix(" \(reason): Permission denied") == true, "\(outcome.text)")
        #expect(!outcome.text.contains("\(closed.file) cannot be read: No such file"))
    }

    @Test("commands report permission denied for settings, token, archive and list files", .enabled(if: geteuid() == 0))
    func commands() throws {
        let closed = try Closed()
        for (command, words) in [
            ("check --config \(closed.file)", "\(closed.file): cannot be read: Permission denied"),
            ("ls --config \(closed.file)", "\(closed.file) cannot be read: Permission denied"),
            ("ls --token-file \(closed.file) --admin 127.0.0.1:1", "\(closed.file) cannot be read: Permission denied"),
            ("warm \(closed.file)", "cannot be read as a file: Permission denied"),
            ("replay \(closed.file)", "\(closed.file): Permission denied"),
            ("import \(closed.file) --admin 127.0.0.1:1", "\(closed.file): Permission denied"),
        ] {
            let outcome = try run(command)
            #expect(outcome.status != 0 && outcome.text.contains(words), "\(command): \(outcome.text)")
        }
    }

    @Test("a cache directory that cannot be created or read is reported with permission denied", .enabled(if: geteuid() == 0))
    func cacheDirectory() throws {
        let closed = try Closed()
        for directory in ["\(closed.path)/inner/cache", "\(closed.path)/cache"] {
            let outcome = try run("check --upstream http://127.0.0.1:1 --cache-dir \(directory)")
            #expect(outcome.text.contains("\(directory) cannot be written to (Permission denied)"), "\(outcome.text)")
        }
        let made = try run("serve --upstream http://127.0.0.1:1 --tls-self-signed --cache-dir \(closed.path)/cache")
        #expect(made.status == 78 && made.text.contains("cannot be written: Permission denied"), "\(made.text)")
    }

    @Test("a token file without a valid token is reported with the required format")
    func token() throws {
        let closed = try Closed()
        let outcome = try CommandLineTool.run("ls --token-file \(closed.file) --admin 127.0.0.1:1")
        #expect(
            outcome.status == 1
                && outcome.text.contains("\(closed.file) contains no token: it must contain one word of at least 16 letters and digits"))
    }
}
