// Tests of the machine's conditions at start, with the real binary: those that prevent it with status 78, and warnings of `check`.

import CSystem
import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("Start of the server", .play)
struct StartTests {
    private let temporary = TestTools.temporaryDirectory()
    private var directory: String { temporary.path }

    private func run(_ command: String, _ more: String, before: String = "") throws -> CommandLineTool.Outcome {
        try CommandLineTool.run(
            program: "\(before) \(CommandLineTool.path) \(command) --upstream http://127.0.0.1:9 --listen 127.0.0.1:0 \(more)")
    }

    @Test("the log states the metrics addresses, which include client listeners unless admin_listen is set", arguments: [false, true])
    func metricsAddresses(isApart: Bool) throws {
        let admin = isApart ? "--admin-listen 127.0.0.1:0" : ""
        let serve = try RunningCommand("serve --upstream http://127.0.0.1:9 --cache-dir \(directory)/cache \(admin)", in: directory)
        let lines = serve.stop().text.split(separator: "\n").filter { $0.contains("metrics (/metrics)") }
        let place = isApart ? "http://127.0.0.1:" : "unix:\(directory)/cache/admin.sock"
        #expect(lines.count == (isApart ? 1 : 2) && lines.first?.contains(place) == true, "\(lines)")
        #expect(lines.last?.contains("on the addresses of listen, because") == !isApart)
    }

    @Test("with standard descriptors closed, no store file gets descriptor 0, 1 or 2", arguments: ["2>&-", "<&- >&- 2>&-"])
    func closedStandardDescriptors(redirection: String) throws {
        let program =
            "\(CommandLineTool.path) serve --upstream http://127.0.0.1:9 --listen 127.0.0.1:0 --cache-dir \(directory)/cache --set admin.socket=off"
        let script = """
            \(program) --ready-fd 9 9>\(directory)/ready \(redirection) & process=$!
            for attempt in $(seq 200); do [ -s \(directory)/ready ] && break; sleep 0.05; done
            for number in 0 1 2; do readlink /proc/$process/fd/$number; done | grep \(directory); kill $process; wait $process
            """
        let outcome = try CommandLineTool.run(program: "sh -c '\(script)'")
        #expect(outcome.text == "", "\(outcome.text)")
        #expect(outcome.status == 0)
    }

    @Test("with too few file descriptors, serve exits with a message")
    func tooFewDescriptors() throws {
        // Other tests' descriptors may be inherited: with few left, neither the shell nor the loader of libraries works.
        let outcome = try CommandLineTool.run(
            "serve --upstream http://127.0.0.1:9 --listen 127.0.0.1:0 --cache-dir \(directory)/cache",
            environment: "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; prlimit --nofile=16")
        #expect(outcome.status == 1 && outcome.text.contains("Too many open files"), "\(outcome.text)")
    }

    // MARK: Implausible cache directories

    @Test("a cache directory that is a file or has no parent makes serve and check exit with 78")
    func impossibleDirectories() throws {
        try TestTools.write("", to: directory + "/file")
        let rows = [
            ("\(directory)/file", "cannot be used: \(directory)/file is not a directory"),
            ("\(directory)/file/below", "cannot be used: \(directory)/file is not a directory"),
            ("\(directory)/none/cache", "cannot be created: \(directory)/none does not exist"),
        ]
        for (path, sentence) in rows {
            for command in ["serve", "check"] {
                let outcome = try run(command, "--cache-dir \(path)")
                #expect(outcome.status == 78)
                #expect(outcome.lines == ["cistern: command line: store.directory: the cache directory \(path) \(sentence)"])
            }
        }
        #expect(access(directory + "/none", F_OK) != 0)
    }

    @Test("a cache directory of another user makes check exit with 78", .enabled(if: geteuid() == 0))
    func directoryOfAnotherUser() throws {
        #expect(chmod(directory, 0o755) == 0)
        #expect(mkdir(directory + "/roots", 0o755) == 0)
        #expect(mkdir(directory + "/left", 0o700) == 0 && chown(directory + "/left", 65534, 65534) == 0)
        // As left by a former run as root.
        close(csystem_open(directory + "/left/lock", O_CREAT | O_WRONLY, 0o600))
        for (name, part) in [("roots", "/roots belongs"), ("left", "/left cannot be used: \(directory)/left/lock belongs")] {
            let outcome = try run(
                "check", "--cache-dir \(directory)/\(name)", before: "setpriv --reuid 65534 --regid 65534 --clear-groups")
            #expect(outcome.status == 78)
            #expect(
                outcome.text.contains("the cache directory \(directory)\(part) to user 0, and this process runs as user 65534"),
                "\(outcome.text)")
        }
    }

    @Test("a cache directory that others own or can write to makes serve and check exit with 78")
    func unsafeDirectories() throws {
        func make(_ path: String, _ mode: mode_t = 0o700, owner: uid_t = geteuid()) {
            #expect(mkdir(directory + path, 0o700) == 0)
            #expect(chmod(directory + path, mode) == 0 && (owner == geteuid() || chown(directory + path, owner, gid_t(owner)) == 0))
        }
        var rows: [(path: String, sentence: String)] = []
        for (index, mode) in ([0o777, 0o770, 0o1777, 0o702] as [mode_t]).enumerated() {
            make("/open\(index)", mode)
            rows.append(("/open\(index)", "other users may write to \(directory)/open\(index)"))
        }
        make("/above", 0o777)
        make("/above/cache")
        rows.append(("/above/cache", "other users may write to \(directory)/above"))
        rows.append(("/above/new", "other users may write to \(directory)/above"))
        make("/planted")
        close(csystem_open(directory + "/planted/key", O_CREAT | O_WRONLY, 0o600))
        #expect(chmod(directory + "/planted/key", 0o666) == 0)
        rows.append(("/planted", "other users may write to \(directory)/planted/key"))
        if geteuid() == 0 {
            make("/anothers", owner: 65534)
            rows.append(("/anothers", "\(directory)/anothers belongs to user 65534, who could add responses"))
            make("/held", owner: 65534)
            make("/held/cache")
            rows.append(("/held/cache", "\(directory)/held belongs to user 65534"))
            make("/old")
            close(csystem_open(directory + "/old/00000001.segment", O_CREAT | O_WRONLY, 0o600))
            #expect(chown(directory + "/old/00000001.segment", 65534, 65534) == 0)
            rows.append(("/old", "00000001.segment belongs to user 65534"))
        }
        for (path, sentence) in rows {
            for command in ["serve", "check"] {
                let outcome = try run(command, "--cache-dir \(directory)\(path)")
                #expect(
                    outcome.status == 78 && outcome.text.contains("is not safe: ") && outcome.text.contains(sentence), "\(outcome.text)")
            }
        }
        #expect(access(directory + "/above/new", F_OK) != 0)
        // In a sticky directory, users cannot replace files of others.
        make("/sticky", 0o1777)
        make("/sticky/cache")
        for path in ["/sticky/cache", "/sticky/new"] { #expect(try run("check", "--cache-dir \(directory)\(path)").status == 0) }
    }

    @Test("without a home directory, serve and check exit with 78 instead of using a shared directory")
    func homeless() throws {
        for command in ["serve", "check", "serve --take-over"] {
            for home in ["-u HOME", "HOME=", "HOME=relative"] {
                let outcome = try run(command, "", before: "env -u XDG_CACHE_HOME \(home)")
                #expect(outcome.status == 78)
                #expect(
                    outcome.text.contains(
                        "store.directory is missing: neither HOME nor XDG_CACHE_HOME of the environment is an absolute path"))
            }
        }
        #expect(try run("check", "--cache-dir \(directory)/c", before: "env -u XDG_CACHE_HOME -u HOME").status == 0)
        // A command run by root looks for the installed service.
        guard access("/etc/cistern/cistern.yaml", F_OK) != 0 else { return }
        let command = try CommandLineTool.run(program: "env -u XDG_CACHE_HOME -u HOME \(CommandLineTool.path) status")
        #expect(command.status != 0 && command.text.contains("the cache directory is unknown, because neither HOME nor XDG_CACHE_HOME"))
    }

    @Test("a cache directory in use makes serve exit with 78; check only warns about it and its port")
    func lockedDirectory() throws {
        let path = directory + "/cache"
        let serve = try RunningCommand("serve --upstream http://127.0.0.1:9 --cache-dir \(path)", in: directory)
        let outcome = try run("serve", "--cache-dir \(path)")
        #expect(outcome.status == 78 && outcome.text.contains("uses the cache directory \(path)"))
        let check = try run("check", "--cache-dir \(path) --admin-listen 127.0.0.1:\(serve.port)")
        #expect(check.status == 0)
        #expect(check.text.contains("warning: store.directory: process \(serve.process) already uses the cache directory \(path)"))
        #expect(
            check.text.contains(
                "warning: cannot listen on 127.0.0.1:\(serve.port): Address already in use: if that is not process \(serve.process), serve")
        )
        #expect(serve.stop().status == 0)
        #expect(try run("check", "--cache-dir \(path)").lines == ["The settings are valid."])
    }

    @Test("check warns about a log that cannot be opened and a host name that does not resolve")
    func warnings() throws {
        let outcome = try CommandLineTool.run(
            "check --upstream http://nobody.invalid --listen 127.0.0.1:0 --cache-dir \(directory)/c --access-log \(directory)/none/log")
        #expect(outcome.status == 0)
        let sentence = "warning: log.access: \(directory)/none/log cannot be opened (No such file or directory): serve would not start"
        #expect(outcome.text.contains(sentence))
        #expect(outcome.text.contains("warning: upstream.url: the name nobody.invalid does not resolve"))
        #expect(access(directory + "/c", F_OK) != 0)
    }

    @Test("a damaged store does not prevent the start unless store.required is set", .slow)
    func requiredStore() throws {
        let path = directory + "/cache"
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        func serve(_ more: String) throws -> RunningCommand {
            try RunningCommand("serve --upstream http://127.0.0.1:\(origin.port) --cache-dir \(path) \(more)", in: directory)
        }
        let first = try serve("--set store.required=true")
        #expect(try first.get("/a").status == 200)
        #expect(first.stop().status == 0)
        #expect(unlink(path + "/key") == 0)
        let outcome = try run("serve", "--cache-dir \(path) --set store.required=true")
        #expect(outcome.status == 78)
        #expect(outcome.text.contains("so the stored responses cannot be read, and store.required is true"))
        let second = try serve("")
        #expect(try second.get("/a").status == 200)
        #expect(second.stop().status == 0)
    }

    // MARK: Other checks

    @Test("warm finds the listener from the settings of the given cache directory")
    func warm() throws {
        let outcome = try CommandLineTool.run("warm /a --cache-dir \(directory)/c", environment: "CISTERN_LISTEN=127.0.0.1:1")
        #expect(outcome.status == 1 && outcome.text.contains("/a: Connection refused"))
    }

    @Test("q ends status --watch immediately")
    func watch() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] })
        let watch = "\(CommandLineTool.path) status --watch --interval 3600 --admin unix:\(play.adminSocket)"
        #expect(try CommandLineTool.run(program: "printf q | script -qec '\(watch)' /dev/null").status == 0)
    }
}
