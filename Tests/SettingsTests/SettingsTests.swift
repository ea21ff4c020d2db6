// Tests of settings: layers, mistakes with their lines, and the sample file.

import Testing

@testable import Settings

private func read(_ text: String) -> SettingsReader {
    var reader = SettingsReader()
    reader.read(file: "f.yaml", text: Array(text.utf8))
    return reader
}

@Suite("Settings")
struct SettingsTests {
    @Test("values of every type are read")
    func values() {
        let reader = read(
            """
            upstream:
              url: https://api.example.com
              verify: no
              connect_timeout: 1.5s
            listen: ["127.0.0.1:1", "unix:/x"]
            store: {size: 2GiB}
            cache:
              policy: strict
            limits:
              fields: 50
            """)
        #expect(reader.mistakes.isEmpty)
        #expect(reader.settings.upstreamURL == "https://api.example.com")
        #expect(reader.settings["upstream.verify"] == "false")
        #expect(reader.settings["upstream.connect_timeout"] == "1500ms")
        #expect(reader.settings.listen == ["127.0.0.1:1", "unix:/x"])
        #expect(reader.settings.store.size == 2 << 30)
        #expect(reader.settings["cache.policy"] == "strict")
        #expect(reader.settings["limits.fields"] == "50")
    }

    @Test("all errors are reported at once, each with its line")
    func mistakes() {
        let reader = read(
            """
            upstream:
              urll: x
              verify: maybe
            listen: {a: 1}
            store:
              size: 3 apples
              size: 1GiB
            cache: 7
            nonsense: 1
            timeouts:
              head: 1w
              write: 2h
            """)
        #expect(
            reader.mistakes.map(\.description) == [
                "f.yaml:2: upstream.urll is not a setting; did you mean upstream.url?",
                "f.yaml:3: upstream.verify must be true or false, not \"maybe\"",
                "f.yaml:4: listen must be a value, not a group of settings",
                "f.yaml:6: store.size must be a size such as 8MiB, not \"3 apples\"; the unit apples is unknown: use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB",
                "f.yaml:7: store.size is set twice, first in line 6: remove one",
                "f.yaml:8: cache is a group of settings and cannot have a value; did you mean cache.mode?",
                "f.yaml:9: nonsense is not a setting",
                "f.yaml:11: timeouts.head must be a duration such as 1.5s, not \"1w\"; the unit w is unknown: use ms, s, m, h or d",
                "f.yaml:12: timeouts.write must be between 100ms and 1h, not 2h",
            ])
    }

    @Test(
        "each wrong number, size and duration gets its own hint",
        arguments: [
            (.duration, "5", "; did you mean 5s?"), (.duration, "1.5", "; did you mean 1.5s?"), (.duration, "2min", "; did you mean 2m?"),
            (.duration, "1,5s", "; did you mean 1.5s?"), (.duration, "5S", "; did you mean 5s?"),
            (.duration, "800", "; did you mean 800ms or 800s?"),
            (.duration, "-5s", "; it cannot be negative"),
            (.duration, "1h30m", "; give one number with one unit"), (.duration, "", "; it is empty"), (.duration, "soon", ""),
            (.duration, "1w", "; the unit w is unknown: use ms, s, m, h or d"),
            (.duration, "99999999999999999999d", "; the number is too large"),
            (.size, "1G", "; did you mean 1GiB?"), (.size, "10 gb", "; did you mean 10GB?"), (.size, "1.5.2MiB", ""),
            (.size, "3 apples", "; the unit apples is unknown: use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"),
            (.count, "1.5", "; it must have no fraction"), (.count, "5s", "; a unit is not possible here"), (.count, "five", ""),
            (.share, "1%", ""),
        ] as [(NumberUnit, String, String)])
    func hints(unit: NumberUnit, word: String, hint: String) {
        #expect(unit.parse(word) == nil && unit.hint(word) == hint)
    }

    @Test("a listener is one word or a mapping, and both forms are printed correctly")
    func listeners() throws {
        let reader = read("listen:\n  - http://127.0.0.1:1\n  - address: unix:/x\nadmin_listen: [{address: \":2\"}]")
        #expect(reader.mistakes.isEmpty)
        #expect(reader.settings.listen == ["http://127.0.0.1:1", "unix:/x"] && reader.settings.adminListen == [":2"])
        let setting = try #require(SettingsTable.all.first { $0.path == "listen" })
        #expect(setting.text(in: reader.settings) == #"["http://127.0.0.1:1", "unix:/x"]"#)
        #expect(
            read("listen:\n  - adress: :1\n  - [a]").mistakes.map(\.description) == [
                "f.yaml:2: listen.adress is not a setting; did you mean listen.address?",
                "f.yaml:3: listen must be a list of words or of groups of settings",
            ])
    }

    @Test(
        "unsupported YAML features are rejected",
        arguments: ["a: &x 1", "a: *x", "---\na: 1\n---\nb: 2", "a: [", "\t a: 1", "- 1", "just text"])
    func refusedForms(text: String) {
        #expect(!read(text).mistakes.isEmpty)
    }

    @Test("an empty file is valid")
    func empty() {
        #expect(read("").mistakes.isEmpty)
        #expect(read("# nothing\n").mistakes.isEmpty)
    }

    @Test("the command line overrides the environment, and the environment overrides the file")
    func layers() {
        var reader = read("log: {level: error, format: json}")
        reader.read(environment: ["CISTERN_LOG_LEVEL": "debug", "CISTERN_LISTEN": "127.0.0.1:1, 127.0.0.1:2", "HOME": "/"])
        reader.read(path: "log.level", .one("trace"), option: "--log-level")
        #expect(reader.mistakes.isEmpty)
        #expect(reader.settings["log.level"] == "trace")
        #expect(reader.settings["log.format"] == "json")
        #expect(reader.settings.listen == ["127.0.0.1:1", "127.0.0.1:2"])
    }

    @Test("a misspelt variable and an invalid option are errors")
    func otherMistakes() {
        var reader = SettingsReader()
        reader.read(environment: ["CISTERN_LOGLEVEL": "debug", "CISTERN_SHARDS": "many"])
        reader.read(path: "log.level", .one("loud"), option: "--log-level")
        #expect(
            reader.mistakes.map(\.description) == [
                "environment: CISTERN_LOGLEVEL is not the variable of a setting; did you mean CISTERN_LOG_LEVEL?",
                "environment: CISTERN_SHARDS must be a whole number, not \"many\"",
                "command line: --log-level must be one of trace, debug, info, notice, warning, error, critical, not \"loud\"",
            ])
    }

    @Test("a removed setting is reported with advice, unlike an unknown name")
    func retired() {
        var reader = read("failure:\n  rate: 50\n  recheck_limit: 30s\n  recheck_limits: 1s")
        reader.read(environment: ["CISTERN_FAILURE_RATE": "50"])
        reader.read(path: "failure.rate", .one("50"), option: "--set")
        let rate = "a path no longer counts as failing because others fail: remove the line"
        #expect(
            reader.mistakes.map(\.description) == [
                "f.yaml:2: failure.rate is no longer a setting: \(rate)",
                "f.yaml:3: failure.recheck_limit is no longer a setting: checks run at each failure.recheck: remove the line",
                "f.yaml:4: failure.recheck_limits is not a setting",
                "environment: CISTERN_FAILURE_RATE was the variable of failure.rate, which is no longer a setting: \(rate)",
                "command line: failure.rate is no longer a setting: \(rate)",
            ])
    }

    @Test("a retired setting takes effect and causes one warning with its position and replacement")
    func replaced() {
        var reader = read("admin:\n  names: [a.test]")
        let sentence = { (place: String) in
            "\(place): admin.names will be removed in the next version: use admin.token_file, whose token opens the status page under any name"
        }
        #expect(reader.mistakes == [] && reader.settings.admin.names == ["a.test"])
        #expect(reader.retirements.map(\.description) == [sentence("f.yaml:2")])
        reader.read(environment: ["CISTERN_ADMIN_NAMES": "b.test"])
        #expect(reader.settings.admin.names == ["b.test"] && reader.retirements.map(\.description) == [sentence("environment")])
        reader.read(path: "admin.names", .one("c.test"), option: "--set")
        #expect(reader.settings.admin.names == ["c.test"] && reader.retirements.map(\.description) == [sentence("command line")])
        #expect(reader.mistakes == [] && read("admin:\n  records: 7").retirements == [])
    }

    @Test("environment variables of Kubernetes services named cistern are ignored")
    func serviceLinks() {
        var reader = SettingsReader()
        reader.read(environment: [
            "CISTERN_SERVICE_HOST": "10.0.0.1", "CISTERN_SERVICE_PORT": "8080", "CISTERN_SERVICE_PORT_HTTP": "8080",
            "CISTERN_PORT": "tcp://10.0.0.1:8080", "CISTERN_PORT_8080_TCP": "tcp://10.0.0.1:8080", "CISTERN_PORT_8080_TCP_ADDR": "10.0.0.1",
            "CISTERN_PORT_8080_TCP_PORT": "8080", "CISTERN_PORT_8080_TCP_PROTO": "tcp", "CISTERN_BLUE_SERVICE_HOST": "10.0.0.2",
        ])
        #expect(reader.mistakes == [])
        reader.read(environment: ["CISTERN_PORT": "8080"])
        #expect(reader.mistakes.count == 1)
    }

    @Test("an error that involves several settings is reported at the position of the value")
    func places() {
        var reader = read("listen: [here]\nroutes:\n  - name: a\n    path: /a\n    methods: [GET]\n")
        reader.finish()
        reader.read(path: "log.access", .one(""), option: "--access-log")
        reader.add(about: "log.access", "third")
        reader.add(about: "upstream.url", "fourth")
        reader.add(about: "routes.a.methods", "second")
        reader.add(about: "listen", "first")
        #expect(
            reader.mistakesInOrder.map(\.description) == [
                "f.yaml:1: first", "f.yaml:5: second", "command line: third", "settings: fourth",
            ])
        #expect(reader.isComplete && !read("a: [").isComplete)
    }

    @Test(
        "sizes are parsed and formatted",
        arguments: [("0", 0), ("512", 512), ("64KiB", 65_536), ("1.5MiB", 1_572_864), ("1GB", 1_000_000_000)])
    func sizes(text: String, bytes: Int) {
        #expect(ByteSize.parse(text) == bytes)
        #expect(ByteSize.parse(ByteSize.format(bytes)) == bytes)
    }

    @Test(
        "durations are parsed and formatted",
        arguments: [("0", 0), ("250ms", 250), ("1.5s", 1_500), ("5m", 300_000), ("1h", 3_600_000), ("7d", 604_800_000)])
    func durations(text: String, milliseconds: Int) {
        #expect(TimeSpan.parse(text) == milliseconds)
        #expect(TimeSpan.parse(TimeSpan.format(milliseconds)) == milliseconds)
    }

    @Test(
        "ratios are parsed and formatted",
        arguments: [
            ("0", 0), ("1", 1_000_000), ("0.01", 10_000), (".5", 500_000), ("0.000001", 1), ("0.0000001", 0), ("1.25", 1_250_000),
            ("", nil), (".", nil), ("-1", nil), ("1e-2", nil), ("1%", nil), ("0x1", nil), ("1.1.1", nil), ("99999999999", nil),
            ("nan", nil),
        ] as [(String, Int?)])
    func shares(text: String, millionths: Int?) {
        #expect(Share.parse(text) == millionths)
        if let millionths { #expect(Share.parse(Share.format(millionths)) == millionths) }
    }

    @Test("a route inherits the global settings, whatever the order and layer")
    func routes() {
        var reader = read(
            """
            routes:
              - {name: users, path: /users/*, good: {must_have: [/id], shrink_limit: 50}}
              - {name: rest, path: /**, rescue_after: 0}
            cache: {rescue_after: 2s, refresh_ahead: 10}
            """)
        reader.read(path: "cache.rescue_after", .one("3s"), option: "--rescue-after")
        reader.finish()
        #expect(reader.mistakes == [])
        let routes = reader.settings.routes
        #expect(routes.map(\.name) == ["users", "rest"])
        #expect(routes.map { $0["rescue_after"] } == ["3s", "0"])
        #expect(routes.map { $0["refresh_ahead"] } == ["10", "10"])
        #expect(routes.first?.good.mustHave == ["/id"])
        #expect(routes.first?["good.shrink_limit"] == "50")
    }

    @Test("cache.policy: rfc9111 sets only values that no layer sets explicitly")
    func policy() {
        var reader = read("cache: {policy: rfc9111, set_cookie: strip, rescue_after: 2s}\nroutes: [{name: a, path: /a}]")
        reader.read(environment: ["CISTERN_CACHE_STORE": "json"])
        reader.read(path: "cache.credential_fields", .one("cookie"), option: "--set")
        reader.finish()
        #expect(reader.mistakes == [])
        let names = ["set_cookie", "store", "credential_fields", "store_errors", "entity_tags", "targeted_fields"]
        #expect(
            names.map { reader.settings["cache." + $0] } == ["strip", "json", "[\"cookie\"]", "letter", "false", "[]"])
        #expect(reader.settings.routes.map { $0["rescue_after"] } == ["2s"])
        var plain = read("cache: {policy: rfc9111}\nroutes: [{name: a, path: /a}]")
        plain.finish()
        #expect(plain.settings["cache.rescue_after"] == "0" && plain.settings.routes.map { $0["rescue_after"] } == ["0"])
        var none = read("cache: {profile: none}")
        none.finish()
        #expect(none.settings == CisternSettings())
        // Each value of the policy is valid for its setting.
        for (path, text) in StandardPolicy.values {
            var settings = CisternSettings()
            let setting = SettingsTable.all.first { $0.path == path }
            #expect(setting?.apply(text, to: &settings) == .some(nil) && settings != CisternSettings(), "\(path)")
        }
    }

    @Test("errors in routes are reported with their lines")
    func routeMistakes() {
        var reader = read(
            """
            routes:
              - path: /users
              - {name: a, path: users}
              - {name: b, path: /x*}
              - {name: c, path: /**/x}
              - {name: d, path: /d, rescue_aftr: 1s}
              - {name: d, path: /d}
              - nothing
            """)
        reader.finish()
        #expect(
            reader.mistakes.map(\.description) == [
                "f.yaml:2: a route needs a name of letters, digits, - and _",
                "f.yaml:3: route a: the path must begin with /",
                "f.yaml:4: route b: * must be a whole segment, as in /users/*",
                "f.yaml:5: route c: ** can only be the last segment",
                "f.yaml:6: routes.rescue_aftr is not a setting; did you mean routes.rescue_after?",
                "f.yaml:7: two routes have the name \"d\": rename one",
                "f.yaml:8: a route must be a group of settings with at least a name and a path",
            ])
        var wrong = read("routes: 7")
        wrong.finish()
        #expect(wrong.mistakes.map(\.description) == ["f.yaml:1: routes must be a list, each with a name and a path"])
    }

    @Test("Configuration/cistern.yaml contains every setting with its default")
    func documentedFile() throws {
        let path = String(#filePath.dropLast("Tests/SettingsTests/SettingsTests.swift".count)) + "Configuration/cistern.yaml"
        let file = try #require(TextFile.read(path))
        var reader = SettingsReader()
        reader.read(file: path, text: Array(file.utf8))
        #expect(reader.mistakes == [])
        var expected = CisternSettings()
        expected.upstreamURL = "https://api.example.com"
        #expect(reader.settings == expected)
        for setting in SettingsTable.current {
            let name = setting.path.split(separator: ".").last!
            #expect(file.contains("\(name):"), "\(setting.path) is not in the file")
            #expect(file.contains(setting.help.split(separator: " ").prefix(4).joined(separator: " ")), "\(setting.path) is not explained")
        }
        // The example route shows all of a route's settings.
        for setting in RouteTable.current {
            #expect(file.contains("# \(setting.help)"), "routes.\(setting.path) is not explained")
        }
        let apisBegin = try #require(file.firstRange(of: "# Several APIs")).lowerBound
        let apisEnd = try #require(file.firstRange(of: "apis: []\n")).upperBound
        let (apis, rest) = (file[apisBegin..<apisEnd], file[..<apisBegin] + file[apisEnd...])
        let example = rest.replacing("routes: []\n", with: "").replacing("\n# routes:", with: "\nroutes:").replacing(
            "\n#   ", with: "\n   ")
        var whole = SettingsReader()
        whole.read(file: path, text: Array(example.utf8))
        whole.finish()
        #expect(whole.mistakes == [])
        #expect(whole.settings.routes.map(\.name) == ["posts"])
        // The example API shows all settings that only APIs have.
        for setting in APITable.all.prefix(5) {
            #expect(apis.contains("# \(setting.help)"), "apis.\(setting.path) is not explained")
        }
        let several = apis.replacing("apis: []\n", with: "").replacing("\n# apis:", with: "\napis:").replacing("\n#   ", with: "\n   ")
        var read = SettingsReader()
        read.read(file: path, text: Array(several.utf8))
        read.finish()
        #expect(read.mistakes == [])
        #expect(read.settings.apis.map(\.name) == ["users"] && read.settings.apis.first?.settings["cache.rescue_after"] == "800ms")
    }

    @Test("APIs inherit the global settings, have their own settings and routes, and errors have lines")
    func apis() {
        var reader = read(
            """
            cache: {rescue_after: 2s}
            apis:
              - {name: a, upstream: "http://a.test", threshold: 3, routes: [{name: r, path: /r, rescue_after: 1s}]}
              - name: b
                upstream: [http://b.test/v1, http://c.test]
                path: /b/
                strip_path: true
                rescue_after: 800ms
            """)
        reader.finish()
        #expect(reader.mistakes == [])
        let apis = reader.settings.apis
        #expect(apis.map { $0.settings["cache.rescue_after"] } == ["2s", "800ms"])
        #expect(apis.map { $0.settings["failure.threshold"] } == ["3", "5"])
        #expect(apis.map(\.settings.upstreamURL) == ["http://a.test", "http://b.test/v1"])
        #expect(apis[0].settings.routes.map { $0["rescue_after"] } == ["1s"] && apis[1].settings.routes.isEmpty)
        var wrong = read(
            """
            apis:
              - {name: a b, upstream: "http://a.test"}
              - {name: c}
              - {name: d, upstream: "http://d.test", path: d, strip_path: true}
              - {name: d, upstream: "http://d.test", rescue_aftr: 1s}
              - 7
            """)
        wrong.finish()
        #expect(
            wrong.mistakesInOrder.map(\.description) == [
                "f.yaml:2: an API needs a name of letters, digits, - and _",
                "f.yaml:3: API c has no upstream: set it to the base URL",
                "f.yaml:4: API d: path must begin with / and have no ?, # or *, not \"d\"",
                "f.yaml:5: apis.rescue_aftr is not a setting; did you mean apis.rescue_after?",
                "f.yaml:5: two APIs have the name \"d\": rename one",
                "f.yaml:6: an API must be a group of settings with at least a name and an upstream",
            ])
    }
}
