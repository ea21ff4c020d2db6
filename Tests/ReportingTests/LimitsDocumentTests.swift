// Every limit has a name, a default and a metric. Compares the table of Configuration/Concepts/Limits.md with the settings and with
// /metrics.

import Downstream
import Notifications
import ReverseProxy
import Settings
import TestSupport
import Testing
import Tracing

@Suite("Documentation of limits", .play)
struct LimitsDocumentTests {
    private static func section() throws -> Substring {
        let path =
            String(#filePath.dropLast("Tests/ReportingTests/LimitsDocumentTests.swift".utf8.count)) + "Configuration/Concepts/Limits.md"
        let text = try TestTools.read(path)
        let start = try #require(text.firstRange(of: "\n## Which metric shows that a limit is reached\n"))
        let rest = text[start.upperBound...]
        return rest[..<(rest.firstRange(of: "\n## ")?.lowerBound ?? rest.endIndex)]
    }

    /// Text between backquotes.
    private static func code(_ text: Substring) -> [String] {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
    }

    /// Numbers that are not limits, such as intervals and thresholds.
    private static let others: Set<String> = [
        "failure.threshold", "failure.window", "failure.recheck", "shards", "cache.heuristics", "cache.refresh_ahead",
        "store.confirm_interval",
    ]

    /// Rules of freshness, identity and other origins, which do not limit resources.
    private static let rules = [
        "cache.freshness.", "cache.negative", "cache.stale_for", "cache.stale_while_revalidate", "credentials.", "cross_origin.", "cors.",
    ]

    @Test("the table contains exactly the settings that are limits")
    func settings() throws {
        let numbers = SettingsTable.current.filter { setting in
            switch setting.binding.kind {
            case .number(.share, _): false
            case .number: !Self.rules.contains { setting.path.hasPrefix($0) }
            default: false
            }
        }.map(\.path)
        let named = Set(Self.code(try Self.section()))
        for path in numbers { #expect(named.contains(path) != Self.others.contains(path), "\(path)") }
        for name in named where name.split(separator: ".").count == 2 && !name.contains(" ") {
            #expect(SettingsTable.current.contains { $0.path == name }, "\(name)")
        }
    }

    @Test("each metric in the table exists on the metrics page with its label")
    func metrics() throws {
        let origin = ScriptedOrigin { _ in [.json("{}")] }
        let play = try ProxyPlay(origin, clientProtocol: .tls, fleet: .ofNobody) { settings in
            settings.tracing.endpoint = "http://127.0.0.1:\(origin.port)/"
            settings.notify = [NotificationTarget("t", .command(["/bin/true"]))]
        }
        let page = try play.get("/metrics").text
        let section = try Self.section()
        for line in page.split(separator: "\n") where line.hasPrefix("cistern_limit_used_ratio{limit=") {
            let limit = line.split(separator: "\"")[1]
            #expect(SettingsTable.current.contains { $0.path == limit } || section.contains("`\(limit)`:"), "\(limit)")
        }
        let metrics = Self.code(section).filter { $0.hasPrefix("cistern_") }
        #expect(metrics.count > 25)
        for metric in metrics {
            let (name, label) = (metric.prefix { $0 != "{" }, metric.drop { $0 != "{" }.dropFirst().dropLast())
            let lines = page.split(separator: "\n").filter { $0.hasPrefix("\(name){") || $0.hasPrefix("\(name) ") }
            #expect(!lines.isEmpty && (label.isEmpty || lines.contains { $0.contains(label) }), "\(metric)")
        }
    }

    @Test("a connection that reaches its request limit is counted", .clientProtocols)
    func requestsPerConnection() throws {
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) {
            $0.downstream.requestsPerConnection = 3
        }
        #expect(try play.metric("cistern_connections_request_limit_total") == 0)
        for _ in 0..<3 { _ = try play.get("/a") }
        #expect(try play.waitFor("cistern_connections_request_limit_total", atLeast: 1))
    }
}
