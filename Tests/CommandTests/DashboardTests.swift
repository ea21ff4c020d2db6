// The dashboard that docker/compose.yaml shows, held against what is counted.

import TestSupport
import Testing

@Suite("The dashboard", .play)
struct DashboardTests {
    private static let file = String(#filePath.dropLast("Tests/CommandTests/DashboardTests.swift".count)) + "docker/grafana/cistern.json"

    @Test("all that it shows is on /metrics")
    func metrics() throws {
        let dashboard = try CommandLineTool.run(program: "cat \(Self.file)").text
        let page = try ProxyPlay(ScriptedOrigin { _ in [.json("{}")] }).get("/metrics").text
        let known = page.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }.map { $0.split(separator: " ")[2] }
        let shown = Set(dashboard.split { !($0.isLetter || $0.isNumber || $0 == "_") }.filter { $0.hasPrefix("cistern_") })
        #expect(shown.count > 10)
        for name in shown {
            let family = ["_total", "_bucket"].first { name.hasSuffix($0) }.map { name.dropLast($0.utf8.count) } ?? name
            #expect(known.contains(name) || known.contains(family), "\(name)")
        }
    }
}
