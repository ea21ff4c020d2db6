// Tests of `cistern check` with the real binary: reports all mistakes with their sources, and starts nothing.

import CacheStore
import Settings
import TestSupport
import Testing

@Suite("cistern check", .slow)
struct CheckTests {
    private func check(_ file: String, _ more: String = "", environment: String = "") throws -> CommandLineTool.Outcome {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/f.yaml"
        try TestTools.write(file, to: path)
        let outcome = try CommandLineTool.run("check --config \(path) \(more)", environment: environment)
        withExtendedLifetime(directory) {}
        // StartTests covers warnings that depend on the machine.
        let text = outcome.text.split(separator: "\n", omittingEmptySubsequences: false).filter { line in
            !["store.directory:", "cannot listen", "upstream.url: the name"].contains { line.hasPrefix("warning: \($0)") }
        }.joined(separator: "\n")
        return .init(status: outcome.status, text: text.replacing("cistern: \(path):", with: "").replacing("cistern: ", with: ""))
    }

    @Test("errors that involve several settings have line numbers and follow the order of the file")
    func lines() throws {
        let outcome = try check(
            """
            upstream:
              url: ftp://x
              client_key: /none
            listen: [example, ":8080", "0.0.0.0:8080"]
            cache:
              policy: loose
              content_types: [json]
            routes:
              - name: a
                path: /a
                methods: [GET]
                good:
                  must_have: [x]
            log: {access: ""}
            limits: {request_buffers: 1KiB}
            tracing: {endpoint: "collector:4318", sample: 1.5, service_name: ""}
            """, "--set forwarding.name='a b' --admin-listen :8080", environment: "CISTERN_FAILURE_PROBE_PATH=x")
        #expect(outcome.status == 78)
        #expect(
            outcome.lines == [
                #"2: upstream.url has the scheme ftp, but only http and https are possible: "ftp://x""#,
                "3: upstream.client_certificate and upstream.client_key must both be set",
                "3: upstream.client_key: /none cannot be read: No such file or directory",
                "4: listen: \"example\" is not an address: HOST:PORT, [IPV6]:PORT, :PORT, unix:/path or systemd:NAME, with numbers for hosts",
                "4: listen: 0.0.0.0:8080 is listed twice", #"6: cache.policy must be one of rescue, strict, rfc9111, not "loose""#,
                #"7: cache.content_types: "json" is not type/subtype, +suffix or *"#,
                #"11: route a: methods can be POST and QUERY, not "GET""#,
                #"13: route a: "x" is not a JSON Pointer, such as /items/0/id"#, "14: log.access must be off, stdout or a file",
                "15: limits.request_buffers, for all requests, must not be less than limits.request_buffer, for one request",
                "16: tracing.sample must be between 0 and 1, not 1.5",
                "16: tracing.endpoint must be an http or https URL, such as http://127.0.0.1:4318",
                "16: tracing.service_name must not be empty",
                "command line: admin_listen: 0.0.0.0:8080 is listed twice",
                "command line: forwarding.name must be one word of letters, digits, - and _",
                #"environment, CISTERN_FAILURE_PROBE_PATH: failure.probe must be \#(HealthCheckText.form), not "GET x 200 every 10s""#,
            ])
    }

    @Test("a retired setting is accepted, and a warning names its replacement")
    func retired() throws {
        let outcome = try check("upstream: {url: \"http://127.0.0.1:1\"}\nadmin:\n  names: [a.test]")
        #expect(outcome.status == 0 && outcome.lines.last == "The settings are valid.")
        let warnings = outcome.lines.filter { $0.contains("admin.names") }
        #expect(warnings.count == 1 && warnings.first?.hasPrefix("warning: ") == true)
        #expect(
            warnings.first?.hasSuffix(
                ":3: admin.names will be removed in the next version: use admin.token_file, whose token opens the status page under any name"
            )
                == true)
    }

    @Test(
        "an upstream address that equals a listener is rejected as a loop in every notation",
        arguments: [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", true), ("http://localhost:8080/api", "127.0.0.1:8080", true),
            ("http://LOCALHOST:8080", ":8080", true), ("http://127.0.0.7:8080", "0.0.0.0:8080", true),
            ("https://[::1]:8443", "[::]:8443", true),
            ("http://localhost:8080", "[::1]:8080", true), ("http://10.0.0.1:8080", "10.0.0.1:8080", true),
            ("http://127.0.0.1:8081", "127.0.0.1:8080", false), ("http://127.0.0.2:8080", "127.0.0.1:8080", false),
            ("http://api.example.com:8080", ":8080", false), ("http://10.0.0.2:8080", "10.0.0.1:8080", false),
        ])
    func loop(upstream: String, listen: String, isLoop: Bool) throws {
        let outcome = try check("upstream: {url: \"\(upstream)\"}\nlisten: \"\(listen)\"")
        #expect(outcome.text.contains("so requests would loop: set the API's address") == isLoop, "\(outcome.text)")
        #expect(isLoop ? outcome.status == 78 : outcome.status == 0)
    }

    @Test(
        "an upstream that resolves to a listener's address causes a loop warning",
        arguments: [
            ("http://127.1:8080", "127.0.0.1:8080", true), ("http://[::ffff:127.0.0.1]:8080", "127.0.0.1:8080", true),
            ("http://0177.0.0.1:8080", ":8080", true), ("http://127.1:8081", "127.0.0.1:8080", false),
            ("http://127.2:8080", "127.0.0.1:8080", false), ("http://192.0.2.77:8080", ":8080", false),
        ])
    func resolvedLoop(upstream: String, listen: String, isLoop: Bool) throws {
        let outcome = try check("upstream: {url: \"\(upstream)\"}\nlisten: \"\(listen)\"")
        #expect(outcome.status == 0 && outcome.text.contains("warning: upstream.url: ") == isLoop, "\(outcome.text)")
        #expect(outcome.text.contains("so requests would loop: set the API's address") == isLoop)
    }

    @Test("a Unix socket that is both upstream and listener is rejected as a loop")
    func socketLoop() throws {
        let outcome = try check("upstream: {url: \"http://a\", unix_socket: /tmp/c.sock}\nlisten: \"unix:/tmp/c.sock\"")
        #expect(
            outcome.lines == [
                "1: upstream.unix_socket: Cistern itself listens on unix:/tmp/c.sock, so requests would loop: set the API's address"
            ])
    }

    @Test("a Unix socket path of more than 107 bytes is rejected with its length and the limit")
    func longSocketPath() throws {
        let path = "/" + String(repeating: "x", count: 107)
        let outcome = try check("upstream: {url: \"http://a.test\"}\nlisten: \"unix:\(path)\"")
        #expect(outcome.lines.first == "2: listen: the path of a Unix socket can have at most 107 bytes, but \(path) has 108")
        let upstream = try check("upstream: {url: \"http://a.test\", unix_socket: \(path)}")
        #expect(upstream.lines == ["1: upstream.unix_socket: the path of a Unix socket can have at most 107 bytes, but \(path) has 108"])
        let command = try CommandLineTool.run("status --admin unix:\(path)")
        #expect(command.text.contains("the path of a Unix socket can have at most 107 bytes, but \(path) has 108"))
        let admin = try check("upstream: {url: \"http://a.test\"}\nadmin: {socket: \(path)}")
        #expect(
            admin.lines == [
                "2: admin.socket: the path of a Unix socket can have at most 107 bytes, but \(path) has 108; set admin.socket to a shorter path, or to off"
            ])
    }

    @Test(
        "a value with a missing or wrong unit, scheme or port gets a suggestion",
        arguments: [
            ("upstream: {url: \"localhost:8080\"}", "has no scheme: \"localhost:8080\"; did you mean http://localhost:8080?"),
            ("listen: \"8080\"", "; did you mean :8080?"), ("listen: 127.0.0.1", "has no port; did you mean 127.0.0.1:8080?"),
            ("cache: {rescue_after: 5}", "not \"5\"; did you mean 5s?"), ("cache: {rescue_after: 2min}", "; did you mean 2m?"),
            ("store: {size: 10G}", "not \"10G\"; did you mean 10GiB?"), ("store: {size: 10 gb}", "; did you mean 10GB?"),
        ])
    func units(_ text: String, _ words: String) throws {
        let outcome = try check(text)
        #expect(outcome.status == 78 && outcome.text.contains(words), "\(outcome.text)")
    }

    @Test("a trailing carriage return in an environment variable is reported and never printed")
    func carriageReturn() throws {
        let outcome = try check("listen: \":8080\"", environment: "CISTERN_UPSTREAM_URL=\"$(printf 'http://a.test\\r')\"")
        #expect(
            outcome.text.contains(
                "environment: CISTERN_UPSTREAM_URL has a carriage return at its end, as in files with Windows line ends: remove it"))
        #expect(!outcome.text.contains("\r"))
    }

    @Test(
        "error messages do not repeat secrets in URLs",
        arguments: [
            "http://ann:sesame@a.test", "https://ann:se/sa:me@a.test/x", "http://a.test?api_key=sesame",
            "http://ann:sesame@a.test/p?api_key=sesame",
        ])
    func secrets(url: String) throws {
        for file in ["upstream: {url: \"\(url)\"}", "upstream: {url: \"http://a.test\"}\nlisten: \"\(url)\""] {
            let outcome = try check(file, "--set '\(url)'")
            #expect(outcome.status == 78 && outcome.text.contains("://"))
            for secret in ["sesame", "sa:me", "ann"] { #expect(!outcome.text.contains(secret), "\(outcome.text)") }
        }
    }

    @Test("error messages hide secrets in malformed URLs and in --admin URLs")
    func strangeSecrets() throws {
        for url in ["ann:sesame@a.test:80", "http://ann:ses ame@a.test", "a.test/p?api_key=sesame"] {
            let outcome = try check("upstream: {url: \"\(url)\"}")
            #expect(outcome.status == 78 && outcome.text.contains("a.test") && outcome.text.contains("…"), "\(outcome.text)")
            for secret in ["sesame", "ses ame", "ann"] { #expect(!outcome.text.contains(secret), "\(outcome.text)") }
        }
        let command = try CommandLineTool.run("status --admin http://ann:sesame@127.0.0.1:1")
        #expect(command.status != 0 && !command.text.contains("sesame"))
    }

    @Test("check reports APIs that no request can reach and ambiguous API addresses")
    func apis() throws {
        let outcome = try check(
            """
            forwarding: {names: [a.test, "*.a.test"]}
            apis:
              - {name: a, host: [a.test, "A.TEST.", "*.a.test"], upstream: "http://127.0.0.1:1"}
              - {name: b, host: a.test, upstream: "http://127.0.0.1:1"}
              - {name: port, host: "a.test:8443", upstream: "http://127.0.0.1:1"}
              - name: c
                host: c.test
                path: /c/
                upstream: http://127.0.0.1:1
                routes:
                  - {name: in, path: "/c/big/**"}
                  - name: out
                    path: /big/**
                  - {name: all, path: "/**"}
              - {name: left, path: /left, upstream: "http://127.0.0.1:1"}
              - {name: socket, host: d.test, upstream: ["http://127.0.0.1:1", "http://127.0.0.1:2"], unix_socket: /s}
              - {name: proxied, host: e.test, upstream: ["https://127.0.0.1:1", "http://127.0.0.1:2"], proxy: "http://127.0.0.1:3"}
              - {name: tunnel, host: f.test, upstream: ["https://127.0.0.1:1", "https://127.0.0.1:2"], proxy: "http://127.0.0.1:3"}
              - {name: socks, host: g.test, upstream: ["http://127.0.0.1:1", "http://127.0.0.1:2"], proxy: "socks5://127.0.0.1:3"}
              - {name: twice, host: h.test, upstream: ["http://127.0.0.1:1", "http://127.0.0.1:1"]}
            """)
        #expect(outcome.status == 78)
        #expect(
            outcome.lines == [
                "3: API a: host names A.TEST. twice",
                "4: API b: a has the same host and path, so no request for a.test would reach this API: change one of them",
                "13: API c: route out: /big/** is outside the API's path /c/, so no request would match it: "
                    + "a route's path must begin with the API's path",
                "15: API left gets no requests: it has no host, and other APIs have all hosts of forwarding.names",
                "16: API socket: upstream.unix_socket connects to a single upstream: give one URL",
                "17: API proxied: failover does not work for http URLs through an http forward proxy, because the proxy answers "
                    + "for an unreachable upstream: use https URLs or a socks proxy",
                "20: API twice: upstream names http://127.0.0.1:1 twice",
            ])
    }

    @Test("a forward proxy needs forwarding.names if client paths differ from upstream paths")
    func forwardProxy() throws {
        let reason =
            "because its paths differ from the upstream's, so the upstream's host name cannot identify it"
        let on = "forwarding: {forward_proxy: true}"
        #expect(
            try check("\(on)\nupstream: {url: \"http://127.0.0.1:1/v1\"}").lines == [
                "1: forwarding.forward_proxy needs forwarding.names, \(reason)"
            ])
        #expect(try check("\(on)\nupstream: {url: \"http://127.0.0.1:1\"}").status == 0)
        let several = """
            apis:
              - {name: a, host: a.test, path: /a, strip_path: true, upstream: "http://127.0.0.1:1/v1"}
              - {name: b, upstream: "http://127.0.0.1:1"}
              - {name: c, path: /c, strip_path: true, upstream: "http://127.0.0.1:1"}
            """
        #expect(try check("\(on)\n\(several)").lines == ["5: API c: forwarding.forward_proxy needs a host, \(reason)"])
        #expect(try check(several).status == 0)
    }

    @Test("settings in an unreadable file are not reported as missing")
    func unreadable() throws {
        #expect(try check("upstream: [").lines.count == 1)
        #expect(try check("").lines.first?.hasPrefix("settings: upstream.url is missing: pass the URL as an argument or") == true)
        let outcome = try CommandLineTool.run("check --config /none.yaml")
        #expect(outcome.status == 78 && outcome.lines == ["cistern: /none.yaml: cannot be read: No such file or directory"])
    }

    @Test("serve --help shows the same default values as the settings")
    func defaults() throws {
        let help = try CommandLineTool.run("serve --help").text.split { $0.isWhitespace }.joined(separator: " ")
        let told = [
            ("--listen", "listen"), ("--cache-size", "store.size"), ("--connect-timeout", "upstream.connect_timeout"),
            ("--first-byte-timeout", "upstream.first_byte_timeout"), ("--total-timeout", "upstream.total_timeout"),
            ("--rescue-after", "cache.rescue_after"), ("--buffer-limit", "cache.buffer_limit"), ("--log-level", "log.level"),
            ("--log-format", "log.format"), ("--access-log", "log.access"), ("--shards", "shards"),
        ]
        for (option, path) in told {
            let setting = try #require(SettingsTable.all.first { $0.path == path })
            let words = help.split(separator: " \(option) <").last?.prefix { $0 != ")" } ?? ""
            let value = try #require(words.split(separator: "(default: ").last.map(String.init))
            var settings = CisternSettings()
            #expect(setting.apply(.one(value), to: &settings) == nil && settings == CisternSettings(), "\(option): \(value)")
        }
    }

    @Test("a permitted setting that can mislead clients causes a warning")
    func warnings() throws {
        let outcome = try check(
            "upstream: {url: http://x}\ncache: {rescue_with_shared: always}\nroutes: [{name: a, path: /a, rescue_with_shared: own}]")
        #expect(outcome.status == 0 && outcome.lines.count == 2)
        #expect(outcome.lines.first?.hasPrefix("warning: cache.rescue_with_shared is always: while the upstream fails") == true)
    }

    @Test("invalid freshness settings are rejected, and risky ones cause a warning")
    func freshness() throws {
        let wrong = try check(
            """
            upstream: {url: http://x}
            cache: {freshness: {minimum: 60s, maximum: 5s}, negative_statuses: [404, 429, 200, x]}
            routes:
              - name: a
                path: /a
                freshness: {ignore: [nocache]}
            """)
        #expect(wrong.status == 78)
        #expect(wrong.text.contains("2: cache.freshness.minimum must not be more than cache.freshness.maximum"))
        for word in ["429", "200", "x"] { #expect(wrong.text.contains("2: cache.negative_statuses: \"\(word)\" must be a status")) }
        #expect(wrong.text.contains("6: route a: freshness.ignore: \"nocache\" is none of no-store, no-cache, private"))
        let harmful = try check("upstream: {url: http://x}\ncache: {freshness: {ignore: [no-store, private, vary], minimum: 5s}}")
        #expect(harmful.status == 0 && harmful.lines.count == 5)
        for word in ["no-store", "private", "vary"] {
            #expect(harmful.lines.contains { $0.hasPrefix("warning: cache.freshness.ignore has \(word): ") })
        }
        #expect(harmful.lines.contains { $0.hasPrefix("warning: cache.freshness.minimum does not apply to responses that require") })
    }

    @Test(
        "ignoring credentials causes a warning in the long and the short form",
        arguments: ["ignore", "{partition: ignore}"])
    func ignoredCredentials(_ value: String) throws {
        let outcome = try check("upstream: {url: http://x}\nroutes: [{name: a, path: /a, credentials: \(value)}]")
        #expect(outcome.status == 0 && outcome.lines.count == 2)
        #expect(outcome.lines.first?.hasPrefix("warning: credentials are ignored on route a: every client gets") == true)
        let mistaken = try check("upstream: {url: http://x}\ncredentials: all")
        #expect(mistaken.status == 78 && mistaken.text.contains("2: credentials.partition must be one of fields, ignore, not \"all\""))
    }

    @Test("invalid CORS settings are reported with their line")
    func crossOrigin() throws {
        let wrong = try check(
            """
            upstream: {url: http://x}
            cors:
              origins: ["*", https://app.test/, https://App.test, app.test, "https://*.test", "https://a.test:443"]
              credentials: true
              methods: ["G ET"]
            routes:
              - name: a
                path: /a
                cors: {origins: [https://a.test/x], fields: [""], credentials: false}
            """)
        #expect(wrong.status == 78)
        for origin in ["https://app.test/", "https://App.test", "app.test", "https://*.test", "https://a.test:443"] {
            #expect(wrong.text.contains("3: cors.origins: \"\(origin)\" is not an origin"), "\(origin)")
        }
        for sentence in [
            "3: cors.origins: * includes all origins except null", "4: cors.credentials needs a list of origins",
            "5: cors.methods: \"G ET\"",
            "9: route a: cors.origins: \"https://a.test/x\"", "9: route a: cors.fields: \"\"",
        ] {
            #expect(wrong.text.contains(sentence), "\(sentence)")
        }
        let right = try check(
            "upstream: {url: http://x}\ncors: {origins: [https://a.test, 'null', 'http://localhost:3000'], credentials: true}")
        #expect(right.status == 0)
    }

    @Test("JWT settings without keys, issuer or audience, or with an ambiguous user identity, are rejected")
    func tokens() throws {
        let directory = TestTools.temporaryDirectory()
        let keys = directory.path + "/keys"
        try TestTools.write("{\"keys\":[\(TokenIssuer().jwk())]}", to: keys)
        let wrong = try check(
            """
            upstream: {url: http://x}
            credentials:
              identity:
                jwt:
                  keys: \(directory.path)/none
                  subject: jti
                  ignore_claims: [sub, scope]
            routes:
              - name: a
                path: /a
                credentials: {identity: {jwt: {keys: "", issuer: [x]}}}
              - name: b
                path: /b
                credentials: {identity: {jwt: {keys: \(keys), issuer: [x], audience: [y], subject: id, ignore_claims: [id]}}}
            """)
        #expect(wrong.status == 78)
        for sentence in [
            "5: credentials.identity.jwt.keys needs credentials.identity.jwt.issuer: the accepted issuers must be named",
            "5: credentials.identity.jwt.keys needs credentials.identity.jwt.audience: the accepted audiences must be named",
            "5: credentials.identity.jwt.keys \(directory.path)/none is not an http or https URL, and cannot be read as a file: No such file or directory",
            "6: credentials.identity.jwt.subject must be a claim that identifies the user, not \"jti\"",
            "7: credentials.identity.jwt.ignore_claims cannot contain sub: without this claim, two users could share a partition",
            "11: route a: credentials.identity.jwt.issuer needs credentials.identity.jwt.keys: without keys no token can be verified",
            "14: route b: credentials.identity.jwt.ignore_claims cannot contain id: without this claim, two users could share a partition",
        ] { #expect(wrong.lines.contains(sentence), "\(sentence)") }
        #expect(wrong.lines.count == 7)
        let trust = try check(
            """
            upstream: {url: http://x}
            credentials: {identity: {jwt: {keys: \(keys), ca_file: \(directory.path)/none, issuer: [x], audience: [y]}}}
            """)
        #expect(
            trust.lines == [
                "2: credentials.identity.jwt.ca_file applies only if keys is an https URL",
                "2: credentials.identity.jwt.ca_file \(directory.path)/none cannot be read: No such file or directory",
            ])
        let good = try check(
            "upstream: {url: http://x}\ncredentials: {identity: {jwt: {keys: \(keys), issuer: [x], audience: [y]}}}")
        #expect(good.text == "The settings are valid.\n")
        try TestTools.write("{\"keys\":[{\"kty\":\"oct\",\"kid\":\"s\"}]}", to: keys)
        let useless = try check("upstream: {url: http://x}\ncredentials: {identity: {jwt: {keys: \(keys), issuer: [x], audience: [y]}}}")
        #expect(useless.status == 78 && useless.text.contains("has no usable key (s: its kty is not RSA, EC or OKP"))
    }

    @Test("invalid identity lookup settings are rejected, and a lookup with a single value causes a warning")
    func lookUp() throws {
        let wrong = try check(
            """
            upstream: {url: http://x}
            credentials:
              identity:
                lookup: {path: me, identity: [id], fields: ["X Scopes"]}
            routes:
              - name: a
                path: /a
                credentials: {identity: {lookup: {path: /me, identity: [], fields: []}}}
            """)
        #expect(wrong.status == 78)
        for sentence in [
            "4: credentials.identity.lookup.path must be a path that begins with /, not \"me\"",
            "4: credentials.identity.lookup.identity \"id\" is not a JSON Pointer, such as /user/id",
            "4: credentials.identity.lookup.fields \"X Scopes\" is not a field name",
            "8: route a: credentials.identity.lookup.path needs credentials.identity.lookup.identity or credentials.identity.lookup.fields: "
                + "select the values that identify the user",
        ] { #expect(wrong.lines.contains(sentence), "\(sentence)") }
        let one = try check("upstream: {url: http://x}\ncredentials: {identity: {lookup: {path: /me, identity: [/id]}}}")
        #expect(one.status == 0 && one.lines.count == 2)
        #expect(one.lines.first?.hasPrefix("warning: credentials.identity.lookup uses one value only: add all values") == true)
    }

    @Test("a descriptor limit below what the settings may need causes a warning")
    func descriptors() throws {
        let file = "upstream: {url: http://x, connections: 100}\nshards: 2\nlimits: {connections: 300}"
        #expect(try check(file, environment: "ulimit -n 628;").text == "The settings are valid.\n")
        let outcome = try check(file, environment: "ulimit -n 627;")
        #expect(outcome.status == 0 && outcome.lines.count == 2)
        #expect(outcome.lines.first?.hasPrefix("warning: up to 628 file descriptors are needed, but") == true)
        #expect(outcome.text.contains("may open only 627, so at most 300 client connections") && outcome.text.contains("connections (300)"))
        #expect(try check(file, environment: "ulimit -n 64;").text.contains("may open only 64, so at most 32 client connections"))
    }

    @Test("a cookie name with a separator or a misplaced * is rejected")
    func cookieNames() throws {
        let outcome = try check("upstream: {url: http://x}\ncache:\n  ignored_cookies: [lb-*, \"a b\", \"*x\"]")
        let form = "is not a cookie's name, with * at the end for any rest"
        #expect(outcome.status == 78)
        #expect(outcome.lines == ["3: cache.ignored_cookies: \"a b\" \(form)", "3: cache.ignored_cookies: \"*x\" \(form)"])
    }

    @Test("a credential field pattern may have * only at the beginning, followed by a suffix")
    func credentialNames() throws {
        let outcome = try check(
            "upstream: {url: http://x}\ncache:\n  credential_fields: [authorization, \"*token\", \"*\", x-*]\n  key_fields: [\"a b\"]")
        let names = "cache.credential_fields: "
        #expect(outcome.status == 78)
        #expect(
            Set(outcome.lines) == [
                "3: \(names)\"*\" is not a field name, nor * followed by the end of one",
                "3: \(names)\"x-*\" is not a field name, nor * followed by the end of one",
                "4: cache.key_fields: \"a b\" is not a field name",
            ])
    }

    @Test("harmless_fields takes only + or - with a field name, and rejects credential fields")
    func harmlessFields() throws {
        let outcome = try check(
            "upstream: {url: http://x}\ncache:\n  harmless_fields: [+x-device-id, -user-agent, x-plain, \"+a b\", +X-Session]")
        let name = "3: cache.harmless_fields: "
        #expect(outcome.status == 78)
        #expect(
            Set(outcome.lines) == [
                "\(name)\"x-plain\" is not + or - followed by a field name", "\(name)\"+a b\" is not + or - followed by a field name",
                "\(name)X-Session is in cache.credential_fields, so it cannot be harmless: remove it there first",
            ])
        #expect(try check("upstream: {url: http://x}\ncache: {harmless_fields: [+x-device-id, -user-agent]}").status == 0)
    }

    @Test("valid settings are reported as good")
    func good() throws {
        let outcome = try check("upstream: {url: http://x}\nlisten: [\"127.0.0.1:0\", \"127.0.0.1:0\"]")
        #expect(outcome.status == 0 && outcome.lines.last == "The settings are valid.")
        let profiled = try check("upstream: {url: http://x}\ncache: {policy: rfc9111, set_cookie: strip}")
        #expect(
            profiled.status == 0 && profiled.lines.first == "cache.policy: rfc9111 sets:"
                && profiled.lines.last == "The settings are valid."
        )
        #expect(profiled.lines.contains("  cache.store_errors: letter") && !profiled.text.contains("set_cookie"))
        // Explicit settings conflict with the policy, which is reported.
        let conflict = try check("upstream: {url: http://x}\ncache: {policy: rfc9111, store: json}")
        #expect(conflict.lines == ["settings: cache.store_errors: letter needs cache.store: any, because json stores no errors"])
    }

    @Test(
        "an invalid upstream protocol or proxy setting is rejected with one sentence",
        arguments: [
            ("http2: on", "upstream.http2 must be one of auto, off, prior-knowledge, not \"on\""),
            (
                "proxy: https://proxy:3128",
                "upstream.proxy must be an http or socks URL: TLS to the forward proxy is not supported"
            ),
        ])
    func upstreamProtocols(line: String, sentence: String) throws {
        let outcome = try check("upstream:\n  url: https://api.test\n  \(line)\n")
        #expect(outcome.status == 78)
        #expect(outcome.lines.count == 1 && outcome.lines[0].hasSuffix(sentence))
        let clear = try check("upstream: {url: http://api.test, http2: prior-knowledge, proxy: proxy:3128}")
        let sentence =
            "upstream.http2: prior-knowledge is not possible for http URLs through upstream.proxy, because forward proxies use HTTP/1.1"
        #expect(clear.status == 78 && clear.lines.count == 1 && clear.lines[0].hasSuffix(sentence))
        for good in [
            "http2: off", "http2: auto", "http2: prior-knowledge", "http2: prior-knowledge\n  proxy: proxy:3128", "proxy: proxy:3128",
            "proxy: http://u:p@proxy:3128", "proxy: socks5h://proxy",
        ] {
            #expect(try check("upstream:\n  url: https://api.test\n  \(good)\n").status == 0)
        }
    }
}
