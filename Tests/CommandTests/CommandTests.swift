// Tests of the commands that query a running Cistern, with the real binary.

import Administration
import CachePolicy
import CacheStore
import Glibc
import HTTPCore
import JSON
import ReverseProxy
import Settings
import TestSupport
import Testing

@testable import cistern

@Suite("Administrative commands", .play)
struct CommandTests {
    private let play: ProxyPlay
    private let tool: CommandLineTool

    init() throws {
        play = try ProxyPlay(
            ScriptedOrigin { request in
                let fields = ["Cache-Control: max-age=60"] + (request.target.hasPrefix("/users") ? ["Cache-Tag: people"] : [])
                return [.json("{\"target\":\"\(request.target)\"}", fields)]
            })
        tool = CommandLineTool(play: play)
    }

    @Test("ls, show and purge list, display and remove stored responses")
    func entries() throws {
        for target in ["/users/1", "/users?b=2&a=1", "/posts?api_key=secret"] { _ = try play.get(target) }
        let all = try tool.run("ls")
        #expect(all.status == 0)
        #expect(all.lines.count == 4 && all.lines[0].contains("TARGET") && all.lines[1].hasSuffix("/posts?api_key=REDACTED"))
        #expect(try tool.run("ls /users/").lines.count == 2)
        #expect(try tool.run("ls --tag people --json").lines.count == 2)
        let id = try tool.run("ls --ids /posts").lines[1].prefix { $0 != " " }
        #expect(try tool.run("show --content \(id)").text == "{\"target\":\"/posts?api_key=secret\"}")
        let shown = try tool.run("show '/users?a=1&b=2'")
        #expect(shown.text.contains("lifetime 60 s - age 0 s = 60 s left: fresh") && shown.text.contains("Cache-Tag: people"))
        #expect(try tool.run("purge '/users?a=1&b=2'").text == "1 response purged\n")
        #expect(try tool.run("purge --tag people --soft").text == "1 response marked as stale\n")
        #expect(try tool.run("purge --all").text == "2 responses purged\n")
        #expect(try tool.run("ls").lines.count == 1)
    }

    @Test("ls and show display the method of a stored response if it is not GET")
    func methods() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in
                [.json("{}", ["Cache-Control: max-age=60", "Access-Control-Allow-Origin: *", "Access-Control-Allow-Methods: PUT"])]
            }
        ) { $0.otherRoute.methods = [.post] }
        let tool = CommandLineTool(play: play)
        _ = try play.get("/users")
        _ = try play.request("OPTIONS", "/users", [("Origin", "https://a.test"), ("Access-Control-Request-Method", "PUT")])
        let long = "[\(String(repeating: "1,", count: 1_000))1]"
        for content in ["[1]", long] {
            _ = try play.request("POST", "/users", [("Content-Type", "application/json")], content: content)
        }
        let rows = try tool.run("ls").lines.dropFirst().map { String($0.split(separator: "-").last ?? "").trimmingPrefix { $0 == " " } }
        #expect(rows.sorted() == ["/users", "OPTIONS /users", "POST /users", "POST /users"], "\(rows)")
        let shown = try tool.run("show /users").lines.filter { $0.hasPrefix("target ") }.map {
            $0.dropFirst("target".count).trimmingPrefix { $0 == " " }
        }
        #expect(shown.sorted() == ["/users", "OPTIONS /users", "POST /users", "POST /users"])
        let methods = try tool.run("ls --json").lines.compactMap { JSONValue(Array($0.utf8))?["method"]?.string }
        #expect(methods.sorted() == ["GET", "OPTIONS", "POST", "POST"])
    }

    @Test("an export lists further pages after a long target, and show lists every partition")
    func pages() throws {
        for number in 0...200 {
            #expect(try play.get("/0?y=\(number)" + String(repeating: "%25", count: 1_500)).status == 200)
            #expect(try play.get("/users/1", [("Authorization", "Bearer user-\(number)")]).status == 200)
        }
        #expect(try tool.run("export --har /dev/null --prefix /0").text == "201 responses written\n")
        #expect(try tool.run("show /users/1").lines.count { $0.hasPrefix("partition ") } == 201)
    }

    @Test("why explains an exchange, and mode sets the cache mode of a path prefix")
    func whyAndMode() throws {
        play.origin.react { _ in [.answer("<p>", type: "text/html")] }
        _ = try play.get("/page")
        let why = try tool.run("why")
        #expect(
            why.text.contains("GET /page  200 miss") && why.text.contains("Not stored: ") && why.text.contains("→ cache.content_types "))
        #expect(try tool.run("why --path /page --long").text.contains("upstream   status 200: "))
        #expect(try tool.run("why --path /other").status == 1)
        #expect(try tool.run("mode offline --prefix /page").lines.last?.hasSuffix("all others") == true)
        #expect(try play.get("/page").status == 504)
        #expect(try tool.run("status").lines.contains("mode         live for all paths, offline for 1 prefix (see cistern mode)"))
        #expect(try tool.run("mode --reset --prefix /page").lines == ["MODE  PATHS", "live  all"])
        #expect(try tool.run("mode nonsense").status == 64)
    }

    @Test("drill adds, lists and clears faults, and rejects invalid options", .slow)
    func drillFaults() throws {
        #expect(try tool.run("drill add --refuse").status == 1 && tool.run("drill ls").text == "no fault is injected\n")
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.admin.allowsFaults = true }
        let tool = CommandLineTool(play: play)
        let added = try tool.run("drill add --path /orders/** --delay 2s..4s --status 503 --rate 20% --for 5m")
        #expect(added.lines.count == 3 && added.lines[2].contains("/orders/**  delay 2000–4000 ms, status 503         20 %    300 s"))
        #expect(try tool.run("drill add --cut body").text.hasPrefix("fault 2 injected\n"))
        #expect(try tool.run("drill clear 1").text == "1 fault ended\n" && tool.run("drill clear").text == "1 fault ended\n")
        for wrong in [
            "", "--refuse --reset", "--delay 4s..2s", "--delay x", "--rate 0% --refuse", "--for 25h --refuse", "--slow x", "--cut head",
        ] {
            #expect(try tool.run("drill add " + wrong).status == 64, "\(wrong)")
        }
        let drill = try tool.run("drill --for 1s").lines
        #expect(drill.first == "the upstream is unreachable for /**, for 1 s" && drill.last?.hasPrefix("No request was recorded") == true)
        #expect(try tool.run("drill ls").text == "no fault is injected\n")
    }

    @Test("upstream lists remembered failures, and upstream reset removes them")
    func upstream() throws {
        #expect(try tool.run("upstream").text.hasSuffix(": unknown, not asked yet\n"))
        _ = try play.get("/users/1")
        play.origin.react { _ in [.json("{}", status: "503 No", ["Retry-After: 100"])] }
        _ = try play.get("/users/1", [("Cache-Control", "no-cache")])
        let shown = try tool.run("upstream")
        #expect(shown.text.contains(": up, last good response ") && shown.text.contains("pause:/users/1"))
        #expect(shown.text.contains("status_503") && shown.text.contains("failure.retry_after_limit"))
        #expect(shown.lines.contains { $0.hasPrefix("pause: stored responses for this client are served at once") })
        #expect(try tool.run("status").text.contains("(failing scopes: pause 1)"))
        let unknown = try tool.run("upstream reset key:/users/2")
        #expect(unknown.status == 1 && unknown.text.contains("No failing scope is called key:/users/2"))
        #expect(try tool.run("upstream reset pause:/users/1").text == "1 scope cleared\n")
        #expect(try tool.run("upstream reset").text == "0 scopes cleared\n")
    }

    @Test("an export without secrets can be imported into another cache and served offline")
    func archive() throws {
        for target in ["/users/1", "/posts?b=2&a=1", "/keys?api_key=secret"] { _ = try play.get(target) }
        _ = try play.get("/users/2", [("Authorization", "Bearer secret")])
        let file = play.directory + "/export.har"
        let exported = try tool.run("export --har \(file)")
        #expect(exported.lines.first == "3 responses written, 1 omitted:")
        #expect(exported.text.contains("1 requested with credentials; --with-partitions") && exported.text.contains("--with-secrets"))
        let archive = try tool.run("export --har -").text
        #expect(archive.contains("/posts?a=1&b=2") && archive.contains("api_key=REDACTED") && !archive.contains("Bearer"))
        let colleague = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }) { $0.mode = .offline }
        let imported = try CommandLineTool(play: colleague).run("import \(file) --origin http://127.0.0.1:\(play.origin.port)")
        #expect(imported.lines == ["2 of 3 responses stored", "  1 omitted: redacted"])
        #expect(try colleague.get("/posts?b=2&a=1").text == "{\"target\":\"/posts?b=2&a=1\"}")
        #expect(try colleague.get("/users/2").status == 504)
        let empty = try tool.run("import /dev/null")
        #expect(empty.status == 1 && empty.text.contains("/dev/null: it is not JSON: line 1, column 1"))
        try TestTools.write(#"{"log":{"entries":[{},{"request":{"method":"GET","url":"/"},"response":{"status":0}}]}}"#, to: file)
        let broken = try tool.run("import \(file)")
        #expect(
            broken.lines.contains("cistern: \(file): log.entries[0], line 1: request is missing")
                && broken.text.contains("1 omitted: malformed"))
        #expect(broken.text.contains("1 omitted: no_response (the request got no response (status 0))"))
    }

    @Test("importing a browser's archive stores cacheable responses and counts the rest by reason")
    func foreignArchive() throws {
        let entry = { (target: String, request: String, response: String) in
            #"{"request":{"method":"GET","url":"https://api.test\#(target)","headers":[\#(request)]},"response":{\#(response)}}"#
        }
        let json = #"{"name":"content-type","value":"application/json"}"#
        let coding = #"{"name":"content-encoding","value":"lzma"}"#
        let entries = [
            entry(
                "/users/9", #"{"name":":authority","value":"api.test"},{"name":"accept","value":"*/*"}"#,
                #""status":200,"headers":[\#(json),{"name":"content-encoding","value":"br"}],"#
                    + #""content":{"size":7,"text":"eyJhIjoxfQ==","encoding":"base64"}"#),
            entry("/cut", "", #""status":200,"headers":[\#(json)],"content":{"size":99,"text":"{\"a\":1}"}"#),
            entry("/file", "", #""status":200,"headers":[\#(json)],"content":{"size":9,"_file":"a.json"}"#),
            entry("/blocked", "", #""status":0,"headers":[]"#), entry("/live", "", #""status":101,"headers":[]"#),
            entry("/coded", "", #""status":200,"headers":[\#(json),\#(coding)],"content":{"text":"{}"}},"_cistern":{"coded":true"#),
        ]
        let file = play.directory + "/browser.har"
        try TestTools.write(#"{"log":{"entries":[\#(entries.joined(separator: ","))]}}"#, to: file)
        let imported = try tool.run("import \(file) --origin https://api.test")
        #expect(imported.status == 0 && imported.lines.first == "1 of 6 responses stored" && imported.lines.count == 6)
        for reason in ["content_coding", "content_elsewhere", "cut_content", "no_response", "websocket"] {
            #expect(imported.text.contains("  1 omitted: \(reason)"))
        }
        let coded = try tool.run("show /users/9 --content")
        #expect(coded.text == "{\"a\":1}")
    }

    @Test("an export that fails keeps the existing archive and leaves no other file; pipes and devices are written directly")
    func failedExport() throws {
        for number in 1...9 { _ = try play.get("/users/\(number)") }
        let directory = TestTools.temporaryDirectory()
        let file = directory.path + "/kept.har"
        try TestTools.write("kept", to: file)
        chmod(file, 0o640)
        let export = "\(CommandLineTool.path) export --admin unix:\(play.adminSocket) --har"
        let limited = try CommandLineTool.run(program: "( trap '' XFSZ; ulimit -f 1; exec \(export) \(file) )")
        #expect(limited.status == 1 && limited.text.contains("File too large"), "\(limited)")
        #expect(try String(decoding: TestTools.readBytes(file), as: UTF8.self) == "kept")
        #expect(try CommandLineTool.run(program: "ls -A \(directory.path)").text == "kept.har\n")
        #expect(symlink(file, directory.path + "/link.har") == 0)
        #expect(try CommandLineTool.run(program: "\(export) \(directory.path)/link.har").status == 0)
        let archive = String(decoding: try TestTools.readBytes(file), as: UTF8.self)
        #expect(archive.hasPrefix("{\"log\"") && archive.hasSuffix("]}}\n"))
        #expect(try CommandLineTool.run(program: "stat -c %a \(file)").text == "640\n", "the mode of the file stays")
        #expect(try CommandLineTool.run(program: "\(export) /dev/stdout").text.hasPrefix(archive.prefix(20)))
        let full = try CommandLineTool.run(program: "\(export) /dev/full")
        #expect(full.status == 1 && full.text.contains("/dev/full cannot be written: No space left on device"), "\(full)")
    }

    @Test(
        "output that cannot be written ends with code 1 and a sentence; a closed pipe ends without one",
        arguments: [
            "ls ADMIN", "ls --json ADMIN", "show /users/1 ADMIN", "status --json ADMIN", "status --watch --count 1 --interval 0.1 ADMIN",
            "why --json ADMIN", "why --follow ADMIN", "mode ADMIN", "upstream ADMIN", "advise ADMIN", "purge --all ADMIN",
            "purge --all --json ADMIN", "check --schema", "check --print --upstream http://127.0.0.1:1",
            "check --upstream http://127.0.0.1:1 --cache-dir /tmp/none", "--help", "--version", "ls --help",
        ])
    func fullOutput(_ command: String) throws {
        for number in 1...3 { _ = try play.get("/users/\(number)") }
        let line = "\(CommandLineTool.path) \(command.replacing("ADMIN", with: "--admin unix:\(play.adminSocket)"))"
        let full = try CommandLineTool.run(program: "{ \(line) 2>&1 >/dev/full; }")
        #expect(full.status == 1 && full.text.hasSuffix("cistern: standard output cannot be written: No space left on device\n"), "\(full)")
        guard !command.contains("--follow") else { return }
        let closed = try CommandLineTool.run(program: "{ \(line) | true; }")
        #expect(closed.status == 0 && !closed.text.contains("standard output"), "\(closed)")
    }

    @Test("an export of a private cache contains authenticated responses but no credentials")
    func privateRole() throws {
        let own = try ProxyPlay(ScriptedOrigin { _ in [.json("{\"me\":1}", ["Cache-Control: private, max-age=60"])] }) {
            $0.policy.isPrivate = true
        }
        _ = try own.get("/me?token=secret", [("Authorization", "Bearer secret")])
        let exported = try CommandLineTool(play: own).run("export --har -")
        #expect(exported.text.contains("{\\\"me\\\":1}") && !exported.text.contains("secret\""))
        #expect(
            exported.text.contains("1 responses written\nSecret values are written as REDACTED") && exported.text.contains("--with-secrets")
        )
        #expect(try CommandLineTool(play: own).run("export --har - --with-secrets").text.contains("token=secret"))
    }

    @Test("warm fetches paths, URLs, lists, OpenAPI documents and archives")
    func warm() throws {
        play.origin.react { request in
            [request.target == "/broken" ? .json("{}", status: "404 Not Found") : .json("{}", ["Cache-Control: max-age=60"])]
        }
        let list = play.directory + "/list.txt"
        let openAPI = play.directory + "/openapi.json"
        try TestTools.write("# a list\n/c\nhttps://api.test/d?e=f#g\n\n", to: list)
        try TestTools.write(#"{"openapi":"3.1.0","paths":{"/e":{"get":{}},"/f/{id}":{"get":{}},"/g":{"post":{}}}}"#, to: openAPI)
        let all = "warm /a 'http://x.test/b?c=d' \(list) \(openAPI) --concurrency 3 --header 'X-Test: 1'"
        #expect(try tool.run(all, proxy: true).lines == ["5 requested: 5 stored, 0 fresh already, 0 not stored, 0 failed"])
        #expect(Set(play.origin.requests.map(\.target)) == ["/a", "/b?c=d", "/c", "/d?e=f", "/e"])
        #expect(play.origin.requests.allSatisfy { $0["X-Test"] == "1" })
        #expect(try tool.run("warm /a", proxy: true).text.contains("1 fresh already"))
        let failed = try tool.run("warm /a /broken", proxy: true)
        #expect(failed.status == 1 && failed.text.contains("/broken: status 404"))
        #expect(try tool.run("warm /none.txt/../x y", proxy: true).status == 1)
        try TestTools.write("  /h  # spaces around it\n", to: list)
        #expect(try tool.run("warm \(list)", proxy: true).text.contains("1 stored"))
        try TestTools.write("/i j\n", to: list)
        #expect(try tool.run("warm \(list)", proxy: true).text.contains("percent-encode spaces"))
    }

    @Test(
        "warm skips a path of an OpenAPI document that is not valid in a request line, names it, and fetches the others",
        arguments: [#"/a HTTP/1.1\r\nHost: x\r\n\r\nDELETE /users/1"#, #"/a\nb"#, "/a b", #"/a\u0000"#, "/ä", "a"])
    func warmInvalidPath(_ path: String) throws {
        let openAPI = play.directory + "/openapi.json"
        try TestTools.write(#"{"openapi":"3.1.0","paths":{"/ok":{"get":{}},"\#(path)":{"get":{}}}}"#, to: openAPI)
        let outcome = try tool.run("warm \(openAPI) --header 'Authorization: Bearer x'", proxy: true)
        #expect(outcome.status == 1 && outcome.text.contains("skipped, because it is neither a path nor a URL"), "\(outcome)")
        #expect(outcome.text.contains("1 requested: ") && outcome.text.contains(" 0 failed; 1 skipped"), "\(outcome)")
        #expect(play.origin.requests.map(\.target) == ["/ok"])
    }

    @Test("status prints counters once, and one line per interval with --watch if there is no terminal")
    func numbers() throws {
        for _ in 0..<3 { _ = try play.get("/users/1") }
        let stats = try tool.run("status")
        #expect(stats.lines.contains { $0.hasPrefix("hit ") && $0.contains(" 2 ") })
        #expect(stats.lines.contains { $0.hasPrefix("upstream") && $0.contains("up, ") })
        #expect(!stats.text.contains("\nmode "))
        let top = try tool.run("status --watch --interval 0.1 --count 2")
        #expect(top.lines.count == 2 && top.lines.allSatisfy { $0.hasPrefix("requests=") && $0.hasSuffix("upstream=up") })
    }

    @Test(
        "an impossible or invalid command prints one sentence and sets the exit code", .slow,
        arguments: [
            ("show /none", 1, "nothing is stored for /none"), ("show xyz", 1, "32 hexadecimal digits"),
            ("purge", 64, "Give --id, or --all, or"),
            ("purge --all --tag x", 64, "Give --id, or --all, or"), ("purge --prefix users", 1, "must begin with a slash"),
            ("ls --limit 0", 64, "must be more than 0"), ("status --watch --interval 0", 64, "--interval"),
            ("mode offline --route none", 1, "No route is called none: there are no routes."),
            ("mode offline --route a --prefix /a", 64, "not both"), ("mode --route a", 64, "Give a mode for --prefix or --route"),
        ])
    func mistakes(arguments: String, status: Int32, sentence: String) throws {
        let outcome = try tool.run(arguments)
        #expect(outcome.status == status)
        #expect(outcome.text.contains(sentence))
    }

    @Test("status --check uses the listeners of the settings and never contacts the upstream")
    func health() throws {
        let check = { (arguments: String, environment: String) in
            try CommandLineTool.run("status --check \(arguments)", environment: environment).status
        }
        #expect(try check("--admin 127.0.0.1:\(play.port)", "") == 0)
        #expect(try check("", "CISTERN_LISTEN=127.0.0.1:\(play.port)") == 0)
        // The configured address is wrong, but the socket works.
        #expect(try check("", "CISTERN_LISTEN=127.0.0.1:1 CISTERN_STORE_DIRECTORY=\(play.directory)") == 0)
        #expect(try check("", "CISTERN_LISTEN=127.0.0.1:1 CISTERN_STORE_DIRECTORY=/none") == 1)
        let admin = "CISTERN_LISTEN=127.0.0.1:\(play.port) CISTERN_ADMIN_LISTEN=127.0.0.1:1 CISTERN_ADMIN_SOCKET=off"
        #expect(try check("", admin) == 1)
        #expect(try check("--admin unix:\(play.adminSocket)", admin) == 0)
        let wrong = try CommandLineTool.run("status --check --admin nonsense")
        #expect(wrong.status == 1 && wrong.text.hasPrefix("cistern: \"nonsense\" is not an address: HOST:PORT"))
        #expect(play.origin.requests.isEmpty)
    }

    @Test(
        "options and commands of other programs get a hint with the Cistern equivalent",
        arguments: [
            ("lss --json", "'lss' is not a command; did you mean cistern ls?"), ("pruge --all", "did you mean cistern purge?"),
            ("--port 80", "Unknown option '--port'; use --listen: HOST:PORT"),
            ("serve --ttl 1s", "use --set cache.freshness.default=VALUE: "),
            ("--target x", "use --upstream: "), ("--cache-path /x", "use --cache-dir"), ("--workers 4", "use --shards"),
            ("--exclude /x", "use routes.cache in the file: "), ("--user x", "'--user': start Cistern as that user"),
            ("-v", "use --version"),
            ("start", "'start' is not a command; did you mean cistern serve?"), ("statuss", "did you mean cistern status?"),
            ("ping", "did you mean cistern status --check?"),
            ("get /a", "'get' is not a command; did you mean cistern show?"),
            ("validate", "did you mean cistern check?"), ("record http://a.test --har x", "give the upstream with --upstream"),
            ("check a.yaml", "give the settings file with --config"), ("--nonsense", "Unknown option '--nonsense'\n"),
            ("xyzzy", "Unexpected argument 'xyzzy'\n"),
        ])
    func hintsForOtherTools(_ arguments: String, _ words: String) throws {
        let outcome = try CommandLineTool.run(arguments)
        #expect(outcome.status == 64 && outcome.text.contains(words) && outcome.text.contains("Usage: cistern"), "\(outcome.text)")
    }

    @Test("former command names still accept all options, and no help text mentions them")
    func formerNames() throws {
        let equal = [
            ("stats", "status"), ("stats --json", "status --json"),
            ("top --interval 0.1 --count 1", "status --watch --interval 0.1 --count 1"),
            ("fault", "drill ls"), ("fault --json", "drill ls --json"), ("fault ls", "drill ls"), ("fault clear", "drill clear"),
            ("fault add --refuse", "drill add --refuse"), ("stats nonsense", "status nonsense"),
            ("top --interval 0", "status --watch --interval 0"),
        ]
        // Numbers and units change over time.
        let words = { (arguments: String) in try tool.run(arguments).lines.map { $0.prefix { $0.isLetter || $0 == ":" || $0 == "\"" } } }
        for (former, current) in equal { #expect(try words(former) == words(current) && !words(former).isEmpty, "\(former)") }
        for address in ["--port \(play.port)", "--port=\(play.port)", "--address 127.0.0.1:\(play.port)"] {
            #expect(try CommandLineTool.run("healthcheck \(address)").status == 0)
        }
        #expect(try CommandLineTool.run("healthcheck --address 127.0.0.1:1").status == 1)
        let pages = try ["--help", "--experimental-dump-help", "status --help", "drill --help", "help top", "fault --help"].map {
            try CommandLineTool.run($0).text
        }
        for name in FormerCommands.replacements.keys {
            #expect(!UsageHint.names.contains(name))
            for page in pages {
                #expect(!page.contains("cistern \(name)") && !page.contains("\n  \(name) ") && !page.contains("\"\(name)\""))
            }
        }
        for shell in ["bash", "zsh", "fish"] {
            let script = try CommandLineTool.run("--generate-completion-script \(shell)").text
            #expect(script.contains("drill") && !script.contains("healthcheck"))
        }
    }

    @Test(
        "only the command's name is replaced, not equal words in its arguments",
        arguments: [
            (["stats", "--json"], ["status", "--json"]), (["top"], ["status", "--watch"]), (["fault"], ["drill", "ls"]),
            (["fault", "--help"], ["drill", "--help"]), (["fault", "add", "top"], ["drill", "add", "top"]),
            (["help", "top"], ["help", "status"]),
            (["show", "top"], ["show", "top"]), (["--config", "stats"], ["--config", "stats"]), ([], []),
        ])
    func replaced(arguments: [String], expected: [String]) {
        #expect(FormerCommands.replaced(arguments) == expected)
    }

    @Test("the commands and settings that usage hints name exist")
    func hintsNameExistingSettings() {
        for command in UsageHint.commands.values where command != "--version" {
            #expect(UsageHint.names.contains(String(command.prefix { $0 != " " })), "\(command)")
        }
        for setting in SettingsOptions.options.keys { #expect(SettingsTable.all.contains { $0.path == setting }) }
        #expect(["warm", "purge"].allSatisfy(UsageHint.names.contains))
    }

    @Test("commands report that no Cistern responds and suggest the likely cause")
    func notRunning() throws {
        play.stop()
        let outcome = try tool.run("ls")
        #expect(outcome.status == 1 && outcome.text.contains("no Cistern responds on unix:"))
        #expect(
            !outcome.text.contains("--admin")
                && outcome.text.hasSuffix("and that the address is in its admin_listen, or is its admin.socket\n"))
        let directory = try CommandLineTool.run("ls --cache-dir \(play.directory)/none")
        #expect(
            directory.status == 1
                && directory.text.contains("(No such file or directory): check that it is running, and that this is its cache directory"))
        let off = try CommandLineTool.run("ls", environment: "CISTERN_ADMIN_SOCKET=off")
        #expect(off.status == 1 && off.text.contains("set admin.socket or admin_listen"))
    }
}
