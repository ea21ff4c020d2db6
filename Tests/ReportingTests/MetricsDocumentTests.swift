// Tests that Configuration/Reference/metrics.md documents exactly the metrics on the pages, with their labels.

import Addresses
import Administration
import CachePolicy
import Notifications
import ReverseProxy
import TestSupport
import Testing
import Tracing

@Suite("Documentation of metrics", .play)
struct MetricsDocumentTests {
    /// Names of metrics with their labels.
    typealias Metrics = [String: Set<String>]

    /// A metric of `cistern record` only, which is documented with that command.
    private static let ofRecording = "cistern_recorded_exchanges_total"

    /// Terms of the lists in Configuration/Reference/metrics.md: one or more `name{label,label}` before a colon.
    private static func documented() throws -> Metrics {
        let path =
            String(#filePath.dropLast("Tests/ReportingTests/MetricsDocumentTests.swift".utf8.count))
            + "Configuration/Reference/metrics.md"
        let text = try TestTools.read(path)
        var metrics = Metrics()
        let items = text.split(separator: "\n- `").dropFirst()
        for item in items {
            let term = item[..<(item.firstRange(of: "`:")?.lowerBound ?? item.startIndex)]
            for span in term.split(separator: "`").enumerated().filter({ $0.offset % 2 == 0 }).map(\.element) {
                let parts = span.split { "{,}".contains($0) }.map(String.init)
                guard let name = parts.first, name.contains("_"), name.allSatisfy({ $0 == "_" || $0.isLetter || $0.isNumber }) else {
                    continue
                }
                metrics[name, default: []].formUnion(parts.dropFirst())
            }
        }
        return metrics
    }

    /// Groups the samples of a page by family. The buckets of a histogram are one metric.
    private static func shown(_ page: String) -> Metrics {
        var metrics = Metrics()
        var family = ""
        for line in page.split(separator: "\n") {
            if line.hasPrefix("# TYPE ") {
                family = String(line.split(separator: " ")[2])
                metrics[family] = []
            } else if !line.hasPrefix("#"), let open = line.firstIndex(of: "{"), let close = line.lastIndex(of: "}") {
                let labels = line[line.index(after: open)..<close].split(separator: ",").map { String($0.prefix { $0 != "=" }) }
                metrics[family, default: []].formUnion(labels.filter { $0 != "le" })
            }
        }
        return metrics
    }

    private static func route(_ name: String) -> Route {
        var route = Route()
        (route.name, route.pattern) = (name, RoutePattern("/\(name)/**"))
        return route
    }

    @Test("the lists contain exactly the metrics on the page, with their labels")
    func compared() throws {
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: no-store"])] }
        let alone = try ProxyPlay(origin, clientProtocol: .tls, fleet: .ofNobody) { settings in
            settings.routes = [Self.route("users")]
            settings.tracing.endpoint = "http://127.0.0.1:\(origin.port)/"
            settings.notify = [NotificationTarget("t", .command(["/bin/true"]))]
        }
        _ = try alone.get("/users/1")
        #expect(alone.reload { _ in }?.label == "applied")
        let several = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=60"])] }) { settings in
            settings.routes = [Self.route("users")]
            var apis = [settings, settings]
            (apis[0].apiName, apis[1].apiName) = ("users", "orders")
            apis[0].scope.path = Array("/users".utf8)
            settings.apis = apis
        }
        _ = try several.get("/users/1")
        several.origin.down()
        several.time.advance(by: .seconds(100))
        _ = try several.get("/users/1")
        let shown = [alone, several].map { (try? $0.get("/metrics").text) ?? "" }.map(Self.shown)
        let all = shown[0].merging(shown[1]) { $0.union($1) }
        var documented = try Self.documented()
        #expect(documented.removeValue(forKey: Self.ofRecording) != nil)
        for name in Set(all.keys).union(documented.keys).sorted() {
            #expect(all[name] != nil, "documented, and on no page: \(name)")
            guard let labels = documented[name] else {
                Issue.record("not documented: \(name)")
                continue
            }
            // Some metrics have samples only after events that do not occur here.
            if let seen = all[name], !seen.isEmpty || labels.isEmpty { #expect(seen == labels, "\(name)") }
        }
    }
}
