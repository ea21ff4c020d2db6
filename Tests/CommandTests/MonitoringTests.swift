// Tests the dashboard and alerts of docker/ with a real Prometheus and the real binary during an outage: each expression has a value.

import CacheStore
import Glibc
import JSON
import TestSupport
import Testing

@Suite(
    "Monitoring", .play, .realTime,
    .enabled(
        if: RunningPrometheus.isInstalled && RedisProcess.isInstalled, "prometheus or redis-server is missing: make test installs them"))
struct MonitoringTests {
    private static let rules = Board.folder + "prometheus-rules.yml"
    private static let root = String(Board.folder.dropLast("docker/".utf8.count))

    @Test("promtool accepts the rules and the configuration, and the rule tests pass", .slow)
    func promtool() throws {
        for arguments in [
            "check rules \(Self.rules)", "check config \(Board.folder)prometheus.yml", "test rules \(Self.root)Tests/Operation/alerts.yaml",
        ] {
            let outcome = try CommandLineTool.run(program: "promtool \(arguments)")
            #expect(outcome.status == 0, "\(outcome.text)")
        }
    }

    @Test("the compared operands of a rule expression are extracted")
    func compared() {
        let rows: [(expression: String, compared: [String])] = [
            ("a == 0", ["a"]), ("a{b=\"c\"} > 14 * 86400", ["a{b=\"c\"}"]),
            ("up{job=\"x\"} == 0 or absent(up{job=\"x\"})", ["up{job=\"x\"}", "up{job=\"x\"}"]),
            (
                "a:b < 0.7 * c:d and on(job, instance) sum by (job, instance) (rate(e[30m])) > 0.1",
                ["a:b", "0.7 * c:d", "sum by (job, instance) (rate(e[30m]))"]
            ),
            ("sum(a) / sum(b) > 0.01 and on (api) (c == 0)", ["sum(a) / sum(b)", "(c == 0)"]),
        ]
        for row in rows { #expect(RuleExpression(row.expression).compared == row.compared) }
    }

    @Test("each alert's summary says what to do and names existing commands and settings")
    func summaries() throws {
        let text = try TestTools.read(Self.rules)
        let settings =
            try TestTools.read(Self.root + "Configuration/Reference/settings.md") + TestTools.read(Self.root + "Configuration/cistern.yaml")
        let alerts = text.split(separator: "- alert: ").dropFirst()
        #expect(alerts.count > 10)
        for alert in alerts {
            let summary = try #require(alert.split(separator: "summary: >-").last).split { $0 == " " || $0 == "\n" }.joined(separator: " ")
            let code = summary.split(separator: "`").enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
            let named = code.filter { !$0.hasPrefix("cistern ") && !$0.hasPrefix("/") }.map { $0.prefix { $0 != ":" } }
            #expect(!code.isEmpty, "\(summary)")
            for name in named { #expect(settings.contains("`\(name)`") || settings.contains(" \(name):\n"), "\(name): \(summary)") }
            for command in code where command.hasPrefix("cistern ") {
                let word = command.split(separator: " ")[1]
                #expect(try CommandLineTool.run("\(word) --help").status == 0, "\(command)")
            }
        }
    }

    @Test("in an outage no dashboard or rule expression is empty, and the expected alerts fire", .slow)
    func expressions() throws {
        let play = try MonitoredOutage()
        let board = try Board("cistern")
        let prometheus = play.prometheus
        #expect(try prometheus.wait { try prometheus.values("up").filter { $0 == 1 }.count == 2 })
        let rules = try prometheus.ask("/api/v1/rules")["groups"]?.array?.flatMap { $0["rules"]?.array ?? [] } ?? []
        let text = try TestTools.read(Self.rules)
        #expect(rules.count == text.split(separator: "\n").count { $0.contains(" - alert: ") || $0.contains(" - record: ") })
        var expressions = rules.compactMap { $0["query"]?.string }.flatMap { RuleExpression($0).compared }
        expressions += rules.filter { $0["type"] == "recording" }.compactMap { $0["name"]?.string }
        let shown = board.panels.flatMap(\.expressions)
        expressions += shown.map { Self.filled($0) }
        expressions += board.variables.compactMap { Self.values(of: $0.query) }.map { Self.filled($0) }
        // With a single API, its metrics have no label.
        expressions += shown.filter { $0.contains(" or on () ") }.map { Self.filled($0, instance: play.sole) }
        #expect(expressions.count > 130)
        // A counter must exist before it can increase, so each round is scraped.
        var empty = Array(Set(expressions)).sorted()
        _ = try prometheus.wait {
            try play.round()
            empty = try empty.filter { try prometheus.values($0).isEmpty }
            return empty.isEmpty
        }
        try #require(empty == [])
        try Self.alerts(prometheus, play)
    }

    /// Checks that exactly the expected alerts are active. `pending` counts, because some fire only after a minute.
    private static func alerts(_ prometheus: RunningPrometheus, _ play: MonitoredOutage) throws {
        let expected = [
            "CisternCertificateEnds", "CisternCopiesMissing users", "CisternFaultsForgotten", "CisternUpstreamDown ",
            "CisternUpstreamDown users", "CisternUpstreamFailing orders",
        ]
        var active: [String] = []
        _ = try prometheus.wait {
            // Keeps the traffic going, so that rates do not fall on a busy machine.
            try play.round()
            // A busy machine blocks loops, so CisternLoopStalls may be pending.
            let alerts = (try prometheus.ask("/api/v1/alerts")["alerts"]?.array ?? []).filter {
                $0["labels"]?["alertname"]?.string != "CisternLoopStalls"
            }
            active = alerts.map { alert in
                let name = alert["labels"]?["alertname"]?.string ?? ""
                return ["CisternCertificateEnds", "CisternFaultsForgotten"].contains(name)
                    ? name : "\(name) \(alert["labels"]?["api"]?.string ?? "")"
            }.sorted()
            #expect(alerts.allSatisfy { $0["annotations"]?["summary"]?.string?.contains("template") == false })
            return active == expected
        }
        #expect(active == expected)
        let rules = try prometheus.ask("/api/v1/rules")["groups"]?.array?.flatMap { $0["rules"]?.array ?? [] } ?? []
        for rule in rules { #expect(rule["health"] == "ok", "\(rule["name"]?.string ?? ""): \(rule["lastError"]?.string ?? "")") }
    }

    /// A dashboard's expression with all variables set to match everything.
    private static func filled(_ expression: String, instance: String = ".*") -> String {
        var text = expression
        for (name, value) in [
            ("$__rate_interval", "1m"), ("$__range", "5m"), ("$job", ".*"), ("$instance", instance), ("$api", ".*"), ("$route", ".*"),
        ] {
            text = text.split(separator: name, omittingEmptySubsequences: false).joined(separator: value)
        }
        return text
    }

    /// Query for the values of `label_values(SERIES, LABEL)`.
    private static func values(of query: String) -> String? {
        guard query.hasPrefix("label_values("), let comma = query.lastIndex(of: ",") else { return nil }
        let series = query[..<comma].dropFirst("label_values(".utf8.count)
        return "count by (\(query[comma...].dropFirst(2).dropLast())) (\(series))"
    }
}

/// Two Cisterns. One shares and has two APIs with routes, one of which is down. The other has a single API, which is down.
private final class MonitoredOutage {
    let prometheus: RunningPrometheus
    /// Address of the Cistern with a single API.
    let sole: String

    private let temporary = TestTools.temporaryDirectory()
    private let orders: ScriptedOrigin
    private let redis: RedisProcess
    private let several: RunningCommand
    private let single: RunningCommand
    private let adminPort: UInt16
    private let token: String

    init() throws {
        let users = ScriptedOrigin { _ in [.json("{\"id\":1}", ["Cache-Control: max-age=0"])] }
        orders = ScriptedOrigin(tls: SharedCertificates.tls) { request in
            switch request.target {
            case "/orders/one/secret": [.json("{}", ["Cache-Control: no-store"])]
            case "/orders/closing": [.json("{}", ["Connection: close"]), .close]
            default: [.json("{}", ["Cache-Control: max-age=60", "Date: " + Self.date()])]
            }
        }
        adminPort = TestTools.freePort()
        let issuer = TokenIssuer()
        token = issuer.token(#"{"iss":"https://id.test","aud":"api","sub":"u","exp":4000000000}"#)
        let (configuration, keys, secret) = (
            temporary.path + "/cistern.yaml", temporary.path + "/keys.json", temporary.path + "/fleet.secret"
        )
        redis = try RedisProcess()
        try TestTools.write(String(repeating: "s", count: 32), to: secret)
        try TestTools.write("{\"keys\":[\(issuer.jwk())]}", to: keys)
        let share = "share: {servers: [\"redis://127.0.0.1:\(redis.port)\"], fleet: play, secret_file: \(secret)}\n"
        try TestTools.write(Self.settings(users.port, orders.port, adminPort, keys: keys) + share, to: configuration)
        for folder in ["several", "single"] { mkdir("\(temporary.path)/\(folder)", 0o700) }
        several = try RunningCommand("serve --config \(configuration) --cache-dir \(temporary.path)/a", in: temporary.path + "/several")
        single = try RunningCommand(
            "serve --upstream http://127.0.0.1:\(users.port) --cache-dir \(temporary.path)/b", in: temporary.path + "/single")
        sole = "127.0.0.1:\(single.port)"
        let admin = "--admin unix:\(temporary.path)/a/admin.sock"
        guard try CommandLineTool.run("reload \(admin)").status == 0,
            try CommandLineTool.run("drill add --path /orders/broken --status 503 --for 1h \(admin)").status == 0
        else { throw RunningPrometheus.NoResponse(what: "cistern reload, cistern drill") }
        for target in ["/users/one/1", "/users/2"] {
            for cistern in [several, single] { _ = try cistern.get(target) }
        }
        users.down()
        prometheus = try RunningPrometheus(targets: [("https", "127.0.0.1:\(adminPort)"), ("http", sole)])
    }

    /// The current time as an HTTP date.
    private static func date() -> String {
        var (now, parts, text) = (time(nil), tm(), [CChar](repeating: 0, count: 64))
        gmtime_r(&now, &parts)
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func settings(_ users: UInt16, _ orders: UInt16, _ admin: UInt16, keys: String) -> String {
        """
        admin_listen: ["https://127.0.0.1:\(admin)"]
        tls: {certificates: ["\(SharedCertificates.proxy.certificate):\(SharedCertificates.proxy.key)"]}
        upstream: {ca_file: \(SharedCertificates.authority)}
        admin: {faults: true}
        tracing: {endpoint: "http://127.0.0.1:\(users)/v1/traces"}
        apis:
          - name: users
            path: /users/
            upstream: http://127.0.0.1:\(users)
            credentials: {identity: {jwt: {keys: \(keys), issuer: [https://id.test], audience: [api]}}}
            routes: [{name: one, path: /users/one/**}]
          - name: orders
            path: /orders/
            upstream: https://127.0.0.1:\(orders)
            credentials: {identity: {lookup: {path: /me, identity: [/id]}}}
            routes: [{name: one, path: /orders/one/**}]

        """
    }

    /// Causes rescues, failures without a stored response, hits, responses that are not stored, rejected requests, and aborts by clients.
    func round() throws {
        for target in [
            "/users/one/1", "/users/2", "/users/none", "/orders/one/1", "/orders/one/secret", "/orders/closing", "/orders/broken",
        ] {
            _ = try several.get(target)
        }
        for target in ["/users/mine", "/orders/mine"] { _ = try several.get(target, [("Authorization", "Bearer \(token)")]) }
        for target in ["/users/one/1", "/users/2"] { _ = try single.get(target) }
        for port in [several.port, adminPort] {
            let client = try TestClient(port: port)
            client.send("malformed\r\n\r\n")
            _ = client.readResponse()
        }
    }
}
